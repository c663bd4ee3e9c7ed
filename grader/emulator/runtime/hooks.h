// Internal to the observation half.
#pragma once

namespace warpgrade {

// Something waits to be settled at the next hook: a store that collided with another one (races.cpp)
// or an index out of range (hooks.cpp).
extern bool attention;

// What waits for the running store to be done, or for the access to an array whose index was found
// to be out of range, is reported now. `stores`: the access that comes next is a store.
void settle(bool stores);

}  // namespace warpgrade

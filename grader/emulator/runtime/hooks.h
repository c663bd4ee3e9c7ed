// Internal to the observation half.
#pragma once

namespace warpgrade {

// Something has to be settled at the next hook: a store that collided with another one (races.cpp)
// or an index out of range (hooks.cpp).
extern bool attention;

// The thread's next event, as far as it helps to settle that.
enum class NextEvent { load, store, other };

// Settles it: reports the index out of range, whose access this event shows, and the store that
// collided, unless this is a load: for `*a = *b` the compiler announces the store, then the load,
// and only then copies. `of_pointer`: the event is an access to global memory, where arrays with a
// declared extent are rare.
void settle(NextEvent next, bool of_pointer = false);

}  // namespace warpgrade

// Internal to the observation half.
#pragma once

namespace warpgrade {

// Something waits to be settled at the next hook: a store that collided with another one
// (races.cpp) or an index out of range (hooks.cpp).
extern bool attention;

// What the thread does next, as far as it tells about what waits to be settled.
enum class NextEvent { load, store, other };

// Reports what waits: the index out of range with its access, which this event shows; the store
// that collided, unless this is a load: of `*a = *b` the compiler announces the store, then the
// load, and only then copies. `of_pointer`: the event is an access to global memory, where arrays
// with a declared extent rarely lie.
void settle(NextEvent next, bool of_pointer = false);

}  // namespace warpgrade

// The end of an asynchronous copy (internal to the runtime).
#pragma once
#include "core.h"

namespace warpgrade {

// The bytes arrive, as a store by the running thread.
void end_copy(const AsyncCopy& copy);

}  // namespace warpgrade

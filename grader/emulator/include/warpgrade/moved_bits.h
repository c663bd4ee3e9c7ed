// The emulator's own copies between variables, which no hook sees.
#pragma once
#include "qualifiers.h"

WARPGRADE_INLINE void warpgrade_move_bits(void* to, const void* from, unsigned long bytes) {
    __builtin_memcpy(to, from, bytes);
}

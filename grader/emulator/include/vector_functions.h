// make_float4 and its relatives.
#ifndef WARPGRADE_VECTOR_FUNCTIONS_H
#define WARPGRADE_VECTOR_FUNCTIONS_H

#include "vector_types.h"

#define WARPGRADE_MAKE(T, name)                                                  \
    WARPGRADE_INLINE name##1 make_##name##1(T x) { return {x}; }                 \
    WARPGRADE_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; }         \
    WARPGRADE_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    WARPGRADE_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

WARPGRADE_MAKE(signed char, char)
WARPGRADE_MAKE(unsigned char, uchar)
WARPGRADE_MAKE(short, short)
WARPGRADE_MAKE(unsigned short, ushort)
WARPGRADE_MAKE(int, int)
WARPGRADE_MAKE(unsigned, uint)
WARPGRADE_MAKE(long, long)
WARPGRADE_MAKE(unsigned long, ulong)
WARPGRADE_MAKE(long long, longlong)
WARPGRADE_MAKE(unsigned long long, ulonglong)
WARPGRADE_MAKE(float, float)
WARPGRADE_MAKE(double, double)

#undef WARPGRADE_MAKE

#endif

// CUDA's vector types, with its sizes and alignments, and dim3.
#ifndef WARPGRADE_VECTOR_TYPES_H
#define WARPGRADE_VECTOR_TYPES_H

#include "warpgrade/declarations.h"

#define WARPGRADE_VECTORS_1_3(T, name) \
    struct name##1 { T x; };           \
    struct name##3 { T x, y, z; };
#define WARPGRADE_VECTORS_2_4(T, name, align2, align4) \
    struct __align__(align2) name##2 { T x, y; };      \
    struct __align__(align4) name##4 { T x, y, z, w; };
#define WARPGRADE_VECTORS(T, name, align2, align4) \
    WARPGRADE_VECTORS_1_3(T, name) WARPGRADE_VECTORS_2_4(T, name, align2, align4)

WARPGRADE_VECTORS(signed char, char, 2, 4)
WARPGRADE_VECTORS(unsigned char, uchar, 2, 4)
WARPGRADE_VECTORS(short, short, 4, 8)
WARPGRADE_VECTORS(unsigned short, ushort, 4, 8)
WARPGRADE_VECTORS(int, int, 8, 16)
WARPGRADE_VECTORS(long, long, 16, 16)
WARPGRADE_VECTORS(unsigned long, ulong, 16, 16)
WARPGRADE_VECTORS(long long, longlong, 16, 16)
WARPGRADE_VECTORS(unsigned long long, ulonglong, 16, 16)
WARPGRADE_VECTORS(float, float, 8, 16)
WARPGRADE_VECTORS(double, double, 16, 16)
struct uint1 {
    unsigned x;
};  // uint3 is in device_api.h
WARPGRADE_VECTORS_2_4(unsigned, uint, 8, 16)

#undef WARPGRADE_VECTORS
#undef WARPGRADE_VECTORS_1_3
#undef WARPGRADE_VECTORS_2_4

#endif

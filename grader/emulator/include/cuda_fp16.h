// half and half2, IEEE binary16.
#ifndef WARPGRADE_CUDA_FP16_H
#define WARPGRADE_CUDA_FP16_H

#include "cuda_runtime.h"
#include "warpgrade/small_float.h"

#define WARPGRADE_T __half
#define WARPGRADE_RAW __half_raw
#define WARPGRADE_T2 __half2
#define WARPGRADE_RAW2 __half2_raw
#define WARPGRADE_BITS ::warpgrade::half_bits
#define WARPGRADE_VALUE ::warpgrade::half_value
#define WARPGRADE_NAMED(before, after) before##half##after
#include "warpgrade/small_float_type.h"

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
WARPGRADE_INLINE __half2 __half2half2(__half x) { return {x, x}; }

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)

#endif

// __nv_bfloat16 and its pair: the upper half of a float.
#ifndef WARPGRADE_CUDA_BF16_H
#define WARPGRADE_CUDA_BF16_H

#include "cuda_runtime.h"
#include "warpgrade/small_float.h"

#define WARPGRADE_T __nv_bfloat16
#define WARPGRADE_RAW __nv_bfloat16_raw
#define WARPGRADE_T2 __nv_bfloat162
#define WARPGRADE_RAW2 __nv_bfloat162_raw
#define WARPGRADE_BITS ::warpgrade::bfloat16_bits
#define WARPGRADE_VALUE ::warpgrade::bfloat16_value
#define WARPGRADE_NAMED(before, after) before##bfloat16##after
#include "warpgrade/small_float_type.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
WARPGRADE_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)

#endif

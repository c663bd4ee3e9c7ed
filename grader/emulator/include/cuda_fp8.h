// 8-bit floating-point numbers: their types, which have the real sizes and can be kept and copied.
// A conversion ends the run where it is called, as something that the emulator lacks. So a kernel
// of such numbers costs nothing beside others of its file.
#ifndef WARPGRADE_CUDA_FP8_H
#define WARPGRADE_CUDA_FP8_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

#define WARPGRADE_LACKING { ::warpgrade_unsupported("8-bit floating-point types"); }
#define WARPGRADE_FROM(name, T) WARPGRADE_INLINE explicit name(T) WARPGRADE_LACKING
#define WARPGRADE_TO(T) WARPGRADE_INLINE explicit operator T() const WARPGRADE_LACKING

#define WARPGRADE_ONE(name)                                                                  \
    struct name {                                                                            \
        __nv_fp8_storage_t __x;                                                              \
        name() = default;                                                                    \
        WARPGRADE_FROM(name, ::__half) WARPGRADE_FROM(name, ::__nv_bfloat16)                 \
        WARPGRADE_FROM(name, float) WARPGRADE_FROM(name, double) WARPGRADE_FROM(name, short) \
        WARPGRADE_FROM(name, unsigned short) WARPGRADE_FROM(name, int)                       \
        WARPGRADE_FROM(name, unsigned) WARPGRADE_FROM(name, long)                            \
        WARPGRADE_FROM(name, unsigned long) WARPGRADE_FROM(name, long long)                  \
        WARPGRADE_FROM(name, unsigned long long)                                             \
        WARPGRADE_TO(::__half) WARPGRADE_TO(::__nv_bfloat16) WARPGRADE_TO(float)             \
        WARPGRADE_TO(double) WARPGRADE_TO(bool) WARPGRADE_TO(char) WARPGRADE_TO(signed char) \
        WARPGRADE_TO(unsigned char) WARPGRADE_TO(short) WARPGRADE_TO(unsigned short)         \
        WARPGRADE_TO(int) WARPGRADE_TO(unsigned) WARPGRADE_TO(long)                          \
        WARPGRADE_TO(unsigned long) WARPGRADE_TO(long long) WARPGRADE_TO(unsigned long long) \
    };
#define WARPGRADE_TWO(name)                                                         \
    struct name {                                                                   \
        __nv_fp8x2_storage_t __x;                                                   \
        name() = default;                                                           \
        WARPGRADE_FROM(name, ::__half2) WARPGRADE_FROM(name, ::__nv_bfloat162)      \
        WARPGRADE_FROM(name, float2) WARPGRADE_FROM(name, double2)                  \
        WARPGRADE_TO(::__half2) WARPGRADE_TO(float2)                                \
    };
#define WARPGRADE_FOUR(name)                                                        \
    struct name {                                                                   \
        __nv_fp8x4_storage_t __x;                                                   \
        name() = default;                                                           \
        WARPGRADE_INLINE explicit name(::__half2, ::__half2) WARPGRADE_LACKING      \
        WARPGRADE_INLINE explicit name(::__nv_bfloat162, ::__nv_bfloat162) WARPGRADE_LACKING \
        WARPGRADE_FROM(name, float4) WARPGRADE_FROM(name, double4)                  \
        WARPGRADE_TO(float4)                                                        \
    };
WARPGRADE_ONE(__nv_fp8_e4m3)
WARPGRADE_ONE(__nv_fp8_e5m2)
WARPGRADE_TWO(__nv_fp8x2_e4m3)
WARPGRADE_TWO(__nv_fp8x2_e5m2)
WARPGRADE_FOUR(__nv_fp8x4_e4m3)
WARPGRADE_FOUR(__nv_fp8x4_e5m2)

#define WARPGRADE_TO_FP8(name, From, To) \
    WARPGRADE_INLINE To name(From, __nv_saturation_t, __nv_fp8_interpretation_t) WARPGRADE_LACKING
WARPGRADE_TO_FP8(__nv_cvt_double_to_fp8, double, __nv_fp8_storage_t)
WARPGRADE_TO_FP8(__nv_cvt_double2_to_fp8x2, double2, __nv_fp8x2_storage_t)
WARPGRADE_TO_FP8(__nv_cvt_float_to_fp8, float, __nv_fp8_storage_t)
WARPGRADE_TO_FP8(__nv_cvt_float2_to_fp8x2, float2, __nv_fp8x2_storage_t)
WARPGRADE_TO_FP8(__nv_cvt_halfraw_to_fp8, __half_raw, __nv_fp8_storage_t)
WARPGRADE_TO_FP8(__nv_cvt_halfraw2_to_fp8x2, __half2_raw, __nv_fp8x2_storage_t)
WARPGRADE_TO_FP8(__nv_cvt_bfloat16raw_to_fp8, __nv_bfloat16_raw, __nv_fp8_storage_t)
WARPGRADE_TO_FP8(__nv_cvt_bfloat16raw2_to_fp8x2, __nv_bfloat162_raw, __nv_fp8x2_storage_t)
WARPGRADE_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t,
                                                    __nv_fp8_interpretation_t) WARPGRADE_LACKING
WARPGRADE_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t,
                                                        __nv_fp8_interpretation_t) WARPGRADE_LACKING

#undef WARPGRADE_TO_FP8
#undef WARPGRADE_FOUR
#undef WARPGRADE_TWO
#undef WARPGRADE_ONE
#undef WARPGRADE_TO
#undef WARPGRADE_FROM
#undef WARPGRADE_LACKING

#endif

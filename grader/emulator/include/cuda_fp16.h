// half and half2, IEEE binary16.
#ifndef WARPGRADE_CUDA_FP16_H
#define WARPGRADE_CUDA_FP16_H

#include "cuda_runtime.h"
#include "warpgrade/small_float.h"

struct __half_raw {
    unsigned short x;
};
struct __half2_raw {
    unsigned short x, y;
};

struct __align__(2) __half {
    unsigned short bits;

    __half() = default;
    WARPGRADE_INLINE __half(__half_raw raw) : bits(raw.x) {}
    WARPGRADE_INLINE __half(float x) : bits(::warpgrade::half_bits(x)) {}
    WARPGRADE_INLINE __half(double x)
        : bits(::warpgrade::half_bits(::warpgrade::float_to_odd(x))) {}
    WARPGRADE_INLINE __half(int x) : __half((double)x) {}
    WARPGRADE_INLINE __half(unsigned x) : __half((double)x) {}
    WARPGRADE_INLINE __half(short x) : __half((double)x) {}
    WARPGRADE_INLINE __half(unsigned short x) : __half((double)x) {}
    WARPGRADE_INLINE __half(long x) : __half((double)x) {}
    WARPGRADE_INLINE __half(unsigned long x) : __half((double)x) {}
    WARPGRADE_INLINE __half(long long x) : __half((double)x) {}
    WARPGRADE_INLINE __half(unsigned long long x) : __half((double)x) {}
    WARPGRADE_INLINE operator float() const { return ::warpgrade::half_value(bits); }
    WARPGRADE_INLINE operator __half_raw() const { return {bits}; }
};
struct __align__(4) __half2 {
    __half x, y;
};
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

namespace warpgrade {
WARPGRADE_INLINE float widen(__half x) { return half_value(x.bits); }
WARPGRADE_INLINE void narrow(float x, __half* result) { result->bits = half_bits(x); }
}  // namespace warpgrade

#define WARPGRADE_T __half
#define WARPGRADE_T2 __half2
#include "warpgrade/small_float_functions.h"
#undef WARPGRADE_T
#undef WARPGRADE_T2

// ---- Conversions --------------------------------------------------------------------------------

WARPGRADE_INLINE float __half2float(__half x) { return ::warpgrade::widen(x); }
WARPGRADE_INLINE __half __float2half(float x) { return __half(x); }
WARPGRADE_INLINE __half __float2half_rn(float x) { return __half(x); }
WARPGRADE_INLINE __half __float2half_rz(float x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __half __float2half_ru(float x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::up);
}
WARPGRADE_INLINE __half __float2half_rd(float x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::down);
}
WARPGRADE_INLINE __half __double2half(double x) { return __half(x); }
WARPGRADE_INLINE __half __int2half_rn(int x) { return __half(x); }
WARPGRADE_INLINE __half __int2half_rz(int x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __half __int2half_ru(int x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::up);
}
WARPGRADE_INLINE __half __int2half_rd(int x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::down);
}
WARPGRADE_INLINE int __half2int_rn(__half x) {
    return ::warpgrade::to_integer<int>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE int __half2int_rz(__half x) {
    return ::warpgrade::to_integer<int>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE int __half2int_ru(__half x) {
    return ::warpgrade::to_integer<int>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE int __half2int_rd(__half x) {
    return ::warpgrade::to_integer<int>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __half __uint2half_rn(unsigned x) { return __half(x); }
WARPGRADE_INLINE __half __uint2half_rz(unsigned x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __half __uint2half_ru(unsigned x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::up);
}
WARPGRADE_INLINE __half __uint2half_rd(unsigned x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::down);
}
WARPGRADE_INLINE unsigned __half2uint_rn(__half x) {
    return ::warpgrade::to_integer<unsigned>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned __half2uint_rz(__half x) {
    return ::warpgrade::to_integer<unsigned>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned __half2uint_ru(__half x) {
    return ::warpgrade::to_integer<unsigned>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned __half2uint_rd(__half x) {
    return ::warpgrade::to_integer<unsigned>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __half __short2half_rn(short x) { return __half(x); }
WARPGRADE_INLINE __half __short2half_rz(short x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __half __short2half_ru(short x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::up);
}
WARPGRADE_INLINE __half __short2half_rd(short x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::down);
}
WARPGRADE_INLINE short __half2short_rn(__half x) {
    return ::warpgrade::to_integer<short>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE short __half2short_rz(__half x) {
    return ::warpgrade::to_integer<short>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE short __half2short_ru(__half x) {
    return ::warpgrade::to_integer<short>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE short __half2short_rd(__half x) {
    return ::warpgrade::to_integer<short>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __half __ushort2half_rn(unsigned short x) { return __half(x); }
WARPGRADE_INLINE __half __ushort2half_rz(unsigned short x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __half __ushort2half_ru(unsigned short x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::up);
}
WARPGRADE_INLINE __half __ushort2half_rd(unsigned short x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::down);
}
WARPGRADE_INLINE unsigned short __half2ushort_rn(__half x) {
    return ::warpgrade::to_integer<unsigned short>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned short __half2ushort_rz(__half x) {
    return ::warpgrade::to_integer<unsigned short>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned short __half2ushort_ru(__half x) {
    return ::warpgrade::to_integer<unsigned short>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned short __half2ushort_rd(__half x) {
    return ::warpgrade::to_integer<unsigned short>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __half __ll2half_rn(long long x) { return __half(x); }
WARPGRADE_INLINE __half __ll2half_rz(long long x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __half __ll2half_ru(long long x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::up);
}
WARPGRADE_INLINE __half __ll2half_rd(long long x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::down);
}
WARPGRADE_INLINE long long __half2ll_rn(__half x) {
    return ::warpgrade::to_integer<long long>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE long long __half2ll_rz(__half x) {
    return ::warpgrade::to_integer<long long>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE long long __half2ll_ru(__half x) {
    return ::warpgrade::to_integer<long long>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE long long __half2ll_rd(__half x) {
    return ::warpgrade::to_integer<long long>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __half __ull2half_rn(unsigned long long x) { return __half(x); }
WARPGRADE_INLINE __half __ull2half_rz(unsigned long long x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __half __ull2half_ru(unsigned long long x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::up);
}
WARPGRADE_INLINE __half __ull2half_rd(unsigned long long x) {
    return ::warpgrade::directed((double)x, __half(x), ::warpgrade::down);
}
WARPGRADE_INLINE unsigned long long __half2ull_rn(__half x) {
    return ::warpgrade::to_integer<unsigned long long>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned long long __half2ull_rz(__half x) {
    return ::warpgrade::to_integer<unsigned long long>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned long long __half2ull_ru(__half x) {
    return ::warpgrade::to_integer<unsigned long long>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned long long __half2ull_rd(__half x) {
    return ::warpgrade::to_integer<unsigned long long>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE short __half_as_short(__half x) { return (short)x.bits; }
WARPGRADE_INLINE unsigned short __half_as_ushort(__half x) { return x.bits; }
WARPGRADE_INLINE __half __short_as_half(short bits) {
    __half result;
    result.bits = bits;
    return result;
}
WARPGRADE_INLINE __half __ushort_as_half(unsigned short bits) {
    __half result;
    result.bits = bits;
    return result;
}
WARPGRADE_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
WARPGRADE_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
WARPGRADE_INLINE __half2 __half2half2(__half x) { return {x, x}; }
WARPGRADE_INLINE __half __low2half(__half2 v) { return v.x; }
WARPGRADE_INLINE __half __high2half(__half2 v) { return v.y; }
WARPGRADE_INLINE float __low2float(__half2 v) { return ::warpgrade::widen(v.x); }
WARPGRADE_INLINE float __high2float(__half2 v) { return ::warpgrade::widen(v.y); }
WARPGRADE_INLINE __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
WARPGRADE_INLINE __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
WARPGRADE_INLINE __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
WARPGRADE_INLINE __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
WARPGRADE_INLINE __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }
WARPGRADE_INLINE float2 __half22float2(__half2 v) {
    return {::warpgrade::widen(v.x), ::warpgrade::widen(v.y)};
}
WARPGRADE_INLINE __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
WARPGRADE_INLINE __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
WARPGRADE_INLINE __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)

#endif

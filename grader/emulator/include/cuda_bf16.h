// __nv_bfloat16 and its pair: the upper half of a float.
#ifndef WARPGRADE_CUDA_BF16_H
#define WARPGRADE_CUDA_BF16_H

#include "cuda_runtime.h"
#include "warpgrade/small_float.h"

struct __nv_bfloat16_raw {
    unsigned short x;
};
struct __nv_bfloat162_raw {
    unsigned short x, y;
};

struct __align__(2) __nv_bfloat16 {
    unsigned short bits;

    __nv_bfloat16() = default;
    WARPGRADE_INLINE __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {}
    WARPGRADE_INLINE __nv_bfloat16(float x) : bits(::warpgrade::bfloat16_bits(x)) {}
    WARPGRADE_INLINE __nv_bfloat16(double x)
        : bits(::warpgrade::bfloat16_bits(::warpgrade::float_to_odd(x))) {}
    WARPGRADE_INLINE __nv_bfloat16(int x) : __nv_bfloat16((double)x) {}
    WARPGRADE_INLINE __nv_bfloat16(unsigned x) : __nv_bfloat16((double)x) {}
    WARPGRADE_INLINE __nv_bfloat16(short x) : __nv_bfloat16((double)x) {}
    WARPGRADE_INLINE __nv_bfloat16(unsigned short x) : __nv_bfloat16((double)x) {}
    WARPGRADE_INLINE __nv_bfloat16(long x) : __nv_bfloat16((double)x) {}
    WARPGRADE_INLINE __nv_bfloat16(unsigned long x) : __nv_bfloat16((double)x) {}
    WARPGRADE_INLINE __nv_bfloat16(long long x) : __nv_bfloat16((double)x) {}
    WARPGRADE_INLINE __nv_bfloat16(unsigned long long x) : __nv_bfloat16((double)x) {}
    WARPGRADE_INLINE operator float() const { return ::warpgrade::bfloat16_value(bits); }
    WARPGRADE_INLINE operator __nv_bfloat16_raw() const { return {bits}; }
};
struct __align__(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

namespace warpgrade {
WARPGRADE_INLINE float widen(__nv_bfloat16 x) { return bfloat16_value(x.bits); }
WARPGRADE_INLINE void narrow(float x, __nv_bfloat16* result) { result->bits = bfloat16_bits(x); }
}  // namespace warpgrade

#define WARPGRADE_T __nv_bfloat16
#define WARPGRADE_T2 __nv_bfloat162
#include "warpgrade/small_float_functions.h"
#undef WARPGRADE_T
#undef WARPGRADE_T2

// ---- Conversions --------------------------------------------------------------------------------

WARPGRADE_INLINE float __bfloat162float(__nv_bfloat16 x) { return ::warpgrade::widen(x); }
WARPGRADE_INLINE __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __float2bfloat16_rz(float x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __nv_bfloat16 __float2bfloat16_ru(float x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::up);
}
WARPGRADE_INLINE __nv_bfloat16 __float2bfloat16_rd(float x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::down);
}
WARPGRADE_INLINE __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __int2bfloat16_rz(int x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __nv_bfloat16 __int2bfloat16_ru(int x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::up);
}
WARPGRADE_INLINE __nv_bfloat16 __int2bfloat16_rd(int x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::down);
}
WARPGRADE_INLINE int __bfloat162int_rn(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<int>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE int __bfloat162int_rz(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<int>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE int __bfloat162int_ru(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<int>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE int __bfloat162int_rd(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<int>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __nv_bfloat16 __uint2bfloat16_rn(unsigned x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __uint2bfloat16_rz(unsigned x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __nv_bfloat16 __uint2bfloat16_ru(unsigned x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::up);
}
WARPGRADE_INLINE __nv_bfloat16 __uint2bfloat16_rd(unsigned x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::down);
}
WARPGRADE_INLINE unsigned __bfloat162uint_rn(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned __bfloat162uint_rz(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned __bfloat162uint_ru(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned __bfloat162uint_rd(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __nv_bfloat16 __short2bfloat16_rn(short x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __short2bfloat16_rz(short x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __nv_bfloat16 __short2bfloat16_ru(short x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::up);
}
WARPGRADE_INLINE __nv_bfloat16 __short2bfloat16_rd(short x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::down);
}
WARPGRADE_INLINE short __bfloat162short_rn(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<short>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE short __bfloat162short_rz(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<short>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE short __bfloat162short_ru(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<short>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE short __bfloat162short_rd(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<short>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __nv_bfloat16 __ushort2bfloat16_rn(unsigned short x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __ushort2bfloat16_rz(unsigned short x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __nv_bfloat16 __ushort2bfloat16_ru(unsigned short x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::up);
}
WARPGRADE_INLINE __nv_bfloat16 __ushort2bfloat16_rd(unsigned short x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::down);
}
WARPGRADE_INLINE unsigned short __bfloat162ushort_rn(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned short>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned short __bfloat162ushort_rz(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned short>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned short __bfloat162ushort_ru(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned short>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned short __bfloat162ushort_rd(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned short>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __nv_bfloat16 __ll2bfloat16_rn(long long x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __ll2bfloat16_rz(long long x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __nv_bfloat16 __ll2bfloat16_ru(long long x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::up);
}
WARPGRADE_INLINE __nv_bfloat16 __ll2bfloat16_rd(long long x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::down);
}
WARPGRADE_INLINE long long __bfloat162ll_rn(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<long long>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE long long __bfloat162ll_rz(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<long long>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE long long __bfloat162ll_ru(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<long long>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE long long __bfloat162ll_rd(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<long long>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE __nv_bfloat16 __ull2bfloat16_rn(unsigned long long x) { return __nv_bfloat16(x); }
WARPGRADE_INLINE __nv_bfloat16 __ull2bfloat16_rz(unsigned long long x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::to_zero);
}
WARPGRADE_INLINE __nv_bfloat16 __ull2bfloat16_ru(unsigned long long x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::up);
}
WARPGRADE_INLINE __nv_bfloat16 __ull2bfloat16_rd(unsigned long long x) {
    return ::warpgrade::directed((double)x, __nv_bfloat16(x), ::warpgrade::down);
}
WARPGRADE_INLINE unsigned long long __bfloat162ull_rn(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned long long>(::nearbyintf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned long long __bfloat162ull_rz(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned long long>(::truncf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned long long __bfloat162ull_ru(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned long long>(::ceilf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE unsigned long long __bfloat162ull_rd(__nv_bfloat16 x) {
    return ::warpgrade::to_integer<unsigned long long>(::floorf(::warpgrade::widen(x)));
}
WARPGRADE_INLINE short __bfloat16_as_short(__nv_bfloat16 x) { return (short)x.bits; }
WARPGRADE_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
WARPGRADE_INLINE __nv_bfloat16 __short_as_bfloat16(short bits) {
    __nv_bfloat16 result;
    result.bits = bits;
    return result;
}
WARPGRADE_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    __nv_bfloat16 result;
    result.bits = bits;
    return result;
}
WARPGRADE_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
WARPGRADE_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return {x, y};
}
WARPGRADE_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
WARPGRADE_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
WARPGRADE_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
WARPGRADE_INLINE float __low2float(__nv_bfloat162 v) { return ::warpgrade::widen(v.x); }
WARPGRADE_INLINE float __high2float(__nv_bfloat162 v) { return ::warpgrade::widen(v.y); }
WARPGRADE_INLINE __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) { return {v.x, v.x}; }
WARPGRADE_INLINE __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) { return {v.y, v.y}; }
WARPGRADE_INLINE __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {a.x, b.x};
}
WARPGRADE_INLINE __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {a.y, b.y};
}
WARPGRADE_INLINE __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 v) { return {v.y, v.x}; }
WARPGRADE_INLINE float2 __bfloat1622float2(__nv_bfloat162 v) {
    return {::warpgrade::widen(v.x), ::warpgrade::widen(v.y)};
}
WARPGRADE_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 v) {
    return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)};
}
WARPGRADE_INLINE __nv_bfloat162 __float2bfloat162_rn(float x) {
    return {__nv_bfloat16(x), __nv_bfloat16(x)};
}
WARPGRADE_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)

#endif

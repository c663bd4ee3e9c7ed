// Integer and conversion intrinsics. All are pure functions of their arguments.
#ifndef WARPGRADE_INTRINSICS_H
#define WARPGRADE_INTRINSICS_H

#include <cfenv>
#include <cmath>

#include "declarations.h"
#include "moved_bits.h"

namespace warpgrade {

template <class To, class From>
WARPGRADE_INLINE To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    warpgrade_move_bits(&result, &value, sizeof result);
    return result;
}

// Conversion to an integer as in hardware: NaN becomes 0, out of range the nearest.
template <class Integer, class Float>
WARPGRADE_UNSEEN inline Integer to_integer(Float rounded) {
    constexpr int bits = sizeof(Integer) * 8 - (Integer(-1) < Integer(0));
    constexpr Integer largest = Integer(~0ull >> (64 - bits));
    constexpr Integer least = Integer(-1) < Integer(0) ? Integer(-largest - 1) : Integer(0);
    const Float limit = std::ldexp(Float(1), bits);
    if (rounded != rounded) return 0;
    if (rounded >= limit) return largest;
    if (rounded < Float(least)) return least;
    return Integer(rounded);
}

// The exact sum, product, quotient... rounded in a direction, by setting the rounding mode.
enum Rounding {
    to_nearest = FE_TONEAREST,
    to_zero = FE_TOWARDZERO,
    up = FE_UPWARD,
    down = FE_DOWNWARD
};
template <int rounding, class Function, class... T>
WARPGRADE_UNSEEN __attribute__((noinline)) auto rounded(Function function, T... arguments) {
    const int mode = std::fegetround();
    std::fesetround(rounding);
    // Volatile: the compiler must not move the operation out of the mode.
    auto kept = [](auto value) WARPGRADE_UNSEEN {
        volatile auto v = value;
        return v;
    };
    volatile auto result = function(kept(arguments)...);
    std::fesetround(mode);
    return +result;
}

}  // namespace warpgrade

// ---- Bits ---------------------------------------------------------------------------------------

WARPGRADE_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
WARPGRADE_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
WARPGRADE_INLINE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
WARPGRADE_INLINE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
WARPGRADE_INLINE int __ffs(int x) { return __builtin_ffs(x); }
WARPGRADE_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
WARPGRADE_INLINE unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
WARPGRADE_INLINE unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
// The selector's hex digits pick bytes of the eight in b:a; a digit's top bit replicates the sign.
WARPGRADE_UNSEEN inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned digit = selector >> (4 * i) & 15;
        unsigned byte = bytes >> (8 * (digit & 7)) & 255;
        if (digit & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}
WARPGRADE_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return ((unsigned long long)high << 32 | low) << (shift & 31) >> 32;
}
WARPGRADE_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return ((unsigned long long)high << 32 | low) >> (shift & 31);
}
WARPGRADE_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
WARPGRADE_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// ---- Integers -----------------------------------------------------------------------------------

WARPGRADE_INLINE int __mul24(int a, int b) {
    return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8));
}
WARPGRADE_INLINE unsigned __umul24(unsigned a, unsigned b) {
    return (a & 0xffffff) * (b & 0xffffff);
}
WARPGRADE_INLINE int __mulhi(int a, int b) { return (long long)a * b >> 32; }
WARPGRADE_INLINE unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned long long)a * b >> 32;
}
WARPGRADE_INLINE long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
WARPGRADE_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
WARPGRADE_INLINE int __hadd(int a, int b) { return ((long long)a + b) >> 1; }
WARPGRADE_INLINE int __rhadd(int a, int b) { return ((long long)a + b + 1) >> 1; }
WARPGRADE_INLINE unsigned __uhadd(unsigned a, unsigned b) {
    return ((unsigned long long)a + b) >> 1;
}
WARPGRADE_INLINE unsigned __urhadd(unsigned a, unsigned b) {
    return ((unsigned long long)a + b + 1) >> 1;
}
WARPGRADE_INLINE unsigned __sad(int a, int b, unsigned c) {
    return c + (a > b ? (unsigned)a - b : (unsigned)b - a);
}
WARPGRADE_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) {
    return c + (a > b ? a - b : b - a);
}
WARPGRADE_UNSEEN inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (signed char)(a >> (8 * i)) * (signed char)(b >> (8 * i));
    return c;
}
WARPGRADE_UNSEEN inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (a >> (8 * i) & 255) * (b >> (8 * i) & 255);
    return c;
}

// ---- Bits of one type read as another -----------------------------------------------------------

WARPGRADE_INLINE int __float_as_int(float x) { return warpgrade::bits_as<int>(x); }
WARPGRADE_INLINE unsigned __float_as_uint(float x) { return warpgrade::bits_as<unsigned>(x); }
WARPGRADE_INLINE float __int_as_float(int x) { return warpgrade::bits_as<float>(x); }
WARPGRADE_INLINE float __uint_as_float(unsigned x) { return warpgrade::bits_as<float>(x); }
WARPGRADE_INLINE long long __double_as_longlong(double x) {
    return warpgrade::bits_as<long long>(x);
}
WARPGRADE_INLINE double __longlong_as_double(long long x) { return warpgrade::bits_as<double>(x); }
WARPGRADE_INLINE int __double2hiint(double x) { return __double_as_longlong(x) >> 32; }
WARPGRADE_INLINE int __double2loint(double x) { return (int)__double_as_longlong(x); }
WARPGRADE_INLINE double __hiloint2double(int high, int low) {
    return __longlong_as_double(
        (long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}

// ---- Conversions --------------------------------------------------------------------------------

#define WARPGRADE_TO_INTEGER(From, from, To, to)             \
    WARPGRADE_INLINE To __##from##2##to##_rn(From x) {       \
        return warpgrade::to_integer<To>(std::nearbyint(x)); \
    }                                                        \
    WARPGRADE_INLINE To __##from##2##to##_rz(From x) {       \
        return warpgrade::to_integer<To>(std::trunc(x));     \
    }                                                        \
    WARPGRADE_INLINE To __##from##2##to##_ru(From x) {       \
        return warpgrade::to_integer<To>(std::ceil(x));      \
    }                                                        \
    WARPGRADE_INLINE To __##from##2##to##_rd(From x) {       \
        return warpgrade::to_integer<To>(std::floor(x));     \
    }
WARPGRADE_TO_INTEGER(float, float, int, int)
WARPGRADE_TO_INTEGER(float, float, unsigned, uint)
WARPGRADE_TO_INTEGER(float, float, long long, ll)
WARPGRADE_TO_INTEGER(float, float, unsigned long long, ull)
WARPGRADE_TO_INTEGER(double, double, int, int)
WARPGRADE_TO_INTEGER(double, double, unsigned, uint)
WARPGRADE_TO_INTEGER(double, double, long long, ll)
WARPGRADE_TO_INTEGER(double, double, unsigned long long, ull)
#undef WARPGRADE_TO_INTEGER

// A function for each rounding direction.
#define WARPGRADE_DIRECTED(T, name, Parameters, Arguments, expression)         \
    WARPGRADE_INLINE T name##_rn Parameters { return expression; }             \
    WARPGRADE_INLINE T name##_rz Parameters {                                  \
        return warpgrade::rounded<warpgrade::to_zero>(                         \
            [] Parameters WARPGRADE_UNSEEN { return expression; }, Arguments); \
    }                                                                          \
    WARPGRADE_INLINE T name##_ru Parameters {                                  \
        return warpgrade::rounded<warpgrade::up>(                              \
            [] Parameters WARPGRADE_UNSEEN { return expression; }, Arguments); \
    }                                                                          \
    WARPGRADE_INLINE T name##_rd Parameters {                                  \
        return warpgrade::rounded<warpgrade::down>(                            \
            [] Parameters WARPGRADE_UNSEEN { return expression; }, Arguments); \
    }
#define WARPGRADE_CONVERT(From, from, To, to) \
    WARPGRADE_DIRECTED(To, __##from##2##to, (From x), x, (To)x)
WARPGRADE_CONVERT(int, int, float, float)
WARPGRADE_CONVERT(unsigned, uint, float, float)
WARPGRADE_CONVERT(long long, ll, float, float)
WARPGRADE_CONVERT(unsigned long long, ull, float, float)
WARPGRADE_CONVERT(long long, ll, double, double)
WARPGRADE_CONVERT(unsigned long long, ull, double, double)
WARPGRADE_CONVERT(double, double, float, float)
#undef WARPGRADE_CONVERT
WARPGRADE_INLINE double __int2double_rn(int x) { return x; }
WARPGRADE_INLINE double __uint2double_rn(unsigned x) { return x; }

#endif

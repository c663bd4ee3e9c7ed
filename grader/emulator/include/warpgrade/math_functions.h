// CUDA's mathematical functions for host and device, beyond the C library's. A fast function
// (`__expf`) gives the accurate result: a GPU's is less exact, and no right kernel may depend on
// that. `__fdividef` is wrong where a GPU's is, and `__tanhf` as coarse as a GPU's.
#ifndef WARPGRADE_MATH_FUNCTIONS_H
#define WARPGRADE_MATH_FUNCTIONS_H

#include <cmath>
#include <cstdlib>

#include "intrinsics.h"

using std::abs;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

// ---- min and max --------------------------------------------------------------------------------

#define WARPGRADE_MIN_MAX(A, B, Result)                       \
    WARPGRADE_INLINE Result min(A a, B b) {                   \
        return (Result)a < (Result)b ? (Result)a : (Result)b; \
    }                                                         \
    WARPGRADE_INLINE Result max(A a, B b) { return (Result)a > (Result)b ? (Result)a : (Result)b; }
#define WARPGRADE_MIN_MAX_MIXED(A, B) \
    WARPGRADE_MIN_MAX(A, A, A)        \
    WARPGRADE_MIN_MAX(B, B, B) WARPGRADE_MIN_MAX(A, B, B) WARPGRADE_MIN_MAX(B, A, B)
WARPGRADE_MIN_MAX_MIXED(int, unsigned)
WARPGRADE_MIN_MAX_MIXED(long, unsigned long)
WARPGRADE_MIN_MAX_MIXED(long long, unsigned long long)
#define WARPGRADE_MIN_MAX_FLOAT(A, B, Result, suffix)                              \
    WARPGRADE_INLINE Result min(A a, B b) { return __builtin_fmin##suffix(a, b); } \
    WARPGRADE_INLINE Result max(A a, B b) { return __builtin_fmax##suffix(a, b); }
WARPGRADE_MIN_MAX_FLOAT(float, float, float, f)
WARPGRADE_MIN_MAX_FLOAT(double, double, double, )
WARPGRADE_MIN_MAX_FLOAT(float, double, double, )
WARPGRADE_MIN_MAX_FLOAT(double, float, double, )
#undef WARPGRADE_MIN_MAX
#undef WARPGRADE_MIN_MAX_MIXED
#undef WARPGRADE_MIN_MAX_FLOAT
WARPGRADE_INLINE unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
WARPGRADE_INLINE unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
WARPGRADE_INLINE long long llmin(long long a, long long b) { return a < b ? a : b; }
WARPGRADE_INLINE long long llmax(long long a, long long b) { return a > b ? a : b; }
WARPGRADE_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) {
    return a < b ? a : b;
}
WARPGRADE_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) {
    return a > b ? a : b;
}

// ---- What the C library lacks -------------------------------------------------------------------

WARPGRADE_INLINE float rsqrtf(float x) { return (float)(1.0 / std::sqrt((double)x)); }
WARPGRADE_INLINE double rsqrt(double x) { return 1.0 / std::sqrt(x); }
WARPGRADE_INLINE float rsqrt(float x) { return rsqrtf(x); }
WARPGRADE_INLINE float rcbrtf(float x) { return (float)(1.0 / std::cbrt((double)x)); }
WARPGRADE_INLINE double rcbrt(double x) { return 1.0 / std::cbrt(x); }
WARPGRADE_INLINE float fdividef(float a, float b) { return a / b; }
namespace warpgrade {
constexpr double pi = 3.14159265358979323846;
}
WARPGRADE_UNSEEN inline double sinpi(double x) {
    return std::sin(warpgrade::pi * std::remainder(x, 2.0));
}
WARPGRADE_UNSEEN inline double cospi(double x) {
    return std::cos(warpgrade::pi * std::remainder(x, 2.0));
}
WARPGRADE_INLINE float sinpif(float x) { return (float)sinpi((double)x); }
WARPGRADE_INLINE float cospif(float x) { return (float)cospi((double)x); }
WARPGRADE_INLINE void sincospi(double x, double* sine, double* cosine) {
    *sine = sinpi(x);
    *cosine = cospi(x);
}
WARPGRADE_INLINE void sincospif(float x, float* sine, float* cosine) {
    *sine = sinpif(x);
    *cosine = cospif(x);
}
WARPGRADE_UNSEEN inline double normcdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
WARPGRADE_INLINE float normcdff(float x) { return (float)normcdf((double)x); }
WARPGRADE_INLINE double erfcx(double x) { return std::exp(x * x) * std::erfc(x); }
WARPGRADE_INLINE float erfcxf(float x) { return (float)erfcx((double)x); }
WARPGRADE_INLINE double norm3d(double a, double b, double c) {
    return std::sqrt(a * a + b * b + c * c);
}
WARPGRADE_INLINE float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
WARPGRADE_INLINE double norm4d(double a, double b, double c, double d) {
    return std::sqrt(a * a + b * b + c * c + d * d);
}
WARPGRADE_INLINE float norm4df(float a, float b, float c, float d) {
    return (float)norm4d(a, b, c, d);
}
WARPGRADE_INLINE float rhypotf(float a, float b) {
    return (float)(1.0 / std::hypot((double)a, (double)b));
}
WARPGRADE_INLINE double rhypot(double a, double b) { return 1.0 / std::hypot(a, b); }
WARPGRADE_INLINE double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
WARPGRADE_INLINE double rnorm4d(double a, double b, double c, double d) {
    return 1.0 / norm4d(a, b, c, d);
}
WARPGRADE_INLINE float rnorm4df(float a, float b, float c, float d) {
    return (float)rnorm4d(a, b, c, d);
}
WARPGRADE_INLINE float fdivide(float a, float b) { return a / b; }
// The inverse of the normal distribution function, by Newton's method on the half where the tail is
// exact; erfinv and its relatives follow from it.
WARPGRADE_UNSEEN inline double erfcinv(double y) {
    if (!(y > 0.0 && y < 2.0)) return y == 0.0 ? INFINITY : y == 2.0 ? -INFINITY : NAN;
    if (y > 1.0) return -erfcinv(2.0 - y);
    const double t = std::sqrt(-2.0 * std::log(y / 2.0));
    double x = 0.70711 * ((2.30753 + t * 0.27061) / (1.0 + t * (0.99229 + t * 0.04481)) - t);
    x = -x;
    for (int i = 0; i < 4; i++) {
        const double error = std::erfc(x) - y;
        x += error / (1.1283791670955126 * std::exp(-x * x) - x * error);
    }
    return x;
}
WARPGRADE_UNSEEN inline double erfinv(double y) {
    if (!(std::fabs(y) < 0.5)) return y < 0.0 ? -erfcinv(1.0 + y) : erfcinv(1.0 - y);
    double x = y * 0.88622692545275801;
    for (int i = 0; i < 5; i++) x -= (std::erf(x) - y) / (1.1283791670955126 * std::exp(-x * x));
    return x;
}
WARPGRADE_INLINE double normcdfinv(double y) { return -1.4142135623730951 * erfcinv(2.0 * y); }
WARPGRADE_INLINE float erfinvf(float y) { return (float)erfinv((double)y); }
WARPGRADE_INLINE float erfcinvf(float y) { return (float)erfcinv((double)y); }
WARPGRADE_INLINE float normcdfinvf(float y) { return (float)normcdfinv((double)y); }
WARPGRADE_INLINE float rnorm3df(float a, float b, float c) {
    return (float)(1.0 / norm3d(a, b, c));
}

// ---- Fast functions -----------------------------------------------------------------------------

// The C library declares some of these names itself, so ours have other names.
namespace warpgrade {
WARPGRADE_INLINE float fast_exp(float x) { return ::expf(x); }
WARPGRADE_INLINE float fast_exp10(float x) { return ::powf(10.0f, x); }
WARPGRADE_INLINE float fast_log(float x) { return ::logf(x); }
WARPGRADE_INLINE float fast_log2(float x) { return ::log2f(x); }
WARPGRADE_INLINE float fast_log10(float x) { return ::log10f(x); }
WARPGRADE_INLINE float fast_sin(float x) { return ::sinf(x); }
WARPGRADE_INLINE float fast_cos(float x) { return ::cosf(x); }
WARPGRADE_INLINE float fast_tan(float x) { return ::tanf(x); }
// The GPU's instruction is tanh.approx, whose result has 16 bits or so on compute capability 9.0.
WARPGRADE_INLINE float fast_tanh(float x) {
    return isnan(x) ? x : __uint_as_float((__float_as_uint(::tanhf(x)) + 0x80u) & ~0xffu);
}
WARPGRADE_INLINE float fast_pow(float x, float y) { return ::powf(x, y); }
WARPGRADE_INLINE void fast_sincos(float x, float* sine, float* cosine) {
    *sine = ::sinf(x);
    *cosine = ::cosf(x);
}
}  // namespace warpgrade
#define __expf ::warpgrade::fast_exp
#define __exp10f ::warpgrade::fast_exp10
#define __logf ::warpgrade::fast_log
#define __log2f ::warpgrade::fast_log2
#define __log10f ::warpgrade::fast_log10
#define __sinf ::warpgrade::fast_sin
#define __cosf ::warpgrade::fast_cos
#define __tanf ::warpgrade::fast_tan
#define __tanhf ::warpgrade::fast_tanh
#define __powf ::warpgrade::fast_pow
#define __sincosf ::warpgrade::fast_sincos
// A GPU multiplies by the reciprocal, which it takes for 0 if the divisor is above 2^126.
WARPGRADE_INLINE float __fdividef(float a, float b) {
    return std::fabs(b) > 8.5070591730234616e37f ? a * std::copysign(0.0f, b) : a / b;
}
WARPGRADE_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// ---- Operations with a rounding direction -------------------------------------------------------

#define WARPGRADE_COMMA ,
#define WARPGRADE_ARITHMETIC(T, prefix, root)                                  \
    WARPGRADE_DIRECTED(T, prefix##add, (T a, T b), a WARPGRADE_COMMA b, a + b) \
    WARPGRADE_DIRECTED(T, prefix##sub, (T a, T b), a WARPGRADE_COMMA b, a - b) \
    WARPGRADE_DIRECTED(T, prefix##mul, (T a, T b), a WARPGRADE_COMMA b, a* b)  \
    WARPGRADE_DIRECTED(T, prefix##div, (T a, T b), a WARPGRADE_COMMA b, a / b) \
    WARPGRADE_DIRECTED(T, prefix##rcp, (T a), a, T(1) / a)                     \
    WARPGRADE_DIRECTED(T, prefix##sqrt, (T a), a, root(a))
WARPGRADE_ARITHMETIC(float, __f, ::sqrtf)
WARPGRADE_ARITHMETIC(double, __d, ::sqrt)
WARPGRADE_DIRECTED(float, __fmaf, (float a, float b, float c),
                   a WARPGRADE_COMMA b WARPGRADE_COMMA c, ::fmaf(a, b, c))
WARPGRADE_DIRECTED(double, __fma, (double a, double b, double c),
                   a WARPGRADE_COMMA b WARPGRADE_COMMA c, ::fma(a, b, c))
#undef WARPGRADE_ARITHMETIC
#undef WARPGRADE_DIRECTED
#undef WARPGRADE_COMMA
WARPGRADE_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }

#endif

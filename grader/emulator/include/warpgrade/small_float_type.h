// A 16-bit floating-point type, its pair, and their functions and operators: cuda_fp16.h and
// cuda_bf16.h share them. No guard: each includes it, with these macros set:
//     WARPGRADE_T, WARPGRADE_RAW       the type and its bits alone
//     WARPGRADE_T2, WARPGRADE_RAW2     the same of the pair
//     WARPGRADE_BITS, WARPGRADE_VALUE  functions from a float to the bits, and back
//     WARPGRADE_NAMED(before, after)   a name with the type's in the middle, as in __float2half_rn

struct WARPGRADE_RAW {
    unsigned short x;
};
struct WARPGRADE_RAW2 {
    unsigned short x, y;
};

struct __align__(2) WARPGRADE_T {
    unsigned short bits;

    WARPGRADE_T() = default;
    WARPGRADE_INLINE WARPGRADE_T(WARPGRADE_RAW raw) : bits(raw.x) {}
    WARPGRADE_INLINE WARPGRADE_T(float x) : bits(WARPGRADE_BITS(x)) {}
    WARPGRADE_INLINE WARPGRADE_T(double x) : bits(WARPGRADE_BITS(::warpgrade::float_to_odd(x))) {}
    WARPGRADE_INLINE WARPGRADE_T(int x) : WARPGRADE_T((double)x) {}
    WARPGRADE_INLINE WARPGRADE_T(unsigned x) : WARPGRADE_T((double)x) {}
    WARPGRADE_INLINE WARPGRADE_T(short x) : WARPGRADE_T((double)x) {}
    WARPGRADE_INLINE WARPGRADE_T(unsigned short x) : WARPGRADE_T((double)x) {}
    WARPGRADE_INLINE WARPGRADE_T(long x) : WARPGRADE_T((double)x) {}
    WARPGRADE_INLINE WARPGRADE_T(unsigned long x) : WARPGRADE_T((double)x) {}
    WARPGRADE_INLINE WARPGRADE_T(long long x) : WARPGRADE_T((double)x) {}
    WARPGRADE_INLINE WARPGRADE_T(unsigned long long x) : WARPGRADE_T((double)x) {}
    WARPGRADE_INLINE operator float() const { return WARPGRADE_VALUE(bits); }
    WARPGRADE_INLINE operator WARPGRADE_RAW() const { return {bits}; }
};
struct __align__(4) WARPGRADE_T2 {
    WARPGRADE_T x, y;
};

namespace warpgrade {
WARPGRADE_INLINE float widen(WARPGRADE_T x) { return WARPGRADE_VALUE(x.bits); }
WARPGRADE_INLINE void narrow(float x, WARPGRADE_T* result) { result->bits = WARPGRADE_BITS(x); }
WARPGRADE_INLINE WARPGRADE_T narrowed(float x, WARPGRADE_T) {
    WARPGRADE_T result;
    narrow(x, &result);
    return result;
}
}  // namespace warpgrade
#define WARPGRADE_NARROW(x) ::warpgrade::narrowed(x, WARPGRADE_T())
#define WARPGRADE_WIDEN(x) ::warpgrade::widen(x)

// ---- Arithmetic ---------------------------------------------------------------------------------

#define WARPGRADE_BINARY(op, function)                                                  \
    WARPGRADE_INLINE WARPGRADE_T operator op(WARPGRADE_T a, WARPGRADE_T b) {            \
        return WARPGRADE_NARROW(WARPGRADE_WIDEN(a) op WARPGRADE_WIDEN(b));              \
    }                                                                                   \
    WARPGRADE_INLINE WARPGRADE_T2 operator op(WARPGRADE_T2 a, WARPGRADE_T2 b) {         \
        return {a.x op b.x, a.y op b.y};                                                \
    }                                                                                   \
    WARPGRADE_INLINE WARPGRADE_T& operator op## = (WARPGRADE_T & a, WARPGRADE_T b) {    \
        return a = a op b;                                                              \
    }                                                                                   \
    WARPGRADE_INLINE WARPGRADE_T2& operator op## = (WARPGRADE_T2 & a, WARPGRADE_T2 b) { \
        return a = a op b;                                                              \
    }                                                                                   \
    WARPGRADE_INLINE WARPGRADE_T __h##function(WARPGRADE_T a, WARPGRADE_T b) { return a op b; }
#define WARPGRADE_VARIANTS(op, function)                                                 \
    WARPGRADE_INLINE WARPGRADE_T __h##function##_rn(WARPGRADE_T a, WARPGRADE_T b) {      \
        return a op b;                                                                   \
    }                                                                                    \
    WARPGRADE_INLINE WARPGRADE_T2 __h##function##2(WARPGRADE_T2 a, WARPGRADE_T2 b) {     \
        return a op b;                                                                   \
    }                                                                                    \
    WARPGRADE_INLINE WARPGRADE_T2 __h##function##2_rn(WARPGRADE_T2 a, WARPGRADE_T2 b) {  \
        return a op b;                                                                   \
    }                                                                                    \
    WARPGRADE_INLINE WARPGRADE_T __h##function##_sat(WARPGRADE_T a, WARPGRADE_T b) {     \
        return WARPGRADE_NARROW(__saturatef(WARPGRADE_WIDEN(a op b)));                   \
    }                                                                                    \
    WARPGRADE_INLINE WARPGRADE_T2 __h##function##2_sat(WARPGRADE_T2 a, WARPGRADE_T2 b) { \
        return {__h##function##_sat(a.x, b.x), __h##function##_sat(a.y, b.y)};           \
    }
WARPGRADE_BINARY(+, add)
WARPGRADE_BINARY(-, sub)
WARPGRADE_BINARY(*, mul)
WARPGRADE_BINARY(/, div)
WARPGRADE_VARIANTS(+, add)
WARPGRADE_VARIANTS(-, sub)
WARPGRADE_VARIANTS(*, mul)
WARPGRADE_INLINE WARPGRADE_T2 __h2div(WARPGRADE_T2 a, WARPGRADE_T2 b) { return a / b; }

WARPGRADE_INLINE WARPGRADE_T __hfma(WARPGRADE_T a, WARPGRADE_T b, WARPGRADE_T c) {
    return WARPGRADE_NARROW(
        ::warpgrade::fma_to_odd(WARPGRADE_WIDEN(a), WARPGRADE_WIDEN(b), WARPGRADE_WIDEN(c)));
}
WARPGRADE_INLINE WARPGRADE_T __hfma_sat(WARPGRADE_T a, WARPGRADE_T b, WARPGRADE_T c) {
    return WARPGRADE_NARROW(__saturatef(WARPGRADE_WIDEN(__hfma(a, b, c))));
}
WARPGRADE_INLINE WARPGRADE_T __hfma_relu(WARPGRADE_T a, WARPGRADE_T b, WARPGRADE_T c) {
    const float value = WARPGRADE_WIDEN(__hfma(a, b, c));
    return WARPGRADE_NARROW(value < 0.0f ? 0.0f : value);
}
WARPGRADE_INLINE WARPGRADE_T2 __hfma2(WARPGRADE_T2 a, WARPGRADE_T2 b, WARPGRADE_T2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
WARPGRADE_INLINE WARPGRADE_T2 __hfma2_sat(WARPGRADE_T2 a, WARPGRADE_T2 b, WARPGRADE_T2 c) {
    return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};
}
WARPGRADE_INLINE WARPGRADE_T2 __hfma2_relu(WARPGRADE_T2 a, WARPGRADE_T2 b, WARPGRADE_T2 c) {
    return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};
}
WARPGRADE_INLINE WARPGRADE_T operator+(WARPGRADE_T a) { return a; }
WARPGRADE_INLINE WARPGRADE_T operator-(WARPGRADE_T a) {
    return WARPGRADE_NARROW(-WARPGRADE_WIDEN(a));
}
WARPGRADE_INLINE WARPGRADE_T2 operator+(WARPGRADE_T2 a) { return a; }
WARPGRADE_INLINE WARPGRADE_T2 operator-(WARPGRADE_T2 a) { return {-a.x, -a.y}; }
WARPGRADE_INLINE WARPGRADE_T& operator++(WARPGRADE_T& a) { return a = a + WARPGRADE_NARROW(1.0f); }
WARPGRADE_INLINE WARPGRADE_T& operator--(WARPGRADE_T& a) { return a = a - WARPGRADE_NARROW(1.0f); }
WARPGRADE_INLINE WARPGRADE_T __hneg(WARPGRADE_T a) { return -a; }
WARPGRADE_INLINE WARPGRADE_T2 __hneg2(WARPGRADE_T2 a) { return -a; }
WARPGRADE_INLINE WARPGRADE_T __habs(WARPGRADE_T a) {
    return WARPGRADE_NARROW(__builtin_fabsf(WARPGRADE_WIDEN(a)));
}
WARPGRADE_INLINE WARPGRADE_T2 __habs2(WARPGRADE_T2 a) { return {__habs(a.x), __habs(a.y)}; }

// ---- Comparisons --------------------------------------------------------------------------------

#define WARPGRADE_COMPARE(op, name)                                                        \
    WARPGRADE_INLINE bool operator op(WARPGRADE_T a, WARPGRADE_T b) {                      \
        return WARPGRADE_WIDEN(a) op WARPGRADE_WIDEN(b);                                   \
    }                                                                                      \
    WARPGRADE_INLINE bool operator op(WARPGRADE_T2 a, WARPGRADE_T2 b) {                    \
        return bool(a.x op b.x) & bool(a.y op b.y);                                        \
    }                                                                                      \
    WARPGRADE_INLINE bool __h##name(WARPGRADE_T a, WARPGRADE_T b) { return a op b; }       \
    WARPGRADE_INLINE bool __hb##name##2(WARPGRADE_T2 a, WARPGRADE_T2 b) { return a op b; } \
    WARPGRADE_INLINE WARPGRADE_T2 __h##name##2(WARPGRADE_T2 a, WARPGRADE_T2 b) {           \
        return {WARPGRADE_NARROW(float(a.x op b.x)), WARPGRADE_NARROW(float(a.y op b.y))}; \
    }                                                                                      \
    WARPGRADE_INLINE bool __h##name##u(WARPGRADE_T a, WARPGRADE_T b) {                     \
        const float x = WARPGRADE_WIDEN(a), y = WARPGRADE_WIDEN(b);                        \
        return bool(x op y) | __builtin_isunordered(x, y);                                 \
    }
#define WARPGRADE_COMPARE_PAIRS(name)                                                         \
    WARPGRADE_INLINE WARPGRADE_T2 __h##name##u2(WARPGRADE_T2 a, WARPGRADE_T2 b) {             \
        return {WARPGRADE_NARROW(float(__h##name##u(a.x, b.x))),                              \
                WARPGRADE_NARROW(float(__h##name##u(a.y, b.y)))};                             \
    }                                                                                         \
    WARPGRADE_INLINE bool __hb##name##u2(WARPGRADE_T2 a, WARPGRADE_T2 b) {                    \
        return __h##name##u(a.x, b.x) & __h##name##u(a.y, b.y);                               \
    }                                                                                         \
    WARPGRADE_INLINE unsigned __h##name##2_mask(WARPGRADE_T2 a, WARPGRADE_T2 b) {             \
        return (__h##name(a.x, b.x) ? 0xffffu : 0) | (__h##name(a.y, b.y) ? 0xffff0000u : 0); \
    }                                                                                         \
    WARPGRADE_INLINE unsigned __h##name##u2_mask(WARPGRADE_T2 a, WARPGRADE_T2 b) {            \
        return (__h##name##u(a.x, b.x) ? 0xffffu : 0) |                                       \
               (__h##name##u(a.y, b.y) ? 0xffff0000u : 0);                                    \
    }
WARPGRADE_COMPARE(==, eq)
WARPGRADE_COMPARE(!=, ne)
WARPGRADE_COMPARE(<, lt)
WARPGRADE_COMPARE(<=, le)
WARPGRADE_COMPARE(>, gt)
WARPGRADE_COMPARE(>=, ge)
WARPGRADE_COMPARE_PAIRS(eq)
WARPGRADE_COMPARE_PAIRS(ne)
WARPGRADE_COMPARE_PAIRS(lt)
WARPGRADE_COMPARE_PAIRS(le)
WARPGRADE_COMPARE_PAIRS(gt)
WARPGRADE_COMPARE_PAIRS(ge)
WARPGRADE_INLINE bool __hisnan(WARPGRADE_T a) { return __builtin_isnan(WARPGRADE_WIDEN(a)); }
WARPGRADE_INLINE int __hisinf(WARPGRADE_T a) { return __builtin_isinf_sign(WARPGRADE_WIDEN(a)); }
WARPGRADE_INLINE WARPGRADE_T __hmax(WARPGRADE_T a, WARPGRADE_T b) {
    return WARPGRADE_NARROW(::fmaxf(WARPGRADE_WIDEN(a), WARPGRADE_WIDEN(b)));
}
WARPGRADE_INLINE WARPGRADE_T __hmin(WARPGRADE_T a, WARPGRADE_T b) {
    return WARPGRADE_NARROW(::fminf(WARPGRADE_WIDEN(a), WARPGRADE_WIDEN(b)));
}
WARPGRADE_INLINE WARPGRADE_T __hmax_nan(WARPGRADE_T a, WARPGRADE_T b) {
    return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b);
}
WARPGRADE_INLINE WARPGRADE_T __hmin_nan(WARPGRADE_T a, WARPGRADE_T b) {
    return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b);
}
WARPGRADE_INLINE WARPGRADE_T2 __hmax2_nan(WARPGRADE_T2 a, WARPGRADE_T2 b) {
    return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)};
}
WARPGRADE_INLINE WARPGRADE_T2 __hmin2_nan(WARPGRADE_T2 a, WARPGRADE_T2 b) {
    return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)};
}
WARPGRADE_INLINE WARPGRADE_T2 __hmax2(WARPGRADE_T2 a, WARPGRADE_T2 b) {
    return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
}
WARPGRADE_INLINE WARPGRADE_T2 __hmin2(WARPGRADE_T2 a, WARPGRADE_T2 b) {
    return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
}

// ---- Mathematical functions: computed in double, rounded once -----------------------------------

#define WARPGRADE_MATH(name, expression)                                \
    WARPGRADE_INLINE WARPGRADE_T h##name(WARPGRADE_T a) {               \
        const double x = WARPGRADE_WIDEN(a);                            \
        return WARPGRADE_NARROW(::warpgrade::float_to_odd(expression)); \
    }                                                                   \
    WARPGRADE_INLINE WARPGRADE_T2 h2##name(WARPGRADE_T2 a) { return {h##name(a.x), h##name(a.y)}; }
WARPGRADE_MATH(sqrt, ::sqrt(x))
WARPGRADE_MATH(rsqrt, 1.0 / ::sqrt(x))
WARPGRADE_MATH(rcp, 1.0 / x)
WARPGRADE_MATH(exp, ::exp(x))
WARPGRADE_MATH(exp2, ::exp2(x))
WARPGRADE_MATH(exp10, ::pow(10.0, x))
WARPGRADE_MATH(log, ::log(x))
WARPGRADE_MATH(log2, ::log2(x))
WARPGRADE_MATH(log10, ::log10(x))
WARPGRADE_MATH(sin, ::sin(x))
WARPGRADE_MATH(cos, ::cos(x))
WARPGRADE_MATH(tanh, ::tanh(x))
WARPGRADE_MATH(ceil, ::ceil(x))
WARPGRADE_MATH(floor, ::floor(x))
WARPGRADE_MATH(trunc, ::trunc(x))
WARPGRADE_MATH(rint, ::nearbyint(x))

// ---- Warps and atomics --------------------------------------------------------------------------

WARPGRADE_SHUFFLES(WARPGRADE_T)
WARPGRADE_SHUFFLES(WARPGRADE_T2)
WARPGRADE_ATOMIC_SCOPE(atomicAdd, warpgrade_atomic, AtomicAdd, WARPGRADE_T)
WARPGRADE_INLINE WARPGRADE_T2 atomicAdd(WARPGRADE_T2* p, WARPGRADE_T2 value) {
    return {atomicAdd(&p->x, value.x), atomicAdd(&p->y, value.y)};
}

// ---- Conversions of numbers ---------------------------------------------------------------------

#define WARPGRADE_TO_INTEGER(I, name, rounding, function)                      \
    WARPGRADE_INLINE I WARPGRADE_NAMED(__, 2##name##rounding)(WARPGRADE_T x) { \
        return ::warpgrade::to_integer<I>(::function(WARPGRADE_WIDEN(x)));     \
    }
#define WARPGRADE_DIRECTED(N, name, rounding, direction)                                 \
    WARPGRADE_INLINE WARPGRADE_T WARPGRADE_NAMED(__##name##2, rounding)(N x) {           \
        return ::warpgrade::directed((double)x, WARPGRADE_T(x), ::warpgrade::direction); \
    }
#define WARPGRADE_FROM(N, name)                                                                    \
    WARPGRADE_INLINE WARPGRADE_T WARPGRADE_NAMED(__##name##2, _rn)(N x) { return WARPGRADE_T(x); } \
    WARPGRADE_DIRECTED(N, name, _rz, to_zero)                                                      \
    WARPGRADE_DIRECTED(N, name, _ru, up)                                                           \
    WARPGRADE_DIRECTED(N, name, _rd, down)
#define WARPGRADE_INTEGER(I, name)                 \
    WARPGRADE_FROM(I, name)                        \
    WARPGRADE_TO_INTEGER(I, name, _rn, nearbyintf) \
    WARPGRADE_TO_INTEGER(I, name, _rz, truncf)     \
    WARPGRADE_TO_INTEGER(I, name, _ru, ceilf)      \
    WARPGRADE_TO_INTEGER(I, name, _rd, floorf)
WARPGRADE_FROM(float, float)
WARPGRADE_INTEGER(int, int)
WARPGRADE_INTEGER(unsigned, uint)
WARPGRADE_INTEGER(short, short)
WARPGRADE_INTEGER(unsigned short, ushort)
WARPGRADE_INTEGER(long long, ll)
WARPGRADE_INTEGER(unsigned long long, ull)

WARPGRADE_INLINE float WARPGRADE_NAMED(__, 2float)(WARPGRADE_T x) { return WARPGRADE_WIDEN(x); }
WARPGRADE_INLINE WARPGRADE_T WARPGRADE_NAMED(__float2, )(float x) { return WARPGRADE_T(x); }
WARPGRADE_INLINE WARPGRADE_T WARPGRADE_NAMED(__double2, )(double x) { return WARPGRADE_T(x); }
WARPGRADE_INLINE short WARPGRADE_NAMED(__, _as_short)(WARPGRADE_T x) { return (short)x.bits; }
WARPGRADE_INLINE unsigned short WARPGRADE_NAMED(__, _as_ushort)(WARPGRADE_T x) { return x.bits; }
WARPGRADE_INLINE WARPGRADE_T WARPGRADE_NAMED(__short_as_, )(short bits) {
    return WARPGRADE_RAW{(unsigned short)bits};
}
WARPGRADE_INLINE WARPGRADE_T WARPGRADE_NAMED(__ushort_as_, )(unsigned short bits) {
    return WARPGRADE_RAW{bits};
}

// ---- Pairs --------------------------------------------------------------------------------------

WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(make_, 2)(WARPGRADE_T x, WARPGRADE_T y) {
    return {x, y};
}
WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(__halves2, 2)(WARPGRADE_T x, WARPGRADE_T y) {
    return {x, y};
}
WARPGRADE_INLINE WARPGRADE_T WARPGRADE_NAMED(__low2, )(WARPGRADE_T2 v) { return v.x; }
WARPGRADE_INLINE WARPGRADE_T WARPGRADE_NAMED(__high2, )(WARPGRADE_T2 v) { return v.y; }
WARPGRADE_INLINE float __low2float(WARPGRADE_T2 v) { return WARPGRADE_WIDEN(v.x); }
WARPGRADE_INLINE float __high2float(WARPGRADE_T2 v) { return WARPGRADE_WIDEN(v.y); }
WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(__low2, 2)(WARPGRADE_T2 v) { return {v.x, v.x}; }
WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(__high2, 2)(WARPGRADE_T2 v) { return {v.y, v.y}; }
WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(__lows2, 2)(WARPGRADE_T2 a, WARPGRADE_T2 b) {
    return {a.x, b.x};
}
WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(__highs2, 2)(WARPGRADE_T2 a, WARPGRADE_T2 b) {
    return {a.y, b.y};
}
WARPGRADE_INLINE WARPGRADE_T2 __lowhigh2highlow(WARPGRADE_T2 v) { return {v.y, v.x}; }
WARPGRADE_INLINE float2 WARPGRADE_NAMED(__, 22float2)(WARPGRADE_T2 v) {
    return {WARPGRADE_WIDEN(v.x), WARPGRADE_WIDEN(v.y)};
}
WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(__float22, 2_rn)(float2 v) {
    return {WARPGRADE_T(v.x), WARPGRADE_T(v.y)};
}
WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(__float2, 2_rn)(float x) {
    return {WARPGRADE_T(x), WARPGRADE_T(x)};
}
WARPGRADE_INLINE WARPGRADE_T2 WARPGRADE_NAMED(__floats2, 2_rn)(float x, float y) {
    return {WARPGRADE_T(x), WARPGRADE_T(y)};
}

#undef WARPGRADE_BINARY
#undef WARPGRADE_VARIANTS
#undef WARPGRADE_COMPARE
#undef WARPGRADE_MATH
#undef WARPGRADE_COMPARE_PAIRS
#undef WARPGRADE_NARROW
#undef WARPGRADE_WIDEN
#undef WARPGRADE_TO_INTEGER
#undef WARPGRADE_DIRECTED
#undef WARPGRADE_FROM
#undef WARPGRADE_INTEGER
#undef WARPGRADE_T
#undef WARPGRADE_T2
#undef WARPGRADE_RAW
#undef WARPGRADE_RAW2
#undef WARPGRADE_BITS
#undef WARPGRADE_VALUE
#undef WARPGRADE_NAMED

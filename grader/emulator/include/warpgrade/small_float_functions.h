// The functions and operators that cuda_fp16.h and cuda_bf16.h share. No guard: each includes it,
// with these macros set:
//     WARPGRADE_T, WARPGRADE_T2    the type and the pair of them
// and these defined in namespace warpgrade: `float widen(T)`, `void narrow(float, T*)`.

namespace warpgrade {
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

// ---- Mathematical functions: computed in double, rounded once
// ------------------------------------

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

#undef WARPGRADE_BINARY
#undef WARPGRADE_VARIANTS
#undef WARPGRADE_COMPARE
#undef WARPGRADE_MATH
#undef WARPGRADE_COMPARE_PAIRS
#undef WARPGRADE_NARROW
#undef WARPGRADE_WIDEN

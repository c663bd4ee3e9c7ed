// Atomic functions. Each first calls the runtime, which observes it and lets other threads run. All
// threads share one operating-system thread, so the update itself is a plain load and store.
#ifndef WARPGRADE_ATOMICS_H
#define WARPGRADE_ATOMICS_H

#include "../vector_types.h"
#include "declarations.h"
#include "moved_bits.h"

namespace warpgrade {

// What an atomic stores: `result`, of the value before and the operand.
#define WARPGRADE_OPERATION(name, result)               \
    struct name {                                       \
        template <class T>                              \
        WARPGRADE_UNSEEN T operator()(T a, T b) const { \
            return result;                              \
        }                                               \
    };
WARPGRADE_OPERATION(AtomicAdd, a + b)
WARPGRADE_OPERATION(AtomicSub, a - b)
WARPGRADE_OPERATION(AtomicMin, b < a ? b : a)
WARPGRADE_OPERATION(AtomicMax, a < b ? b : a)
WARPGRADE_OPERATION(AtomicAnd, a & b)
WARPGRADE_OPERATION(AtomicOr, a | b)
WARPGRADE_OPERATION(AtomicXor, a ^ b)
WARPGRADE_OPERATION(AtomicInc, a >= b ? 0 : a + 1)
WARPGRADE_OPERATION(AtomicDec, a == 0 || a > b ? b : a - 1)
#undef WARPGRADE_OPERATION

template <class Operation, class T>
WARPGRADE_UNSEEN __attribute__((noinline)) T atomic_apply(T* p, T value) {
    T old = *p;
    *p = Operation()(old, value);
    return old;
}
template <class T>
WARPGRADE_UNSEEN __attribute__((noinline)) T atomic_compare_and_swap(T* p, T expected, T value) {
    T old = *p;
    if (old == expected) *p = value;
    return old;
}
template <class T>
WARPGRADE_INLINE T compare_and_swap(T* p, T expected, T value, int order, int failure, int scope) {
    static_assert(sizeof(T) <= 8, "larger atomics are not modelled");
    unsigned long long bits = 0;
    warpgrade_move_bits(&bits, &expected, sizeof(T));
    warpgrade_compare_and_swap(p, sizeof(T), bits, order, failure, scope);
    return atomic_compare_and_swap<T>(p, expected, value);
}
template <class T>
WARPGRADE_UNSEEN __attribute__((noinline)) T atomic_load(const T* p) {
    return *p;
}
template <class T>
WARPGRADE_UNSEEN __attribute__((noinline)) T atomic_exchange(T* p, T value) {
    T old = *p;
    *p = value;
    return old;
}

}  // namespace warpgrade

// The overloads are exactly CUDA's: a call that nvcc refuses must not compile here.
#define WARPGRADE_ATOMIC_SCOPE(function, observe, Operation, T)            \
    WARPGRADE_INLINE T function(T* p, T value) {                           \
        observe(p, sizeof(T));                                             \
        return warpgrade::atomic_apply<warpgrade::Operation, T>(p, value); \
    }
#define WARPGRADE_ATOMIC(function, Operation, T)                                   \
    WARPGRADE_ATOMIC_SCOPE(function, warpgrade_atomic, Operation, T)               \
    WARPGRADE_ATOMIC_SCOPE(function##_block, warpgrade_block_atomic, Operation, T) \
    WARPGRADE_ATOMIC_SCOPE(function##_system, warpgrade_atomic, Operation, T)
#define WARPGRADE_ATOMIC_CAS_SCOPE(function, scope, T)                                    \
    WARPGRADE_INLINE T function(T* p, T expected, T value) {                              \
        return warpgrade::compare_and_swap<T>(p, expected, value, __ATOMIC_ACQUIRE,       \
                                              __ATOMIC_ACQUIRE, warpgrade_scope_##scope); \
    }
#define WARPGRADE_ATOMIC_CAS(T)                              \
    WARPGRADE_ATOMIC_CAS_SCOPE(atomicCAS, device, T)         \
    WARPGRADE_ATOMIC_CAS_SCOPE(atomicCAS_block, block, T)    \
    WARPGRADE_ATOMIC_CAS_SCOPE(atomicCAS_system, system, T)

#define WARPGRADE_ATOMIC_EXCH_SCOPE(function, observe, T)       \
    WARPGRADE_INLINE T function(T* p, T value) {                \
        observe(p, sizeof(T));                                  \
        T old = warpgrade::atomic_exchange<T>(p, value);        \
        return warpgrade_exchanged(p, !old) ? old : 0;          \
    }
#define WARPGRADE_ATOMIC_EXCH(T)                                               \
    WARPGRADE_ATOMIC_EXCH_SCOPE(atomicExch, warpgrade_exchange, T)             \
    WARPGRADE_ATOMIC_EXCH_SCOPE(atomicExch_block, warpgrade_block_exchange, T) \
    WARPGRADE_ATOMIC_EXCH_SCOPE(atomicExch_system, warpgrade_exchange, T)

#define WARPGRADE_ATOMIC_INTEGERS(function, Operation) \
    WARPGRADE_ATOMIC(function, Operation, int)         \
    WARPGRADE_ATOMIC(function, Operation, unsigned)    \
    WARPGRADE_ATOMIC(function, Operation, unsigned long long)

WARPGRADE_ATOMIC_INTEGERS(atomicAdd, AtomicAdd)
WARPGRADE_ATOMIC(atomicAdd, AtomicAdd, float)
WARPGRADE_ATOMIC(atomicAdd, AtomicAdd, double)
WARPGRADE_ATOMIC(atomicSub, AtomicSub, int)
WARPGRADE_ATOMIC(atomicSub, AtomicSub, unsigned)
WARPGRADE_ATOMIC_INTEGERS(atomicMin, AtomicMin)
WARPGRADE_ATOMIC(atomicMin, AtomicMin, long long)
WARPGRADE_ATOMIC_INTEGERS(atomicMax, AtomicMax)
WARPGRADE_ATOMIC(atomicMax, AtomicMax, long long)
WARPGRADE_ATOMIC_INTEGERS(atomicAnd, AtomicAnd)
WARPGRADE_ATOMIC_INTEGERS(atomicOr, AtomicOr)
WARPGRADE_ATOMIC_INTEGERS(atomicXor, AtomicXor)
WARPGRADE_ATOMIC_EXCH(int)
WARPGRADE_ATOMIC_EXCH(unsigned)
WARPGRADE_ATOMIC_EXCH(unsigned long long)
WARPGRADE_ATOMIC_EXCH(float)
WARPGRADE_ATOMIC(atomicInc, AtomicInc, unsigned)
WARPGRADE_ATOMIC(atomicDec, AtomicDec, unsigned)
WARPGRADE_ATOMIC_CAS(int)
WARPGRADE_ATOMIC_CAS(unsigned)
WARPGRADE_ATOMIC_CAS(unsigned long long)
WARPGRADE_ATOMIC_CAS(unsigned short)

// Vector adds: each component is atomic by itself, as in hardware.
WARPGRADE_INLINE float2 atomicAdd(float2* p, float2 value) {
    return {atomicAdd(&p->x, value.x), atomicAdd(&p->y, value.y)};
}
WARPGRADE_INLINE float4 atomicAdd(float4* p, float4 value) {
    return {atomicAdd(&p->x, value.x), atomicAdd(&p->y, value.y), atomicAdd(&p->z, value.z),
            atomicAdd(&p->w, value.w)};
}

#undef WARPGRADE_ATOMIC_INTEGERS

#endif

// Shuffles, votes, matches and reductions of a warp; fences; loads and stores with cache hints.
#ifndef WARPGRADE_WARP_FUNCTIONS_H
#define WARPGRADE_WARP_FUNCTIONS_H

#include <type_traits>

#include "declarations.h"
#include "moved_bits.h"

// Orders a thread's accesses before it and after it, for all observers of both.
extern "C" void warpgrade_fence();
extern "C" void warpgrade_block_fence();
extern "C" void warpgrade_read_only(const void* p, size_t bytes);

namespace warpgrade {

template <class T>
WARPGRADE_INLINE T exchange(int operation, unsigned mask, T value, int argument, int width) {
    static_assert(sizeof(T) <= 8);
    unsigned long long bits = 0;
    warpgrade_move_bits(&bits, &value, sizeof value);
    bits = warpgrade_warp_operation(operation, mask, bits, argument, width);
    warpgrade_move_bits(&value, &bits, sizeof value);
    return value;
}

}  // namespace warpgrade

#define WARPGRADE_SHUFFLES(T)                                                                     \
    WARPGRADE_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {            \
        return warpgrade::exchange(warpgrade_shuffle, mask, value, lane, width);                  \
    }                                                                                             \
    WARPGRADE_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {   \
        return warpgrade::exchange(warpgrade_shuffle_up, mask, value, delta, width);              \
    }                                                                                             \
    WARPGRADE_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) { \
        return warpgrade::exchange(warpgrade_shuffle_down, mask, value, delta, width);            \
    }                                                                                             \
    WARPGRADE_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {   \
        return warpgrade::exchange(warpgrade_shuffle_xor, mask, value, lane_mask, width);         \
    }
WARPGRADE_SHUFFLES(int)
WARPGRADE_SHUFFLES(unsigned)
WARPGRADE_SHUFFLES(long)
WARPGRADE_SHUFFLES(unsigned long)
WARPGRADE_SHUFFLES(long long)
WARPGRADE_SHUFFLES(unsigned long long)
WARPGRADE_SHUFFLES(float)
WARPGRADE_SHUFFLES(double)

WARPGRADE_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    return warpgrade_warp_operation(warpgrade_ballot, mask, predicate != 0, 0, 32);
}
WARPGRADE_INLINE int __any_sync(unsigned mask, int predicate) {
    return warpgrade_warp_operation(warpgrade_ballot, mask, predicate != 0, 0, 32) != 0;
}
WARPGRADE_INLINE int __all_sync(unsigned mask, int predicate) {
    return warpgrade_warp_operation(warpgrade_ballot, mask, predicate == 0, 0, 32) == 0;
}
WARPGRADE_INLINE unsigned __activemask() {
    return warpgrade_warp_operation(warpgrade_activemask, 0xffffffffu, 0, 0, 32);
}

#define WARPGRADE_MATCHES(T)                                                                \
    WARPGRADE_INLINE unsigned __match_any_sync(unsigned mask, T value) {                    \
        unsigned long long bits = 0;                                                        \
        ::warpgrade_move_bits(&bits, &value, sizeof value);                                 \
        return warpgrade_warp_operation(warpgrade_match_any, mask, bits, 0, 32);            \
    }                                                                                       \
    WARPGRADE_INLINE unsigned __match_all_sync(unsigned mask, T value, int* predicate) {    \
        unsigned long long bits = 0;                                                        \
        ::warpgrade_move_bits(&bits, &value, sizeof value);                                 \
        unsigned result = warpgrade_warp_operation(warpgrade_match_all, mask, bits, 0, 32); \
        *predicate = result != 0;                                                           \
        return result;                                                                      \
    }
WARPGRADE_MATCHES(int)
WARPGRADE_MATCHES(unsigned)
WARPGRADE_MATCHES(long)
WARPGRADE_MATCHES(unsigned long)
WARPGRADE_MATCHES(long long)
WARPGRADE_MATCHES(unsigned long long)
WARPGRADE_MATCHES(float)
WARPGRADE_MATCHES(double)
#undef WARPGRADE_MATCHES

#define WARPGRADE_REDUCE(function, operation, T, is_signed)                                  \
    WARPGRADE_INLINE T function(unsigned mask, T value) {                                    \
        return (T)warpgrade_warp_operation(operation, mask, (unsigned)value, is_signed, 32); \
    }
WARPGRADE_REDUCE(__reduce_add_sync, warpgrade_reduce_add, int, 1)
WARPGRADE_REDUCE(__reduce_add_sync, warpgrade_reduce_add, unsigned, 0)
WARPGRADE_REDUCE(__reduce_min_sync, warpgrade_reduce_min, int, 1)
WARPGRADE_REDUCE(__reduce_min_sync, warpgrade_reduce_min, unsigned, 0)
WARPGRADE_REDUCE(__reduce_max_sync, warpgrade_reduce_max, int, 1)
WARPGRADE_REDUCE(__reduce_max_sync, warpgrade_reduce_max, unsigned, 0)
WARPGRADE_REDUCE(__reduce_and_sync, warpgrade_reduce_and, unsigned, 0)
WARPGRADE_REDUCE(__reduce_or_sync, warpgrade_reduce_or, unsigned, 0)
WARPGRADE_REDUCE(__reduce_xor_sync, warpgrade_reduce_xor, unsigned, 0)
#undef WARPGRADE_REDUCE

// Two barriers on one line are two. Negative: no line has such a number.
#define __syncthreads() __syncthreads(~__COUNTER__)
#define __syncthreads_count(...) __syncthreads_count(__VA_ARGS__, ~__COUNTER__)
#define __syncthreads_and(...) __syncthreads_and(__VA_ARGS__, ~__COUNTER__)
#define __syncthreads_or(...) __syncthreads_or(__VA_ARGS__, ~__COUNTER__)

WARPGRADE_INLINE void __threadfence() { warpgrade_fence(); }
WARPGRADE_INLINE void __threadfence_block() { warpgrade_block_fence(); }
WARPGRADE_INLINE void __threadfence_system() { warpgrade_fence(); }

// What is loaded by it must not change while the kernel runs.
template <class T>
WARPGRADE_INLINE T __ldg(const T* p) {
    warpgrade_read_only(p, sizeof(T));
    return *p;
}

// Cache hints change neither values nor sectors.
#define WARPGRADE_LOAD(function)              \
    template <class T>                        \
    WARPGRADE_INLINE T function(const T* p) { \
        return *p;                            \
    }
WARPGRADE_LOAD(__ldca)
WARPGRADE_LOAD(__ldcg)
WARPGRADE_LOAD(__ldcs)
WARPGRADE_LOAD(__ldcv)
WARPGRADE_LOAD(__ldlu)
#undef WARPGRADE_LOAD
#define WARPGRADE_STORE(function)                                       \
    template <class T>                                                  \
    WARPGRADE_INLINE void function(T* p, std::common_type_t<T> value) { \
        *p = value;                                                     \
    }
WARPGRADE_STORE(__stwb)
WARPGRADE_STORE(__stcg)
WARPGRADE_STORE(__stcs)
WARPGRADE_STORE(__stwt)
#undef WARPGRADE_STORE

#endif

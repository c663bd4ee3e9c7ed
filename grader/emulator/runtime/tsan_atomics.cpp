// ThreadSanitizer replaces the atomic operations of C and C++ (std::atomic, __atomic_*, the guards
// of static variables) by calls, which are observed and done here.
#include <cstdint>

#include "hooks.h"
#include "observe.h"

#define CALLER reinterpret_cast<warpgrade::Address>(__builtin_return_address(0))

namespace warpgrade {
namespace {

constexpr int release_order = 3;  // and above: acquire-release, sequentially consistent

// `reads`: what was there decides anything.
void before_atomic(const volatile void* p, int bytes, int order, bool stores, Address pc,
                   bool reads = true) {
    if (order >= release_order) observe_fence();
    if (stores || current_thread) observe_atomic(const_cast<void*>(p), bytes, pc, false, !reads);
    count_spin();
}

}  // namespace
}  // namespace warpgrade

using warpgrade::before_atomic;

extern "C" {

#define EXCHANGE(bits, type, name, act)                                                       \
    type __tsan_atomic##bits##_##name(volatile type* p, type value, int order) {              \
        before_atomic(p, bits / 8, order, true, CALLER);                                      \
        return act(p, value, __ATOMIC_SEQ_CST);                                               \
    }

#define ATOMICS(bits, type)                                                                   \
    type __tsan_atomic##bits##_load(const volatile type* p, int order) {                      \
        before_atomic(p, bits / 8, order == __ATOMIC_SEQ_CST ? 0 : order, false, CALLER);     \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                          \
    }                                                                                         \
    void __tsan_atomic##bits##_store(volatile type* p, type value, int order) {               \
        before_atomic(p, bits / 8, order, true, CALLER, false);                               \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                         \
    }                                                                                         \
    EXCHANGE(bits, type, exchange, __atomic_exchange_n)                                       \
    EXCHANGE(bits, type, fetch_add, __atomic_fetch_add)                                       \
    EXCHANGE(bits, type, fetch_sub, __atomic_fetch_sub)                                       \
    EXCHANGE(bits, type, fetch_and, __atomic_fetch_and)                                       \
    EXCHANGE(bits, type, fetch_or, __atomic_fetch_or)                                         \
    EXCHANGE(bits, type, fetch_xor, __atomic_fetch_xor)                                       \
    EXCHANGE(bits, type, fetch_nand, __atomic_fetch_nand)                                     \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type* p, type* expected,       \
                                                      type value, int order, int) {           \
        before_atomic(p, bits / 8, order, true, CALLER);                                      \
        return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,       \
                                           __ATOMIC_SEQ_CST);                                 \
    }                                                                                         \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type* p, type* expected,         \
                                                    type value, int order, int) {             \
        before_atomic(p, bits / 8, order, true, CALLER);                                      \
        return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST,       \
                                           __ATOMIC_SEQ_CST);                                 \
    }                                                                                         \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type expected,          \
                                                    type value, int order, int) {             \
        before_atomic(p, bits / 8, order, true, CALLER);                                      \
        __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST,             \
                                    __ATOMIC_SEQ_CST);                                        \
        return expected;                                                                      \
    }

ATOMICS(8, std::uint8_t)
ATOMICS(16, std::uint16_t)
ATOMICS(32, std::uint32_t)
ATOMICS(64, std::uint64_t)

void __tsan_atomic_thread_fence(int) { warpgrade::observe_fence(); }
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"

// The functions that the compiler's instrumentation calls: ThreadSanitizer's hooks for loads and
// stores (without its library), the coverage hook at the start of every basic block, and
// UndefinedBehaviorSanitizer's check of array bounds.
#include "hooks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "access.h"
#include "block_order.h"
#include "findings.h"
#include "host_guard.h"
#include "whereabouts.h"

#define CALLER reinterpret_cast<warpgrade::Address>(__builtin_return_address(0))
#define ALWAYS_INLINE __attribute__((always_inline)) inline

namespace warpgrade {

bool counting;

namespace {

// An index out of range whose access has not come yet, which shows whether it is a store.
bool index_pending;
struct {
    Address pc;
    char text[300];
} pending_index;

template <unsigned size, bool is_store>
ALWAYS_INLINE void observe(void* p, Address pc) {
    Address a = reinterpret_cast<Address>(p);
    Thread* thread = current_thread;
    if (__builtin_expect(!thread, 0)) return check_host_access(a, size, is_store, pc);
    if (__builtin_expect(!attention && a % size == 0, 1)) {
        std::uint32_t relative = static_cast<std::uint32_t>(pc - image_base);
        if (in_arena(a)) {
            if (observe_global_quickly<size, is_store>(*thread, a, relative)) return;
        } else if (a - shared_low < shared_bytes) {
            if (observe_shared_quickly<size, is_store>(*thread, a, relative)) return;
        }
    }
    observe_slowly(a, size, is_store ? AccessKind::store : AccessKind::read, true, pc);
}

void observe_volatile(void* p, unsigned size, AccessKind kind, Address pc) {
    Address a = reinterpret_cast<Address>(p);
    bool store = kind == AccessKind::volatile_store;
    if (!current_thread) return check_host_access(a, size, store, pc);
    observe_slowly(a, size, kind, true, pc);
    if (!store) count_spin();  // a polling thread must let the others run
}

// The hardware moves a large object in pieces of at most 16 bytes, each aligned to its size.
void observe_range(void* p, std::size_t bytes, bool store, Address pc) {
    Address a = reinterpret_cast<Address>(p);
    if (!current_thread) return check_host_access(a, bytes, store, pc);
    while (bytes) {
        std::size_t piece = 16;
        while (piece > 1 && (bytes % piece || a % piece)) piece /= 2;
        observe_slowly(a, piece, store ? AccessKind::store : AccessKind::read, false, pc);
        a += piece;
        bytes -= piece;
    }
}

void conclude_index(bool store) {
    index_pending = false;
    report_finding(store ? FindingKind::index_out_of_range_write
                         : FindingKind::index_out_of_range_read,
                   pending_index.pc, current_thread, 0, nullptr, "%s", pending_index.text);
    abandon_launch(error_illegal_address);
}

// The argument of __ubsan_handle_out_of_bounds.
struct TypeDescriptor {
    std::uint16_t kind, info;  // of an integer: bit 0 signed, above it the binary logarithm of bits
    char name[1];              // 'float [32]', quotes included
};
struct BoundsCheck {
    const char* file;
    std::uint32_t line, column;
    const TypeDescriptor *array, *index;
};

long long index_value(const TypeDescriptor& type, std::uint64_t value) {
    int unused = 64 - (1 << (type.info >> 1));
    if (!(type.info & 1) || unused <= 0) return static_cast<long long>(value);
    return static_cast<long long>(value << unused) >> unused;
}

// The bytes from the array's start to the element, at most; `array` is like "float [32][33]", and
// the index is the first one.
long long most_distance(long long index, const char* array) {
    constexpr long long largest_element = 64, too_far = 1ll << 40;
    unsigned long long magnitude = index < 0 ? 0ull - static_cast<unsigned long long>(index)
                                             : static_cast<unsigned long long>(index);
    long long bytes = static_cast<long long>(std::min<unsigned long long>(magnitude, too_far));
    const char* inner = std::strchr(array, ']');
    while (inner && inner[1] == '[' && bytes < too_far) {
        bytes *= std::atoll(inner + 2);
        inner = std::strchr(inner + 2, ']');
    }
    return bytes < too_far ? bytes * largest_element : too_far;
}

// Whether the access may pass until the next hook identifies it. An array that hooks don't see is
// local: a store can then only damage stacks, and no thread resumes.
bool stays_on_stacks(long long index, const char* array) {
    Address own = current_thread->stack_low;
    Address room = index < 0 ? own - stacks_low : stacks_low + stacks_size - (own + stack_bytes);
    return most_distance(index, array) <= static_cast<long long>(room);
}

void index_out_of_range(const BoundsCheck& check, std::uint64_t value, Address pc) {
    long long index = index_value(*check.index, value);
    int length = static_cast<int>(std::strlen(check.array->name));
    bool quoted = length >= 2 && check.array->name[0] == '\'';
    char text[sizeof pending_index.text];
    std::snprintf(text, sizeof text, "index %lld of an array of type %.*s", index,
                  quoted ? length - 2 : length, check.array->name + quoted);
    if (current_thread && attention) settle(NextEvent::load);
    std::memcpy(pending_index.text, text, sizeof text);
    pending_index.pc = pc;
    if (!current_thread) {
        report_finding(FindingKind::index_out_of_range_read, pc, nullptr, 0, nullptr, "%s", text);
        abandon_from_host();
    }
    if (!stays_on_stacks(index, check.array->name)) conclude_index(false);
    index_pending = attention = true;
}

}  // namespace

void settle(NextEvent next, bool of_pointer) {
    if (race_pending && next != NextEvent::load) settle_race();
    // A load through a pointer on the way to `array[i] = pointer[j]` is not the array's.
    bool on_the_way = of_pointer && next == NextEvent::load;
    if (index_pending && !on_the_way) conclude_index(next == NextEvent::store);
    attention = race_pending || index_pending || noting;
}

void observe_atomic(void* p, int bytes, Address pc, bool of_block) {
    Address a = reinterpret_cast<Address>(p);
    if (!current_thread) return check_host_access(a, static_cast<std::size_t>(bytes), true, pc);
    note_atomic(p, pc);
    AccessKind kind = of_block ? AccessKind::block_atomic : AccessKind::atomic;
    observe_slowly(a, static_cast<std::size_t>(bytes), kind, true, pc);
}

void observe_fence(bool of_block) {
    if (current_thread) races_fence(*current_thread, of_block);
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

#define HOOKS(size)                                                                          \
    void __tsan_read##size(void* p) { observe<size, false>(p, CALLER); }                     \
    void __tsan_write##size(void* p) { observe<size, true>(p, CALLER); }                     \
    void __tsan_unaligned_read##size(void* p) { observe_range(p, size, false, CALLER); }     \
    void __tsan_unaligned_write##size(void* p) { observe_range(p, size, true, CALLER); }     \
    void __tsan_volatile_read##size(void* p) {                                               \
        observe_volatile(p, size, AccessKind::volatile_read, CALLER);                        \
    }                                                                                        \
    void __tsan_volatile_write##size(void* p) {                                              \
        observe_volatile(p, size, AccessKind::volatile_store, CALLER);                       \
    }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
#undef HOOKS

void __tsan_read_range(void* p, std::size_t bytes) { observe_range(p, bytes, false, CALLER); }
void __tsan_write_range(void* p, std::size_t bytes) { observe_range(p, bytes, true, CALLER); }
void __tsan_vptr_update(void** p, void*) { observe<8, true>(p, CALLER); }
void __tsan_vptr_read(void** p) { observe<8, false>(p, CALLER); }

void __tsan_init() { initialise_observation(); }

void __tsan_func_entry(void*) {
    if (Thread* thread = current_thread) ++thread->call_depth;
}
void __tsan_func_exit() {
    Thread* thread = current_thread;
    if (!thread) return;
    if (attention) settle(NextEvent::other);
    --thread->call_depth;
}

void __sanitizer_cov_trace_pc() {
    Thread* thread = current_thread;
    if (__builtin_expect(attention, 0)) {
        if (noting) note_block(CALLER);
        if (thread) settle(NextEvent::other);
    }
    if (!thread) return;
    std::uint32_t pc = static_cast<std::uint32_t>(CALLER - image_base);
    trace_access(*thread, pc, 0, 0, access::block, access::no_space);
}

void __ubsan_handle_out_of_bounds(const BoundsCheck* check, std::uint64_t index) {
    index_out_of_range(*check, index, CALLER);
}
void __ubsan_handle_out_of_bounds_abort(const BoundsCheck* check, std::uint64_t index) {
    index_out_of_range(*check, index, CALLER);
}

// Called by __threadfence and its variants.
void warpgrade_fence() { observe_fence(); }
void warpgrade_block_fence() { observe_fence(true); }

// Called instead of hooks by an object that isn't observed (grader/emulator/assembly.py).
void warpgrade_ignored() {}

// Called by the student's object instead of the C library's functions.
void* warpgrade_memcpy(void* to, const void* from, std::size_t bytes) {
    observe_range(const_cast<void*>(from), bytes, false, CALLER);
    observe_range(to, bytes, true, CALLER);
    return std::memcpy(to, from, bytes);
}
void* warpgrade_memmove(void* to, const void* from, std::size_t bytes) {
    observe_range(const_cast<void*>(from), bytes, false, CALLER);
    observe_range(to, bytes, true, CALLER);
    return std::memmove(to, from, bytes);
}
void* warpgrade_memset(void* to, int value, std::size_t bytes) {
    observe_range(to, bytes, true, CALLER);
    return std::memset(to, value, bytes);
}

}  // extern "C"

// The functions that the compiler's instrumentation calls: ThreadSanitizer's hooks for loads and
// stores (without its library), the coverage hook at the start of every basic block, and
// UndefinedBehaviorSanitizer's checks of array bounds, shifts, conversions to integers and alignment.
#include "hooks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "../include/warpgrade/device_api.h"
#include "access.h"
#include "block_order.h"
#include "early_reads.h"
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

ALWAYS_INLINE void extend_path(Thread& thread, Address pc) {
    thread.path = (thread.path ^ static_cast<std::uint32_t>(pc - image_base)) * 0x9e3779b1u;
}

// The last launch in which an access to a type that is aligned to 16 bytes had another address.
std::uint64_t misaligned_launch;

// Whether nvcc makes one instruction of an access. It makes two of an object that is aligned to 8,
// while g++'s hook for 16 bytes is the same for both.
bool is_one_piece(Address a, unsigned size) {
    return size < 16 || a % size == 0 || a % 8 || misaligned_launch == current_launch->number;
}

template <unsigned size, bool is_store>
ALWAYS_INLINE void observe(void* p, Address pc) {
    Address a = reinterpret_cast<Address>(p);
    Thread* thread = current_thread;
    if (__builtin_expect(!thread, 0)) return check_host_access(a, size, is_store, pc);
    extend_path(*thread, pc);
    if (__builtin_expect(!attention && a % size == 0, 1)) {
        std::uint32_t relative = static_cast<std::uint32_t>(pc - image_base);
        if (in_arena(a)) {
            if (observe_global_quickly<size, is_store>(*thread, a, relative)) return;
        } else if (a - shared_low < shared_bytes) {
            if (observe_shared_quickly<size, is_store>(*thread, a, relative)) return;
        }
    }
    const bool one = is_one_piece(a, size);
    observe_slowly(a, size, is_store ? AccessKind::store : AccessKind::read, one, pc, one ? 16 : 8);
}

void observe_volatile(void* p, unsigned size, AccessKind kind, Address pc) {
    Address a = reinterpret_cast<Address>(p);
    bool store = kind == AccessKind::volatile_store;
    if (!current_thread) return check_host_access(a, size, store, pc);
    extend_path(*current_thread, pc);
    if (is_device(p)) note_atomic(p, pc);  // blocks may wait for each other, or not, by these too
    observe_slowly(a, size, kind, true, pc);
    if (!store) count_spin();  // a polling thread must let the others run
}

// The hardware moves a large object in pieces of at most 16 bytes, each aligned to its size.
void observe_range(const void* p, std::size_t bytes, bool store, Address pc,
                   std::size_t widest = 16) {
    Address a = reinterpret_cast<Address>(p);
    if (!current_thread) return check_host_access(a, bytes, store, pc);
    extend_path(*current_thread, pc);
    while (bytes) {
        std::size_t piece = 16;
        while (piece > 1 && (bytes % piece || a % piece)) piece /= 2;
        observe_slowly(a, piece, store ? AccessKind::store : AccessKind::read, false, pc, widest);
        a += piece;
        bytes -= piece;
    }
}

// An access to an object. Its alignment is up to 16 bytes, or 0 where it isn't known (with_alignments
// in grader/emulator/assembly.py). nvcc moves an object in pieces that are no larger than that. An
// object of 2, 4, 8 or 16 bytes is here only if its alignment is less than 8 and than its size: for
// others g++ calls the hook of their size.
void observe_object(const void* p, std::size_t bytes, bool store, Address pc, unsigned alignment) {
    const Address a = reinterpret_cast<Address>(p);
    const AccessKind kind = store ? AccessKind::store : AccessKind::read;
    if (current_thread && alignment && a % alignment) {
        return observe_slowly(a, alignment, kind, true, pc);  // which is a finding
    }
    const bool tells = bytes > 1 && bytes <= 16 && !(bytes & (bytes - 1));
    const std::size_t widest = tells ? std::min<std::size_t>(bytes, 8) / 2 : 16;
    observe_range(p, bytes, store, pc, alignment ? alignment : widest);
}

// What the C library's functions access. nvcc can't know how a pointer to global memory is aligned,
// not even one to float4, so it moves such bytes one by one.
void observe_bytes(const void* p, std::size_t bytes, bool store, Address pc) {
    const bool is_global = in_arena(reinterpret_cast<Address>(p));
    observe_range(p, bytes, store, pc, is_global ? 1 : 4);
}

// A call of a library function: the place behind it, and the frame of the function that makes it,
// which begins with what that one returns by. Its own variables lie below.
struct Call {
    Address pc, frame;
};
#define CALL \
    warpgrade::Call { CALLER, reinterpret_cast<warpgrade::Address>(__builtin_frame_address(1)) }

// Each piece is stored behind its own event: whether two stores of a race differ is seen then.
template <class Store>
void store_bytes(void* to, std::size_t bytes, bool backwards, Call call, Store store) {
    const Address pc = call.pc, low = reinterpret_cast<Address>(to);
    if (!current_thread) {
        observe_bytes(to, bytes, true, pc);
        return store(0, bytes);
    }
    const bool is_own = low - current_thread->stack_low < stack_bytes && low < call.frame;
    if (is_own && call.frame - low < bytes && !attention) fail_overrun(low, bytes, pc);
    const std::size_t piece = backwards ? 1 : 16;
    for (std::size_t done = 0; done < bytes;) {
        std::size_t at = backwards ? bytes - 1 - done : done;
        char* place = static_cast<char*>(to) + at;
        std::size_t next = piece;
        while (next > 1 && (next > bytes - done || reinterpret_cast<Address>(place) % next)) {
            next /= 2;
        }
        observe_bytes(place, next, true, pc);
        store(at, next);
        done += next;
    }
}

void copy_bytes(void* to, const void* from, std::size_t bytes, Call call) {
    observe_bytes(from, bytes, false, call.pc);
    Address a = reinterpret_cast<Address>(to), b = reinterpret_cast<Address>(from);
    const bool overwrites = a > b && a - b < bytes;
    store_bytes(to, bytes, overwrites, call, [&](std::size_t at, std::size_t count) {
        std::memmove(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, count);
    });
}

void fill_bytes(void* to, int value, std::size_t bytes, Call call) {
    store_bytes(to, bytes, false, call, [&](std::size_t at, std::size_t count) {
        std::memset(static_cast<char*>(to) + at, value, count);
    });
}

// Observes the reads of a text up to its end, byte by byte; returns their number.
std::size_t read_text(const char* text, Address pc, std::size_t most = SIZE_MAX) {
    for (std::size_t i = 0; i < most; ++i) {
        observe_bytes(text + i, 1, false, pc);
        if (!text[i]) return i + 1;
    }
    return most;
}

// Returns the number of bytes, the end's included.
std::size_t copy_text(char* to, const char* from, Call call) {
    const std::size_t bytes = read_text(from, call.pc);
    copy_bytes(to, from, bytes, call);
    return bytes;
}

// Fills the rest of the room with zeros; returns the text's length.
std::size_t copy_text_in_room(char* to, const char* from, std::size_t most, Call call) {
    const std::size_t read = read_text(from, call.pc, most);
    const std::size_t length = read && !from[read - 1] ? read - 1 : read;
    copy_bytes(to, from, length, call);
    fill_bytes(to + length, 0, most - length, call);
    return length;
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

// The argument of __ubsan_handle_type_mismatch_v1.
struct AlignmentCheck {
    const char* file;
    std::uint32_t line, column;
    const TypeDescriptor* type;
    std::uint8_t log_alignment, kind;
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

// The argument of the handlers of shifts, where the types are those of both operands, and of
// conversions, from the first type to the second.
struct OperandsCheck {
    const char* file;
    std::uint32_t line, column;
    const TypeDescriptor *first, *second;
};

// Compilers may assume that it doesn't happen, and machines differ: this one takes the count modulo
// the width, a GPU shifts everything out. A zero stays one on both.
void shift_out_of_range(const OperandsCheck& check, std::uint64_t value, std::uint64_t count,
                        Address pc) {
    if (!current_thread || !value) return;
    report_finding(FindingKind::undefined_arithmetic, pc, current_thread, 0, nullptr,
                   "a number of %d bits is shifted by %lld", 1 << (check.first->info >> 1),
                   index_value(*check.second, count));
}

// A GPU takes the nearest number that the type holds; this machine always takes the least one of a
// signed type, so the two agree below it.
void conversion_out_of_range(const OperandsCheck& check, std::uint64_t bits, Address pc) {
    if (!current_thread) return;
    const bool is_float = check.first->info == 32;
    double value;
    if (is_float) {
        float narrow;
        std::memcpy(&narrow, &bits, sizeof narrow);
        value = narrow;
    } else {
        std::memcpy(&value, &bits, sizeof value);
    }
    const bool is_signed = check.second->info & 1, is_wide = check.second->info >> 1 >= 5;
    if (is_signed && is_wide && value < 0) return;
    const int length = static_cast<int>(std::strlen(check.second->name)) - 2;
    report_finding(FindingKind::undefined_arithmetic, pc, current_thread, 0, nullptr,
                   "%g becomes %.*s, which doesn't hold it", value, length,
                   check.second->name + 1);
}

}  // namespace

void settle(NextEvent next, bool of_pointer) {
    if (race_pending && next != NextEvent::load) settle_race();
    // A load through a pointer on the way to `array[i] = pointer[j]` is not the array's.
    bool on_the_way = of_pointer && next == NextEvent::load;
    if (index_pending && !on_the_way) conclude_index(next == NextEvent::store);
    attention = race_pending || index_pending || noting;
}

void observe_atomic(void* p, int bytes, Address pc, bool of_block, bool exchanges) {
    Address a = reinterpret_cast<Address>(p);
    if (!current_thread) return check_host_access(a, static_cast<std::size_t>(bytes), true, pc);
    extend_path(*current_thread, pc);
    note_atomic(p, pc);
    AccessKind kind = of_block ? AccessKind::block_atomic : AccessKind::atomic;
    if (exchanges) forget_exchange();
    observe_slowly(a, static_cast<std::size_t>(bytes), kind, true, pc, 16, exchanges, {of_block});
}

void observe_ordered_atomic(void* p, int bytes, Address pc, int parts, int order, int scope,
                            const Comparison* comparison) {
    const Address a = reinterpret_cast<Address>(p);
    const auto size = static_cast<std::size_t>(bytes);
    const bool stores = parts & warpgrade_stores, loads = parts & warpgrade_loads;
    if (!current_thread) return check_host_access(a, size, stores, pc);
    extend_path(*current_thread, pc);
    if (scope == warpgrade_scope_thread) {  // to other threads an access like any other
        if (loads) observe_slowly(a, size, AccessKind::read, true, pc);
        if (stores) observe_slowly(a, size, AccessKind::store, true, pc);
        return;
    }
    note_atomic(p, pc);
    const bool of_block = scope == warpgrade_scope_block, exchanges = !loads;
    const bool relaxed = order == __ATOMIC_RELAXED;
    AccessKind kind = AccessKind::atomic_read;
    if (stores) kind = of_block ? AccessKind::block_atomic : AccessKind::atomic;
    if (exchanges) forget_exchange();
    observe_slowly(a, size, kind, true, pc, 16, exchanges,
                   {of_block, !relaxed && order != __ATOMIC_RELEASE,
                    stores && order >= __ATOMIC_RELEASE, comparison});
}

void observe_exchanged(const void* p) {
    if (current_thread) note_exchanged(reinterpret_cast<Address>(p));
}

void observe_fence(bool of_block, bool acquires, bool releases) {
    if (current_thread) races_fence(*current_thread, {of_block, acquires, releases});
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

void __tsan_read_range(void* p, std::size_t bytes, unsigned alignment) {
    observe_object(p, bytes, false, CALLER, alignment);
}
void __tsan_write_range(void* p, std::size_t bytes, unsigned alignment) {
    observe_object(p, bytes, true, CALLER, alignment);
}
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
void __ubsan_handle_shift_out_of_bounds(const OperandsCheck* check, std::uint64_t value,
                                        std::uint64_t count) {
    shift_out_of_range(*check, value, count, CALLER);
}
void __ubsan_handle_float_cast_overflow(const OperandsCheck* check, std::uint64_t value) {
    conversion_out_of_range(*check, value, CALLER);
}

void __ubsan_handle_type_mismatch_v1(const AlignmentCheck* check, std::uint64_t) {
    if (current_thread && check->log_alignment >= 4) misaligned_launch = current_launch->number;
}

// Called by __ldg.
void warpgrade_read_only(const void* p, std::size_t bytes) { observe_read_only(p, bytes, CALLER); }

// Called by __threadfence and its variants.
void warpgrade_fence() { observe_fence(); }
void warpgrade_block_fence() { observe_fence(true); }
void warpgrade_ordered_fence(bool of_block, bool acquires, bool releases) {
    observe_fence(of_block, acquires, releases);
}

// Called instead of hooks by an object that isn't observed (grader/emulator/assembly.py).
void warpgrade_ignored() {}

// Called by the student's object instead of the C library's functions.

void* warpgrade_memcpy(void* to, const void* from, std::size_t bytes) {
    copy_bytes(to, from, bytes, CALL);
    return to;
}
void* warpgrade_mempcpy(void* to, const void* from, std::size_t bytes) {
    copy_bytes(to, from, bytes, CALL);
    return static_cast<char*>(to) + bytes;
}
void* warpgrade_memmove(void* to, const void* from, std::size_t bytes) {
    copy_bytes(to, from, bytes, CALL);
    return to;
}
void warpgrade_bcopy(const void* from, void* to, std::size_t bytes) {
    copy_bytes(to, from, bytes, CALL);
}
void* warpgrade_memset(void* to, int value, std::size_t bytes) {
    fill_bytes(to, value, bytes, CALL);
    return to;
}
void warpgrade_bzero(void* to, std::size_t bytes) { fill_bytes(to, 0, bytes, CALL); }
int warpgrade_memcmp(const void* a, const void* b, std::size_t bytes) {
    observe_bytes(a, bytes, false, CALLER);
    observe_bytes(b, bytes, false, CALLER);
    return std::memcmp(a, b, bytes);
}
int warpgrade_bcmp(const void* a, const void* b, std::size_t bytes) {
    observe_bytes(a, bytes, false, CALLER);
    observe_bytes(b, bytes, false, CALLER);
    return std::memcmp(a, b, bytes);
}
char* warpgrade_strcpy(char* to, const char* from) {
    copy_text(to, from, CALL);
    return to;
}
char* warpgrade_stpcpy(char* to, const char* from) {
    return to + copy_text(to, from, CALL) - 1;
}
char* warpgrade_strncpy(char* to, const char* from, std::size_t most) {
    copy_text_in_room(to, from, most, CALL);
    return to;
}
char* warpgrade_stpncpy(char* to, const char* from, std::size_t most) {
    return to + copy_text_in_room(to, from, most, CALL);
}
char* warpgrade_strcat(char* to, const char* from) {
    copy_text(to + read_text(to, CALLER) - 1, from, CALL);
    return to;
}
char* warpgrade_strncat(char* to, const char* from, std::size_t most) {
    char* end = to + read_text(to, CALLER) - 1;
    const std::size_t read = read_text(from, CALLER, most);
    const std::size_t length = read && !from[read - 1] ? read - 1 : read;
    copy_bytes(end, from, length, CALL);
    fill_bytes(end + length, 0, 1, CALL);
    return to;
}
int warpgrade_strcmp(const char* a, const char* b) {
    read_text(a, CALLER);
    read_text(b, CALLER);
    return std::strcmp(a, b);
}
int warpgrade_strncmp(const char* a, const char* b, std::size_t most) {
    read_text(a, CALLER, most);
    read_text(b, CALLER, most);
    return std::strncmp(a, b, most);
}

#define SECOND_RESULT(T, Second, name, Parameters, call)  \
    T warpgrade_##name Parameters {                       \
        observe<sizeof(Second), true>(second, CALLER);    \
        return call;                                      \
    }
SECOND_RESULT(double, double, modf, (double x, double* second), std::modf(x, second))
SECOND_RESULT(float, float, modff, (float x, float* second), std::modf(x, second))
SECOND_RESULT(double, int, frexp, (double x, int* second), std::frexp(x, second))
SECOND_RESULT(float, int, frexpf, (float x, int* second), std::frexp(x, second))
SECOND_RESULT(double, int, remquo, (double x, double y, int* second), std::remquo(x, y, second))
SECOND_RESULT(float, int, remquof, (float x, float y, int* second), std::remquo(x, y, second))
void warpgrade_sincos(double x, double* sine, double* cosine) {
    observe<8, true>(sine, CALLER);
    observe<8, true>(cosine, CALLER);
    sincos(x, sine, cosine);
}
void warpgrade_sincosf(float x, float* sine, float* cosine) {
    observe<4, true>(sine, CALLER);
    observe<4, true>(cosine, CALLER);
    sincosf(x, sine, cosine);
}

}  // extern "C"

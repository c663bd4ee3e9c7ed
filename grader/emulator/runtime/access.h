// The checks of one access of device code (internal to the observation half): the fast path for
// correct ones, inlined into the hooks, and the slow path for everything else.
#pragma once
#include <cstring>
#include <type_traits>

#include "device_memory.h"
#include "observe.h"
#include "races.h"
#include "shared_memory.h"

namespace warpgrade {

enum class AccessKind : std::uint8_t {
    read,
    store,
    volatile_read,
    volatile_store,
    atomic,
    block_atomic,
    atomic_read,
    announced_store,  // to shared memory, where the bytes come later: see async_copies.cpp
};

// Repeats all checks, with reports. `aligned`: the access needs an address that is a multiple of
// its size. It counts as accesses of at most `widest` bytes. `exchanges`: an atomic that reads only
// if the program uses its result. `order`: an atomic's.
void observe_slowly(Address a, std::size_t size, AccessKind kind, bool aligned, Address pc,
                    std::size_t widest = 16, bool exchanges = false, AtomicOrder order = {});

// Ends the launch for a store past the end of a thread's variable, up to its function's frame.
[[noreturn]] void fail_overrun(Address a, std::size_t bytes, Address pc);

extern Address image_base;

// Events that a block's traces may still hold; at 0 the counters will be incomplete.
extern std::size_t trace_room;
extern bool trace_overflowed;
inline bool may_trace() {
    if (__builtin_expect(trace_room == 0, 0)) {
        trace_overflowed = true;
        return false;
    }
    --trace_room;
    return true;
}

inline void trace_access(Thread& thread, std::uint32_t pc, std::uint32_t offset, unsigned size,
                         std::uint8_t kind, std::uint8_t space) {
    if (!counting || !may_trace()) return;
    thread.trace.push_back({pc, offset, static_cast<std::uint8_t>(size), kind, space,
                            static_cast<std::uint16_t>(thread.call_depth)});
}

// Whether all `size` state bytes at `p` have all of `bits`.
template <unsigned size>
inline bool have_bits(const std::uint8_t* p, std::uint8_t bits) {
    using Word = std::conditional_t<size == 1, std::uint8_t,
                 std::conditional_t<size == 2, std::uint16_t,
                 std::conditional_t<size == 4, std::uint32_t, std::uint64_t>>>;
    const Word wanted = static_cast<Word>(0x0101010101010101u * bits);
    Word first;
    std::memcpy(&first, p, sizeof first);
    if (size != 16) return (first & wanted) == wanted;
    Word second;
    std::memcpy(&second, p + size - sizeof second, sizeof second);
    return (first & second & wanted) == wanted;
}

template <unsigned size, bool is_store, bool is_global>
inline bool race_quickly(RaceCell* cell, Address a, std::uint64_t mine, std::uint32_t pc) {
    if (size < 4) {
        return is_store ? store_part_quickly<is_global>(*cell, a & 3, size, mine, pc)
                        : read_part_quickly<is_global>(*cell, a & 3, size, mine, pc);
    }
    for (unsigned i = 0; i < (size + 3) / 4; ++i) {
        bool quick = is_store ? store_quickly<is_global>(cell[i], mine, pc)
                              : read_quickly<is_global>(cell[i], mine, pc);
        if (!quick) return false;
    }
    return true;
}

template <unsigned size, bool is_store>
inline bool observe_global_quickly(Thread& thread, Address a, std::uint32_t pc) {
    using namespace shadow_bit;
    std::uint32_t offset = static_cast<std::uint32_t>(a - arena_low);
    std::uint8_t* state = shadow + offset;
    constexpr std::uint8_t first_store = addressable | writable;
    if (!have_bits<size>(state, is_store ? first_store : addressable | initialised)) return false;
    if (is_store && !have_bits<size>(state, initialised)) {
        std::memset(state, first_store | initialised, size);
    }
    if (!race_quickly<size, is_store, true>(global_cell(offset), a, stamp_of(thread), pc)) {
        return false;
    }
    trace_access(thread, pc, offset, size, is_store ? access::store : access::load, access::global);
    return true;
}

template <unsigned size, bool is_store>
inline bool observe_shared_quickly(Thread& thread, Address a, std::uint32_t pc) {
    std::uint32_t offset = static_cast<std::uint32_t>(a - shared_low);
    if (!have_bits<size>(shared_valid + offset, 1)) return false;
    RaceCell* cell = shared_cells + offset / 4;
    for (unsigned i = 0; !is_store && i < (size + 3) / 4; ++i) {
        bool stored = size >= 4 ? cell[i].store >= race_now.block_floor
                                : stored_in_block(*cell, a & 3, size);
        if (!stored) return false;
    }
    if (!race_quickly<size, is_store, false>(cell, a, stamp_of(thread), pc)) return false;
    trace_access(thread, pc, offset, size, is_store ? access::store : access::load, access::shared);
    return true;
}

}  // namespace warpgrade

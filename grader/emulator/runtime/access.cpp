// The slow path of an access: reports errors, and handles what the fast path leaves.
#include "access.h"

#include <algorithm>
#include <cstdio>

#include "early_reads.h"
#include "findings.h"
#include "hooks.h"
#include "host_guard.h"
#include "symbols.h"

namespace warpgrade {

Address image_base;

namespace {

constexpr Address null_page = 64 * 1024;  // pointers up to this distance from zero count as null

bool is_atomic(AccessKind kind) {
    return kind == AccessKind::atomic || kind == AccessKind::block_atomic;
}

struct Request {
    Thread& thread;
    Address a;
    std::size_t size;
    AccessKind kind;
    bool aligned;
    Address pc;
    std::size_t widest;
    bool exchanges;
    AtomicOrder order;

    bool stores() const {
        return kind == AccessKind::store || kind == AccessKind::volatile_store ||
               kind == AccessKind::announced_store || is_atomic(kind);
    }
    bool loads() const { return !stores() || is_atomic(kind); }
    // A copy of a whole object includes its padding, which nothing writes: one written byte is
    // enough.
    bool may_have_padding() const { return !aligned; }
    bool orders() const {
        return kind == AccessKind::volatile_read || kind == AccessKind::volatile_store ||
               kind == AccessKind::atomic_read || is_atomic(kind);
    }
    std::uint32_t relative_pc() const { return static_cast<std::uint32_t>(pc - image_base); }
};

void report(const Request& request, FindingKind kind, const char* text) {
    if (found_before(kind, request.pc)) return;
    add_finding(kind, request.pc, running(&request.thread), 0, nullptr, text);
}

[[noreturn]] void fail(const Request& request, FindingKind kind, const char* text) {
    report(request, kind, text);
    abandon_launch(error_illegal_address);
}

FindingKind outside(const Request& request) {
    return request.stores() ? FindingKind::out_of_bounds_write : FindingKind::out_of_bounds_read;
}

// ---- Global memory ------------------------------------------------------------------------------

[[noreturn]] void fail_global(const Request& request, std::uint32_t offset, std::uint8_t state) {
    Description place = describe_global(offset, request.size);
    if (state & shadow_bit::freed) {
        fail(request, request.stores() ? FindingKind::use_after_free_write
                                       : FindingKind::use_after_free_read, place.text);
    }
    if (!(state & shadow_bit::addressable)) fail(request, outside(request), place.text);
    if (!(state & shadow_bit::constant)) fail(request, FindingKind::write_to_input, place.text);
    char text[sizeof place.text + 80];
    std::snprintf(text, sizeof text, "%s: a __constant__ variable, which no kernel can write",
                  place.text);
    fail(request, FindingKind::out_of_bounds_write, text);
}

// A load from beside a buffer is reported and goes on as on a GPU: a store of the same thread may
// follow, which is the graver mistake.
bool is_read_beside(const Request& request, std::uint32_t offset) {
    if (request.stores()) return false;
    bool outside = false;
    for (std::size_t i = 0; i < request.size; ++i) {
        std::uint8_t state = shadow[offset + i];
        if (state & shadow_bit::freed) return false;
        if (!(state & shadow_bit::addressable)) outside = true;
    }
    return outside && is_readable_in_launch(offset, request.size);
}

// Returns whether the bytes read were initialised (a store initialises).
bool check_shadow(const Request& request, std::uint32_t offset) {
    std::size_t initialised = 0;
    for (std::size_t i = 0; i < request.size; ++i) {
        std::uint8_t& state = shadow[offset + i];
        bool may = (state & shadow_bit::addressable) &&
                   (!request.stores() || (state & shadow_bit::writable));
        if (!may) fail_global(request, offset, state);
        if (state & shadow_bit::initialised) ++initialised;
        if (request.stores()) state |= shadow_bit::initialised;
    }
    return initialised == request.size || (initialised && request.may_have_padding());
}

// The bytes of the access that lie in each cell, handed to step(cell, first byte, bytes).
template <class CellOf, class Step>
void each_cell(std::uint32_t offset, std::size_t size, CellOf cell_of, Step step) {
    for (std::uint32_t at = offset, end = offset + static_cast<std::uint32_t>(size); at < end;) {
        unsigned first = at % 4, count = std::min<std::uint32_t>(4 - first, end - at);
        step(cell_of(at), first, count);
        at += count;
    }
}

void check_whole(RaceCell& cell, const RaceAccess& access, AccessKind kind) {
    switch (kind) {
        case AccessKind::read: return slow_read(cell, access, GroupKind::read);
        case AccessKind::store:
        case AccessKind::announced_store: return slow_store(cell, access);
        case AccessKind::volatile_read:
        case AccessKind::atomic_read: return slow_read(cell, access, GroupKind::atomic_read);
        case AccessKind::volatile_store:
        case AccessKind::atomic: return atomic_store(cell, access, GroupKind::atomic_write);
        case AccessKind::block_atomic: return atomic_store(cell, access, GroupKind::block_write);
    }
}

PartKind part_kind(AccessKind kind) {
    switch (kind) {
        case AccessKind::read: return PartKind::read;
        case AccessKind::store:
        case AccessKind::announced_store: return PartKind::store;
        case AccessKind::volatile_read:
        case AccessKind::atomic_read: return PartKind::atomic_read;
        case AccessKind::block_atomic: return PartKind::block_write;
        default: return PartKind::atomic_write;
    }
}

void check_race(RaceCell& cell, unsigned first, unsigned count, const RaceAccess& race,
                AccessKind kind) {
    if (count == 4) {
        check_whole(cell, race, kind);
    } else {
        access_part(cell, first, count, race, part_kind(kind));
    }
}

std::uint8_t traced_kind(AccessKind kind) {
    if (is_atomic(kind)) return access::atomic;
    return kind == AccessKind::store || kind == AccessKind::volatile_store ? access::store
                                                                               : access::load;
}

void count(const Request& request, std::uint32_t offset, AccessKind kind, std::uint8_t space) {
    const std::size_t piece = std::min(request.size, request.widest);
    for (std::size_t at = 0; at < request.size; at += piece) {
        trace_access(request.thread, request.relative_pc(), offset + static_cast<unsigned>(at),
                     static_cast<unsigned>(std::min(piece, request.size - at)), traced_kind(kind),
                     space);
    }
}

void order_atomic(const Request& request) {
    AtomicOrder order = request.order;
    bool stores = request.stores();
    const void* place = reinterpret_cast<const void*>(request.a);
    if (order.comparison && std::memcmp(place, &order.comparison->expected, request.size)) {
        order.acquires = order.comparison->acquires;
        order.releases = stores = false;
    }
    races_atomic_order(request.thread, request.a, stores, order);
}

void observe_global(const Request& request, std::uint32_t offset) {
    if (is_read_beside(request, offset)) {
        report(request, FindingKind::out_of_bounds_read,
               describe_global(offset, request.size).text);
        return;
    }
    bool initialised = check_shadow(request, offset);
    if (request.orders()) order_atomic(request);
    RaceAccess race{&request.thread, stamp_of(request.thread), request.a, request.pc,
                      static_cast<std::uint32_t>(request.size), true};
    if (!initialised && request.loads()) note_early_read(race, request.exchanges);
    each_cell(offset, request.size,
              [](std::uint32_t at) -> RaceCell& { return *global_cell(at); },
              [&](RaceCell& cell, unsigned first, unsigned count) {
                  check_race(cell, first, count, race, request.kind);
              });
    // A __constant__ variable has a cache of its own. Its loads aren't counted, except where it holds
    // what lay in device memory: then one thread could read a whole tensor there.
    const int held = shadow[offset] & (shadow_bit::constant | shadow_bit::copied);
    if (held != shadow_bit::constant) count(request, offset, request.kind, access::global);
}

// ---- Shared memory ------------------------------------------------------------------------------

// Volatile matters to the compiler only; in shared memory such an access is an ordinary one.
AccessKind without_volatile(AccessKind kind) {
    if (kind == AccessKind::volatile_read) return AccessKind::read;
    return kind == AccessKind::volatile_store ? AccessKind::store : kind;
}

bool is_stored(const Request& request, const RaceCell& cell, unsigned first, unsigned count) {
    return request.may_have_padding() ? any_stored_in_block(cell, first, count)
                                      : stored_in_block(cell, first, count);
}

void observe_shared(const Request& request) {
    std::uint32_t offset = static_cast<std::uint32_t>(request.a - shared_low);
    if (shared_valid[offset] == shared_unseen) return;
    for (std::size_t i = 0; i < request.size; ++i) {
        if (shared_valid[offset + i]) continue;
        fail(request, outside(request), describe_shared(request.a, request.size).text);
    }
    AccessKind kind = without_volatile(request.kind);
    // No other block's threads can be concerned.
    if (kind == AccessKind::block_atomic) kind = AccessKind::atomic;
    if (kind == AccessKind::atomic || kind == AccessKind::atomic_read) order_atomic(request);
    RaceAccess race{&request.thread, stamp_of(request.thread), request.a, request.pc,
                      static_cast<std::uint32_t>(request.size), false};
    std::size_t cells = 0, stored = 0;
    each_cell(offset, request.size,
              [](std::uint32_t at) -> RaceCell& { return shared_cells[at / 4]; },
              [&](RaceCell& cell, unsigned first, unsigned count) {
                  ++cells;
                  if (is_stored(request, cell, first, count)) {
                      ++stored;
                  } else if (kind == AccessKind::atomic) {
                      take_as_stored(cell, first, count);
                  }
                  check_race(cell, first, count, race, kind);
                  if (kind == AccessKind::announced_store) take_as_unwritten(cell, first, count);
              });
    if (kind == AccessKind::announced_store) return;
    bool initialised = stored == cells || (stored && request.may_have_padding());
    if (!initialised && request.loads()) note_early_read(race, request.exchanges);
    count(request, offset, kind, access::shared);
}

// ---- Tensors of large sizes -----------------------------------------------------------------------

constexpr std::size_t most_vast_accesses = 1 << 13;  // of a block: a long loop isn't run to its end
std::size_t vast_accesses;
std::uint64_t counted_launch;  // its number, and that of the block
std::uint32_t counted_block;

void observe_vast(const Request& request) {
    if (counted_launch != current_launch->number || counted_block != current_block.linear) {
        counted_launch = current_launch->number;
        counted_block = current_block.linear;
        vast_accesses = 0;
    }
    if (++vast_accesses > most_vast_accesses) abandon_block();
    Description place;
    if (is_in_vast_tensor(request.a, request.size, place)) return;
    fail(request, request.stores() ? FindingKind::far_write : FindingKind::far_read, place.text);
}

// ---- Everything else ----------------------------------------------------------------------------

[[noreturn]] void fail_elsewhere(const Request& request) {
    char text[300];
    const char* bytes = request.size == 1 ? "byte" : "bytes";
    const char* host = describe_host(request.a);
    if (request.a < null_page) {
        std::snprintf(text, sizeof text, "%zu %s through a null pointer", request.size, bytes);
    } else if (request.a & not_global) {
        std::snprintf(text, sizeof text,
                      "%zu %s of shared or local memory by an access to global memory", request.size,
                      bytes);
    } else if (request.a - stacks_low < stacks_size) {
        std::snprintf(text, sizeof text,
                      "%zu %s of local memory outside the thread's own variables", request.size,
                      bytes);
    } else if (host) {
        std::snprintf(text, sizeof text, "%zu %s of %s", request.size, bytes, host);
        fail(request, FindingKind::host_pointer_on_device, text);
    } else {
        std::snprintf(text, sizeof text, "%zu %s at an address where nothing lies", request.size,
                      bytes);
    }
    fail(request, outside(request), text);
}

bool is_parameter(Address a) {
    return current_launch && a - current_launch->parameters < current_launch->parameter_bytes;
}

void check_alignment(const Request& request) {
    if (request.a % request.size == 0) return;
    Description place;
    if (in_arena(request.a)) {
        place = describe_global(global_offset(request.a), request.size);
    } else if (request.a - shared_low < shared_bytes) {
        place = describe_shared(request.a, request.size);
    } else {
        std::snprintf(place.text, sizeof place.text, "%zu bytes", request.size);
    }
    report(request, FindingKind::misaligned, place.text);
    abandon_launch(error_misaligned);
}

constexpr std::size_t most_read_only_loads = 1 << 16;  // more are redundant

struct ReadOnlyLoad {
    std::uint32_t offset;
    std::size_t bytes;
    Address pc;
    Who who;
    std::uint64_t stamp;
};
std::vector<ReadOnlyLoad> read_only_loads;  // of this launch, of memory that it could write

// Whether the launch has written what this loads, which is a finding; `but_for` is a thread's stamp.
bool tell_if_written(const ReadOnlyLoad& load, std::uint64_t but_for) {
    std::uint32_t written_at = 0;
    each_cell(load.offset, load.bytes,
              [](std::uint32_t at) -> RaceCell& { return *global_cell(at); },
              [&](RaceCell& cell, unsigned first, unsigned count) {
                  if (!written_at) written_at = written_in_kernel(cell, first, count, but_for);
              });
    if (!written_at) return false;
    if (found_before(FindingKind::read_only_read, load.pc)) return true;
    add_finding(FindingKind::read_only_read, load.pc, load.who, image_base + written_at, nullptr,
                describe_global(load.offset, load.bytes).text);
    return true;
}

NextEvent next_event(AccessKind kind) {
    if (kind == AccessKind::read) return NextEvent::load;
    return kind == AccessKind::store ? NextEvent::store : NextEvent::other;
}

}  // namespace

void fail_overrun(Address a, std::size_t bytes, Address pc) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "%zu bytes of local memory: the variable there has fewer, and what lies behind it "
                  "is overwritten", bytes);
    const Request request{*current_thread, a, bytes, AccessKind::store, false, pc, 16, false, {}};
    fail(request, FindingKind::out_of_bounds_write, text);
}

void observe_slowly(Address a, std::size_t size, AccessKind kind, bool aligned, Address pc,
                    std::size_t widest, bool exchanges, AtomicOrder order) {
    Request request{*current_thread, a, size, kind, aligned, pc, widest, exchanges, order};
    if (attention) settle(next_event(kind), in_arena(a));
    if (aligned) check_alignment(request);
    if (in_arena(a)) return observe_global(request, global_offset(a));
    if (in_vast(a)) return observe_vast(request);
    if (a - shared_low < shared_bytes) return observe_shared(request);
    bool own_stack = a - request.thread.stack_low < stack_bytes;
    if (own_stack && a >= reinterpret_cast<Address>(__builtin_frame_address(0))) return;
    if (is_parameter(a)) return;
    if (in_image(a)) {
        if (shadow[image_offset(a)]) return observe_global(request, image_offset(a));
        if (!request.stores() && !in_student_data(a, size)) return;  // a constant of the program's
    }
    fail_elsewhere(request);
}

// The cache of __ldg isn't kept up to date with what the kernel writes, and the compiler may move the
// load behind barriers. So loads of memory that can be written are looked at again when the launch
// ends. A thread may store to what it has loaded before.
void observe_read_only(const void* p, std::size_t bytes, Address pc) {
    const Address a = reinterpret_cast<Address>(p);
    if (!current_thread || !(in_arena(a) || in_image(a))) return;
    const ReadOnlyLoad load{global_offset(a), bytes, pc, running(current_thread),
                            stamp_of(*current_thread)};
    if (!(shadow[load.offset] & shadow_bit::writable) || tell_if_written(load, 0)) return;
    if (read_only_loads.size() < most_read_only_loads) read_only_loads.push_back(load);
}

void settle_read_only_loads() {
    for (const ReadOnlyLoad& load : read_only_loads) tell_if_written(load, load.stamp);
    read_only_loads.clear();
}

}  // namespace warpgrade

// Device memory: the arena, its allocations and mappings, and their shadow.
//
// The C library's host code, which no hook sees, must not reach it either. So outside launches and
// copies the pages are inaccessible, and host_guard.cpp turns a fault into a finding.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "access.h"
#include "device_memory.h"
#include "findings.h"
#include "host_guard.h"
#include "memory_api.h"
#include "observe.h"
#include "symbols.h"

namespace warpgrade {

std::uint8_t* shadow;

namespace {

constexpr std::size_t alignment = 256;       // of cudaMalloc
constexpr std::size_t red_zone = 64 * 1024;  // between allocations
// Of an argument without memory: to set the shadow of a larger one would take longer than its plan.
constexpr std::size_t most_with_shadow = std::size_t{64} << 20;
constexpr int invalid_value = 1;             // cudaErrorInvalidValue

struct Mapping {
    Address low;
    std::size_t bytes;
    bool writable;
};

std::vector<Mapping> mappings;
std::size_t next_allocation = page_bytes;  // offsets: nothing is ever at the arena's start
std::size_t next_mapping = arguments_offset;
std::size_t live_bytes;
int opened;
std::vector<std::pair<Address, std::size_t>> managed;

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

void* reserve(void* where, std::size_t bytes, int protection, int flags) {
    flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* p = mmap(where, bytes, protection, flags, -1, 0);
    if (p == MAP_FAILED) {
        std::fputs("the emulator needs 8 GiB of address space and may not have it\n", stderr);
        _exit(70);
    }
    return p;
}

void set_shadow(std::uint32_t offset, std::size_t bytes, std::uint8_t bits) {
    std::memset(shadow + offset, bits, bytes);
}

// The place of a freed allocation that is large enough; used only when nothing else is left.
Place* freed_place(std::size_t bytes) {
    for (Place& each : allocations) {
        if (each.freed && each.bytes >= bytes) return &each;
    }
    return nullptr;
}

// A copy may not touch a byte in this state; `kind` says why.
bool forbids_copy(std::uint8_t state, bool write, FindingKind& kind) {
    if (state & shadow_bit::freed) {
        kind = write ? FindingKind::use_after_free_write : FindingKind::use_after_free_read;
    } else if (!(state & shadow_bit::addressable)) {
        kind = write ? FindingKind::copy_writes_outside : FindingKind::copy_reads_outside;
    } else if (write && !(state & (shadow_bit::writable | shadow_bit::constant))) {
        kind = FindingKind::write_to_input;
    } else {
        return false;
    }
    return true;
}

void forget_allocations() {
    if (next_allocation > page_bytes) {
        madvise(reinterpret_cast<void*>(arena_low), next_allocation, MADV_DONTNEED);
        madvise(shadow, next_allocation, MADV_DONTNEED);
        mprotect(reinterpret_cast<void*>(arena_low), next_allocation, PROT_NONE);
    }
    allocations.clear();
    managed.clear();
    next_allocation = page_bytes;
    live_bytes = 0;
}

void forget_arguments() {
    for (const Place& each : arguments) set_shadow(each.offset, each.bytes, 0);
    arguments.clear();
    forget_host_arguments();
    api::forget_pinned();
}

}  // namespace

void place_variable(const Variable& variable) {
    Place place{image_offset(variable.low), variable.bytes, -1, false, "", 0};
    plain_name(place.name, variable.symbol);
    std::uint8_t access = variable.constant ? shadow_bit::constant : shadow_bit::writable;
    set_shadow(place.offset, place.bytes,
               shadow_bit::addressable | shadow_bit::initialised | access);
    device_variable_places().push_back(place);
}

void initialise_observation() {
    static bool done;
    if (done) return;
    done = true;
    image_base = image().base;
    read_symbols();
    reserve(reinterpret_cast<void*>(arena_low), arena_bytes, PROT_NONE, MAP_FIXED_NOREPLACE);
    std::size_t image_bytes = round_up(image().high - image().low, page_bytes) + page_bytes;
    shadow = static_cast<std::uint8_t*>(
        reserve(nullptr, arena_bytes + image_bytes, PROT_READ | PROT_WRITE, 0));
    initialise_races(arena_bytes + image_bytes);
    for (const Variable& each : device_variables()) place_variable(each);
    initialise_shared_memory();
    initialise_host_guard();
}

// ---- Allocations --------------------------------------------------------------------------------

void* device_allocate(std::size_t bytes, Address pc, bool for_host_too) {
    initialise_observation();
    if (for_host_too) next_allocation = round_up(next_allocation, page_bytes);
    if (bytes > allocation_limit - live_bytes) return nullptr;
    std::size_t needed = round_up(std::max<std::size_t>(bytes, 1), alignment) + red_zone;
    Place place{0, bytes, -1, false, "", pc};
    if (needed <= arguments_offset - next_allocation) {
        place.offset = static_cast<std::uint32_t>(next_allocation);
        next_allocation += needed;
        allocations.push_back(place);
    } else {
        Place* freed = freed_place(bytes);
        if (!freed) return nullptr;
        set_shadow(freed->offset, freed->bytes, 0);
        place.offset = freed->offset;
        *freed = place;
    }
    live_bytes += bytes;
    set_shadow(place.offset, bytes, shadow_bit::addressable | shadow_bit::writable);
    return reinterpret_cast<void*>(arena_low + place.offset);
}

void share_with_host(void* p, std::size_t bytes) {
    Address a = reinterpret_cast<Address>(p);
    const std::size_t size = round_up(bytes, page_bytes);  // the red zone is larger than a page
    madvise(p, size, MADV_DONTNEED);
    mprotect(reinterpret_cast<void*>(a), size, PROT_READ | PROT_WRITE);
    managed.push_back({a, bytes});
}

bool is_managed(Address a, std::size_t bytes) {
    return std::any_of(managed.begin(), managed.end(), [=](const auto& each) {
        return a >= each.first && bytes <= each.second && a - each.first <= each.second - bytes;
    });
}

int device_free(void* p, Address pc) {
    Address a = reinterpret_cast<Address>(p);
    for (Place& each : allocations) {
        if (arena_low + each.offset != a) continue;
        if (each.freed) {
            report_finding(FindingKind::bad_free, pc, nullptr, 0, nullptr,
                           "a cudaMalloc of %zu bytes is freed twice", each.bytes);
            return invalid_value;
        }
        each.freed = true;
        live_bytes -= each.bytes;
        const auto shared = std::find_if(managed.begin(), managed.end(),
                                         [=](const auto& other) { return other.first == a; });
        if (shared != managed.end()) {
            mprotect(p, round_up(each.bytes, page_bytes), PROT_NONE);
            managed.erase(shared);
        }
        set_shadow(each.offset, each.bytes, shadow_bit::freed);
        return 0;
    }
    int argument = in_arena(a) ? argument_at(global_offset(a)) : -1;
    report_finding(FindingKind::bad_free, pc, nullptr, 0, nullptr,
                   argument < 0 ? "the pointer is none that cudaMalloc gave%s"
                                : "the pointer is the argument %s, which the caller owns",
                   argument < 0 ? "" : nearest_place(global_offset(a))->name);
    return invalid_value;
}

bool is_device(const void* p) {
    Address a = reinterpret_cast<Address>(p);
    if (in_arena(a) || in_vast(a)) return true;
    return shadow && in_image(a) && shadow[image_offset(a)];
}

bool has_shadow(const void* p) { return is_device(p) && !in_vast(reinterpret_cast<Address>(p)); }

bool device_copy_ok(const void* p, std::size_t n, bool write, const char* what, Address pc) {
    if (!n || !has_shadow(p)) return true;
    Address a = reinterpret_cast<Address>(p);
    std::size_t offset = global_offset(a);
    std::size_t known = in_arena(a) ? arena_bytes - offset : image_offset(image().high) - offset;
    for (std::size_t i = 0; i < n; ++i) {
        std::uint8_t state = i < known ? shadow[offset + i] : 0;
        FindingKind kind;
        if (!forbids_copy(state, write, kind)) continue;
        report_finding(kind, pc, nullptr, 0, nullptr, "%s of %s", what,
                       describe_global(static_cast<std::uint32_t>(offset), n).text);
        return false;
    }
    return true;
}

void device_mark_written(void* p, std::size_t n) {
    if (!has_shadow(p)) return;
    std::uint8_t* state = shadow + global_offset(reinterpret_cast<Address>(p));
    for (std::size_t i = 0; i < n; ++i) state[i] |= shadow_bit::initialised;
}

void device_copy_state(void* to, const void* from, std::size_t n) {
    if (!has_shadow(to) || !has_shadow(from)) return;
    std::uint8_t* target = shadow + global_offset(reinterpret_cast<Address>(to));
    const std::uint8_t* source = shadow + global_offset(reinterpret_cast<Address>(from));
    bool backwards = target > source;  // the ranges may overlap
    for (std::size_t step = 0; step < n; ++step) {
        std::size_t i = backwards ? n - 1 - step : step;
        std::uint8_t others = target[i] & static_cast<std::uint8_t>(~shadow_bit::initialised);
        target[i] = others | (source[i] & shadow_bit::initialised);
    }
}

void device_open() {
    if (opened++) return;
    mprotect(reinterpret_cast<void*>(arena_low), next_allocation, PROT_READ | PROT_WRITE);
    for (const Mapping& each : mappings) {
        mprotect(reinterpret_cast<void*>(each.low), each.bytes,
                 each.writable ? PROT_READ | PROT_WRITE : PROT_READ);
    }
}

void device_close() {
    if (!opened || --opened) return;
    mprotect(reinterpret_cast<void*>(arena_low), next_allocation, PROT_NONE);
    for (const Mapping& each : mappings) {
        mprotect(reinterpret_cast<void*>(each.low), each.bytes, PROT_NONE);
    }
}

// ---- Arguments ----------------------------------------------------------------------------------

void* map_argument_memory(int fd, std::size_t bytes, bool writable) {
    initialise_observation();
    std::size_t size = round_up(bytes, page_bytes);
    if (!bytes || size > arena_bytes - next_mapping) return nullptr;
    void* where = reinterpret_cast<void*>(arena_low + next_mapping);
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void* p = mmap(where, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
    if (p == MAP_FAILED) {
        reserve(where, size, PROT_NONE, MAP_FIXED);
        return nullptr;
    }
    mprotect(p, bytes, PROT_NONE);
    next_mapping += size + page_bytes;
    mappings.push_back({reinterpret_cast<Address>(p), bytes, writable});
    return p;
}

void* reserve_argument_memory(std::size_t bytes, std::size_t misalignment) {
    initialise_observation();
    if (misalignment >= page_bytes) return nullptr;
    std::size_t size = round_up(bytes + misalignment, page_bytes) + page_bytes;
    if (size > most_with_shadow || size > arena_bytes - next_mapping) {
        char* vast = reserve_vast("", bytes + misalignment, false);
        return vast ? vast + misalignment : nullptr;
    }
    void* p = reinterpret_cast<void*>(arena_low + next_mapping + misalignment);
    next_mapping += size;
    return p;
}

void forget_reserved_memory() {
    next_mapping = arguments_offset;
    forget_vast();
}

void register_argument(int index, const char* name, void* p, std::size_t bytes, bool initialised,
                       bool writable, bool host_space) {
    Address a = reinterpret_cast<Address>(p);
    if (host_space) {
        add_host_argument(name, a, bytes, writable);
        return;
    }
    if (in_vast(a)) return;
    Place place{global_offset(a), bytes, index, false, "", 0};
    std::snprintf(place.name, sizeof place.name, "%s", name);
    arguments.push_back(place);
    std::uint8_t bits = shadow_bit::addressable;
    if (initialised) bits |= shadow_bit::initialised;
    if (writable) bits |= shadow_bit::writable;
    set_shadow(place.offset, bytes, bits);
}

// ---- The entry's beginning and end --------------------------------------------------------------

void forget_device_memory() {
    opened = opened ? 1 : 0;  // an abandoned entry may have left it open
    device_close();
    forget_arguments();
    forget_allocations();
}

std::size_t allocation_count() { return allocations.size(); }

void report_leaks(std::size_t first) {
    for (std::size_t i = first; i < allocations.size(); ++i) {
        const Place& each = allocations[i];
        if (each.freed) continue;
        report_finding(FindingKind::leak, each.allocated_at, nullptr, 0, nullptr,
                       "a cudaMalloc of %zu bytes is never freed", each.bytes);
    }
}

bool is_readable_in_launch(std::uint32_t offset, std::size_t size) {
    if (offset + size <= next_allocation) return true;
    const Address low = arena_low + offset;
    return std::any_of(mappings.begin(), mappings.end(), [&](const Mapping& each) {
        return low >= each.low && low + size <= each.low + each.bytes;
    });
}

}  // namespace warpgrade

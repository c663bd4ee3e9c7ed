// Conflicts of accesses; ordering.cpp orders them.
#include "races.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "confirmed_reads.h"
#include "findings.h"
#include "ordering.h"
#include "shared_memory.h"

namespace warpgrade {

bool race_pending, attention;

namespace {

// A store that collided with another one; its value is known once it is done.
struct PendingStore {
    Who who, other;
    Address pc, other_pc, address;
    std::uint32_t size;
    bool global;
    unsigned char old_bytes[16];
} pending;

// ---- Reporting ----------------------------------------------------------------------------------

void tell(const char* what, const RaceAccess& access, std::uint64_t other, std::uint32_t other_pc) {
    if (race_found_before(access.pc, image().base + other_pc)) return;
    Description place = access.global ? describe_global(global_offset(access.address), access.size)
                                      : describe_shared(access.address, access.size);
    Who who = running(access.thread), second = who_of(other);
    char text[sizeof Finding::text];
    std::snprintf(text, sizeof text, "%s (%s)", place.text, what);
    add_finding(FindingKind::race, access.pc, who, image().base + other_pc, &second, text);
}

// As `tell`, unless the reading lanes of `reader` follow with an atomic of their own there.
void tell_unless_confirmed(const char* what, const RaceAccess& access, std::uint64_t other,
                           std::uint32_t other_pc, std::uint64_t reader, std::uint32_t lanes) {
    Address other_place = image().base + other_pc;
    Description place = access.global ? describe_global(global_offset(access.address), access.size)
                                      : describe_shared(access.address, access.size);
    UnconfirmedRead read{reader, lanes, access.address, access.pc, other_place, access.global,
                         running(access.thread), who_of(other), {}};
    std::snprintf(read.text, sizeof read.text, "%s (%s)", place.text, what);
    keep_unconfirmed(read);
}

std::uint64_t a_member(const AccessGroup& group, const RaceAccess& access) {
    std::uint32_t lanes = group.lanes;
    if (group.stamp == (access.stamp & ~stamp::lane_mask)) lanes &= ~(1u << access.thread->lane);
    if (!lanes) lanes = group.lanes;
    return group.stamp | static_cast<std::uint64_t>(__builtin_ctz(lanes));
}

// Two stores race unless they store the same value, which is known when this one is done.
void wait_for_value(const RaceAccess& access, std::uint64_t other, std::uint32_t other_pc) {
    if (race_pending || access.size > sizeof pending.old_bytes) return;
    race_pending = attention = true;
    pending.who = running(access.thread);
    pending.other = who_of(other);
    pending.pc = access.pc;
    pending.other_pc = image().base + other_pc;
    pending.address = access.address;
    pending.size = access.size;
    pending.global = access.global;
    std::memcpy(pending.old_bytes, reinterpret_cast<void*>(access.address), access.size);
}

// ---- Recording ----------------------------------------------------------------------------------

bool before(const AccessGroup& group, const RaceAccess& access) {
    return !group.stamp || happens_before(group.stamp, group.lanes, access);
}

// As `before`, for a plain access after a group of atomics.
bool follows(const AccessGroup& group, const RaceAccess& access) {
    bool plain = group.kind == static_cast<std::uint32_t>(GroupKind::read);
    return before(group, access) || (!plain && follows_last_atomic(access));
}

bool is_write(const AccessGroup& group) {
    return group.kind >= static_cast<std::uint32_t>(GroupKind::atomic_write);
}

bool is_of_block(const AccessGroup& group) {
    return group.kind == static_cast<std::uint32_t>(GroupKind::block_write);
}

// An access may be forgotten if the new one conflicts with everything that it conflicts with.
bool replaces(GroupKind kind, const AccessGroup& old, const RaceAccess& access) {
    if (old.stamp < race_now.launch_floor) return true;
    bool conflicts_alike = old.kind == static_cast<std::uint32_t>(kind) ||
                           old.kind == static_cast<std::uint32_t>(GroupKind::atomic_read);
    bool past = !access.global && old.stamp < race_now.epoch_floor;
    return past || (conflicts_alike && before(old, access));
}

void fill(AccessGroup& group, const RaceAccess& access, GroupKind kind) {
    group.stamp = access.stamp & ~stamp::lane_mask;
    group.lanes = 1u << access.thread->lane;
    group.pc = access.relative_pc();
    group.kind = static_cast<std::uint32_t>(kind);
}

void remember(RaceCell& cell, const RaceAccess& access, GroupKind kind) {
    std::uint64_t key = access.stamp & ~stamp::lane_mask;
    for (AccessGroup& group : cell.groups) {
        if (group.stamp == key && group.kind == static_cast<std::uint32_t>(kind)) {
            group.lanes |= 1u << access.thread->lane;
            return;
        }
    }
    AccessGroup &first = cell.groups[0], &second = cell.groups[1];
    if (replaces(kind, first, access)) {
        if (before(second, access) && replaces(kind, second, access)) second = {};
        fill(first, access, kind);
    } else if (replaces(kind, second, access)) {
        fill(second, access, kind);
    } else if (of_one_warp(first.stamp, second.stamp) && !of_one_warp(first.stamp, access.stamp)) {
        fill(second, access, kind);  // two different warps say more than one
    } else if (kind == GroupKind::block_write && !is_of_block(first) && is_write(second)) {
        fill(second, access, kind);  // the only atomic that another block's conflict with
    }
}

// ---- Checking -----------------------------------------------------------------------------------

bool store_is_before(const RaceCell& cell, const RaceAccess& access) {
    return happens_before(cell.store & ~stamp::lane_mask,
                          1u << (cell.store & stamp::lane_mask), access);
}

// Atomics of two blocks don't exclude each other if the scope of one of them is its block.
void check_scopes(const RaceCell& cell, const RaceAccess& access, GroupKind kind) {
    const bool mine = kind == GroupKind::block_write;
    for (const AccessGroup& group : cell.groups) {
        const bool theirs = is_of_block(group);
        const bool plain = group.kind == static_cast<std::uint32_t>(GroupKind::read);
        if (plain || !(mine || theirs)) continue;
        if (group.stamp >= race_now.block_floor || before(group, access)) continue;
        const char* what = "a block-scoped atomic after an atomic";
        if (kind == GroupKind::atomic_read) {
            what = "a read after a block-scoped atomic";
        } else if (!is_write(group)) {
            what = "a block-scoped atomic after a read";
        } else if (theirs) {
            what = mine ? "two block-scoped atomics" : "an atomic after a block-scoped one";
        }
        tell(what, access, a_member(group, access), group.pc);
    }
}

void whole_as_parts(RaceCell& cell, const RaceAccess& access, PartKind kind) {
    access_part(cell, 0, 4, access, kind);
}

}  // namespace

void slow_read(RaceCell& cell, const RaceAccess& access, GroupKind kind) {
    if (cell.split) {
        bool plain = kind == GroupKind::read;
        return whole_as_parts(cell, access, plain ? PartKind::read : PartKind::atomic_read);
    }
    if (!store_is_before(cell, access)) {
        tell("a read after a write", access, cell.store, cell.store_pc);
    }
    if (kind == GroupKind::read) {
        for (const AccessGroup& group : cell.groups) {
            if (!is_write(group) || follows(group, access)) continue;
            tell_unless_confirmed("a read after an atomic write", access, a_member(group, access),
                                  group.pc, access.stamp, 1u << access.thread->lane);
        }
    } else {
        check_scopes(cell, access, kind);
    }
    remember(cell, access, kind);
}

void slow_store(RaceCell& cell, const RaceAccess& access) {
    if (cell.split) return whole_as_parts(cell, access, PartKind::store);
    if (!store_is_before(cell, access)) wait_for_value(access, cell.store, cell.store_pc);
    for (AccessGroup& group : cell.groups) {
        if (!follows(group, access)) {
            tell(is_write(group) ? "a write after an atomic write" : "a write after a read", access,
                 a_member(group, access), group.pc);
        }
        group = {};
    }
    cell.store = access.stamp;
    cell.store_pc = access.relative_pc();
}

void atomic_store(RaceCell& cell, const RaceAccess& access, GroupKind kind) {
    if (cell.split) {
        bool of_block = kind == GroupKind::block_write;
        return whole_as_parts(cell, access,
                              of_block ? PartKind::block_write : PartKind::atomic_write);
    }
    if (!store_is_before(cell, access)) {
        tell("an atomic write after a plain one", access, cell.store, cell.store_pc);
    }
    check_scopes(cell, access, kind);
    confirm_reads(access);
    for (AccessGroup& group : cell.groups) {
        bool plain_read = group.kind == static_cast<std::uint32_t>(GroupKind::read);
        if (!plain_read) continue;
        if (of_one_warp(group.stamp, access.stamp)) group.lanes &= ~(1u << access.thread->lane);
        if (!group.lanes) {
            group = {};
        } else if (!before(group, access)) {
            tell_unless_confirmed("an atomic write after a read", access, a_member(group, access),
                                  group.pc, group.stamp, group.lanes);
        }
    }
    remember(cell, access, kind);
}

void access_part(RaceCell& cell, unsigned first, unsigned count, const RaceAccess& access,
                 PartKind kind) {
    split_cell(cell);
    for (unsigned i = first; i < first + count; ++i) {
        RaceCell& part = split_cells[cell.split][i];
        std::uint32_t pc = access.relative_pc();
        switch (kind) {
            case PartKind::read:
                if (access.global ? read_quickly<true>(part, access.stamp, pc)
                                  : read_quickly<false>(part, access.stamp, pc)) break;
                slow_read(part, access, GroupKind::read);
                break;
            case PartKind::store:
                if (access.global ? store_quickly<true>(part, access.stamp, pc)
                                  : store_quickly<false>(part, access.stamp, pc)) break;
                slow_store(part, access);
                break;
            case PartKind::atomic_read: slow_read(part, access, GroupKind::atomic_read); break;
            case PartKind::atomic_write: atomic_store(part, access, GroupKind::atomic_write); break;
            case PartKind::block_write: atomic_store(part, access, GroupKind::block_write); break;
        }
    }
}

bool stored_in_block(const RaceCell& cell, unsigned first, unsigned count) {
    if (!cell.split) return cell.store >= race_now.block_floor;
    for (unsigned i = first; i < first + count; ++i) {
        if (split_cells[cell.split][i].store < race_now.block_floor) return false;
    }
    return true;
}

bool any_stored_in_block(const RaceCell& cell, unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; ++i) {
        if (stored_in_block(cell, i, 1)) return true;
    }
    return false;
}

std::uint32_t written_in_kernel(const RaceCell& cell, unsigned first, unsigned count,
                                std::uint64_t but_for) {
    constexpr std::uint64_t time = (std::uint64_t{1} << stamp::block_shift) - 1;
    const auto counts = [&](std::uint64_t store) {
        return store >= race_now.kernel_floor &&
               ((store ^ but_for) & (~time | stamp::thread_mask)) != 0;
    };
    for (unsigned i = first; i < first + count; ++i) {
        const RaceCell& part = cell.split ? split_cells[cell.split][i] : cell;
        if (counts(part.store)) return part.store_pc;
        for (const AccessGroup& group : part.groups) {
            if (!is_write(group)) continue;
            const bool is_one = !(group.lanes & (group.lanes - 1));
            const auto lane = static_cast<std::uint64_t>(__builtin_ctz(group.lanes));
            if (is_one ? counts(group.stamp | lane) : group.stamp >= race_now.kernel_floor) {
                return group.pc;
            }
        }
    }
    return 0;
}

// As of epoch 0 of the block, which is before everything that its threads do.
void take_as_stored(RaceCell& cell, unsigned first, unsigned count) {
    if (!cell.split) cell.store = race_now.block_floor;
    for (unsigned i = first; cell.split && i < first + count; ++i) {
        RaceCell& part = split_cells[cell.split][i];
        if (part.store < race_now.block_floor) part.store = race_now.block_floor;
    }
}

void take_as_unwritten(RaceCell& cell, unsigned first, unsigned count) {
    if (!cell.split) cell.store = 0;
    for (unsigned i = first; cell.split && i < first + count; ++i) {
        split_cells[cell.split][i].store = 0;
    }
}

void settle_race() {
    race_pending = false;
    const void* now = reinterpret_cast<void*>(pending.address);
    if (!std::memcmp(pending.old_bytes, now, pending.size)) return;
    if (race_found_before(pending.pc, pending.other_pc)) return;
    Address a = pending.address;
    Description place = pending.global ? describe_global(global_offset(a), pending.size)
                                       : describe_shared(a, pending.size);
    char text[sizeof Finding::text];
    std::snprintf(text, sizeof text, "%s (two writes of different values)", place.text);
    add_finding(FindingKind::race, pending.pc, pending.who, pending.other_pc, &pending.other, text);
}

void forget_races() {
    race_pending = false;
    give_back_cells();
}

}  // namespace warpgrade

#include "early_reads.h"

#include <algorithm>
#include <string>

#include "findings.h"
#include "ordering.h"
#include "shared_memory.h"

namespace warpgrade {
namespace {

constexpr std::size_t most_kept = 1 << 16;  // more are redundant

struct EarlyRead {
    std::uint64_t stamp;
    Address address, pc;
    std::uint32_t size;
    Who who;
    bool copy_under_way;  // to these bytes, by any thread of the block
};
std::vector<EarlyRead> shared_reads, global_reads;
RaceAccess exchange;  // whose result nothing has used yet
bool exchange_pending;

bool is_copied_to(Address a, std::uint32_t size) {
    for (const Thread& thread : threads) {
        for (const AsyncCopy& each : thread.copies) {
            if (a < each.to + each.size && each.to < a + size) return true;
        }
    }
    return false;
}

std::uint64_t last_store(const RaceCell& cell, unsigned byte) {
    return cell.split ? split_cells[cell.split][byte].store : cell.store;
}

// Whether another thread stored to the byte, with no barrier between the read and the store.
bool raced(std::uint64_t read, std::uint64_t store, bool global) {
    if (store < (global ? race_now.launch_floor : race_now.block_floor)) return false;
    constexpr int epoch_bits_up = stamp::epoch_shift;
    if (read >> epoch_bits_up == store >> epoch_bits_up) {
        return ((read ^ store) & stamp::thread_mask) != 0;
    }
    return global && read >> stamp::block_shift != store >> stamp::block_shift;
}

bool any_raced(const EarlyRead& read, bool global) {
    for (std::uint32_t i = 0; i < read.size; ++i) {
        Address a = read.address + i;
        const RaceCell& cell = global ? *global_cell(global_offset(a))
                                      : shared_cells[(a - shared_low) / 4];
        if (raced(read.stamp, last_store(cell, a % 4), global)) return true;
    }
    return false;
}

void settle_reads(std::vector<EarlyRead>& reads, bool global) {
    for (const EarlyRead& read : reads) {
        if (any_raced(read, global)) continue;
        if (found_before(FindingKind::uninitialised_read, read.pc)) continue;
        Description place = global ? describe_global(global_offset(read.address), read.size)
                                   : describe_shared(read.address, read.size);
        std::string text = place.text;
        if (read.copy_under_way) text += "; an asynchronous copy to it is still under way";
        add_finding(FindingKind::uninitialised_read, read.pc, read.who, 0, nullptr, text.c_str());
    }
    reads.clear();
}

}  // namespace

void note_early_read(const RaceAccess& access, bool of_exchange) {
    if (of_exchange) {
        exchange = access;
        exchange_pending = true;
        return;
    }
    std::vector<EarlyRead>& reads = access.global ? global_reads : shared_reads;
    if (reads.size() == most_kept) return;
    // Looking among the copies takes time, and only an instruction's first finding is told of them.
    const bool is_told = !access.global && !is_found(FindingKind::uninitialised_read, access.pc);
    reads.push_back({access.stamp, access.address, access.pc, access.size, running(access.thread),
                     is_told && is_copied_to(access.address, access.size)});
}

void note_exchanged(Address a) {
    if (!exchange_pending || exchange.address != a || exchange.thread != current_thread) return;
    forget_exchange();
    note_early_read(exchange, false);
}

void forget_exchange() { exchange_pending = false; }

void settle_early_shared_reads() {
    if (!shared_reads.empty()) settle_reads(shared_reads, false);
}

void settle_early_global_reads() {
    if (!global_reads.empty()) settle_reads(global_reads, true);
}

void forget_early_reads() {
    shared_reads.clear();
    global_reads.clear();
}

}  // namespace warpgrade

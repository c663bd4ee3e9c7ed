#include "confirmed_reads.h"

#include <algorithm>
#include <vector>

namespace warpgrade {
namespace {

constexpr std::size_t most_kept = 1 << 12;  // more are redundant

std::vector<UnconfirmedRead> shared_reads, global_reads;

void confirm(std::vector<UnconfirmedRead>& reads, const RaceAccess& access) {
    for (UnconfirmedRead& read : reads) {
        if (read.address == access.address && of_one_warp(read.reader, access.stamp)) {
            read.lanes &= ~(1u << access.thread->lane);
        }
    }
    const auto confirmed = [](const UnconfirmedRead& read) { return !read.lanes; };
    reads.erase(std::remove_if(reads.begin(), reads.end(), confirmed), reads.end());
}

void settle(std::vector<UnconfirmedRead>& reads) {
    for (const UnconfirmedRead& read : reads) {
        if (race_found_before(read.pc, read.other_pc)) continue;
        add_finding(FindingKind::race, read.pc, read.who, read.other_pc, &read.other, read.text);
    }
    reads.clear();
}

}  // namespace

void keep_unconfirmed(const UnconfirmedRead& read) {
    std::vector<UnconfirmedRead>& reads = read.global ? global_reads : shared_reads;
    for (UnconfirmedRead& kept : reads) {
        if (kept.address == read.address && kept.pc == read.pc && kept.other_pc == read.other_pc &&
            of_one_warp(kept.reader, read.reader)) {
            kept.lanes |= read.lanes;
            return;
        }
    }
    if (reads.size() < most_kept) reads.push_back(read);
}

void confirm_reads(const RaceAccess& access) {
    std::vector<UnconfirmedRead>& reads = access.global ? global_reads : shared_reads;
    if (!reads.empty()) confirm(reads, access);
}

void settle_unconfirmed_shared_reads() {
    if (!shared_reads.empty()) settle(shared_reads);
}

void settle_unconfirmed_global_reads() {
    if (!global_reads.empty()) settle(global_reads);
}

void forget_unconfirmed_reads() {
    shared_reads.clear();
    global_reads.clear();
}

}  // namespace warpgrade

// Plain reads that collide with another thread's atomic (internal to the observation half).
//
// Such a read is a race, unless the reader follows it by an atomic at the same address, which
// checks whether the value still holds. The usual loop around atomicCAS begins so (CUDA C++
// Programming Guide, "Atomic Functions"). The reader's next accesses are known at the next point
// where all threads meet; until then the race is kept.
#pragma once
#include <cstdint>

#include "findings.h"
#include "races.h"

namespace warpgrade {

// A race that is reported unless each of these lanes of the warp in `reader` confirms its read.
struct UnconfirmedRead {
    std::uint64_t reader;  // a stamp
    std::uint32_t lanes;
    Address address, pc, other_pc;
    bool global;
    Who who, other;
    char text[sizeof Finding::text];
};
void keep_unconfirmed(const UnconfirmedRead& read);

// The thread makes an atomic at the address.
void confirm_reads(const RaceAccess& access);

void settle_unconfirmed_shared_reads();  // at a barrier, and at a block's end
void settle_unconfirmed_global_reads();  // at the end of a launch
void forget_unconfirmed_reads();

// The same thread's block run and warp, whatever the epoch.
constexpr bool of_one_warp(std::uint64_t a, std::uint64_t b) {
    return (a ^ b) >> stamp::block_shift == 0 &&
           ((a ^ b) & stamp::thread_mask & ~stamp::lane_mask) == 0;
}

}  // namespace warpgrade

// The order between accesses of different threads (internal to the observation half).
#pragma once
#include <cstdint>

#include "findings.h"
#include "races.h"

namespace warpgrade {

// Whether the accesses with this stamp (its lane bits zero) by all of these lanes happened before.
bool happens_before(std::uint64_t stamp, std::uint32_t lanes, const RaceAccess& access);

// Whether the last atomic at this address was made by this thread itself, or before it by another
// of its block. Atomics at one address are ordered, so its access there now comes after them all.
// (The block that draws the last ticket resets the counter of tickets.) Known only where the launch
// uses fences.
bool follows_last_atomic(const RaceAccess& access);

// The thread of a stamp of the running launch.
Who who_of(std::uint64_t stamp);

// Operations on the cells (race_cells.cpp): forget all accesses, when the stamps' numbers are used
// up; free memory where much was used; split a cell into one per byte.
void clear_cells();
void give_back_cells();
void split_cell(RaceCell& cell);

}  // namespace warpgrade

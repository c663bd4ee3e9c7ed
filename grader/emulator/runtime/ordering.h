// What puts accesses of different threads in order (internal to the observation half).
#pragma once
#include <cstdint>

#include "findings.h"
#include "races.h"

namespace warpgrade {

// Did the accesses with this stamp (its lane bits zero) by all of these lanes happen before?
bool happens_before(std::uint64_t stamp, std::uint32_t lanes, const RaceAccess& access);

// Did this thread itself make the last atomic at this address? Atomics at one address follow one
// another, so what it does there now comes after them all. (The block that draws the last ticket
// resets the counter of tickets.) Known only where the launch uses fences.
bool made_last_atomic(const RaceAccess& access);

// The thread that a stamp of the running launch names.
Who who_of(std::uint64_t stamp);

// Of the cells (race_cells.cpp). Forgets all accesses, for when the stamps' numbers are used up;
// gives memory back where much was used; gives each byte of a cell a cell of its own.
void clear_cells();
void give_back_cells();
void split_cell(RaceCell& cell);

}  // namespace warpgrade

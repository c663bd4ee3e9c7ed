// Memory of cudaMallocManaged in a planner (internal to it). Host code has bytes of its own there;
// what it writes is found by comparing, before the device's next work, and becomes uploads. What
// kernels write there it never sees.
#pragma once
#include <cstddef>
#include <functional>

#include "../core.h"

namespace warpgrade::plan {

void forget_managed();
void add_managed(char* low, std::size_t bytes);
void remove_managed(const void* low);

// Calls `take` for each run of bytes that host code has changed since the last time.
void take_changes(const std::function<void(char* from, std::size_t bytes)>& take);
// A copy or a fill has put these bytes there, too: they are no change of the host's.
void put_managed(char* to, const char* from, std::size_t bytes);
void fill_managed(char* to, int value, std::size_t bytes);

// The device works from here on with whatever is there.
void device_works();
// Where no hook tells of host code's reads, memory that the device works with is closed to it: the
// fault tells of the first one. False where this wasn't why.
bool open_managed_again(Address a);
extern bool faults_tell_reads;
// Whether kernels may have written here: then reading it leads to what the host doesn't have.
bool may_be_written(Address a);

}  // namespace warpgrade::plan

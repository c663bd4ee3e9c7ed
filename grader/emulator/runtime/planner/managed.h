// Memory of cudaMallocManaged in a planner (internal to it). Host code has bytes of its own there.
// Its writes are detected by comparison before the device's next work, and become uploads. It never
// sees kernels' writes.
#pragma once
#include <cstddef>
#include <functional>

#include "../core.h"

namespace warpgrade::plan {

void forget_managed();
// `has_pages`: nothing else lies in its pages.
void add_managed(char* low, std::size_t bytes, bool has_pages);
void remove_managed(const void* low);

// Calls `take` for each run of bytes that host code has changed since the last time.
void take_changes(const std::function<void(char* from, std::size_t bytes)>& take);
// A copy or a fill has written these bytes: they are no change by the host.
void put_managed(char* to, const char* from, std::size_t bytes);
void fill_managed(char* to, int value, std::size_t bytes);

// The device works from here on with the memory's contents.
void device_works();
// Where host code's reads aren't observed, memory that the device works with is closed: the first
// read faults. False where the fault has another reason.
bool open_managed_again(Address a);
extern bool faults_tell_reads;
// Whether kernels may have written here, so that a read would need data.
bool may_be_written(Address a);

}  // namespace warpgrade::plan

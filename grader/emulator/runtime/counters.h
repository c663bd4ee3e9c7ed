// What the hardware's counters would count (internal to the observation half).
#pragma once
#include <cstdint>
#include <vector>

#include "core.h"

namespace warpgrade {

// One place that accesses one space in one way. The names are report.py's.
struct SiteCounters {
    std::uint32_t pc;
    std::uint8_t kind, space, bytes;
    std::uint64_t requests, lanes;
    std::uint64_t sectors, useful_bytes;            // global
    std::uint64_t wavefronts, conflicts, ways;      // shared
};

// A kernel at one configuration.
struct LaunchCounters {
    char kernel[400];
    Index3 grid, block;
    std::size_t dynamic_shared, static_shared;
    std::uint64_t count;
    std::uint64_t blocks_entered, lanes_entered;  // basic blocks, by warps and by lanes
    std::uint64_t largest_bytes;  // that one thread moves in global memory, summed over launches
    std::uint64_t storing_blocks;  // that store to global memory, the most of any launch
    std::vector<SiteCounters> sites;
};

struct BufferCounters {
    std::uint64_t load_bytes, load_sectors, store_bytes, store_sectors;
};

const std::vector<LaunchCounters>& launch_counters();
const std::vector<BufferCounters>& buffer_counters();  // by argument
bool counters_are_incomplete();  // more launches or longer traces than are kept

void forget_counters();
void counters_launch_begin();
void counters_launch_end();
void counters_block_end();

// One access of a warp: what its lanes touch.
struct WarpAccess {
    std::uint32_t pc;
    std::uint8_t kind, space, bytes;
    std::uint32_t warp;
    int lanes;
    std::uint32_t offset[32];
    std::uint8_t lane[32];
};
void count_request(const WarpAccess& access);
void count_block_entry(int lanes);

}  // namespace warpgrade

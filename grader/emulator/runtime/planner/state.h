// The plan that is being recorded (internal to the planner).
#pragma once
#include <set>
#include <string>
#include <vector>

#include "buffers.h"

namespace warpgrade::plan {

struct KernelName {
    std::string name, function, thunk;
    unsigned line;
};

// A copy from pinned memory that host code hasn't waited for.
struct CopyUnderWay {
    const char* from;
    std::size_t pitch, width;
    std::string rows;  // as they were
    Address pc;
};

struct Plan {
    Buffers buffers;
    std::vector<CopyUnderWay> copies;
    std::vector<KernelName> kernels;
    std::string calls[2];
    std::size_t call = 0, calls_begun = 0, steps = 0, uploaded = 0;
    std::string printed, excess;
    // The streams that the default one waits for: those with work since its last work, and those
    // that have waited for that. For one call.
    std::set<unsigned> unjoined, after_default;
    bool default_works = false;
    bool told_of_time = false, told_of_data = false, read_managed = false;
    unsigned read_at = 0;       // the line at which host code first read what kernels write
    bool has_launches = false;  // refused ones too
    std::size_t lacked = 0;     // bytes of the last allocation that failed, if a GPU may have them
};
extern Plan current;

}  // namespace warpgrade::plan

// The plan that is being recorded (internal to the planner).
#pragma once
#include <string>
#include <vector>

#include "buffers.h"

namespace warpgrade::plan {

struct KernelName {
    std::string name, function, thunk;
    unsigned line;
};

struct Plan {
    Buffers buffers;
    std::vector<KernelName> kernels;
    std::string calls[2];
    std::size_t call = 0, calls_begun = 0, steps = 0, uploaded = 0;
    std::string printed, excess;
    bool told_of_time = false, told_of_data = false, read_managed = false;
};
extern Plan current;

}  // namespace warpgrade::plan

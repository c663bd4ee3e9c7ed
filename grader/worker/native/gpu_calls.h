// What the entry asks of the CUDA runtime on a GPU, counted as the emulator counts it.
//
// The program is linked with --wrap for each call in gpu_wrapped_calls.txt, so that the student's
// calls arrive in gpu_calls.cu first. Calls of the host's own are counted too, except that only
// what happens between begin_calls() and end_calls() counts.

#ifndef WARPGRADE_GPU_CALLS_H
#define WARPGRADE_GPU_CALLS_H

#include <cstddef>
#include <string>
#include <vector>

namespace warpgrade::host {

struct Copies {
    unsigned long long count = 0, bytes = 0;
    unsigned long long host_to_device = 0, device_to_host = 0, device_to_device = 0;
};

struct Allocation {
    void* memory;
    std::size_t bytes;
};

struct CallRecord {
    Copies copies;
    std::vector<Allocation> unfreed;  // oldest first
    bool copy_refused = false;        // the driver found its direction or addresses impossible
};

void begin_calls();
CallRecord end_calls();

}  // namespace warpgrade::host

#endif

// A CUDA driver for tests, on the memory of this machine: as much of one as the executor on a GPU
// calls. Kernels are C functions in shared objects; grader/fake_gpu.py builds both.
//
// Work is done when somebody waits for it, and of two pieces that may run in either order the one
// that was asked for later is done first: a wait that is missing shows.
//
//     FAKE_CUDA_FAILS    cuMemAlloc:2:700,...  the second call of that function fails with that error
//     FAKE_CUDA_MEMORY   bytes that there are to allocate
//     FAKE_CUDA_LOG      a file that is told of every launch

#ifndef WARPGRADE_FAKE_CUDA_H
#define WARPGRADE_FAKE_CUDA_H

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fake {

// A piece of work, and what has to be done before it.
struct Node {
    std::uint64_t number;
    std::function<CUresult()> work;
    std::vector<std::shared_ptr<Node>> before;
    bool done = false;
};
using Nodes = std::vector<std::shared_ptr<Node>>;

// What streams are given between cuStreamBeginCapture and cuStreamEndCapture.
struct Capture {
    CUstream origin;
    Nodes nodes;
    std::set<CUstream> streams;
    bool broken = false;
};

// The handles of one kind that are valid.
template <typename Handle>
struct Handles {
    std::set<Handle> live;
    bool has(Handle handle) const { return live.count(handle) > 0; }
    Handle add(Handle made) { return *live.insert(made).first; }
    bool remove(Handle handle) {
        if (!live.erase(handle)) return false;
        delete handle;
        return true;
    }
};

extern Handles<CUstream> streams;
extern Handles<CUevent> events;
extern Handles<CUmodule> modules;

// Called first by every function: an error that is asked for, one that stays, or success.
CUresult enter(const char* function, bool needs_context = true);
#define ENTER() \
    if (const CUresult entered = ::fake::enter(__func__)) return entered
#define ENTER_WITHOUT_CONTEXT() \
    if (const CUresult entered = ::fake::enter(__func__, false)) return entered

// `result`, which stays from now on where it has broken the context.
CUresult failed(CUresult result);

// Do some work on memory of the device; a fault in it is an illegal memory access.
CUresult guarded(const std::function<void()>& work);

// Whether these bytes are memory of the device that the driver knows.
bool is_device_memory(CUdeviceptr start, std::size_t bytes);
void add_device_memory(CUdeviceptr start, std::size_t bytes);
void remove_device_memory(CUdeviceptr start);

// The stream of copies that name none. They return once the host's memory has been read: others'
// streams, which are made non-blocking here, don't wait for the rest.
CUstream default_stream();

// Give a stream some work.
CUresult add(CUstream stream, std::function<CUresult()> work);
CUresult finish_all();
// Do each of these once, in an order that they allow.
CUresult run(const Nodes& nodes);

void log(const std::string& line);

}  // namespace fake

struct CUstream_st {
    fake::Nodes last;  // what the next piece of work has to wait for
    std::shared_ptr<fake::Capture> capture;
    fake::Nodes outside;  // `last` while it is captured
};

struct CUevent_st {
    explicit CUevent_st(unsigned flags) : flags(flags) {}
    unsigned flags;
    bool recorded = false;
    fake::Nodes last;  // of the stream, when it was recorded
    std::shared_ptr<fake::Capture> capture;
    std::optional<std::chrono::steady_clock::time_point> when;
};

#endif

// What a program does: plan, execute plans in the emulator, or run on a GPU. host.cpp drives each
// without knowing which; the one that is linked in defines these functions.

#ifndef WARPGRADE_BACKEND_H
#define WARPGRADE_BACKEND_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "entries.h"
#include "protocol.h"

namespace warpgrade::host {

// A buffer of the grader's arena: a memfd, or, `on_gpu`, an allocation of CUDA's virtual memory.
// Whoever maps it closes it.
struct Buffer {
    int descriptor;
    std::size_t length;  // bytes
    bool writable;
    bool on_gpu = false;
};

// What the spec says of an argument: its name, and whether a kernel reads it, writes it or both.
struct Description {
    std::string name;
    bool initialised, writable;
};

// A tensor argument. The allocation is the view with the guard zones around it; both lie inside
// the buffer (arguments.cpp has checked that). Offsets and lengths are in bytes.
struct Tensor {
    int argument;
    Description description;
    std::size_t buffer;
    std::size_t offset;  // of the first element, from the start of the buffer
    std::size_t extent;  // from the view's first byte to its last, both included
    std::size_t allocation_offset;
    std::size_t allocation_length;
    bool host_space;
};

// One call of an entry. `values` holds the scalars; the backend fills in the pointers. For an
// executor there is no entry, and no scalar.
struct Call {
    const warpgrade_entry* entry = nullptr;
    std::vector<warpgrade_value> values;
    std::vector<Tensor> tensors;
};

// How a request ended. After `lost` the process is of no further use and ends.
struct Answer {
    Code code = Code::ok;
    std::string text;
    bool lost = false;
};

// Called once, before the grader hears that the worker is ready. Throws std::system_error.
void map_buffers(const std::vector<Buffer>& buffers);

// Called when the entry has been found: starts what the first case shouldn't pay for.
Answer load();

// What follows not every program has: host.cpp refuses what is asked of one that hasn't.

// Planners only: calls the entry twice where there is no data, and answers with the plan
// (../../plan/model.py) behind a line that holds its length in 16 hexadecimal digits. A plan that a
// reply can't hold goes on from byte `from` of its text.
Answer make_plan(Call& call);
Answer more_of_plan(std::size_t from);

// Executors only: carries out the steps of a document on the tensors. It is written by
// grader/executors/cuda/emulator_encoding.py, or for a GPU by grader/executors/gpu/gpu_encoding.py.
Answer execute(Call& call, const std::string& document);

// For the clock, of an executor on a GPU: keep a call's tensors as set number `number` (one of those
// there are, or the next); take the plan of a document; arrange one call of it for each of some sets, in this order; and do that, or all of it but the calls. `nanoseconds` is what
// it took by the device's own clock.
Answer place_set(const Call& call, unsigned number);
Answer adopt(const std::string& document);
Answer arrange(const std::vector<unsigned>& order);
Answer replay(bool with_calls, std::uint64_t& nanoseconds);

}  // namespace warpgrade::host

#endif

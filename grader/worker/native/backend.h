// The work of a program: plan, execute plans in the emulator, or run on a GPU. host.cpp is the same
// for all; the linked backend defines these functions.

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
// Mapping it closes the descriptor.
struct Buffer {
    int descriptor;
    std::size_t length;  // bytes
    bool writable;
    bool on_gpu = false;
};

// The spec's description of an argument: its name, and whether a kernel reads it, writes it or
// both.
struct Description {
    std::string name;
    bool initialised, writable;
};

// A tensor argument. The allocation is the view with the guard zones around it; both are inside the
// buffer (arguments.cpp has checked that). Offsets and lengths are in bytes.
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

// One call of an entry. `values` has the scalars; the backend adds the pointers. An executor has no
// entry and no scalars.
struct Call {
    const warpgrade_entry* entry = nullptr;
    std::vector<warpgrade_value> values;
    std::vector<Tensor> tensors;
};

// The result of a request. After `lost` the process is useless and ends.
struct Answer {
    Code code = Code::ok;
    std::string text;
    bool lost = false;
};

// Called once, before the worker reports that it is ready. Throws std::system_error.
void map_buffers(const std::vector<Buffer>& buffers);

// Called when the entry has been found: starts work that the first case shouldn't pay for.
Answer load();

// The following are optional: host.cpp refuses requests that the program doesn't support.

// Planners only: calls the entry twice without data, and answers with the plan
// (../../plan/model.py), the long text of a planner.
Answer make_plan(Call& call);

// Executors only: carries out the steps of a document on the tensors. It is written by
// grader/executors/cuda/emulator_encoding.py, or for a GPU by grader/executors/gpu/gpu_encoding.py.
// Records of accesses are the long text of an executor.
Answer execute(Call& call, const std::string& document);

// A long text from byte `from` on, as much as a reply holds. From 0 on a line with its length in 16
// hexadecimal digits comes first.
Answer more_of_text(std::size_t from);

// For timing, by an executor on a GPU: `place` keeps a call's tensors as set number `number` (an
// existing one, or the next); `adopt` takes the plan of a document; `arrange` prepares one call for
// each of some sets, in this order; `replay` runs that, or all of it except the calls.
// `nanoseconds` is the time by the device's own clock.
Answer place_set(const Call& call, unsigned number);
Answer adopt(const std::string& document);
Answer arrange(const std::vector<unsigned>& order);
Answer replay(bool with_calls, std::uint64_t& nanoseconds);

}  // namespace warpgrade::host

#endif

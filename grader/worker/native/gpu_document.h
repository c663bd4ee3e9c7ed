// A plan for the executor on a GPU: cubins, buffers, kernels, and the steps of its calls.
// grader/executors/gpu/gpu_encoding.py writes it.

#ifndef WARPGRADE_GPU_DOCUMENT_H
#define WARPGRADE_GPU_DOCUMENT_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "document.h"

namespace warpgrade::host {

constexpr std::uint32_t no_stream = ~std::uint32_t{0};  // ordered with all steps before and after

enum class BufferKind : std::uint32_t { allocation, view, device, symbol };
enum class Do : std::uint32_t { fill = 1, copy, upload, launch, record, wait };

// `argument` is the place of a tensor among the request's: of kind `allocation` its whole
// allocation, of kind `view` from its first element to its last. A symbol is a variable of a
// module.
struct PlanBuffer {
    std::int32_t argument;
    BufferKind kind;
    std::uint64_t bytes;
    std::uint32_t module;
    std::string name;
};

struct GlobalVariable {
    std::string name;
    std::uint64_t bytes;
};

struct PlanModule {
    std::string cubin;
    std::vector<GlobalVariable> variables;
};

struct PlanKernel {
    std::uint32_t module;
    std::string name;
    std::uint32_t most_shared;  // bytes of dynamic shared memory, of any launch
};

// A tensor descriptor among a launch's parameters, for cuTensorMapEncodeTiled.
struct TensorMap {
    std::uint32_t at, buffer;
    std::int64_t offset;
    std::uint32_t type, rank, swizzle, fill;
    std::array<std::uint64_t, 5> sizes, strides;  // strides in bytes, of all dimensions but the first
    std::array<std::uint32_t, 5> box;
};

struct PlanStep {
    Do what;
    std::uint32_t stream;
    std::uint32_t number;  // of a kernel or an event; the value of a fill
    std::uint32_t unit;  // bytes of a fill's value
    Rows to, from;
    std::string data;  // of an upload; a launch's parameters
    std::vector<Relocation> pointers;
    std::vector<TensorMap> maps;
    std::array<std::uint32_t, 3> grid, block, cluster;
    std::uint32_t shared;
    bool cooperative, programmatic;
};

struct PlanDocument {
    std::vector<PlanModule> modules;
    std::vector<PlanBuffer> buffers;
    std::vector<PlanKernel> kernels;
    std::vector<std::vector<PlanStep>> calls;  // one, or the first and the one that is timed
};

// Throws BadDocument for a document that our code wouldn't write.
PlanDocument read_plan(const std::string& text);

}  // namespace warpgrade::host

#endif

// Kernel launches by host code, with CUDA's checks and errors.
#include <algorithm>
#include <vector>

#include "../include/warpgrade/device_api.h"
#include "device_work.h"
#include "errors.h"
#include "kernel_facts.h"
#include "observe.h"
#include "symbols.h"

namespace warpgrade {

// Nothing: the emulator's kernels are functions of the program itself.
__attribute__((weak)) const KernelFacts* facts_of(const void*) { return nullptr; }

namespace {

size_t fixed_shared(const void* function) {
    const KernelFacts* facts = facts_of(function);
    return facts ? facts->static_shared : static_shared_bytes(function);
}

// The most threads of a block, by __launch_bounds__; 0: it has none.
unsigned promised_threads(const void* function) {
    const KernelFacts* facts = facts_of(function);
    return facts ? facts->most_threads : launch_bounds(function);
}

struct FunctionLimit {
    const void* function;
    size_t dynamic_shared;
};
std::vector<FunctionLimit> function_limits;

// The largest limit of any kernel, for a launch without the kernel's address.
size_t largest_limit() {
    size_t most = device::shared_per_block;
    for (const FunctionLimit& limit : function_limits) {
        most = std::max(most, limit.dynamic_shared);
    }
    return most;
}

// A kernel's limit for static and dynamic shared memory together: 48 KiB, or the requested one. For
// a launch without the kernel's address, the most that any kernel may have.
size_t whole_limit(const void* function, size_t fixed) {
    size_t most = device::shared_per_block;
    for (const FunctionLimit& limit : function_limits) {
        if (!function || limit.function == function) {
            most = std::max(most, fixed + limit.dynamic_shared);
        }
    }
    return std::min(most, device::shared_per_block_optin);
}

bool refuse_shape(const char* kernel, Index3 grid, Index3 block, Address pc) {
    uint64_t count = uint64_t{block.x} * block.y * block.z;
    auto refuse = [&](const char* why) {
        refuse_launch(cudaErrorInvalidConfiguration, kernel, pc,
                      "grid (%u, %u, %u), block (%u, %u, %u): %s", grid.x, grid.y, grid.z, block.x,
                      block.y, block.z, why);
        return true;
    };
    if (!grid.x || !grid.y || !grid.z) return refuse("a grid needs at least one block");
    if (!block.x || !block.y || !block.z) return refuse("a block needs at least one thread");
    if (block.z > device::most_block_z) return refuse("a block's z may be at most 64");
    if (block.x > device::most_threads_per_block || block.y > device::most_threads_per_block ||
        count > device::most_threads_per_block) {
        return refuse("a block has at most 1024 threads");
    }
    if (grid.x > device::most_grid_x) {
        return refuse("a grid's x may be at most 2147483647, and a negative int is more than that");
    }
    if (grid.y > device::most_grid_yz || grid.z > device::most_grid_yz) {
        return refuse("a grid's y and z may be at most 65535");
    }
    return false;
}

bool refuse_shared(const void* function, const char* kernel, size_t dynamic_shared, Address pc) {
    size_t fixed = function ? fixed_shared(function) : 0;
    size_t limit = function ? dynamic_shared_limit(function) : largest_limit();
    size_t whole = std::min(whole_limit(function, fixed), fixed + limit);
    if (dynamic_shared <= limit && fixed + dynamic_shared <= whole) return false;
    const char* advice = "";
    if (whole <= device::shared_per_block && dynamic_shared <= device::shared_per_block_optin &&
        fixed + dynamic_shared <= device::shared_per_block_optin) {
        advice = "; more than 48 KiB needs cudaFuncSetAttribute";
    }
    refuse_launch(cudaErrorInvalidValue, kernel, pc,
                  "%zu bytes of dynamic and %zu of static shared memory, and %zu are allowed in "
                  "all%s",
                  dynamic_shared, fixed, whole, advice);
    return true;
}

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// The number of a kernel's blocks that fit on a multiprocessor, as far as its resources are known.
size_t blocks_at_once(const void* function, size_t threads, size_t dynamic_shared) {
    size_t shared = dynamic_shared + fixed_shared(function) + device::shared_reserved_per_block;
    size_t warps = (threads + warp_lanes - 1) / warp_lanes;
    size_t by_threads = device::most_threads_per_multiprocessor / (warps * warp_lanes);
    size_t by_registers = by_threads;
    if (const KernelFacts* facts = facts_of(function)) {
        shared = round_up(shared, device::shared_unit);
        by_registers = warps_by_registers(*facts) / warps;
    }
    size_t by_shared = device::shared_per_multiprocessor / shared;
    size_t most = device::most_blocks_per_multiprocessor;
    return std::min({by_threads, by_registers, by_shared, most});
}

bool refuse_threads(const void* function, const char* kernel, Index3 block, Address pc) {
    const KernelFacts* facts = facts_of(function);
    const size_t count = size_t{block.x} * block.y * block.z;
    const unsigned promised = promised_threads(function);
    if (promised && count > promised) {
        refuse_launch(cudaErrorInvalidValue, kernel, pc,
                      "%zu threads in a block, and __launch_bounds__ promises at most %u", count,
                      promised);
    } else if (!facts || count <= most_threads(*facts)) {
        return false;
    } else {
        refuse_launch(cudaErrorLaunchOutOfResources, kernel, pc,
                      "%zu threads in a block with %u registers each, and there is room for %zu",
                      count, facts->registers, most_threads(*facts));
    }
    return true;
}

bool refuse_cooperative(const void* function, const char* kernel, Index3 grid, Index3 block,
                        size_t dynamic_shared, Address pc) {
    uint64_t wanted = uint64_t{grid.x} * grid.y * grid.z;
    uint64_t room = device::multiprocessors *
                    blocks_at_once(function, size_t{block.x} * block.y * block.z, dynamic_shared);
    if (wanted <= room) return false;
    refuse_launch(cudaErrorCooperativeLaunchTooLarge, kernel, pc,
                  "a cooperative grid of %llu blocks, and %llu fit on the device at once",
                  static_cast<unsigned long long>(wanted), static_cast<unsigned long long>(room));
    return true;
}

}  // namespace

size_t dynamic_shared_limit(const void* function) {
    for (const FunctionLimit& limit : function_limits) {
        if (limit.function == function) return limit.dynamic_shared;
    }
    return device::shared_per_block;
}

void forget_function_attributes() { function_limits.clear(); }

bool may_launch(const KernelCall& call, cudaStream_t stream) {
    if (sticky_error()) return false;
    if (refuse_shape(call.name, call.grid, call.block, call.pc)) return false;
    if (refuse_threads(call.function, call.name, call.block, call.pc)) return false;
    if (refuse_shared(call.function, call.name, call.dynamic_shared, call.pc)) return false;
    if (!is_stream(stream)) {
        refuse_launch(cudaErrorInvalidResourceHandle, call.name, call.pc,
                      "the stream doesn't exist or was destroyed");
        return false;
    }
    return !call.cooperative || !refuse_cooperative(call.function, call.name, call.grid, call.block,
                                                    call.dynamic_shared, call.pc);
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

void warpgrade_launch(const void* function, warpgrade_thunk thunk, const char* kernel, dim3 grid,
                      dim3 block, size_t dynamic_shared, cudaStream_t stream,
                      const char* parameters, size_t parameter_bytes, bool cooperative) {
    Address pc = WARPGRADE_CALLER;
    static char own_name[120];
    if (!*kernel) kernel = function_name(own_name, symbol_of(function));
    if (current_thread) unsupported_at("a kernel launched from device code", pc);
    if (parameter_bytes > device::most_parameter_bytes) {
        unsupported_at("more than 32764 bytes of kernel parameters", pc);  // nvcc refuses it
    }
    const KernelCall call{function,
                          thunk,
                          kernel,
                          {grid.x, grid.y, grid.z},
                          {block.x, block.y, block.z},
                          dynamic_shared,
                          parameters,
                          parameter_bytes,
                          pc,
                          cooperative};
    if (may_launch(call, stream)) work::launch(call, stream);
}

cudaError_t warpgrade_function_attribute(const void* function, cudaFuncAttribute attribute,
                                         int value) {
    if (sticky_error()) return fail(cudaSuccess);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;  // a hint
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        static_cast<size_t>(value) + fixed_shared(function) >
            device::shared_per_block_optin) {
        return fail(cudaErrorInvalidValue);
    }
    for (FunctionLimit& limit : function_limits) {
        if (limit.function == function) {
            limit.dynamic_shared = static_cast<size_t>(value);
            return cudaSuccess;
        }
    }
    function_limits.push_back({function, static_cast<size_t>(value)});
    return cudaSuccess;
}

cudaError_t warpgrade_function_attributes(cudaFuncAttributes* attributes, const void* function) {
    if (!attributes) return fail(cudaErrorInvalidValue);
    *attributes = {};
    attributes->sharedSizeBytes = fixed_shared(function);
    const unsigned promised = promised_threads(function);
    const unsigned most = device::most_threads_per_block;
    attributes->maxThreadsPerBlock = static_cast<int>(promised ? std::min(promised, most) : most);
    attributes->ptxVersion = attributes->binaryVersion = static_cast<int>(device::capability);
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_shared_limit(function));
    attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
    return fail(cudaSuccess);
}

cudaError_t warpgrade_occupancy(int* blocks, const void* function, int block_size,
                                size_t dynamic_shared) {
    if (!blocks || block_size <= 0) return fail(cudaErrorInvalidValue);
    if (static_cast<unsigned>(block_size) > device::most_threads_per_block) {
        *blocks = 0;
        return fail(cudaSuccess);
    }
    *blocks = static_cast<int>(
        blocks_at_once(function, static_cast<size_t>(block_size), dynamic_shared));
    return fail(cudaSuccess);
}

}  // extern "C"

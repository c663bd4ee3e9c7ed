// Launches, and questions about kernels, for nvcc's host code.
#include <cstring>
#include <vector>

#include "../../include/warpgrade/device_api.h"
#include "../device_work.h"
#include "../errors.h"
#include "../symbols.h"
#include "registry.h"

namespace warpgrade::nvcc {
namespace {

// kernel<<<...>>>(arguments): the configuration is pushed, then arguments are evaluated, which may
// launch kernels too, then a function of the kernel's name pops the configuration and launches.
struct Configuration {
    dim3 grid, block;
    size_t dynamic_shared;
    cudaStream_t stream;
    Address pc;
};
std::vector<Configuration>& pushed() {
    static auto& all = *new std::vector<Configuration>;
    return all;
}
Address popped_pc;

Index3 index(dim3 each) { return {each.x, each.y, each.z}; }

// The parameters in the cubin's layout. Padding is zero.
std::vector<char> packed(const warpgrade_kernel& kernel, void** arguments) {
    std::vector<char> bytes(kernel.parameter_bytes);
    for (unsigned i = 0; i < kernel.parameter_count; ++i) {
        const warpgrade_parameter& each = kernel.parameters[i];
        std::memcpy(bytes.data() + each.offset, arguments[i], each.bytes);
    }
    return bytes;
}

const char* readable_name(const void* function, const warpgrade_kernel* kernel) {
    static char text[120];
    const char* symbol = symbol_of(function);
    return function_name(text, *symbol || !kernel ? symbol : kernel->name);
}

int refuse_function(const char* name, Address pc) {
    refuse_launch(cudaErrorInvalidDeviceFunction, name, pc, "there is no such kernel");
    return cudaErrorInvalidDeviceFunction;
}

bool refuse_cluster(const Shape& shape, const char* name, Address pc) {
    const Index3 size = shape.cluster;
    if (!size.x && !size.y && !size.z) return false;
    constexpr uint64_t most_blocks = 16;
    constexpr auto invalid_cluster_size = static_cast<cudaError_t>(912);
    const uint64_t blocks = uint64_t{size.x} * size.y * size.z;
    const bool fits = blocks && blocks <= most_blocks && shape.grid.x % size.x == 0 &&
                      shape.grid.y % size.y == 0 && shape.grid.z % size.z == 0;
    if (fits) return false;
    refuse_launch(invalid_cluster_size, name, pc,
                  "clusters of (%u, %u, %u) blocks in a grid of (%u, %u, %u): they have at most 16 "
                  "blocks and divide the grid", size.x, size.y, size.z, shape.grid.x, shape.grid.y,
                  shape.grid.z);
    return true;
}

}  // namespace

int fail_with(int error) { return fail(static_cast<cudaError_t>(error)); }

int dynamic_shared_limit_of(const void* function) {
    return static_cast<int>(dynamic_shared_limit(function));
}

int launch(const void* function, const Shape& shape, void** arguments, Address pc) {
    if (sticky_error()) return fail_with(cudaSuccess);
    const warpgrade_kernel* kernel = kernel_at(function);
    const char* name = readable_name(function, kernel);
    if (!kernel) return refuse_function(name, pc);
    if (kernel->parameter_count && !arguments) return fail_with(cudaErrorInvalidValue);
    const std::vector<char> parameters = packed(*kernel, arguments);
    KernelCall call{function, nullptr, name, shape.grid, shape.block, shape.dynamic_shared,
                    parameters.data(), parameters.size(), pc, shape.cooperative};
    call.symbol = kernel->name;
    call.cluster = shape.cluster;
    call.early_start = shape.early_start;
    const cudaError_t before = cudaPeekAtLastError();
    const auto stream = static_cast<cudaStream_t>(shape.stream);
    if (!refuse_cluster(shape, name, pc) && may_launch(call, stream)) {
        work::launch(call, stream);
        return cudaSuccess;
    }
    const cudaError_t now = cudaPeekAtLastError();
    return now == cudaSuccess ? before : now;
}

}  // namespace warpgrade::nvcc

using namespace warpgrade;
using nvcc::index;
using nvcc::pushed;

// The kernel's name for cudaLaunchKernel and cudaFuncGetAttributes.
typedef const void* Function;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t dynamic_shared,
                                     cudaStream_t stream) {
    pushed().push_back({grid, block, dynamic_shared, stream, WARPGRADE_CALLER});
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* dynamic_shared,
                                       void* stream) {
    if (pushed().empty()) return fail(cudaErrorMissingConfiguration);
    const nvcc::Configuration last = pushed().back();
    pushed().pop_back();
    *grid = last.grid;
    *block = last.block;
    *dynamic_shared = last.dynamic_shared;
    std::memcpy(stream, &last.stream, sizeof last.stream);
    nvcc::popped_pc = last.pc;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(void** kernel, Function function) {
    *kernel = const_cast<void*>(function);
    return cudaSuccess;
}
cudaError_t cudaGetKernel(void** kernel, Function function) {
    return __cudaGetKernel(kernel, function);
}

cudaError_t __cudaLaunchKernel(Function kernel, dim3 grid, dim3 block, void** arguments,
                               size_t dynamic_shared, cudaStream_t stream) {
    return static_cast<cudaError_t>(nvcc::launch(
        kernel, {index(grid), index(block), dynamic_shared, stream}, arguments, nvcc::popped_pc));
}
cudaError_t cudaLaunchKernel(Function function, dim3 grid, dim3 block, void** arguments,
                             size_t dynamic_shared, cudaStream_t stream) {
    return static_cast<cudaError_t>(nvcc::launch(
        function, {index(grid), index(block), dynamic_shared, stream}, arguments,
        WARPGRADE_CALLER));
}
cudaError_t cudaLaunchCooperativeKernel(Function function, dim3 grid, dim3 block, void** arguments,
                                        size_t dynamic_shared, cudaStream_t stream) {
    return static_cast<cudaError_t>(nvcc::launch(
        function, {index(grid), index(block), dynamic_shared, stream, true}, arguments,
        WARPGRADE_CALLER));
}

cudaError_t cudaFuncSetAttribute(Function function, cudaFuncAttribute attribute, int value) {
    if (!nvcc::kernel_at(function)) return fail(cudaErrorInvalidDeviceFunction);
    constexpr int larger_clusters = 13, cluster_policy = 14;  // an executor allows them anyway
    if (attribute == larger_clusters || attribute == cluster_policy) return fail(cudaSuccess);
    return warpgrade_function_attribute(function, attribute, value);
}
cudaError_t cudaFuncSetCacheConfig(Function, cudaFuncCache) { return fail(cudaSuccess); }  // a hint

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function function,
                                                          int block_size, size_t dynamic_shared) {
    if (!nvcc::kernel_at(function)) return fail(cudaErrorInvalidDeviceFunction);
    return warpgrade_occupancy(blocks, function, block_size, dynamic_shared);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function function,
                                                                   int block_size,
                                                                   size_t dynamic_shared,
                                                                   unsigned) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size,
                                                         dynamic_shared);
}

}  // extern "C"

// The GPU backend: every allocation of the arena is copied to the device whole, guard zones
// included, and what lies in a writable buffer is copied back after the call. A worker whose
// kernel broke the context says so and ends: no later call can use it. In buffers that lie on the
// GPU themselves the entry works in place.

#include <cuda_runtime.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "arguments.h"
#include "backend.h"
#include "gpu_buffers.h"
#include "gpu_calls.h"
#include "mapping.h"
#include "text.h"

namespace warpgrade::host {
namespace {

// A stray pointer of host code within this distance of a buffer faults.
constexpr std::size_t margin = std::size_t(1) << 30;

class DeviceError {
public:
    explicit DeviceError(cudaError_t error) : error(error) {}
    const cudaError_t error;
};

void check(cudaError_t error) {
    if (error != cudaSuccess) throw DeviceError(error);
}

// Device memory of one tensor, and where in the arena it belongs.
class DeviceCopy {
public:
    DeviceCopy(char* host, std::size_t bytes, bool writable)
        : host_(host), bytes_(bytes), writable_(writable) {
        check(cudaMalloc(&memory_, bytes));
        const cudaError_t error = cudaMemcpy(memory_, host, bytes, cudaMemcpyHostToDevice);
        if (error != cudaSuccess) {
            cudaFree(memory_);
            throw DeviceError(error);
        }
    }
    DeviceCopy(const DeviceCopy&) = delete;
    DeviceCopy& operator=(const DeviceCopy&) = delete;
    ~DeviceCopy() { cudaFree(memory_); }

    char* at(std::size_t offset) const { return static_cast<char*>(memory_) + offset; }

    void take_back() const {
        if (writable_) check(cudaMemcpy(host_, memory_, bytes_, cudaMemcpyDeviceToHost));
    }

private:
    char* host_;
    std::size_t bytes_;
    bool writable_;
    void* memory_ = nullptr;
};

// A call with its arguments on the device.
struct Placed {
    const warpgrade_entry* entry;
    std::vector<warpgrade_value> values;
    std::vector<std::unique_ptr<DeviceCopy>> copies;
};

struct MappedBuffer {
    Mapping mapping;
    bool writable;
};

struct GpuBuffer {
    Buffer buffer;
    char* device = nullptr;  // once there is a context
};

std::vector<MappedBuffer> mapped;
std::vector<GpuBuffer> on_gpu;  // instead of those
std::vector<Call> sets;

void expose(const std::vector<Tensor>& tensors) {
    for (std::size_t index = 0; index < mapped.size(); ++index) {
        std::vector<std::pair<std::size_t, std::size_t>> ranges;
        for (const Tensor& tensor : tensors) {
            if (tensor.buffer == index) {
                ranges.emplace_back(tensor.allocation_offset, tensor.allocation_length);
            }
        }
        mapped[index].mapping.expose(ranges);
    }
}

// Point at tensors that lie on the GPU already. Throws BadRequest where one is to lie on the host.
void point_at_gpu(const Call& call, std::vector<warpgrade_value>& values) {
    for (const Tensor& tensor : call.tensors) {
        if (tensor.host_space) throw BadRequest("a tensor in host memory");
        values[tensor.argument].pointer = on_gpu[tensor.buffer].device + tensor.offset;
    }
}

Placed place(const Call& call) {
    Placed placed{call.entry, call.values, {}};
    if (!on_gpu.empty()) {
        point_at_gpu(call, placed.values);
        return placed;
    }
    for (const Tensor& tensor : call.tensors) {
        const MappedBuffer& buffer = mapped[tensor.buffer];
        void*& pointer = placed.values[tensor.argument].pointer;
        if (tensor.host_space) {
            pointer = buffer.mapping.at(tensor.offset);
            continue;
        }
        placed.copies.push_back(std::make_unique<DeviceCopy>(
            buffer.mapping.at(tensor.allocation_offset), tensor.allocation_length,
            buffer.writable));
        pointer = placed.copies.back()->at(tensor.offset - tensor.allocation_offset);
    }
    return placed;
}

// An error that stays when asked again has broken the context.
bool is_lost() {
    cudaGetLastError();
    return cudaDeviceSynchronize() != cudaSuccess;
}

Answer failure(cudaError_t error) {
    const bool lost = is_lost();
    Answer failed = answer(error == cudaErrorMemoryAllocation && !lost ? Code::out_of_memory
                                                                       : Code::device_failed,
                           cudaGetErrorName(error), cudaGetErrorString(error));
    failed.lost = failed.code == Code::device_failed;
    return failed;
}

// Of host code: no thread and no place is known.
std::string finding(const char* kind, const std::string& text) {
    return std::string("{\"kind\": \"") + kind + "\", \"text\": " + quoted(text, 500) + "}";
}

std::string copies_text(const Copies& copies) {
    return "{\"count\": " + std::to_string(copies.count) +
           ", \"bytes\": " + std::to_string(copies.bytes) +
           ", \"host_to_device\": " + std::to_string(copies.host_to_device) +
           ", \"device_to_host\": " + std::to_string(copies.device_to_host) +
           ", \"device_to_device\": " + std::to_string(copies.device_to_device) + "}";
}

// The report of the emulator's shape, of what can be seen from outside the kernel.
Answer report(cudaError_t unchecked, const CallRecord& calls) {
    std::string findings;
    if (unchecked != cudaSuccess) {
        const char* kind = calls.copy_refused ? "wrong_copy_direction" : "launch_error";
        findings = finding(kind, std::string(cudaGetErrorString(unchecked)) + " (" +
                                     cudaGetErrorName(unchecked) + ")");
    } else if (!calls.unfreed.empty()) {
        std::size_t bytes = 0;
        for (const Allocation& each : calls.unfreed) bytes += each.bytes;
        const std::size_t count = calls.unfreed.size();
        findings = finding("leak", std::to_string(bytes) + " bytes in " + std::to_string(count) +
                                       (count == 1 ? " allocation" : " allocations"));
    }
    return {findings.empty() ? Code::ok : Code::found,
            "{\"error\": " + std::to_string(static_cast<int>(unchecked)) +
                ", \"lost\": false, \"findings\": [" + findings +
                "], \"launches\": [], \"buffers\": [], \"copies\": " + copies_text(calls.copies) +
                ", \"cut\": false}"};
}

void free_all(const std::vector<Allocation>& allocations) {
    for (const Allocation& each : allocations) cudaFree(each.memory);
}

// Call the entry and wait for its kernels: the error it left behind without looking at it.
// Throws DeviceError where the context is broken.
cudaError_t call_and_wait(const Placed& placed) {
    cudaGetLastError();  // of whatever came before
    placed.entry->call(placed.values.data());
    const cudaError_t unchecked = cudaGetLastError();
    check(cudaDeviceSynchronize());
    return unchecked;
}

Answer run_placed(const Call& call) {
    expose(call.tensors);
    const Placed placed = place(call);
    begin_calls();
    cudaError_t unchecked = cudaSuccess;
    try {
        unchecked = call_and_wait(placed);
    } catch (...) {
        end_calls();
        throw;
    }
    const CallRecord calls = end_calls();
    for (const auto& copy : placed.copies) copy->take_back();
    free_all(calls.unfreed);
    if (unchecked == cudaErrorMemoryAllocation) return failure(unchecked);
    return report(unchecked, calls);
}

}  // namespace

void map_buffers(const std::vector<Buffer>& buffers) {
    for (const Buffer& each : buffers) {
        if (each.on_gpu) {
            on_gpu.push_back({each});
            continue;
        }
        mapped.push_back({Mapping(each.descriptor, each.length, each.writable, margin),
                          each.writable});
    }
}

// Starts the context now, so that its time isn't the first case's.
Answer load() {
    const cudaError_t error = cudaFree(nullptr);
    if (error != cudaSuccess) return failure(error);
    try {
        for (GpuBuffer& each : on_gpu) each.device = import_gpu_buffer(each.buffer);
    } catch (const std::runtime_error& refused) {
        return answer(Code::bad_request, refused.what());
    }
    return {};
}

Answer run(Call& call) {
    try {
        return run_placed(call);
    } catch (const DeviceError& error) {
        return failure(error.error);
    }
}

Answer place_set(const Call& call, unsigned number) {
    if (number > sets.size()) return answer(Code::bad_request, "no such set");
    if (on_gpu.empty()) return answer(Code::bad_request, "no buffers on the GPU");
    sets.resize(number);
    sets.push_back(call);
    point_at_gpu(call, sets.back().values);
    return {};
}

// The grader has the clock, and what counts is its word; the events are for our own programs.
Answer call_sets(unsigned first, unsigned count, std::uint64_t& nanoseconds) {
    if (first > sets.size() || count > sets.size() - first) {
        return answer(Code::bad_request, "no such set");
    }
    static cudaEvent_t begin, end;
    static const cudaError_t made = [] {
        const cudaError_t error = cudaEventCreate(&begin);
        return error == cudaSuccess ? cudaEventCreate(&end) : error;
    }();
    if (made != cudaSuccess) return failure(made);
    cudaGetLastError();
    cudaEventRecord(begin);
    for (unsigned index = first; index < first + count; ++index) {
        sets[index].entry->call(sets[index].values.data());
    }
    const cudaError_t unchecked = cudaGetLastError();
    cudaEventRecord(end);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) return failure(error);
    if (unchecked == cudaErrorMemoryAllocation) return failure(unchecked);
    if (unchecked != cudaSuccess) return report(unchecked, {});
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    nanoseconds = static_cast<std::uint64_t>(milliseconds * 1e6);
    return {};
}

}  // namespace warpgrade::host

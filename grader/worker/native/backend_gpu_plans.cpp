// The backend of the executor on a GPU: runs plans on the grader's buffers, by the CUDA driver. The
// program has no host code of a submission.
//
// It maps the buffers of the plan and nothing else: no expected value, no baseline, no seed. Device
// code can reach this process, so its reports are untrusted: outputs are judged from the shared
// buffers, and times count only if the grader's own clock agrees.

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "arguments.h"
#include "backend.h"
#include "gpu_plan.h"
#include "mapping.h"
#include "text.h"

extern "C" {
// There is no entry here.
const warpgrade_entry warpgrade_entries[] = {{nullptr, nullptr, nullptr}};
const unsigned warpgrade_entry_count = 0;
}

namespace warpgrade::host {
namespace {

using Places = std::map<int, Place>;

constexpr std::size_t margin = 0;  // device code can't reach host mappings
constexpr unsigned flushes = 4;  // times the L2 cache's size, written before a replay

struct SharedBuffer {
    Buffer described;
    std::unique_ptr<Mapping> mapping;  // of host memory
    CUdeviceptr address = 0;  // of memory of the GPU
};

std::vector<SharedBuffer> shared;
CUstream work = nullptr;
CUdevice device = 0;
bool started = false;

// GPU memory for a tensor that the grader put into host memory, and the way back.
class DeviceCopy {
public:
    DeviceCopy(char* host, std::size_t bytes, bool writable)
        : host_(host), bytes_(bytes), writable_(writable) {
        CHECKED(cuMemAlloc, &memory_, bytes);
        // In the work's stream, which waits for no other: cuMemcpyHtoD may end after it began.
        CHECKED(cuMemcpyHtoDAsync, memory_, host, bytes, work);
    }
    DeviceCopy(const DeviceCopy&) = delete;
    DeviceCopy& operator=(const DeviceCopy&) = delete;
    ~DeviceCopy() { DRIVER(cuMemFree)(memory_); }

    CUdeviceptr memory() const { return memory_; }
    void take_back() const {
        if (writable_) CHECKED(cuMemcpyDtoH, host_, memory_, bytes_);
    }

private:
    char* host_;
    std::size_t bytes_;
    bool writable_;
    CUdeviceptr memory_ = 0;
};

using Copies = std::vector<std::unique_ptr<DeviceCopy>>;

std::vector<Places> sets;
std::unique_ptr<LoadedPlan> timed;
CUgraphExec arranged = nullptr, without_calls = nullptr;
CUdeviceptr flushed = 0;
std::size_t flushed_bytes = 0;
CUevent begin = nullptr, end = nullptr;

void import(SharedBuffer& buffer) {
    const Buffer& described = buffer.described;
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle handle = 0;
    CHECKED(cuMemImportFromShareableHandle, &handle,
            reinterpret_cast<void*>(static_cast<std::intptr_t>(described.descriptor)),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CHECKED(cuMemAddressReserve, &address, described.length, 0, 0, 0);
    CHECKED(cuMemMap, address, described.length, 0, handle, 0);
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = described.writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                      : CU_MEM_ACCESS_FLAGS_PROT_READ;
    CHECKED(cuMemSetAccess, address, described.length, &access, 1);
    close(described.descriptor);
    buffer.address = address;
}

// The context, with the buffers in it; after a failure, the next request retries what is missing.
// Waiting keeps the processor busy, since a wake-up takes longer than the grader's clock and the
// device's may differ.
void start() {
    if (started) return;
    CHECKED(cuInit, 0);
    CHECKED(cuDeviceGet, &device, 0);
    CUcontext context = nullptr;
    CHECKED(cuDevicePrimaryCtxSetFlags, device, CU_CTX_SCHED_SPIN);
    CHECKED(cuDevicePrimaryCtxRetain, &context, device);
    CHECKED(cuCtxSetCurrent, context);
    if (!work) CHECKED(cuStreamCreate, &work, CU_STREAM_NON_BLOCKING);
    for (SharedBuffer& each : shared) {
        if (each.described.on_gpu && !each.address) import(each);
    }
    started = true;
}

Place place_of(const Tensor& tensor, Copies* copies) {
    SharedBuffer& buffer = shared[tensor.buffer];
    const std::size_t shift = tensor.offset - tensor.allocation_offset;
    Place place{};
    place.host = tensor.host_space;
    place.bytes = tensor.allocation_length;
    place.writable = buffer.described.writable;
    if (buffer.described.on_gpu) {
        if (place.host) throw BadRequest("a tensor in host memory, in a buffer on the GPU");
        place.allocation = buffer.address + tensor.allocation_offset;
    } else if (place.host) {
        const char* memory = buffer.mapping->at(tensor.allocation_offset);
        place.allocation = reinterpret_cast<CUdeviceptr>(memory);
    } else {
        if (!copies) throw BadRequest("a buffer that isn't on the GPU");
        copies->push_back(std::make_unique<DeviceCopy>(
            buffer.mapping->at(tensor.allocation_offset), tensor.allocation_length,
            buffer.described.writable));
        place.allocation = copies->back()->memory();
    }
    place.view = place.allocation + shift;
    return place;
}

Places places_of(const Call& call, Copies* copies) {
    Places places;
    for (const Tensor& each : call.tensors) places[each.argument] = place_of(each, copies);
    return places;
}

void expose(const std::vector<Tensor>& tensors) {
    for (std::size_t number = 0; number < shared.size(); ++number) {
        if (!shared[number].mapping) continue;
        std::vector<std::pair<std::size_t, std::size_t>> ranges;
        for (const Tensor& each : tensors) {
            if (each.buffer == number) {
                ranges.emplace_back(each.allocation_offset, each.allocation_length);
            }
        }
        shared[number].mapping->expose(ranges);
    }
}

// A persistent error has broken the context.
bool is_lost() {
    try {
        return DRIVER(cuCtxSynchronize)() != CUDA_SUCCESS;
    } catch (const DriverError&) {
        return true;
    }
}

Answer failure(const DriverError& error) {
    const bool lost = is_lost();
    // Too little memory for a context is not a kernel's fault.
    const bool full = error.result == CUDA_ERROR_OUT_OF_MEMORY && (!lost || !started);
    const Code refused = lost ? Code::device_failed : Code::raised;
    const std::string doing = lost && started ? "" : " (" + std::string(error.what()) + ")";
    Answer failed = answer(full ? Code::out_of_memory : refused, name_of(error.result),
                           words_of(error.result) + doing);
    failed.lost = lost;
    return failed;
}

Answer guarded(const std::function<Answer()>& serve) {
    try {
        start();
        return serve();
    } catch (const DriverError& error) {
        return failure(error);
    } catch (const BadDocument& error) {
        return answer(Code::bad_request, error.what());
    }
}

void forget_graph() {
    if (arranged) CHECKED(cuGraphExecDestroy, std::exchange(arranged, nullptr));
    if (timed) timed->forget_uploads();
}

// The buffer written before a replay is larger than the L2 cache, so that nothing of the sets stays
// in it.
void prepare_clock() {
    if (begin) return;
    int cache = 0;
    CHECKED(cuDeviceGetAttribute, &cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
    flushed_bytes = std::size_t(cache) * flushes;
    CHECKED(cuMemAlloc, &flushed, std::max<std::size_t>(flushed_bytes, 1));
    CHECKED(cuEventCreate, &begin, CU_EVENT_DEFAULT);
    CHECKED(cuEventCreate, &end, CU_EVENT_DEFAULT);
}

// The events are in the graph, so that their times exclude the processor's work.
CUgraph captured(const std::vector<unsigned>& order) {
    CHECKED(cuStreamBeginCapture, work, CU_STREAM_CAPTURE_MODE_RELAXED);
    CUgraph graph = nullptr;
    try {
        CHECKED(cuMemsetD32Async, flushed, 0, flushed_bytes / 4, work);
        CHECKED(cuEventRecordWithFlags, begin, work, CU_EVENT_RECORD_EXTERNAL);
        for (unsigned number : order) {
            if (number >= sets.size()) throw BadRequest("no such set");
            timed->enqueue(timed->calls() - 1, sets[number], work);
        }
        CHECKED(cuEventRecordWithFlags, end, work, CU_EVENT_RECORD_EXTERNAL);
    } catch (...) {
        DRIVER(cuStreamEndCapture)(work, &graph);
        throw;
    }
    CHECKED(cuStreamEndCapture, work, &graph);
    return graph;
}

// The calls of some sets as a graph on the device. Throws what `captured` throws.
CUgraphExec made_of(const std::vector<unsigned>& order) {
    const CUgraph graph = captured(order);
    CUgraphExec made = nullptr;
    const CUresult result = DRIVER(cuGraphInstantiate)(&made, graph, 0);
    CHECKED(cuGraphDestroy, graph);
    check(result, "cuGraphInstantiate");
    CHECKED(cuGraphUpload, made, work);
    CHECKED(cuStreamSynchronize, work);
    return made;
}

}  // namespace

void map_buffers(const std::vector<Buffer>& buffers) {
    for (const Buffer& each : buffers) {
        SharedBuffer buffer{each, nullptr, 0};
        if (!each.on_gpu) {
            buffer.mapping = std::make_unique<Mapping>(each.descriptor, each.length, each.writable,
                                                       margin);
        }
        shared.push_back(std::move(buffer));
    }
}

Answer load() { return {}; }

Answer execute(Call& call, const std::string& document) {
    return guarded([&]() -> Answer {
        expose(call.tensors);
        LoadedPlan plan(read_plan(document));
        Copies copies;
        const Places places = places_of(call, &copies);
        plan.restore_state(work);
        plan.enqueue(0, places, work);
        CHECKED(cuStreamSynchronize, work);
        for (const auto& each : copies) each->take_back();
        return {};
    });
}

Answer place_set(const Call& call, unsigned number) {
    return guarded([&]() -> Answer {
        if (number > sets.size()) return answer(Code::bad_request, "no such set");
        sets.resize(number);
        sets.push_back(places_of(call, nullptr));
        return {};
    });
}

// Of two calls, the first one makes the set-up for the second.
Answer adopt(const std::string& document) {
    return guarded([&]() -> Answer {
        forget_graph();
        timed.reset();
        timed = std::make_unique<LoadedPlan>(read_plan(document));
        if (timed->calls() == 1) return {};
        if (sets.empty()) return answer(Code::bad_request, "there are no sets");
        timed->restore_state(work);
        timed->enqueue(0, sets.front(), work);
        CHECKED(cuStreamSynchronize, work);
        timed->keep_state();
        return {};
    });
}

Answer arrange(const std::vector<unsigned>& order) {
    return guarded([&]() -> Answer {
        if (!timed) return answer(Code::bad_request, "there is no plan");
        prepare_clock();
        forget_graph();
        if (!without_calls) without_calls = made_of({});
        arranged = made_of(order);
        return {};
    });
}

Answer replay(bool with_calls, std::uint64_t& nanoseconds) {
    return guarded([&]() -> Answer {
        if (!arranged) return answer(Code::bad_request, "nothing is arranged");
        timed->restore_state(work);
        DRIVER(cuCtxResetPersistingL2Cache)();  // nothing on a GPU without persisting lines
        CHECKED(cuStreamSynchronize, work);
        CHECKED(cuGraphLaunch, with_calls ? arranged : without_calls, work);
        CHECKED(cuCtxSynchronize);
        float milliseconds = 0;
        CHECKED(cuEventElapsedTime, &milliseconds, begin, end);
        nanoseconds = static_cast<std::uint64_t>(double(milliseconds) * 1e6);
        return {};
    });
}

}  // namespace warpgrade::host

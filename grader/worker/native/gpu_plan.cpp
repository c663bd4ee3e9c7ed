#include "gpu_plan.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace warpgrade::host {
namespace {

constexpr unsigned char unwritten = 0xFF;  // NaN in every floating-point format
constexpr unsigned plain_shared = 48 * 1024;  // a kernel's limit unless it is raised
constexpr unsigned most_portable_cluster = 8;
// Our own streams, by numbers that no plan uses. In turn: in a captured graph, a stream without
// work of its own waits for everything it ever waited for.
constexpr std::uint32_t beside = no_stream - 1, turns = 64;

CUfunction function_of(CUmodule module, const PlanKernel& kernel) {
    CUfunction function = nullptr;
    CHECKED(cuModuleGetFunction, &function, module, kernel.name.c_str());
    if (kernel.most_shared > plain_shared) {
        CHECKED(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                static_cast<int>(kernel.most_shared));
    }
    return function;
}

// Pointers to the parameters among their bytes, in the kernel's layout.
std::vector<void*> parameters_of(CUfunction function, std::string& data) {
    std::vector<void*> found;
    std::size_t offset = 0, size = 0;
    while (DRIVER(cuFuncGetParamInfo)(function, found.size(), &offset, &size) == CUDA_SUCCESS) {
        if (offset + size > data.size()) data.resize(offset + size);  // what Triton adds: null
        found.push_back(reinterpret_cast<void*>(offset));
    }
    for (void*& each : found) each = &data[reinterpret_cast<std::size_t>(each)];
    return found;
}

}  // namespace

LoadedPlan::LoadedPlan(PlanDocument document, Empty) : plan_(std::move(document)) {}

// If it fails halfway, the destructor frees the rest: construction has completed.
LoadedPlan::LoadedPlan(PlanDocument document) : LoadedPlan(std::move(document), Empty{}) { load(); }

void LoadedPlan::load() {
    for (const PlanModule& each : plan_.modules) {
        CUmodule module = nullptr;
        CHECKED(cuModuleLoadData, &module, each.cubin.data());
        modules_.push_back(module);
    }
    for (const PlanKernel& each : plan_.kernels) {
        functions_.push_back(function_of(module_at(each.module), each));
    }
    for (const PlanBuffer& each : plan_.buffers) {
        CUdeviceptr memory = 0;
        if (each.kind == BufferKind::device) {
            CHECKED(cuMemAlloc, &memory, std::max<std::size_t>(each.bytes, 1));
        } else if (each.kind == BufferKind::symbol) {
            std::size_t bytes = 0;
            CHECKED(cuModuleGetGlobal, &memory, &bytes, module_at(each.module), each.name.c_str());
            if (bytes < each.bytes) throw BadDocument("a variable of another size");
        }
        memory_.push_back(memory);
    }
    keep_state();
}

LoadedPlan::~LoadedPlan() {
    try {
        DRIVER(cuCtxSynchronize)();  // the first steps of a refused call may be running
        for (std::size_t number = 0; number < memory_.size(); ++number) {
            const bool own = plan_.buffers[number].kind == BufferKind::device;
            if (own) DRIVER(cuMemFree)(memory_[number]);
        }
        for (CUevent each : events_) DRIVER(cuEventDestroy)(each);
        for (const auto& [number, stream] : streams_) DRIVER(cuStreamDestroy)(stream);
        for (CUmodule each : modules_) DRIVER(cuModuleUnload)(each);
    } catch (const DriverError&) {  // the context and everything in it is gone
    }
}

CUmodule LoadedPlan::module_at(std::uint32_t number) const {
    if (number >= modules_.size()) throw BadDocument("a module that isn't there");
    return modules_[number];
}

// ---- State between calls ------------------------------------------------------------------------

void LoadedPlan::keep_state() {
    kept_.clear();
    for (std::size_t number = 0; number < modules_.size(); ++number) {
        for (const GlobalVariable& each : plan_.modules[number].variables) {
            CUdeviceptr where = 0;
            std::size_t bytes = 0;
            const CUresult found = DRIVER(cuModuleGetGlobal)(&where, &bytes, modules_[number],
                                                             each.name.c_str());
            if (found != CUDA_SUCCESS || !bytes) continue;  // not in the module
            kept_.push_back({where, std::string(bytes, '\0')});
        }
    }
    if (calls() > 1) {
        for (std::size_t number = 0; number < memory_.size(); ++number) {
            const PlanBuffer& buffer = plan_.buffers[number];
            if (buffer.kind != BufferKind::device || !buffer.bytes) continue;
            kept_.push_back({memory_[number], std::string(buffer.bytes, '\0')});
        }
    }
    for (Kept& each : kept_) {
        CHECKED(cuMemcpyDtoH, each.bytes.data(), each.where, each.bytes.size());
    }
}

void LoadedPlan::restore_state(CUstream stream) {
    for (std::size_t number = 0; number < memory_.size(); ++number) {
        const PlanBuffer& buffer = plan_.buffers[number];
        if (buffer.kind != BufferKind::device || !buffer.bytes || calls() > 1) continue;
        CHECKED(cuMemsetD8Async, memory_[number], unwritten, buffer.bytes, stream);
    }
    for (const Kept& each : kept_) {
        CHECKED(cuMemcpyHtoDAsync, each.where, each.bytes.data(), each.bytes.size(), stream);
    }
}

// ---- Places --------------------------------------------------------------------------------------

LoadedPlan::Location LoadedPlan::base(std::uint32_t number,
                                      const std::map<int, Place>& places) const {
    if (number >= plan_.buffers.size()) throw BadDocument("a buffer that isn't there");
    const PlanBuffer& buffer = plan_.buffers[number];
    if (buffer.kind == BufferKind::device || buffer.kind == BufferKind::symbol) {
        return {memory_[number], buffer.bytes, false, true};
    }
    const auto found = places.find(buffer.argument);
    if (found == places.end()) throw BadDocument("an argument that isn't there");
    const Place& place = found->second;
    const bool is_view = buffer.kind == BufferKind::view;
    const std::uint64_t room = place.bytes - (is_view ? place.view - place.allocation : 0);
    return {is_view ? place.view : place.allocation, std::min<std::uint64_t>(buffer.bytes, room),
            place.host, place.writable};
}

LoadedPlan::Location LoadedPlan::place(const Rows& rows,
                                       const std::map<int, Place>& places) const {
    Location found = base(rows.buffer, places);
    if (rows.height > 1 && rows.pitch < rows.width) throw BadDocument("rows that overlap");
    using Wide = unsigned __int128;  // which holds the product of any two numbers
    const Wide last = rows.height ? Wide(rows.height - 1) * rows.pitch : 0;
    const bool inside = rows.offset >= 0 &&
                        Wide(rows.offset) + last + rows.width <= found.bytes;
    if (!inside) throw BadDocument("rows beyond their buffer");
    found.address += rows.offset;
    found.bytes -= rows.offset;
    return found;
}

// A host store to read-only memory would end the process.
LoadedPlan::Location LoadedPlan::writable_place(const Rows& rows,
                                                const std::map<int, Place>& places) const {
    const Location found = place(rows, places);
    if (found.host && !found.writable) throw BadDocument("host memory that is only read");
    return found;
}

void LoadedPlan::relocate(std::string& data, const std::vector<Relocation>& pointers,
                          const std::map<int, Place>& places) const {
    for (const Relocation& each : pointers) {
        if (each.at + sizeof(CUdeviceptr) > data.size()) throw BadDocument("a pointer beyond");
        const CUdeviceptr address = base(each.buffer, places).address + each.offset;
        std::memcpy(&data[each.at], &address, sizeof address);
    }
}

// ---- Steps ---------------------------------------------------------------------------------------

// The plan's streams, which all begin after the given one and end before it continues.
struct LoadedPlan::Streams {
    Streams(LoadedPlan& plan, const std::vector<PlanStep>& steps, CUstream outer)
        : plan(plan), outer(outer) {
        std::set<std::uint32_t> used;
        for (const PlanStep& each : steps) {
            if (each.stream != no_stream) used.insert(each.stream);
        }
        if (used.size() > 1) {
            for (std::uint32_t each : used) own[each] = plan.stream(each);
        }
        fork();
    }

    CUevent recorded(CUstream stream) {
        if (next == plan.events_.size()) {
            CUevent event = nullptr;
            CHECKED(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
            plan.events_.push_back(event);
        }
        const CUevent event = plan.events_[next++];
        CHECKED(cuEventRecord, event, stream);
        return event;
    }

    void fork() {
        if (own.empty()) return;
        const CUevent begin = recorded(outer);
        for (const auto& [number, stream] : own) CHECKED(cuStreamWaitEvent, stream, begin, 0);
    }

    void join() {
        for (const auto& [number, stream] : own) {
            CHECKED(cuStreamWaitEvent, outer, recorded(stream), 0);
        }
        if (overlapped) CHECKED(cuStreamWaitEvent, outer, recorded(overlapped), 0);
        overlapped = nullptr;
    }

    // An overlapped launch may begin, and end, before earlier work on its stream has ended. So the
    // stream's end isn't enough, and a stream of ours waits for that work.
    void overlap(CUstream stream) {
        if (!overlapped) overlapped = plan.stream(beside - plan.turn_++ % turns);
        CHECKED(cuStreamWaitEvent, overlapped, recorded(stream), 0);
    }

    CUstream of(std::uint32_t number) const { return own.empty() ? outer : own.at(number); }

    LoadedPlan& plan;
    CUstream outer;
    std::map<std::uint32_t, CUstream> own;  // empty if one stream does for all steps
    std::map<std::uint32_t, CUevent> events;
    CUstream overlapped = nullptr;  // where launches have been overlapped since the last join
    std::size_t next = 0;
};

CUstream LoadedPlan::stream(std::uint32_t number) {
    CUstream& stream = streams_[number];
    if (!stream) CHECKED(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    return stream;
}

void LoadedPlan::enqueue(std::size_t call, const std::map<int, Place>& places, CUstream outer) {
    const std::vector<PlanStep>& steps = plan_.calls.at(call);
    Streams streams(*this, steps, outer);
    for (const PlanStep& step : steps) {
        if (step.stream == no_stream) {
            streams.join();
            run(step, places, outer);
            streams.fork();
        } else if (step.what == Do::record) {
            streams.events[step.number] = streams.recorded(streams.of(step.stream));
        } else if (step.what == Do::wait) {
            const auto found = streams.events.find(step.number);
            if (found == streams.events.end()) continue;  // never recorded: no wait, as in CUDA
            CHECKED(cuStreamWaitEvent, streams.of(step.stream), found->second, 0);
        } else {
            const CUstream stream = streams.of(step.stream);
            if (step.what == Do::launch && step.programmatic) streams.overlap(stream);
            run(step, places, stream);
        }
    }
    streams.join();
}

void LoadedPlan::run(const PlanStep& step, const std::map<int, Place>& places, CUstream stream) {
    switch (step.what) {
        case Do::fill: return fill(step, places, stream);
        case Do::copy:
            if (step.to.width != step.from.width || step.to.height != step.from.height) {
                throw BadDocument("a copy between shapes that differ");
            }
            return copy(step.to, writable_place(step.to, places), place(step.from, places),
                        step.from.pitch, stream);
        case Do::upload: {
            using Wide = unsigned __int128;
            if (Wide(step.to.width) * step.to.height != step.data.size()) {
                throw BadDocument("bytes for another number of bytes");
            }
            std::string& data = uploads_.emplace_back(step.data);
            relocate(data, step.pointers, places);
            const auto from = reinterpret_cast<CUdeviceptr>(data.data());
            return copy(step.to, writable_place(step.to, places), {from, data.size(), true, false},
                        step.to.width, stream);
        }
        case Do::launch: return launch(step, places, stream);
        case Do::record:
        case Do::wait: return;
    }
}

void LoadedPlan::fill(const PlanStep& step, const std::map<int, Place>& places, CUstream stream) {
    const Location to = writable_place(step.to, places);
    const Rows& rows = step.to;
    const bool known = step.unit == 1 || step.unit == 2 || step.unit == 4;
    if (!known || rows.width % step.unit) throw BadDocument("a fill with that many bytes");
    if (!rows.width || !rows.height) return;
    if (to.host) {
        if (step.unit != 1) throw BadDocument("a fill of host memory with more than bytes");
        CHECKED(cuStreamSynchronize, stream);
        for (std::uint64_t row = 0; row < rows.height; ++row) {
            std::memset(reinterpret_cast<char*>(to.address) + row * rows.pitch,
                        static_cast<int>(step.number), rows.width);
        }
        return;
    }
    const std::size_t width = rows.width / step.unit;
    const std::size_t pitch = rows.height > 1 ? rows.pitch : rows.width;
    switch (step.unit) {
        case 1: return CHECKED(cuMemsetD2D8Async, to.address, pitch,
                               static_cast<unsigned char>(step.number), width, rows.height, stream);
        case 2: return CHECKED(cuMemsetD2D16Async, to.address, pitch,
                               static_cast<unsigned short>(step.number), width, rows.height, stream);
        default: return CHECKED(cuMemsetD2D32Async, to.address, pitch, step.number, width,
                                rows.height, stream);
    }
}

void LoadedPlan::copy(const Rows& rows, Location to, Location from, std::uint64_t pitch,
                      CUstream stream) {
    if (!rows.width || !rows.height) return;
    if (rows.height == 1 && !to.host && !from.host) {
        return CHECKED(cuMemcpyDtoDAsync, to.address, from.address, rows.width, stream);
    }
    CUDA_MEMCPY2D wanted{};
    wanted.srcMemoryType = from.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    wanted.dstMemoryType = to.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    wanted.srcHost = reinterpret_cast<void*>(from.address);
    wanted.srcDevice = from.address;
    wanted.dstHost = reinterpret_cast<void*>(to.address);
    wanted.dstDevice = to.address;
    wanted.srcPitch = rows.height > 1 ? pitch : rows.width;
    wanted.dstPitch = rows.height > 1 ? rows.pitch : rows.width;
    wanted.WidthInBytes = rows.width;
    wanted.Height = rows.height;
    CHECKED(cuMemcpy2DAsync, &wanted, stream);
}

void LoadedPlan::launch(const PlanStep& step, const std::map<int, Place>& places,
                        CUstream stream) {
    if (step.number >= functions_.size()) throw BadDocument("a kernel that isn't there");
    const CUfunction function = functions_[step.number];
    std::string data = step.data;
    relocate(data, step.pointers, places);
    for (const TensorMap& each : step.maps) {
        if (each.at + sizeof(CUtensorMap) > data.size()) throw BadDocument("a descriptor beyond");
        alignas(64) CUtensorMap map{};
        const CUdeviceptr address = base(each.buffer, places).address + each.offset;
        const std::array<std::uint32_t, 5> ones{1, 1, 1, 1, 1};
        CHECKED(cuTensorMapEncodeTiled, &map, static_cast<CUtensorMapDataType>(each.type),
                each.rank, reinterpret_cast<void*>(address), each.sizes.data(),
                each.strides.data(), each.box.data(), ones.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                static_cast<CUtensorMapSwizzle>(each.swizzle),
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                static_cast<CUtensorMapFloatOOBfill>(each.fill));
        std::memcpy(&data[each.at], &map, sizeof map);
    }
    std::vector<void*> parameters = parameters_of(function, data);
    CUlaunchAttribute attributes[3]{};
    CUlaunchConfig config{};
    config.gridDimX = step.grid[0], config.gridDimY = step.grid[1], config.gridDimZ = step.grid[2];
    config.blockDimX = step.block[0], config.blockDimY = step.block[1];
    config.blockDimZ = step.block[2];
    config.sharedMemBytes = step.shared;
    config.hStream = stream;
    config.attrs = attributes;
    if (step.cooperative) {
        attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[config.numAttrs++].value.cooperative = 1;
    }
    if (step.programmatic) {
        attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[config.numAttrs++].value.programmaticStreamSerializationAllowed = 1;
    }
    const std::uint32_t blocks = step.cluster[0] * step.cluster[1] * step.cluster[2];
    if (blocks > 1) {
        if (blocks > most_portable_cluster) {
            CHECKED(cuFuncSetAttribute, function,
                    CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
        }
        attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        auto& size = attributes[config.numAttrs++].value.clusterDim;
        size.x = step.cluster[0], size.y = step.cluster[1], size.z = step.cluster[2];
    }
    CHECKED(cuLaunchKernelEx, &config, function, parameters.data(), nullptr);
}

}  // namespace warpgrade::host

// Modules, their kernels and variables, launches, and tensor descriptors.
//
// A module is a shared object behind a head of 32 bytes: "FAKECUBI", its length, the sum of its
// bytes, and the sum of those. A kernel is a function `void name(void** parameters, const unsigned*
// grid, const unsigned* block)`, with a table of its parameters beside it: `const unsigned
// name_parameters[]`, offset and size of each, and a size of 0 behind the last.

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "fake.h"

using Kernel = void (*)(void** parameters, const unsigned* grid, const unsigned* block);

struct CUfunc_st {
    std::string name;
    Kernel run = nullptr;
    std::vector<std::array<unsigned, 2>> parameters;  // offset, size
    unsigned most_shared = 48 * 1024;
    bool large_clusters = false;
};

struct CUmod_st {
    void* library = nullptr;
    int descriptor = -1;
    std::vector<std::unique_ptr<CUfunc_st>> functions;
    std::set<CUdeviceptr> variables;
};

namespace fake {

Handles<CUmodule> modules;

namespace {

std::set<CUfunction> functions;

std::uint64_t sum(const char* bytes, std::size_t length) {
    std::uint64_t found = 14695981039346656037u;
    for (std::size_t at = 0; at < length; ++at) {
        found = (found ^ static_cast<unsigned char>(bytes[at])) * 1099511628211u;
    }
    return found;
}

// The length of what stands behind the head, or 0.
std::size_t length_of(const char* image) {
    std::uint64_t fields[3];
    if (std::strncmp(image, "FAKECUBI", 8)) return 0;
    std::memcpy(fields, image + 8, sizeof fields);
    if (fields[2] != sum(image, 24) || fields[1] != sum(image + 32, fields[0])) return 0;
    return fields[0];
}

struct Shape {
    unsigned grid[3], block[3], cluster[3]{1, 1, 1};
    bool cooperative = false, programmatic = false;
};

std::string numbers(const unsigned* three) {
    std::string text;
    for (int axis = 0; axis < 3; ++axis) text += " " + std::to_string(three[axis]);
    return text;
}

Shape shape_of(const CUlaunchConfig& config) {
    Shape shape{{config.gridDimX, config.gridDimY, config.gridDimZ},
                {config.blockDimX, config.blockDimY, config.blockDimZ}};
    for (unsigned at = 0; at < config.numAttrs; ++at) {
        const CUlaunchAttribute& each = config.attrs[at];
        if (each.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) shape.cooperative = each.value.cooperative;
        if (each.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
            shape.programmatic = each.value.programmaticStreamSerializationAllowed;
        }
        if (each.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            const auto& size = each.value.clusterDim;
            shape.cluster[0] = size.x, shape.cluster[1] = size.y, shape.cluster[2] = size.z;
        }
    }
    return shape;
}

bool can_be(const Shape& shape, const CUfunc_st& function, unsigned shared) {
    std::uint64_t blocks = 1, threads = 1;
    for (int axis = 0; axis < 3; ++axis) {
        if (!shape.grid[axis] || !shape.block[axis] || !shape.cluster[axis]) return false;
        if (shape.grid[axis] % shape.cluster[axis] || shape.block[axis] > 1024) return false;
        blocks *= shape.cluster[axis], threads *= shape.block[axis];
        if (blocks > (function.large_clusters ? 16 : 8)) return false;
    }
    const bool in_grid = shape.grid[0] < 1u << 31 && shape.grid[1] < 65536 && shape.grid[2] < 65536;
    return threads <= 1024 && shared <= function.most_shared && in_grid;
}

}  // namespace
}  // namespace fake

using namespace fake;

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* given) {
    ENTER();
    const char* image = static_cast<const char*>(given);
    const std::size_t length = length_of(image);
    if (!length) return CUDA_ERROR_INVALID_IMAGE;
    const int descriptor = memfd_create("module", 0);
    const bool written = write(descriptor, image + 32, length) == static_cast<ssize_t>(length);
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    void* library = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) {
        log(std::string("no module: ") + (written ? dlerror() : "memfd"));
        close(descriptor);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *module = modules.add(new CUmod_st());
    (*module)->library = library;
    (*module)->descriptor = descriptor;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
    ENTER();
    if (!modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult result = finish_all();
    for (CUdeviceptr each : module->variables) remove_device_memory(each);
    for (const auto& each : module->functions) functions.erase(each.get());
    dlclose(module->library);
    close(module->descriptor);
    modules.remove(module);
    return result;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    ENTER();
    if (!modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
    const std::string table = std::string(name) + "_parameters";
    void* code = dlsym(module->library, name);
    auto* parameters = static_cast<const unsigned*>(dlsym(module->library, table.c_str()));
    if (!code || !parameters) return CUDA_ERROR_NOT_FOUND;
    auto made = std::make_unique<CUfunc_st>();
    made->name = name;
    made->run = reinterpret_cast<Kernel>(code);
    for (; parameters[1]; parameters += 2) made->parameters.push_back({parameters[0], parameters[1]});
    *function = made.get();
    functions.insert(made.get());
    module->functions.push_back(std::move(made));
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr* variable, std::size_t* bytes, CUmodule module,
                           const char* name) {
    ENTER();
    if (!modules.has(module)) return CUDA_ERROR_INVALID_HANDLE;
    void* found = dlsym(module->library, name);
    Dl_info info;
    ElfW(Sym)* symbol = nullptr;
    if (!found || !dladdr1(found, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) ||
        !symbol || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *variable = reinterpret_cast<CUdeviceptr>(found);
    *bytes = symbol->st_size;
    module->variables.insert(*variable);
    add_device_memory(*variable, *bytes);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, std::size_t number, std::size_t* offset,
                            std::size_t* size) {
    ENTER();
    if (!functions.count(function)) return CUDA_ERROR_INVALID_HANDLE;
    if (number >= function->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = function->parameters[number][0], *size = function->parameters[number][1];
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    ENTER();
    if (!functions.count(function)) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > 227 * 1024) return CUDA_ERROR_INVALID_VALUE;
        function->most_shared = static_cast<unsigned>(value);
    } else if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
        function->large_clusters = value;
    }
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** given,
                          void** extra) {
    ENTER();
    if (!functions.count(function)) return CUDA_ERROR_INVALID_HANDLE;
    const Shape shape = shape_of(*config);
    if (extra || !can_be(shape, *function, config->sharedMemBytes)) return CUDA_ERROR_INVALID_VALUE;
    log(function->name + ": grid" + numbers(shape.grid) + ", block" + numbers(shape.block) +
        ", cluster" + numbers(shape.cluster) + ", shared " +
        std::to_string(config->sharedMemBytes) + (shape.cooperative ? ", cooperative" : "") +
        (shape.programmatic ? ", programmatic" : ""));
    std::vector<std::string> values;  // as they are now
    for (std::size_t at = 0; at < function->parameters.size(); ++at) {
        values.emplace_back(static_cast<const char*>(given[at]), function->parameters[at][1]);
    }
    if (shape.programmatic) {  // at the earliest, as soon as the one before it may begin
        Nodes& last = config->hStream->last;
        Nodes earlier;
        for (const auto& each : last) {
            earlier.insert(earlier.end(), each->before.begin(), each->before.end());
        }
        last = earlier;
    }
    return add(config->hStream, [run = function->run, shape, values] {
        std::vector<std::string> own = values;
        std::vector<void*> parameters;
        for (std::string& each : own) parameters.push_back(each.data());
        return guarded([&] { run(parameters.data(), shape.grid, shape.block); });
    });
}

// The 128 bytes hold the arguments: type, rank, address, 5 sizes, 4 strides, the box, how it is
// swizzled, what lies beyond the tensor.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    ENTER();
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    if (reinterpret_cast<std::uintptr_t>(map) % 64 || place % 16) return CUDA_ERROR_INVALID_VALUE;
    if (rank < 1 || rank > 5 || type > 15 || swizzle > 6) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t fields[11] = {type | std::uint64_t(rank) << 32, place};
    std::uint32_t ends[7] = {0, 0, 0, 0, 0, swizzle, fill};
    for (unsigned at = 0; at < rank; ++at) {
        if (!sizes[at] || sizes[at] > 1ull << 32 || !box[at] || box[at] > 256 || steps[at] != 1) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        fields[2 + at] = sizes[at], ends[at] = box[at];
        if (at + 1 == rank) continue;
        if (strides[at] % 16 || strides[at] >= 1ull << 40) return CUDA_ERROR_INVALID_VALUE;
        fields[7 + at] = strides[at];
    }
    std::memcpy(map, fields, sizeof fields);
    std::memcpy(reinterpret_cast<char*>(map) + sizeof fields, ends, sizeof ends);
    return CUDA_SUCCESS;
}
}

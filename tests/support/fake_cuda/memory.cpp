// Memory of the device: allocated, or shared by a descriptor, mapped with the access that was asked
// for; copies and fills.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "fake.h"

namespace fake {
namespace {

constexpr std::size_t page = 4096;
constexpr unsigned char junk = 0xA5;  // what memory that nobody has written holds

struct Allocation {
    std::size_t asked, mapped;
};

std::map<CUdeviceptr, Allocation> allocations;
std::map<CUdeviceptr, std::size_t> known, reserved;
std::map<CUmemGenericAllocationHandle, int> imported;  // descriptors
std::map<CUdeviceptr, int> mapped;
std::size_t used = 0;

std::size_t in_all() {
    const char* text = std::getenv("FAKE_CUDA_MEMORY");
    return text ? std::strtoull(text, nullptr, 10) : std::size_t(1) << 30;
}

char* at(CUdeviceptr address) { return reinterpret_cast<char*>(address); }

// Rows of a fill, each of which holds `width` values.
template <typename Value>
CUresult fill(CUdeviceptr to, std::size_t pitch, Value value, std::size_t width,
              std::size_t height, CUstream stream) {
    const std::size_t row = width * sizeof value;
    const bool aligned = to % sizeof value == 0 && pitch % sizeof value == 0;
    if (!aligned || (height > 1 && pitch < row)) return CUDA_ERROR_INVALID_VALUE;
    const std::size_t bytes = height ? (height - 1) * pitch + row : 0;
    if (!is_device_memory(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return add(stream, [=] {
        return guarded([&] {
            for (std::size_t y = 0; y < height; ++y) {
                auto* first = reinterpret_cast<Value*>(at(to) + y * pitch);
                for (std::size_t x = 0; x < width; ++x) first[x] = value;
            }
        });
    });
}

}  // namespace

bool is_device_memory(CUdeviceptr start, std::size_t bytes) {
    auto found = known.upper_bound(start);
    if (found == known.begin()) return false;
    --found;
    const std::size_t skipped = start - found->first;
    return skipped <= found->second && bytes <= found->second - skipped;
}

void add_device_memory(CUdeviceptr start, std::size_t bytes) { known[start] = bytes; }
void remove_device_memory(CUdeviceptr start) { known.erase(start); }

}  // namespace fake

using namespace fake;

extern "C" {

CUresult cuMemAlloc(CUdeviceptr* made, std::size_t bytes) {
    ENTER();
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > in_all() - used) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::size_t length = (bytes + page - 1) / page * page;
    void* memory = mmap(nullptr, length + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, length, PROT_READ | PROT_WRITE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    std::memset(memory, junk, length);
    *made = reinterpret_cast<CUdeviceptr>(memory);
    allocations[*made] = {bytes, length + page};
    add_device_memory(*made, bytes);
    used += bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr memory) {
    ENTER();
    const auto found = allocations.find(memory);
    if (found == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = finish_all();
    munmap(at(memory), found->second.mapped);
    used -= found->second.asked;
    allocations.erase(found);
    remove_device_memory(memory);
    return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* given,
                                        CUmemAllocationHandleType type) {
    ENTER();
    const int descriptor = dup(static_cast<int>(reinterpret_cast<std::intptr_t>(given)));
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || descriptor < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = imported.size() + 1;
    imported[*handle] = descriptor;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* made, std::size_t bytes, std::size_t, CUdeviceptr,
                             unsigned long long) {
    ENTER();
    void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                        -1, 0);
    if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = reinterpret_cast<CUdeviceptr>(memory);
    reserved[*made] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr place, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
    ENTER();
    const auto found = reserved.find(place);
    if (found == reserved.end() || found->second != bytes || offset || !imported.count(handle)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    mapped[place] = imported[handle];
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr place, std::size_t bytes, const CUmemAccessDesc* wanted,
                        std::size_t count) {
    ENTER();
    if (count != 1 || !mapped.count(place)) return CUDA_ERROR_INVALID_VALUE;
    const bool writable = wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const int access = PROT_READ | (writable ? PROT_WRITE : 0);
    void* memory = mmap(at(place), bytes, access, MAP_SHARED | MAP_FIXED, mapped[place], 0);
    if (memory == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
    add_device_memory(place, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
    ENTER();
    if (!is_device_memory(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    const char* first = static_cast<const char*>(from);
    const auto staged = std::make_shared<std::vector<char>>(first, first + bytes);
    return add(default_stream(), [=] {
        return guarded([&] { std::memcpy(at(to), staged->data(), bytes); });
    });
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
    ENTER();
    if (!is_device_memory(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = cuStreamSynchronize(default_stream())) return result;
    return guarded([&] { std::memcpy(to, at(from), bytes); });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    ENTER();
    if (!is_device_memory(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return add(stream, [=] { return guarded([&] { std::memcpy(at(to), from, bytes); }); });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    ENTER();
    if (!is_device_memory(to, bytes) || !is_device_memory(from, bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return add(stream, [=] { return guarded([&] { std::memmove(at(to), at(from), bytes); }); });
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* given, CUstream stream) {
    ENTER();
    const CUDA_MEMCPY2D copy = *given;
    const bool from_host = copy.srcMemoryType == CU_MEMORYTYPE_HOST;
    const bool to_host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
    if (copy.WidthInBytes > copy.srcPitch || copy.WidthInBytes > copy.dstPitch || !copy.Height) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const auto bytes = [&](std::size_t pitch) {
        return (copy.Height - 1) * pitch + copy.WidthInBytes;
    };
    const bool known = (from_host || is_device_memory(copy.srcDevice, bytes(copy.srcPitch))) &&
                       (to_host || is_device_memory(copy.dstDevice, bytes(copy.dstPitch)));
    if (!known) return CUDA_ERROR_INVALID_VALUE;
    const char* source = from_host ? static_cast<const char*>(copy.srcHost) : at(copy.srcDevice);
    char* to = to_host ? static_cast<char*>(copy.dstHost) : at(copy.dstDevice);
    const auto rows = [=] {
        for (std::size_t y = 0; y < copy.Height; ++y) {
            std::memmove(to + y * copy.dstPitch, source + y * copy.srcPitch, copy.WidthInBytes);
        }
    };
    return add(stream, [=]() -> CUresult {
        if (!to_host) return guarded(rows);
        rows();  // the driver copies by the processor: a fault in the host's memory is the host's
        return CUDA_SUCCESS;
    });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
    ENTER();
    return fill(to, count, value, count, 1, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
    ENTER();
    return fill(to, 4 * count, value, count, 1, stream);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value,
                           std::size_t width, std::size_t height, CUstream stream) {
    ENTER();
    return fill(to, pitch, value, width, height, stream);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, std::size_t pitch, unsigned short value,
                            std::size_t width, std::size_t height, CUstream stream) {
    ENTER();
    return fill(to, pitch, value, width, height, stream);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                            std::size_t height, CUstream stream) {
    ENTER();
    return fill(to, pitch, value, width, height, stream);
}
}

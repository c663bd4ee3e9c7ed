// The CUDA calls that allocate, copy and fill memory.
#include <iterator>
#include <map>
#include <string>

#include "../include/warpgrade/device_api.h"
#include "device_memory.h"
#include "device_work.h"
#include "errors.h"
#include "host_guard.h"
#include "memory_api.h"
#include "observe.h"

namespace warpgrade {

namespace {

struct Copy {
    void* to;
    size_t to_pitch;
    const void* from;
    size_t from_pitch;
    size_t width, height;
    cudaMemcpyKind kind;
    const char* call;
    Address pc;
    const cudaStream_t* stream = nullptr;  // of an asynchronous one
};

// The stream of calls that name none. Non-blocking streams don't wait for it.
const cudaStream_t default_stream = nullptr;

// What cudaMallocHost has given and cudaHostRegister was given: addresses and sizes.
std::map<Address, size_t> pinned;

// A copy from other memory has read it when the call returns.
bool is_pinned(const void* p) { return api::pinned_around(reinterpret_cast<Address>(p)).bytes; }

const char* kind_name(cudaMemcpyKind kind) {
    switch (kind) {
        case cudaMemcpyHostToHost: return "cudaMemcpyHostToHost";
        case cudaMemcpyHostToDevice: return "cudaMemcpyHostToDevice";
        case cudaMemcpyDeviceToHost: return "cudaMemcpyDeviceToHost";
        case cudaMemcpyDeviceToDevice: return "cudaMemcpyDeviceToDevice";
        default: return "cudaMemcpyDefault";
    }
}

// False, with a finding, where the kind contradicts the pointers.
bool right_direction(const Copy& copy, bool to_device, bool from_device) {
    if (copy.kind == cudaMemcpyDefault) return true;
    bool says_to = copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
    bool says_from = copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
    if (says_to == to_device && says_from == from_device) return true;
    report_finding(FindingKind::wrong_copy_direction, copy.pc, nullptr, 0, nullptr,
                   "%s with %s, but the destination is %s memory and the source is %s memory",
                   copy.call, kind_name(copy.kind), to_device ? "device" : "host",
                   from_device ? "device" : "host");
    return false;
}

// Host memory: a range must not leave the object it starts in (an argument, the heap, the stack),
// and must belong to the program if it is written. Unknown memory (constants) may be read.
bool host_ok(const char* p, size_t bytes, bool write, const Copy& copy) {
    const char* known = describe_host(reinterpret_cast<Address>(p));
    std::string place = known ? known : "host memory that isn't the program's";
    const char* last = describe_host(reinterpret_cast<Address>(p) + bytes - 1);
    bool inside = known ? last && place == last : !write;
    if (inside && (!write || is_student_memory(p, bytes))) return true;
    FindingKind kind = !write    ? FindingKind::copy_reads_outside
                       : !inside ? FindingKind::copy_writes_outside
                                 : FindingKind::write_to_input;
    report_finding(kind, copy.pc, nullptr, 0, nullptr, "%s of %zu bytes %s %s%s", copy.call, bytes,
                   write ? "to" : "from", place.c_str(),
                   known && !inside ? ", and beyond its end" : "");
    return false;
}

bool range_ok(const char* p, bool device, bool write, const Copy& copy) {
    if (!device) return host_ok(p, copy.width, write, copy);
    return device_copy_ok(p, copy.width, write, copy.call, copy.pc);
}

bool rows_ok(const Copy& copy, bool to_device, bool from_device) {
    const char* to = static_cast<const char*>(copy.to);
    const char* from = static_cast<const char*>(copy.from);
    for (size_t row = 0; row < copy.height; ++row) {
        if (!range_ok(to + row * copy.to_pitch, to_device, true, copy) ||
            !range_ok(from + row * copy.from_pitch, from_device, false, copy)) {
            return false;
        }
    }
    return true;
}

cudaError_t carry_out(const Copy& copy) {
    refuse_in_device_code(copy.pc);
    if (sticky_error()) return fail(cudaSuccess);
    if (copy.kind < cudaMemcpyHostToHost || copy.kind > cudaMemcpyDefault) {
        return fail(cudaErrorInvalidMemcpyDirection);
    }
    if (!copy.width || !copy.height) return fail(cudaSuccess);
    if (!copy.to || !copy.from) return fail(cudaErrorInvalidValue);
    bool two_dimensional = copy.height > 1;
    if (two_dimensional && (copy.width > copy.to_pitch || copy.width > copy.from_pitch)) {
        return fail(cudaErrorInvalidPitchValue);
    }
    bool to_device = is_device(copy.to), from_device = is_device(copy.from);
    bool both = is_managed(reinterpret_cast<Address>(copy.to)) ||
                is_managed(reinterpret_cast<Address>(copy.from));  // the host's and the device's
    if (!both && !right_direction(copy, to_device, from_device)) return fail(cudaErrorInvalidValue);
    if (!rows_ok(copy, to_device, from_device)) return fail(cudaErrorInvalidValue);
    if (!copy.stream) work::settle_copies();
    const cudaStream_t* stream = copy.stream;
    if (!stream && to_device && from_device && !both) stream = &default_stream;
    return fail(work::copy({static_cast<char*>(copy.to), copy.to_pitch,
                            static_cast<const char*>(copy.from), copy.from_pitch, copy.width,
                            copy.height, to_device, from_device,
                            copy.stream && is_pinned(copy.from), stream},
                           copy.pc));
}

cudaError_t fill(void* p, size_t pitch, int value, size_t width, size_t height, const char* call,
                 Address pc, const cudaStream_t& stream = default_stream) {
    refuse_in_device_code(pc);
    if (sticky_error()) return fail(cudaSuccess);
    if (!width || !height) return fail(cudaSuccess);
    if (height > 1 && width > pitch) return fail(cudaErrorInvalidValue);
    if (!is_device(p)) {
        report_finding(FindingKind::host_pointer_on_device, pc, nullptr, 0, nullptr,
                       "%s of memory that is the host's", call);
        return fail(cudaErrorInvalidValue);
    }
    char* low = static_cast<char*>(p);
    for (size_t row = 0; row < height; ++row) {
        if (!device_copy_ok(low + row * pitch, width, true, call, pc)) {
            return fail(cudaErrorInvalidValue);
        }
    }
    work::fill({low, pitch, value, width, height, &stream}, pc);
    return cudaSuccess;
}

cudaError_t allocate(void** p, size_t bytes, Address pc, bool managed = false,
                     const cudaStream_t* stream = nullptr) {
    *p = device_allocate(bytes, pc, managed);
    if (!*p) {
        work::lacked_room(bytes);
        return fail(cudaErrorMemoryAllocation);
    }
    if (managed) share_with_host(*p, bytes);
    work::allocated(*p, bytes, pc, managed, stream);
    return cudaSuccess;
}

// As many bytes as asked for, which may be none.
cudaError_t allocate_any(void** p, size_t bytes, const cudaStream_t* stream, Address pc) {
    refuse_in_device_code(pc);
    if (sticky_error()) return fail(cudaSuccess);
    if (!p) return fail(cudaErrorInvalidValue);
    *p = nullptr;
    if (!bytes) return cudaSuccess;
    return allocate(p, bytes, pc, false, stream);
}

cudaError_t release(void* p, Address pc, const cudaStream_t* stream = nullptr) {
    work::settle_copies();
    const auto error = static_cast<cudaError_t>(device_free(p, pc));
    if (error == cudaSuccess) work::freed(p, pc, stream);
    return fail(error);
}

cudaError_t copy_linear(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                        const char* call, Address pc, const cudaStream_t* stream = nullptr) {
    return carry_out({to, bytes, from, bytes, bytes, 1, kind, call, pc, stream});
}

}  // namespace

namespace api {

Pinned pinned_around(Address a) {
    auto next = pinned.upper_bound(a);
    if (next == pinned.begin() || a - std::prev(next)->first >= std::prev(next)->second) return {};
    return {std::prev(next)->first, std::prev(next)->second};
}

void forget_pinned() { pinned.clear(); }

cudaError_t malloc_device(void** p, size_t bytes, Address pc) {
    return allocate_any(p, bytes, nullptr, pc);
}

cudaError_t malloc_async(void** p, size_t bytes, cudaStream_t stream, Address pc) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    return allocate_any(p, bytes, &stream, pc);
}

cudaError_t malloc_managed(void** p, size_t bytes, Address pc) {
    refuse_in_device_code(pc);
    if (sticky_error()) return fail(cudaSuccess);
    if (!p || !bytes) return fail(cudaErrorInvalidValue);
    return allocate(p, bytes, pc, true);
}

cudaError_t malloc_pitch(void** p, size_t* pitch, size_t width, size_t height, Address pc) {
    if (sticky_error()) return fail(cudaSuccess);
    if (!p || !pitch) return fail(cudaErrorInvalidValue);
    constexpr size_t alignment = 512;
    *pitch = (width + alignment - 1) / alignment * alignment;
    *p = nullptr;
    if (!width || !height) return cudaSuccess;
    size_t bytes;
    if (__builtin_mul_overflow(*pitch, height, &bytes)) return fail(cudaErrorMemoryAllocation);
    return allocate(p, bytes, pc);
}

cudaError_t copy_symbol(const SymbolCopy& copy, Address pc) {
    const char* call = copy.to_symbol ? "cudaMemcpyToSymbol" : "cudaMemcpyFromSymbol";
    if (copy.offset > copy.symbol_bytes || copy.bytes > copy.symbol_bytes - copy.offset) {
        report_finding(copy.to_symbol ? FindingKind::copy_writes_outside
                                      : FindingKind::copy_reads_outside,
                       pc, nullptr, 0, nullptr,
                       "%s of %zu bytes at offset %zu of a variable of %zu bytes", call, copy.bytes,
                       copy.offset, copy.symbol_bytes);
        return fail(cudaErrorInvalidValue);
    }
    char* place = static_cast<char*>(copy.symbol) + copy.offset;
    void *to = copy.to_symbol ? place : copy.other, *from = copy.to_symbol ? copy.other : place;
    return copy_linear(to, from, copy.bytes, copy.kind, call, pc, copy.stream);
}

}  // namespace api

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

cudaError_t warpgrade_malloc(void** p, size_t bytes) {
    return api::malloc_device(p, bytes, WARPGRADE_CALLER);
}

cudaError_t warpgrade_malloc_async(void** p, size_t bytes, cudaStream_t stream) {
    return api::malloc_async(p, bytes, stream, WARPGRADE_CALLER);
}

cudaError_t warpgrade_malloc_managed(void** p, size_t bytes) {
    return api::malloc_managed(p, bytes, WARPGRADE_CALLER);
}

cudaError_t warpgrade_malloc_pitch(void** p, size_t* pitch, size_t width, size_t height) {
    return api::malloc_pitch(p, pitch, width, height, WARPGRADE_CALLER);
}

cudaError_t cudaFree(void* p) {
    refuse_in_device_code(WARPGRADE_CALLER);
    if (sticky_error() || !p) return fail(cudaSuccess);
    return release(p, WARPGRADE_CALLER);
}

cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
    if (sticky_error() || !p) return fail(cudaSuccess);
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    return release(p, WARPGRADE_CALLER, &stream);
}

cudaError_t warpgrade_malloc_host(void** p, size_t bytes) {
    if (sticky_error()) return fail(cudaSuccess);
    if (!p) return fail(cudaErrorInvalidValue);
    *p = bytes ? host_allocate(bytes) : nullptr;
    if (*p) pinned[reinterpret_cast<Address>(*p)] = bytes;
    return *p || !bytes ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* p) {
    if (sticky_error() || !p) return fail(cudaSuccess);
    if (is_managed(reinterpret_cast<Address>(p))) return release(p, WARPGRADE_CALLER);  // mapped
    work::settle_copies();
    if (pinned.erase(reinterpret_cast<Address>(p))) work::freed(p, WARPGRADE_CALLER, nullptr);
    return fail(static_cast<cudaError_t>(host_free(p, WARPGRADE_CALLER)));
}

cudaError_t cudaHostGetDevicePointer(void** on_device, void* p, unsigned) {
    if (!is_managed(reinterpret_cast<Address>(p)) && !is_pinned(p)) {
        return fail(cudaErrorInvalidValue);
    }
    *on_device = p;
    return fail(cudaSuccess);
}

int warpgrade_memory_type(const void* p) {
    if (is_managed(reinterpret_cast<Address>(p))) return cudaMemoryTypeManaged;
    if (is_device(p)) return cudaMemoryTypeDevice;
    return is_pinned(p) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
}

cudaError_t warpgrade_host_register(void* p, size_t bytes) {
    if (sticky_error()) return fail(cudaSuccess);
    if (!p || !bytes || !is_host_memory(p, bytes)) return fail(cudaErrorInvalidValue);
    if (is_pinned(p)) return fail(cudaErrorHostMemoryAlreadyRegistered);
    pinned[reinterpret_cast<Address>(p)] = bytes;
    return fail(cudaSuccess);
}
cudaError_t cudaHostUnregister(void* p) {
    work::settle_copies();
    if (!pinned.erase(reinterpret_cast<Address>(p))) return fail(cudaErrorHostMemoryNotRegistered);
    work::freed(p, WARPGRADE_CALLER, nullptr);
    return fail(cudaSuccess);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return copy_linear(to, from, bytes, kind, "cudaMemcpy", WARPGRADE_CALLER);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    return copy_linear(to, from, bytes, kind, "cudaMemcpyAsync", WARPGRADE_CALLER, &stream);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
    return carry_out({to, to_pitch, from, from_pitch, width, height, kind, "cudaMemcpy2D",
                      WARPGRADE_CALLER});
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    return carry_out({to, to_pitch, from, from_pitch, width, height, kind, "cudaMemcpy2DAsync",
                      WARPGRADE_CALLER, &stream});
}

cudaError_t cudaMemset(void* p, int value, size_t bytes) {
    return fill(p, bytes, value, bytes, 1, "cudaMemset", WARPGRADE_CALLER);
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    return fill(p, bytes, value, bytes, 1, "cudaMemsetAsync", WARPGRADE_CALLER, stream);
}

cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height) {
    return fill(p, pitch, value, width, height, "cudaMemset2D", WARPGRADE_CALLER);
}

cudaError_t cudaMemset2DAsync(void* p, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    return fill(p, pitch, value, width, height, "cudaMemset2DAsync", WARPGRADE_CALLER,
                stream);
}

// A __device__ or __constant__ variable; `other` is the memory at the other end.
cudaError_t warpgrade_copy_symbol(void* symbol, size_t symbol_bytes, void* other, size_t bytes,
                                  size_t offset, cudaMemcpyKind kind, int to_symbol,
                                  const cudaStream_t* stream) {
    if (stream && !is_stream(*stream)) return fail(cudaErrorInvalidResourceHandle);
    return api::copy_symbol(
        {symbol, symbol_bytes, other, bytes, offset, kind, to_symbol != 0, stream}, WARPGRADE_CALLER);
}

}  // extern "C"

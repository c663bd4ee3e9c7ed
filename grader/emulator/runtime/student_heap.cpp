// The two heaps of the process.
//
// The executable defines malloc and its relatives: the student's code, the C library and the C++
// library (its operator new calls malloc) use the student's heap, whose bounds host_guard.cpp
// knows.
//
// The runtime and the host use a private heap, to which the student has no pointers: operator new
// below. The toolchain joins our objects into one and makes C++ symbols local to it
// (objcopy --keep-global-symbols), so these operators are for our own objects only.
//
// Freeing checks which heap the memory is from, since one may free what the other allocates (the
// C++ library's strings, abi::__cxa_demangle).
#include <errno.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "../include/warpgrade/device_api.h"
#include "errors.h"
#include "heap.h"
#include "host_guard.h"
#include "observe.h"

namespace warpgrade {
namespace {

Heap student_heap(std::size_t{1} << 30);
Heap private_heap(std::size_t{768} << 20);

void* allocate(Heap& heap, std::size_t bytes, std::size_t alignment = 16) {
    void* p = heap.allocate(bytes, alignment);
    if (!p) errno = ENOMEM;
    return p;
}

void* allocate_zeroed(Heap& heap, std::size_t count, std::size_t bytes) {
    std::size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        errno = ENOMEM;
        return nullptr;
    }
    void* p = allocate(heap, all);
    return p ? std::memset(p, 0, all) : nullptr;
}

void release(void* p) {
    if (!p) return;
    if (student_heap.owns(p)) return student_heap.release(p);
    if (private_heap.owns(p)) return private_heap.release(p);
    std::abort();
}

void* resize(Heap& heap, void* p, std::size_t bytes) {
    if (!p) return allocate(heap, bytes);
    Heap& owner = private_heap.owns(p) ? private_heap : student_heap;
    if (!owner.owns(p)) std::abort();
    void* larger = owner.resize(p, bytes);
    if (!larger) errno = ENOMEM;
    return larger;
}

}  // namespace

bool in_student_heap(Address a, std::size_t bytes) {
    return student_heap.owns(reinterpret_cast<void*>(a), bytes);
}

void* host_allocate(std::size_t bytes) { return student_heap.allocate(bytes, 256); }

int host_free(void* p, Address pc) {
    if (!p) return 0;
    if (student_heap.owns(p)) {
        student_heap.release(p);
        return 0;
    }
    report_finding(FindingKind::bad_free, pc, nullptr, 0, nullptr,
                   "the pointer is none that cudaMallocHost gave");
    return 1;  // cudaErrorInvalidValue
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

// A kernel's malloc and new are of the device's own heap, which isn't modelled.
void* malloc(std::size_t bytes) {
    if (current_thread) unsupported_at("malloc or new in device code", WARPGRADE_CALLER);
    return allocate(student_heap, bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
    return allocate_zeroed(student_heap, count, bytes);
}
void* realloc(void* p, std::size_t bytes) { return resize(student_heap, p, bytes); }
void free(void* p) { release(p); }
void* memalign(std::size_t alignment, std::size_t bytes) {
    return allocate(student_heap, bytes, alignment);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
    return allocate(student_heap, bytes, alignment);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t bytes) {
    void* memory = student_heap.allocate(bytes, alignment);
    if (!memory) return ENOMEM;
    *p = memory;
    return 0;
}
std::size_t malloc_usable_size(void* p) {
    if (!p) return 0;
    return private_heap.owns(p) ? private_heap.usable(p) : student_heap.usable(p);
}

}  // extern "C"

void* operator new(std::size_t bytes) {
    void* p = allocate(private_heap, bytes);
    if (!p && entry_running()) warpgrade_unsupported("so many accesses between two barriers");
    if (!p) std::abort();
    return p;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }

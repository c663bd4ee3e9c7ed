// The registrations of nvcc's host code before anything else runs: kernels and device variables.
#include <cstring>
#include <vector>

#include "../kernel_facts.h"
#include "../planner/managed.h"
#include "../symbols.h"
#include "registry.h"

namespace warpgrade {
namespace {

struct Registered {
    const void* function;
    const warpgrade_kernel* kernel;
    KernelFacts facts;
};

// Not a plain global: it may be filled before this file's own constructors have run.
std::vector<Registered>& registered() {
    static auto& all = *new std::vector<Registered>;
    return all;
}

const warpgrade_kernel* kernel_named(const char* name) {
    for (unsigned i = 0; i < warpgrade_kernel_count; ++i) {
        if (!std::strcmp(warpgrade_kernels[i].name, name)) return &warpgrade_kernels[i];
    }
    return nullptr;
}

const Registered* find(const void* function) {
    for (const Registered& each : registered()) {
        if (each.function == function) return &each;
    }
    return nullptr;
}

}  // namespace

const KernelFacts* facts_of(const void* function) {
    const Registered* found = find(function);
    return found ? &found->facts : nullptr;
}

namespace nvcc {

const warpgrade_kernel* kernel_at(const void* function) {
    const Registered* found = find(function);
    return found ? found->kernel : nullptr;
}

}  // namespace nvcc
}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

void** __cudaRegisterFatBinary(void*) {
    plan::faults_tell_reads = true;  // the loads of nvcc's host code aren't observed
    static void* handle;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*,
                            void*, void*, int*) {
    const warpgrade_kernel* kernel = kernel_named(name);
    if (!kernel) return;  // a launch of it is refused
    registered().push_back({host, kernel,
                            {kernel->registers, kernel->most_threads, kernel->static_shared,
                             kernel->local_bytes}});
}

void __cudaRegisterVar(void**, char* shadow, char*, const char* name, int, size_t bytes,
                       int constant, int) {
    add_device_variable({reinterpret_cast<Address>(shadow), bytes, name, constant != 0});
}

// Host code reaches a __managed__ variable through a pointer of its own, and loads the module
// first: that ends the entry.
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) {
    unsupported_at("managed memory (__managed__)",
                   reinterpret_cast<Address>(__builtin_return_address(0)));
}

}  // extern "C"

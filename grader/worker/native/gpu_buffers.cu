#include "gpu_buffers.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace warpgrade::host {
namespace {

// The driver's functions are looked up here: where the program is linked there may be no driver.
template <typename Function>
Function* driver_function(const char* name, Function*) {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    void* found = library ? dlsym(library, name) : nullptr;
    if (!found) throw std::runtime_error(std::string(name) + " is not in the driver");
    return reinterpret_cast<Function*>(found);
}

#define DRIVER(name) driver_function(#name, static_cast<decltype(name)*>(nullptr))

void check(CUresult result, const char* doing) {
    if (result != CUDA_SUCCESS) {
        throw std::runtime_error(std::string(doing) + ": CUDA driver error " +
                                 std::to_string(static_cast<int>(result)));
    }
}

}  // namespace

char* import_gpu_buffer(const Buffer& buffer) {
    int device = 0;
    cudaGetDevice(&device);
    CUmemGenericAllocationHandle handle = 0;
    check(DRIVER(cuMemImportFromShareableHandle)(
              &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(buffer.descriptor)),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          "importing a buffer");
    close(buffer.descriptor);
    CUdeviceptr address = 0;
    check(DRIVER(cuMemAddressReserve)(&address, buffer.length, 0, 0, 0), "reserving addresses");
    check(DRIVER(cuMemMap)(address, buffer.length, 0, handle, 0), "mapping a buffer");
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = buffer.writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                   : CU_MEM_ACCESS_FLAGS_PROT_READ;
    check(DRIVER(cuMemSetAccess)(address, buffer.length, &access, 1), "setting access");
    return reinterpret_cast<char*>(address);
}

}  // namespace warpgrade::host

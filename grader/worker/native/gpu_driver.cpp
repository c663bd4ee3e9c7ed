#include "gpu_driver.h"

#include <dlfcn.h>

namespace warpgrade::host {

DriverError::DriverError(CUresult failed, const std::string& doing)
    : std::runtime_error(doing), result(failed) {}

void* find_in_driver(const char* name) {
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) throw DriverError(CUDA_ERROR_NO_DEVICE, "there is no CUDA driver");
    return dlsym(library, name);
}

void check(CUresult result, const char* doing) {
    if (result != CUDA_SUCCESS) throw DriverError(result, doing);
}

std::string words_of(CUresult result) {
    const char* words = nullptr;
    try {
        DRIVER(cuGetErrorString)(result, &words);
    } catch (const DriverError&) {  // the answer is about that, then
    }
    return words ? words : "CUDA driver error " + std::to_string(static_cast<int>(result));
}

std::string name_of(CUresult result) {
    const char* name = nullptr;
    try {
        DRIVER(cuGetErrorName)(result, &name);
    } catch (const DriverError&) {
    }
    return name ? name : "CUDA_ERROR";
}

}  // namespace warpgrade::host

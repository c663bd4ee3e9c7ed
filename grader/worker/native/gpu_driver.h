// The CUDA driver's functions, looked up on first call, since there may be no driver where the
// program is built. A failed call throws DriverError.

#ifndef WARPGRADE_GPU_DRIVER_H
#define WARPGRADE_GPU_DRIVER_H

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace warpgrade::host {

// The driver's error; what() says during what.
class DriverError : public std::runtime_error {
public:
    DriverError(CUresult result, const std::string& doing);
    CUresult result;
};

// The address of a function of the driver, or null. Throws DriverError where there is no driver.
void* find_in_driver(const char* name);

void check(CUresult result, const char* doing);

// CUDA's own sentence for an error ("an illegal memory access was encountered"), and its name.
std::string words_of(CUresult result);
std::string name_of(CUresult result);

template <typename Function>
Function* driver_function(const char* name) {
    void* found = find_in_driver(name);
    if (!found) throw DriverError(CUDA_ERROR_NOT_FOUND, std::string(name) + " of the driver");
    return reinterpret_cast<Function*>(found);
}

// cuda.h gives most functions a version by a macro, which both uses of `name` see through.
#define WARPGRADE_TEXT(name) #name
#define WARPGRADE_NAME(name) WARPGRADE_TEXT(name)
#define DRIVER(name) \
    ([]() -> decltype(&name) { \
        static const auto found = driver_function<decltype(name)>(WARPGRADE_NAME(name)); \
        return found; \
    }())
#define CHECKED(name, ...) ::warpgrade::host::check(DRIVER(name)(__VA_ARGS__), WARPGRADE_NAME(name))

}  // namespace warpgrade::host

#endif

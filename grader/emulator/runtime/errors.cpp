// CUDA's error state: the last error, the sticky one, and launch errors that nobody checked.
#include "errors.h"

#include <cstdarg>
#include <cstdio>

#include "../include/warpgrade/device_api.h"
#include "device_work.h"
#include "observe.h"

namespace warpgrade {

namespace {

int last_error;
int sticky;
LaunchError unchecked;  // cuda_error 0: none

struct ErrorText {
    int error;
    const char *name, *text;
};
constexpr ErrorText error_texts[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {17, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {52, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {209, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {600, "cudaErrorNotReady", "device not ready"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {710, "cudaErrorAssert", "device-side assert triggered"},
    {712, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {713, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {714, "cudaErrorHardwareStackError", "hardware stack error"},
    {715, "cudaErrorIllegalInstruction", "an illegal instruction was encountered"},
    {716, "cudaErrorMisalignedAddress", "misaligned address"},
    {717, "cudaErrorInvalidAddressSpace",
     "operation not supported on global/shared address space"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {800, "cudaErrorNotPermitted", "operation not permitted"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {912, "cudaErrorInvalidClusterSize",
     "a kernel launch error has occurred due to cluster misconfiguration"},
    {999, "cudaErrorUnknown", "unknown error"},
};

const ErrorText* find_text(int error) {
    for (const ErrorText& text : error_texts) {
        if (text.error == error) return &text;
    }
    return nullptr;
}

}  // namespace

int sticky_error() { return sticky; }

void set_error(int cuda_error, bool is_sticky) {
    if (sticky) return;  // the first one ended the context
    last_error = cuda_error;
    if (is_sticky) sticky = cuda_error;
}

cudaError_t fail(cudaError_t error) {
    if (error != cudaSuccess) set_error(error, false);
    return static_cast<cudaError_t>(sticky ? sticky : error);
}

void refuse_launch(cudaError_t error, const char* kernel, Address pc, const char* format, ...) {
    set_error(error, false);
    if (sticky) return;
    LaunchError refused{error, kernel, pc, {}};
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(refused.reason, sizeof refused.reason, format, arguments);
    va_end(arguments);
    work::refused(kernel, error, refused.reason, pc);
    if (!unchecked.cuda_error) unchecked = refused;
}

const LaunchError* unchecked_launch_error() { return unchecked.cuda_error ? &unchecked : nullptr; }

void reset_execution() {
    if (!sticky) last_error = 0;
    unchecked = {};
    forget_streams_and_events();
    forget_function_attributes();
    forget_output();
    forget_unsupported();
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

cudaError_t cudaPeekAtLastError() { return static_cast<cudaError_t>(last_error); }

cudaError_t cudaGetLastError() {
    cudaError_t error = cudaPeekAtLastError();
    unchecked = {};  // the program has taken the error, and may do with it what it likes
    if (!sticky) last_error = 0;
    return error;
}

const char* cudaGetErrorString(cudaError_t error) {
    const ErrorText* text = find_text(error);
    return text ? text->text : "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
    const ErrorText* text = find_text(error);
    return text ? text->name : "unrecognized error code";
}

}  // extern "C"

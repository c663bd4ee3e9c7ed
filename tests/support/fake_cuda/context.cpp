// The device, its context, errors and how they are injected.

#include <setjmp.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "fake.h"

namespace fake {
namespace {

bool initialised = false, current = false;
CUresult lost = CUDA_SUCCESS;
std::map<std::string, int> calls;
sigjmp_buf back;
volatile bool inside = false;

void on_fault(int number) {
    if (inside) siglongjmp(back, number);
    signal(number, SIG_DFL);  // the host's own fault: it happens again, and ends the process
}

void catch_faults() {
    struct sigaction action{};
    action.sa_handler = on_fault;
    action.sa_flags = SA_NODEFER;
    for (int number : {SIGSEGV, SIGBUS, SIGILL}) sigaction(number, &action, nullptr);
}

std::string without_version(std::string name) {
    const std::size_t at = name.rfind("_v");
    return at == std::string::npos ? name : name.substr(0, at);
}

// What FAKE_CUDA_FAILS says of this call.
CUresult asked_for(const std::string& name) {
    const int number = ++calls[name];
    const char* text = std::getenv("FAKE_CUDA_FAILS");
    for (const char* at = text; at && *at;) {
        char wanted[64] = "";
        int which = 0, code = 0, used = 0;
        if (std::sscanf(at, "%63[^:]:%d:%d%n", wanted, &which, &code, &used) != 3) break;
        if (name == wanted && which == number) return static_cast<CUresult>(code);
        at += used + (at[used] == ',');
    }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult failed(CUresult result) {
    const bool breaks = result == CUDA_ERROR_ILLEGAL_ADDRESS || (result > 708 && result < 800);
    if (breaks && !lost) lost = result;
    return result;
}

CUresult enter(const char* function, bool needs_context) {
    if (const CUresult result = asked_for(without_version(function))) return failed(result);
    if (!initialised && std::strcmp(function, "cuInit")) return CUDA_ERROR_NOT_INITIALIZED;
    if (lost) return lost;
    return needs_context && !current ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult guarded(const std::function<void()>& work) {
    const int number = sigsetjmp(back, 1);
    if (!number) {
        inside = true;
        work();
    }
    inside = false;
    if (number) return failed(number == SIGILL ? CUDA_ERROR_ILLEGAL_INSTRUCTION
                                               : CUDA_ERROR_ILLEGAL_ADDRESS);
    return CUDA_SUCCESS;
}

void log(const std::string& line) {
    const char* path = std::getenv("FAKE_CUDA_LOG");
    if (std::FILE* file = path ? std::fopen(path, "a") : nullptr) {
        std::fprintf(file, "%s\n", line.c_str());
        std::fclose(file);
    }
}

}  // namespace fake

namespace {

struct Words {
    CUresult result;
    const char *name, *text;
};

const Words known[] = {
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "an illegal instruction was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
};

const Words* words_of(CUresult result) {
    for (const Words& each : known) {
        if (each.result == result) return &each;
    }
    return nullptr;
}

}  // namespace

extern "C" {

CUresult cuGetErrorName(CUresult error, const char** text) {
    const Words* found = words_of(error);
    *text = found ? found->name : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
    const Words* found = words_of(error);
    *text = found ? found->text : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuInit(unsigned flags) {
    ENTER_WITHOUT_CONTEXT();
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (!fake::initialised) fake::catch_faults();
    fake::initialised = true;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    ENTER_WITHOUT_CONTEXT();
    *device = 0;
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    ENTER_WITHOUT_CONTEXT();
    if (attribute != CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) return CUDA_ERROR_INVALID_VALUE;
    *value = 1 << 16;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned) {
    ENTER_WITHOUT_CONTEXT();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
    ENTER_WITHOUT_CONTEXT();
    *context = reinterpret_cast<CUcontext>(&fake::current);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    ENTER_WITHOUT_CONTEXT();
    fake::current = context != nullptr;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
    ENTER();
    return fake::finish_all();
}

CUresult cuCtxResetPersistingL2Cache() {
    ENTER();
    return CUDA_SUCCESS;
}
}

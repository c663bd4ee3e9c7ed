// The state that the CUDA API keeps (internal to the execution half).
#pragma once
#include "../include/warpgrade/api_types.h"
#include "core.h"
#include "device_limits.h"

namespace warpgrade {

// Device code may not call the CUDA API: not modelled.
inline void refuse_in_device_code(Address pc) {
    if (current_thread) unsupported_at("CUDA API calls from device code", pc);
}

// Sets the last error and returns it, or the sticky one where there is one already.
cudaError_t fail(cudaError_t error);

// A launch that CUDA refuses: the error, and a sentence for a program that never checks it.
[[gnu::format(printf, 4, 5)]] void refuse_launch(cudaError_t error, const char* kernel, Address pc,
                                                 const char* format, ...);

bool is_stream(cudaStream_t stream);  // a stream that exists, or the default one
unsigned number_of(cudaStream_t stream);
// Whether a stream, by its number, and the default one wait for each other's work.
bool waits_for_default(unsigned stream);

// The most dynamic shared memory that a launch of this kernel may have.
size_t dynamic_shared_limit(const void* function);
void forget_function_attributes();

void forget_streams_and_events();
void forget_output();       // device_io.cpp: how much device code has printed, and the clock
constexpr size_t printed_room = 2000;  // bytes of what device code prints, for the report
const char* kept_output();             // device_io.cpp: the first of it, with its threads
void forget_unsupported();             // entry.cpp

// A clock that only work advances, for events and clock64: the same in every run.
uint64_t virtual_nanoseconds();
void pass_virtual_time(uint64_t nanoseconds);

}  // namespace warpgrade

// The caller of the running extern "C" function, for findings.
#define WARPGRADE_CALLER reinterpret_cast<::warpgrade::Address>(__builtin_return_address(0))

// Requests of host code to the device, after the CUDA API has checked them (internal to the
// execution half). Programs with data run them at once (at_once.cpp); a planner, which has none,
// records them (planner/recording.cpp).
#pragma once
#include <cstddef>
#include <cstdint>

#include "../include/warpgrade/device_api.h"
#include "core.h"

namespace warpgrade {

struct KernelCall {
    const void* function;  // null: only the thunk knows it
    warpgrade_thunk thunk;
    const char* name;  // as in the source
    Index3 grid, block;
    size_t dynamic_shared;
    const char* parameters;
    size_t parameter_bytes;
    Address pc;
    bool cooperative = false;
    // For kernels that nvcc compiled: the name in the cubin, and features that only a GPU has.
    const char* symbol = nullptr;
    Index3 cluster{0, 0, 0};  // in blocks; zeros: the kernel's own
    bool early_start = false;  // programmatic stream serialization
};

// `height` rows of `width` bytes; a single row has no pitch.
struct RowsCopy {
    char* to;
    size_t to_pitch;
    const char* from;
    size_t from_pitch;
    size_t width, height;
    bool to_device, from_device;
    bool is_read_later;  // the host goes on before its memory has been read
    const cudaStream_t* stream = nullptr;  // null: ordered after all before, and before all after
};
struct RowsFill {
    char* to;
    size_t pitch;
    int value;
    size_t width, height;
    const cudaStream_t* stream = nullptr;
};

// Whether CUDA accepts a launch (launch.cpp); a refusal sets CUDA's error.
bool may_launch(const KernelCall& call, cudaStream_t stream);

namespace work {

void launch(const KernelCall& call, cudaStream_t stream);
// A launch that CUDA refuses.
void refused(const char* kernel, cudaError_t error, const char* why, Address pc);
cudaError_t copy(const RowsCopy& copy, Address pc);
void fill(const RowsFill& fill, Address pc);
// `stream`: that of cudaMallocAsync; null where the memory is there at once.
void allocated(const void* p, size_t bytes, Address pc, bool managed = false,
               const cudaStream_t* stream = nullptr);
// An allocation of so many bytes has failed.
void lacked_room(size_t bytes);
// `stream`: that of cudaFreeAsync; null where the whole device is waited for.
void freed(const void* p, Address pc, const cudaStream_t* stream);
// Numbers of streams count from 1 (0: the default one), those of events from 0.
void recorded(unsigned event, unsigned stream, Address pc);
void waited(unsigned event, unsigned stream, Address pc);
// The host waits: for the device, for a stream, for an event.
void synchronised(Address pc);
void awaited_stream(unsigned stream, Address pc);
void awaited_event(unsigned event, Address pc);
// All copies that read host memory later are done: reports the memory that has changed before.
void settle_copies();
// Host code reads managed memory.
void read_managed(Address a, size_t bytes, Address pc);
// Host code accessed closed managed memory: whether it is open now.
bool open_managed(Address a, bool store, Address pc);
// For an instruction of host code that is no call: its place in reports.
Address place_of(Address instruction);
// Host code asks for the time between two events, which is 0.
void asked_for_time();
// Host code printed this.
void printed(const char* text, size_t length);

}  // namespace work
}  // namespace warpgrade

// What host code has the device do, once the CUDA API has found that it may (internal to the
// execution half). Programs that hold data do it at once (at_once.cpp); a planner, which holds
// none, writes it down (planner/recording.cpp).
#pragma once
#include <cstddef>
#include <cstdint>

#include "../include/warpgrade/device_api.h"
#include "core.h"

namespace warpgrade {

struct KernelCall {
    const void* function;  // null: only the thunk knows it
    warpgrade_thunk thunk;
    const char* name;  // as the source calls it
    Index3 grid, block;
    size_t dynamic_shared;
    const char* parameters;
    size_t parameter_bytes;
    Address pc;
    bool cooperative = false;
    // Of kernels that nvcc compiled: the name that they have in the cubin; and what only a GPU does.
    const char* symbol = nullptr;
    Index3 cluster{0, 0, 0};  // in blocks; zeros: as the kernel says itself
    bool early_start = false;  // programmatic stream serialization
};

// `height` rows of `width` bytes; where there is one row, pitches mean nothing.
struct RowsCopy {
    char* to;
    size_t to_pitch;
    const char* from;
    size_t from_pitch;
    size_t width, height;
    bool to_device, from_device;
};
struct RowsFill {
    char* to;
    size_t pitch;
    int value;
    size_t width, height;
};

// Whether CUDA takes a launch (launch.cpp); what it refuses is noted with CUDA's error.
bool may_launch(const KernelCall& call, cudaStream_t stream);

namespace work {

void launch(const KernelCall& call, cudaStream_t stream);
// A launch that CUDA refuses.
void refused(const char* kernel, cudaError_t error, const char* why, Address pc);
cudaError_t copy(const RowsCopy& copy, Address pc);
void fill(const RowsFill& fill, Address pc);
void allocated(const void* p, size_t bytes, Address pc, bool managed = false);
void freed(const void* p, Address pc);
// Numbers of streams count from 1 (0: the default one), those of events from 0.
void recorded(unsigned event, unsigned stream, Address pc);
void waited(unsigned event, unsigned stream, Address pc);
void synchronised(Address pc);
// Host code reads managed memory.
void read_managed(Address a, size_t bytes, Address pc);
// Host code met managed memory that was closed to it: whether it is open now.
bool open_managed(Address a, bool store, Address pc);
// Of an instruction of host code that is no call: the place that a report names it by.
Address place_of(Address instruction);
// Host code asks for the time between two events, which is 0.
void asked_for_time();
// Host code printed this.
void printed(const char* text, size_t length);

}  // namespace work
}  // namespace warpgrade

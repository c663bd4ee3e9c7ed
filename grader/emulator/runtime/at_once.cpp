// The device's work on data: each step of a plan runs when it is requested.
#include <cstdio>
#include <cstring>

#include "block_order.h"
#include "device_work.h"
#include "errors.h"
#include "grid.h"
#include "observe.h"
#include "scheduler.h"

// The runtime's own view of CUDA's built-in variables, which is writable.
__thread warpgrade::Index3 warpgrade_block_index asm("blockIdx");
__thread warpgrade::Index3 warpgrade_block_size asm("blockDim") = {1, 1, 1};
__thread warpgrade::Index3 warpgrade_grid_size asm("gridDim") = {1, 1, 1};

extern "C" {
__thread char warpgrade_dynamic_shared[warpgrade_dynamic_shared_bytes]
    __attribute__((aligned(1024)));
}

namespace warpgrade {
namespace {

uint64_t launches;

// A thread's work, for the scheduler.
void run_thread(void* context) {
    const KernelCall& call = *static_cast<const KernelCall*>(context);
    call.thunk(call.function, call.parameters);
}

void enter_block(Index3 index) { warpgrade_block_index = index; }

}  // namespace

namespace work {

void launch(const KernelCall& call, cudaStream_t) {
    prepare_threads(call.block);
    warpgrade_block_size = call.block;
    warpgrade_grid_size = call.grid;
    static Launch running;  // outlives an entry that is abandoned in a kernel
    running = {call.name,
               call.grid,
               call.block,
               call.dynamic_shared,
               ++launches,
               reinterpret_cast<Address>(call.parameters),
               call.parameter_bytes,
               call.cooperative};
    KernelCall own = call;
    current_launch = &running;
    observe_launch_begin();
    run_grid(running, run_thread, &own, enter_block);
    observe_launch_end();
    current_launch = nullptr;
    uint64_t count = uint64_t{call.grid.x} * call.grid.y * call.grid.z * threads.size();
    constexpr uint64_t launch_nanoseconds = 2000;
    pass_virtual_time(launch_nanoseconds + count / 64);
}

cudaError_t copy(const RowsCopy& copy, Address) {
    device_open();
    for (size_t row = 0; row < copy.height; ++row) {
        char* to = copy.to + row * copy.to_pitch;
        const char* from = copy.from + row * copy.from_pitch;
        std::memmove(to, from, copy.width);
        if (copy.to_device && copy.from_device) device_copy_state(to, from, copy.width);
        if (copy.to_device && !copy.from_device) device_mark_written(to, copy.width);
    }
    device_close();
    pass_virtual_time(1000 + copy.width * copy.height / 16);
    return cudaSuccess;
}

void fill(const RowsFill& fill, Address) {
    device_open();
    for (size_t row = 0; row < fill.height; ++row) {
        std::memset(fill.to + row * fill.pitch, fill.value, fill.width);
        device_mark_written(fill.to + row * fill.pitch, fill.width);
    }
    device_close();
    pass_virtual_time(1000 + fill.width * fill.height / 64);
}

void refused(const char*, cudaError_t, const char*, Address) {}
void allocated(const void*, size_t, Address, bool, const cudaStream_t*) {}
void lacked_room(size_t) {}
void freed(const void*, Address, const cudaStream_t*) {}
void recorded(unsigned, unsigned, Address) {}
void waited(unsigned, unsigned, Address) {}
void synchronised(Address) {}
void awaited_stream(unsigned, Address) {}
void awaited_event(unsigned, Address) {}
void settle_copies() {}
void read_managed(Address, size_t, Address) {}
Address place_of(Address instruction) { return instruction; }
bool open_managed(Address, bool, Address) { return false; }
void asked_for_time() {}
void printed(const char*, size_t) {}

}  // namespace work
}  // namespace warpgrade

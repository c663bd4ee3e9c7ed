// Shared by the two halves of the runtime: the execution half (fibers, scheduler, warps, launches,
// the CUDA API) owns this file and its declarations; the observation half reads it.
//
// One CUDA thread is one fiber. All fibers run on the process's one operating-system thread, block
// after block, in a fixed order, so every run is the same. A block runs to its end, or to the
// grid's barrier, where it is put aside until all blocks have arrived.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace warpgrade {

using Address = std::uintptr_t;

// The CUDA errors that the runtime sets (the numbers are CUDA's own).
constexpr int error_illegal_address = 700;
constexpr int error_assert = 710;
constexpr int error_misaligned = 716;
constexpr int error_launch_failure = 719;

constexpr unsigned warp_lanes = 32;

struct Index3 {
    unsigned x, y, z;
};

enum class ThreadState : uint8_t { ready, at_barrier, at_warp_operation, finished };

// One event of one thread; merged per warp when its threads have reached a barrier.
struct TraceEntry {
    uint32_t pc;      // return address - image base
    uint32_t offset;  // byte offset in its space
    uint8_t size;
    uint8_t kind : 4, space : 4;  // see access:: in observe.h
    uint16_t depth;               // of calls: a thread's stack ends before this overflows
};

// A thread's request to its warp, as for warpgrade_warp_operation of device_api.h.
struct WarpRequest {
    int operation;
    unsigned mask;
    uint64_t value;  // the lane's input, then its result
    int argument, width;
};

// A copy to shared memory that its thread hasn't waited for (async_copies.cpp).
struct AsyncCopy {
    Address to, pc;
    uint32_t group;  // number of the thread's groups before its own
    uint8_t size;
    char bytes[16];
};

struct Thread {
    void* stack_pointer;  // to resume its fiber
    Address stack_low;    // its stack is [stack_low, stack_low + stack_bytes); 0: not started yet
    Index3 index;
    uint32_t linear, lane, warp;
    ThreadState state;
    // A Lamport clock: __syncwarp sets it in all its lanes to above their highest. Other warp
    // operations don't change it: they don't order memory.
    uint32_t warp_epoch;
    int call_depth;
    // A digest of the places where it has accessed memory since the block's barrier. A warp operation
    // makes it the same in its lanes; a GPU needn't bring lanes with different ones together again
    // before. Branches without an access don't count: nvcc makes no branch of `a < b ? b : a`.
    uint32_t path;
    Address waiting_at;  // pc where it waits (absolute return address)
    std::vector<TraceEntry> trace;
    uint64_t global_bytes;  // that it has moved in global memory, where accesses are counted
    std::vector<AsyncCopy> copies;
    uint32_t copy_groups;  // that it has committed
    // Of the execution half:
    int barrier_place;      // in the source, of the barrier where it waits
    int barrier_kind;       // BarrierKind (scheduler.h)
    int barrier_value;      // predicate given, then the result
    WarpRequest request;
    unsigned active_mask;   // what __activemask gave last
    Address arrived;        // pc of barrier_arrive(), until barrier_wait(); 0: none
    uint32_t spins;         // atomics and volatile reads since it last yielded
    bool gave_turn;         // ready, but has yielded to others
};

struct Launch {
    const char* kernel;
    Index3 grid, block;
    size_t dynamic_shared;
    uint64_t number;  // 1, 2, ... over the life of the process
    Address parameters;
    size_t parameter_bytes;
    bool cooperative;  // all blocks are resident, so that they may wait for each other
};

struct BlockState {
    uint32_t linear;
    Index3 index;
    uint32_t barrier_epoch;  // 1 at the start of a block, grows at each block barrier
};

extern Thread* current_thread;  // null in host code
extern Launch* current_launch;  // null outside kernels
extern BlockState current_block;
extern std::vector<Thread> threads;  // of the running block

// Set in an address of shared or local memory that a kernel takes for one of global memory.
constexpr Address not_global = Address{1} << 62;

// The stacks of a block's threads lie side by side; the lowest page of each is a guard.
constexpr size_t stack_bytes = 64 * 1024;
constexpr size_t guard_bytes = 4096;
extern Address stacks_low;
extern size_t stacks_size;

// Whether `a` is in the guard of a thread's stack: its local memory is exhausted, which the
// emulator can't model (a fault there belongs to `unsupported`, not to the student).
inline bool in_stack_guard(Address a) {
    return a - stacks_low < stacks_size && (a - stacks_low) % stack_bytes < guard_bytes;
}

// From inside a kernel: the launch ends here, with a sticky error (700, 710, 716, 719).
[[noreturn]] void abandon_launch(int cuda_error);
// The block ends here, without an error; the launch's next one begins.
[[noreturn]] void abandon_block();

int sticky_error();
// Sets what cudaGetLastError returns; a sticky one stays until the process ends.
void set_error(int cuda_error, bool sticky);

// Lets the block's other threads run.
void give_turn();
// Called at every atomic and every volatile read: sometimes lets the block's other threads run, so
// that a spin lock or a polled flag makes progress. Does nothing in host code.
void count_spin();

// ---- The entry (the student's host function) ---------------------------------------------------

enum class EntryEnd : uint8_t { returned, unsupported, abandoned, exception };

// Calls function(context) on a stack of its own and returns how it ended. The entry's stack is
// dropped, not unwound, unless it returned or threw. If not `fresh`, streams, events and attributes
// of an earlier call persist.
EntryEnd run_entry(void (*function)(void*), void* context, bool fresh = true);

// Ends the entry here, from host code or from a kernel; run_entry returns `end`. May be called from
// a signal handler that was installed with SA_NODEFER (no signal mask is restored).
[[noreturn]] void abandon_entry(EntryEnd end);

// What the last exception that left the entry says.
const char* entry_exception();

bool entry_running();
// The stack that the entry's host code runs on (for the host guard).
extern Address entry_stack_low;
extern size_t entry_stack_size;

// The unsupported feature that the entry used, or null. `pc` is absolute.
struct Unsupported {
    char name[160];
    Address pc;
};
const Unsupported* unsupported_feature();
// Ends the entry because of an unsupported feature, used at this absolute return address.
[[noreturn]] void unsupported_at(const char* name, Address pc);

// The entry's first launch error that the program hasn't taken by cudaGetLastError (peeking leaves
// it), or null.
struct LaunchError {
    int cuda_error;
    const char* kernel;
    Address pc;
    char reason[160];
};
const LaunchError* unchecked_launch_error();

// Resets errors that are not sticky, streams, events and attributes, for a new entry.
void reset_execution();

// ---- The executable's image --------------------------------------------------------------------

// The addresses of the executable and of its thread-local segment (the static shared memory).
struct Image {
    Address base;       // load base: pc - base is what the site table knows
    Address low, high;  // from the first to the last loaded byte
    Address tls_low, tls_high;
};
const Image& image();

}  // namespace warpgrade

// Dynamic shared memory. Shared memory is thread-local in the C++ sense: all fibers run on one
// operating-system thread, so the executable's TLS segment is the shared memory of the block.
constexpr size_t warpgrade_dynamic_shared_bytes = 228 * 1024;
extern "C" {
extern __thread char warpgrade_dynamic_shared[];
}

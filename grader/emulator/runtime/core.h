// What the two halves of the runtime share: the execution half (fibers, scheduler, warps, launches,
// the CUDA API) owns this file and everything that it declares; the observation half reads it.
//
// One CUDA thread is one fiber. All fibers run on the one operating-system thread of the process,
// one block after another, in a fixed order, so a run is the same every time. A block runs to its
// end, or to the grid's barrier: then it is put aside until all blocks have come there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace warpgrade {

using Address = std::uintptr_t;

// The CUDA errors the runtime gives (the numbers are CUDA's own).
constexpr int error_illegal_address = 700;
constexpr int error_assert = 710;
constexpr int error_misaligned = 716;
constexpr int error_launch_failure = 719;

constexpr unsigned warp_lanes = 32;

struct Index3 {
    unsigned x, y, z;
};

enum class ThreadState : uint8_t { ready, at_barrier, at_warp_operation, finished };

// One event of one thread; merged per warp when its threads have come to a barrier.
struct TraceEntry {
    uint32_t pc;      // return address - image base
    uint32_t offset;  // byte offset in its space
    uint8_t size, kind, depth, space;  // kind, space: see access:: in observe.h; depth: of calls
};

// What a thread asks of its warp, as device_api.h's warpgrade_warp_operation takes it.
struct WarpRequest {
    int operation;
    unsigned mask;
    uint64_t value;  // what the lane gives, then what it gets
    int argument, width;
};

struct Thread {
    void* stack_pointer;  // where its fiber goes on
    Address stack_low;    // its stack is [stack_low, stack_low + stack_bytes); 0: not started yet
    Index3 index;
    uint32_t linear, lane, warp;
    ThreadState state;
    // A Lamport clock: __syncwarp sets it, in all lanes it joins, above the highest of theirs.
    // Other warp operations leave it alone: they don't order memory.
    uint32_t warp_epoch;
    int call_depth;
    Address waiting_at;  // pc where it waits (absolute return address)
    std::vector<TraceEntry> trace;
    // Of the execution half:
    int barrier_line;       // source line of the barrier where it waits
    int barrier_kind;       // BarrierKind (scheduler.h)
    int barrier_value;      // predicate given, then the result
    WarpRequest request;
    uint32_t spins;         // atomics and volatile reads since it last gave its turn away
    bool gave_turn;         // ready, but lets others go first
};

struct Launch {
    const char* kernel;
    Index3 grid, block;
    size_t dynamic_shared;
    uint64_t number;  // 1, 2, ... over the life of the process
    Address parameters;
    size_t parameter_bytes;
    Address called_at;
    bool cooperative;  // all blocks are there at once, so that they may wait for each other
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

// The stacks of a block's threads lie side by side; the lowest page of each is a guard.
constexpr size_t stack_bytes = 64 * 1024;
constexpr size_t guard_bytes = 4096;
extern Address stacks_low;
extern size_t stacks_size;

// True where `a` lies in the guard of a thread's stack: its local memory has run out, which the
// emulator can't model (a fault there belongs to `unsupported`, not to the student).
inline bool in_stack_guard(Address a) {
    return a - stacks_low < stacks_size && (a - stacks_low) % stack_bytes < guard_bytes;
}

// From inside a kernel: the launch ends here, with a sticky error (700, 710, 716, 719).
[[noreturn]] void abandon_launch(int cuda_error);

int sticky_error();
// Sets what cudaGetLastError returns; a sticky one stays until the process ends.
void set_error(int cuda_error, bool sticky);

// Called at every atomic and every volatile read: lets the block's other threads go on now and
// then, so that a spin lock or a flag that is polled makes progress. Does nothing in host code.
void count_spin();

// ---- The entry (the student's host function) ---------------------------------------------------

enum class EntryEnd : uint8_t { returned, unsupported, abandoned, exception };

// Calls function(context) on a stack of its own and says how it ended. Whatever the entry had
// on its stack is forgotten, not unwound, unless it returned or threw. Not `fresh`: streams, events
// and attributes of an earlier call live on.
EntryEnd run_entry(void (*function)(void*), void* context, bool fresh = true);

// Ends the entry here, from host code or from a kernel; run_entry returns `end`. May be called from
// a signal handler that was installed with SA_NODEFER (no signal mask is restored).
[[noreturn]] void abandon_entry(EntryEnd end);

bool entry_running();
// The stack that the entry's host code runs on (for the host guard).
extern Address entry_stack_low;
extern size_t entry_stack_size;

// What the entry asked for that the emulator lacks; null if nothing. `pc` is absolute.
struct Unsupported {
    char name[160];
    Address pc;
};
const Unsupported* unsupported_feature();
// Ends the entry: it asked for something that the emulator lacks, at this absolute return address.
[[noreturn]] void unsupported_at(const char* name, Address pc);

// The first launch error of this entry that the program has not taken (cudaGetLastError; to peek at
// it leaves it there); null if there is none.
struct LaunchError {
    int cuda_error;
    const char* kernel;
    Address pc;
    char reason[160];
};
const LaunchError* unchecked_launch_error();

// Forgets errors that are not sticky, streams, events and attributes: a new entry begins.
void reset_execution();

// ---- The executable's image --------------------------------------------------------------------

// Where the executable and its thread-local segment (the static shared memory) lie.
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

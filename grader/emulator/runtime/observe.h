// The interface of the observation half (device memory, races, counters, findings and the report)
// for the execution half (fibers, scheduler, CUDA calls) and the native host.
//
// It depends on the build (toolchain.py, build.py):
//  - student.o: zeros behind every __shared__ variable, so that a pointer that runs from one array
//    towards the next hits bytes of neither; `__device__` variables in section "warpgrade_device",
//    `__constant__` ones in "warpgrade_constant"; memcpy, memmove and memset redirected to
//    warpgrade_memcpy and so on (hooks.cpp).
//  - our own objects: .data and .bss renamed to warpgrade_data and warpgrade_bss, so that student
//    code's stores there are recognised; C++ symbols local (student_heap.cpp says why).
//  - the executable keeps its symbol table, which distinguishes __shared__ arrays.
//  - the headers: __threadfence and its variants call warpgrade_fence() or
//    warpgrade_block_fence() (hooks.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core.h"

namespace warpgrade {

enum class FindingKind : std::uint8_t {
    out_of_bounds_write,
    out_of_bounds_read,
    use_after_free_write,
    use_after_free_read,
    write_to_input,
    uninitialised_read,
    race,
    divergent_barrier,
    missing_barrier,
    grid_barrier,
    deadlock,
    shuffle_absent_lane,
    bad_warp_mask,
    misaligned,
    host_pointer_on_device,
    device_pointer_on_host,
    wrong_copy_direction,
    copy_reads_outside,
    copy_writes_outside,
    launch_error,
    bad_free,
    leak,
    stray_host_store,
    device_assert,
    index_out_of_range_read,
    index_out_of_range_write,
    far_read,  // at a large size, far from every tensor
    far_write,
    changed_while_copied,  // host memory, by host code
    undefined_arithmetic,
    misused_barrier,
    read_only_read,  // of what the same kernel writes
};

// The values of TraceEntry::kind and TraceEntry::space.
namespace access {
constexpr std::uint8_t load = 0, store = 1, atomic = 2, synchronise = 5, block = 6;
constexpr std::uint8_t no_space = 0, global = 1, shared = 2;
}  // namespace access

// ---- events of execution ------------------------------------------------------------------------

void observe_launch_begin();  // current_launch is set; opens device memory to the launch
void observe_launch_end();    // closes it again; call it after an abandoned launch too
void observe_block_begin();   // current_block and threads are set; shared memory is uninitialised
void observe_block_end();     // also when it has reached the grid's barrier
void observe_grid_barrier();  // all blocks have reached it; each of them begins again next
void observe_barrier();                                      // after barrier_epoch has grown
void observe_warp_sync(std::uint32_t warp, unsigned mask);   // __syncwarp: the program's mask
void observe_warp_trace(std::uint32_t warp);                 // merges, counts and clears traces
// Before the atomic acts. `of_block`: its scope is one block. `exchanges`: it stores, and reads only
// if observe_exchanged follows.
void observe_atomic(void* p, int bytes, Address pc, bool of_block = false, bool exchanges = false);
// The same for one with C++'s order (__ATOMIC_RELAXED and so on), for warpgrade_ordered_atomic.
// With a comparison it stores only if `expected` is there; `acquires`: whether it does if not.
struct Comparison {
    std::uint64_t expected;
    bool acquires;
};
void observe_ordered_atomic(void* p, int bytes, Address pc, int parts, int order, int scope,
                            const Comparison* comparison = nullptr);
void observe_exchanged(const void* p);                       // the program uses what was there
void observe_read_only(const void* p, std::size_t bytes, Address pc);  // before a load by __ldg
void settle_read_only_loads();                                         // at the end of a launch
// __threadfence and its variants, and fences of C++'s kind.
void observe_fence(bool of_block = false, bool acquires = true, bool releases = true);

// Whether traces are kept (operation `measure`). Push nothing onto Thread::trace otherwise.
extern bool counting;

// ---- findings -----------------------------------------------------------------------------------

// t null: host code. pc and other_pc are absolute return addresses (0: none). Ends nothing.
[[gnu::format(printf, 6, 7)]] void report_finding(FindingKind kind, Address pc, const Thread* t,
                                                  Address other_pc, const Thread* other,
                                                  const char* format, ...);

// ---- device memory, for the CUDA calls ----------------------------------------------------------

// Null: out of memory (limit 1 GiB). `for_host_too`: whole pages, which share_with_host opens.
void* device_allocate(std::size_t bytes, Address pc, bool for_host_too = false);
void share_with_host(void* p, std::size_t bytes);
int device_free(void* p, Address pc);                  // 0, or cudaErrorInvalidValue with a finding
bool is_device(const void* p);                         // allocation, device argument or __device__
// False, with a finding, where [p, p + n) leaves the readable memory (write: writable). `what`
// names the call, e.g. "cudaMemcpy". Host ranges are not checked and are true.
bool device_copy_ok(const void* p, std::size_t n, bool write, const char* what, Address pc);
void device_mark_written(void* p, std::size_t n);
// After a copy between device ranges: the target is as initialised as the source.
void device_copy_state(void* to, const void* from, std::size_t n);
void device_open();   // makes device memory accessible to the CPU until device_close; nests
void device_close();
void* host_allocate(std::size_t bytes);  // cudaMallocHost: null when out of memory
int host_free(void* p, Address pc);
bool is_student_memory(const void* p, std::size_t n);  // host memory that student code may write
bool is_host_memory(const void* p, std::size_t n);     // an argument that it may only read, too
// Bytes of static shared memory that the kernel at this address declares, without its callees'.
std::size_t static_shared_bytes(const void* function);

// ---- for the native host ------------------------------------------------------------------------

void initialise_observation();  // signal handlers, address space; called by the others when needed
void* map_argument_memory(int fd, std::size_t bytes, bool writable);  // null: cannot be mapped
// Addresses for an argument without memory here, `misalignment` bytes above a multiple of a page;
// null: no room. They are reused after forget_reserved_memory().
void* reserve_argument_memory(std::size_t bytes, std::size_t misalignment);
void forget_reserved_memory();
std::size_t allocation_count();  // of cudaMalloc, so far
// A new call of the student's entry: resets arguments, findings, counters, records and the last
// call's allocations. Register the arguments between it and the call.
void begin_entry(bool with_counters = false, bool with_records = false);
// p is in a mapping made above or, with host_space, anywhere. `name` is copied. Unregistered parts
// of a mapping are inaccessible.
void register_argument(int index, const char* name, void* p, std::size_t bytes, bool initialised,
                       bool writable, bool host_space);
// Reports leaks (of allocations from number `first_allocation` on) and unchecked launch errors.
// Also call it after a run_entry that did not return.
void end_entry(std::size_t first_allocation = 0);
std::size_t finding_count();
bool race_was_found();
// The report's JSON, at most `capacity` bytes; returns its length. Not terminated by a zero.
std::size_t write_report(char* out, std::size_t capacity, bool with_counters);

}  // namespace warpgrade

// The grid: its blocks one after another, and the barrier where blocks wait for each other.
//
// Only one block at a time has stacks for its threads, and shared memory. A block that reaches the
// grid's barrier is put aside with their contents, and the next one runs. So any number of blocks
// can wait, and a pointer to shared memory means the same in all of them.
#include "grid.h"

#include "block_order.h"
#include "observe.h"
#include "records.h"
#include "scheduler.h"
#include "shared_memory.h"

namespace warpgrade {
namespace {

constexpr size_t most_kept_bytes = size_t{512} << 20;

struct WaitingBlock {
    BlockState state;
    WaitingThreads threads;
    SharedContent shared;
};

// The waiting blocks, in order of number. It outlives an abandoned launch.
std::vector<WaitingBlock> waiting;
size_t kept_bytes;

void forget_waiting() {
    std::vector<WaitingBlock>().swap(waiting);
    kept_bytes = 0;
}

const Thread& one_that_waits(const std::vector<Thread>& among) {
    for (const Thread& thread : among) {
        if (thread.state == ThreadState::at_barrier) return thread;
    }
    return among.front();
}

void put_aside(WaitingBlock& block) {
    if (recording) record_barrier();
    Address pc = one_that_waits(threads).waiting_at;
    block = {current_block, put_threads_aside(), keep_shared()};
    kept_bytes += block.threads.bytes() + block.shared.bytes.size() + block.shared.stored.size();
    if (kept_bytes <= most_kept_bytes) return;
    forget_waiting();
    unsupported_at("a grid's barrier where more than 512 MiB of stacks and shared memory wait", pc);
}

void bring_back(WaitingBlock& block) {
    kept_bytes -= block.threads.bytes() + block.shared.bytes.size() + block.shared.stored.size();
    bring_threads_back(block.threads);
    current_block = block.state;
    current_block.barrier_epoch = 1;  // it counts from the grid's barrier on
    observe_block_begin();
    bring_shared_back(block.shared);
}

// The waiting blocks wait for ever, since others have ended.
void report_absent(uint64_t blocks) {
    const WaitingBlock& first = waiting.front();
    const Thread& thread = one_that_waits(first.threads.threads);
    current_block = first.state;
    report_finding(FindingKind::grid_barrier, thread.waiting_at, &thread, 0, nullptr,
                   "%zu of the grid's %llu blocks come, the others have ended", waiting.size(),
                   static_cast<unsigned long long>(blocks));
    set_error(error_launch_failure, true);
}

// Each block once, from its start.
bool run_first(void (*thunk)(void*), void* context, void (*enter)(Index3)) {
    const uint64_t count = begin_blocks();
    for (uint64_t place = 0; place < count; ++place) {
        current_block = block_in_turn(place);
        enter(current_block.index);
        observe_block_begin();
        BlockEnd end = run_block(thunk, context);
        if (end == BlockEnd::abandoned && sticky_error()) return false;
        observe_block_end();
        if (end == BlockEnd::abandoned) prepare_threads(current_launch->block);
        if (end != BlockEnd::at_grid_barrier) continue;
        waiting.emplace_back();
        put_aside(waiting.back());
    }
    return true;
}

// Each block once, from the grid's barrier on. Those that reach it again wait again.
bool run_on(void (*enter)(Index3)) {
    size_t again = 0;
    for (WaitingBlock& block : waiting) {
        enter(block.state.index);
        bring_back(block);
        BlockEnd end = resume_block();
        if (end == BlockEnd::abandoned) return false;
        observe_block_end();
        if (end == BlockEnd::at_grid_barrier) put_aside(waiting[again++]);
    }
    waiting.resize(again);
    return true;
}

}  // namespace

bool run_grid(const Launch& launch, void (*thunk)(void*), void* context, void (*enter)(Index3)) {
    uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    forget_waiting();
    bool good = run_first(thunk, context, enter);
    while (good && !waiting.empty()) {
        good = waiting.size() == blocks;
        if (!good) report_absent(blocks);
        if (good) observe_grid_barrier();
        good = good && run_on(enter);
    }
    forget_waiting();
    return good;
}

}  // namespace warpgrade

// Asynchronous copies from global to shared memory (cp.async; PTX ISA, "Data Movement and Conversion
// Instructions: Asynchronous copy").
//
// A copy writes at any time between its call and the wait for its group. So it is a store at both
// ends: at the call, where other threads must be done with the old contents, and at the wait, behind
// which a barrier shows the new ones to them. The bytes come at the wait. Until then they count as
// unwritten, and have other values than before.
#include <cstring>

#include "../include/warpgrade/device_api.h"
#include "access.h"
#include "async_copies.h"
#include "errors.h"
#include "observe.h"
#include "shared_memory.h"

namespace warpgrade {
namespace {

constexpr int undefined_byte = 0xfa;  // four are a float that no kernel computes by chance

// The copies of the thread's groups before number `groups`.
void finish(Thread& thread, uint32_t groups) {
    std::vector<AsyncCopy>& copies = thread.copies;
    std::size_t done = 0;
    for (; done < copies.size() && copies[done].group < groups; ++done) {
        end_copy(copies[done]);
    }
    copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace

void end_copy(const AsyncCopy& copy) {
    observe_slowly(copy.to, copy.size, AccessKind::store, true, copy.pc);
    std::memcpy(reinterpret_cast<void*>(copy.to), copy.bytes, copy.size);
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

bool warpgrade_is_copied_async(const void* to, const void* from) {
    return reinterpret_cast<Address>(to) - shared_low < shared_bytes && is_device(from);
}

void warpgrade_copy_async(void* to, const void* from, std::size_t bytes, std::size_t zeros) {
    const Address pc = WARPGRADE_CALLER;
    Thread* self = current_thread;
    if (!self) return;
    const bool has_a_size = bytes == 4 || bytes == 8 || bytes == 16;
    if (!has_a_size || zeros > bytes) {
        report_finding(FindingKind::device_assert, pc, self, 0, nullptr,
                       "an asynchronous copy of %zu bytes, %zu of them zeros: it has 4, 8 or 16",
                       bytes, zeros);
        abandon_launch(error_assert);
    }
    AsyncCopy copy{reinterpret_cast<Address>(to), pc, self->copy_groups,
                   static_cast<uint8_t>(bytes), {}};
    if (copy.to - shared_low >= shared_bytes) {
        report_finding(FindingKind::out_of_bounds_write, pc, self, 0, nullptr,
                       "%zu bytes outside of shared memory, to which asynchronous copies write",
                       bytes);
        abandon_launch(error_illegal_address);
    }
    if (const std::size_t loaded = bytes - zeros) {
        const auto a = reinterpret_cast<Address>(from);
        const bool is_whole = !zeros || a % bytes;  // else its parts have no common alignment
        observe_slowly(a, is_whole ? bytes : loaded, AccessKind::read, is_whole, pc);
        std::memcpy(copy.bytes, from, loaded);
    }
    observe_slowly(copy.to, bytes, AccessKind::announced_store, true, pc);
    std::memset(to, undefined_byte, bytes);
    self->copies.push_back(copy);
}

void warpgrade_commit_copies() {
    if (Thread* self = current_thread) ++self->copy_groups;
}

void warpgrade_wait_for_copies(std::size_t newest) {
    Thread* self = current_thread;
    if (self && newest < self->copy_groups) {
        finish(*self, self->copy_groups - static_cast<uint32_t>(newest));
    }
}

}  // extern "C"

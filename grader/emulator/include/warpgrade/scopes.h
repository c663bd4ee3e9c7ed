// What the headers of libcu++ share: scopes of threads, and the orders of memory.
#pragma once
#include <atomic>

#include "../cuda_runtime.h"

extern "C" void warpgrade_ordered_fence(bool of_block, bool acquires, bool releases);

namespace cuda {

enum thread_scope {
    thread_scope_system = warpgrade_scope_system,
    thread_scope_device = warpgrade_scope_device,
    thread_scope_block = warpgrade_scope_block,
    thread_scope_thread = warpgrade_scope_thread,
};

namespace std {
using ::std::memory_order;
using ::std::memory_order_acq_rel;
using ::std::memory_order_acquire;
using ::std::memory_order_consume;
using ::std::memory_order_relaxed;
using ::std::memory_order_release;
using ::std::memory_order_seq_cst;
}  // namespace std
using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_consume;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

}  // namespace cuda

// cooperative_groups::inclusive_scan and exclusive_scan over a tile or coalesced threads.
#ifndef WARPGRADE_COOPERATIVE_GROUPS_SCAN_H
#define WARPGRADE_COOPERATIVE_GROUPS_SCAN_H

#include "reduce.h"

namespace cooperative_groups {

// A thread's own value is the first operand, and what lies before it the second, as in CUDA's header.
template <class Group, class T, class Operation,
          class = std::enable_if_t<details::has_lanes<Group>>>
WARPGRADE_INLINE T inclusive_scan(const Group& group, T value, Operation operation) {
    for (unsigned delta = 1; delta < group.num_threads(); delta *= 2) {
        const T before = group.shfl_up(value, delta);
        if (group.thread_rank() >= delta) value = operation(value, before);
    }
    return value;
}
template <class Group, class T>
WARPGRADE_INLINE T inclusive_scan(const Group& group, T value) {
    return inclusive_scan(group, value, plus<T>());
}

// The first thread gets T(), as CUDA gives it.
template <class Group, class T, class Operation,
          class = std::enable_if_t<details::has_lanes<Group>>>
WARPGRADE_INLINE T exclusive_scan(const Group& group, T value, Operation operation) {
    const T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
    return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T>
WARPGRADE_INLINE T exclusive_scan(const Group& group, T value) {
    return exclusive_scan(group, value, plus<T>());
}

}  // namespace cooperative_groups

#endif

// cooperative_groups::inclusive_scan and exclusive_scan over a tile or coalesced threads.
#ifndef WARPGRADE_COOPERATIVE_GROUPS_SCAN_H
#define WARPGRADE_COOPERATIVE_GROUPS_SCAN_H

#include <limits>

#include "reduce.h"

namespace cooperative_groups {
namespace details {

// What the first thread of an exclusive scan gets.
template <class T, class Operation>
constexpr T neutral(const Operation&) { return T(); }
template <class T, class U>
constexpr T neutral(const less<U>&) { return std::numeric_limits<T>::max(); }
template <class T, class U>
constexpr T neutral(const greater<U>&) { return std::numeric_limits<T>::lowest(); }
template <class T, class U>
constexpr T neutral(const bit_and<U>&) { return static_cast<T>(~T()); }

}  // namespace details

template <class Group, class T, class Operation = plus<T>>
WARPGRADE_INLINE T inclusive_scan(const Group& group, T value, Operation operation = {}) {
    for (unsigned delta = 1; delta < group.num_threads(); delta *= 2) {
        const T before = group.shfl_up(value, delta);
        if (group.thread_rank() >= delta) value = operation(before, value);
    }
    return value;
}
template <class Group, class T, class Operation = plus<T>>
WARPGRADE_INLINE T exclusive_scan(const Group& group, T value, Operation operation = {}) {
    const T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
    return group.thread_rank() ? before : details::neutral<T>(operation);
}

}  // namespace cooperative_groups

#endif

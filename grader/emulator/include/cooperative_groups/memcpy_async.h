// memcpy_async by the threads of a group, and the waits for it.
#ifndef WARPGRADE_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define WARPGRADE_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H

#include "../cooperative_groups.h"
#include "../warpgrade/async_copies.h"

namespace cooperative_groups {

// `bytes` may be an aligned_size_t.
template <class Group, class T, class Bytes>
WARPGRADE_INLINE void memcpy_async(const Group& group, T* to, const T* from, const Bytes& bytes) {
    ::warpgrade::copy_part_async(group.thread_rank(), group.num_threads(), to, from, bytes);
    warpgrade_commit_copies();
}
// Numbers of elements: as many are copied as both have.
template <class Group, class T, class Room, class Given>
WARPGRADE_INLINE void memcpy_async(const Group& group, T* to, const Room& room, const T* from,
                                   const Given& given) {
    const size_t elements = (size_t)room < (size_t)given ? (size_t)room : (size_t)given;
    memcpy_async(group, to, from, elements * sizeof(T));
}

template <unsigned newest, class Group>
WARPGRADE_INLINE void wait_prior(const Group& group, int line = __builtin_LINE()) {
    warpgrade_wait_for_copies(newest);
    details::sync_at(group, line);
}
template <class Group>
WARPGRADE_INLINE void wait(const Group& group, int line = __builtin_LINE()) {
    wait_prior<0>(group, line);
}

}  // namespace cooperative_groups

#endif

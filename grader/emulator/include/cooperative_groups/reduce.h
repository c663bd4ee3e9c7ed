// cooperative_groups::reduce over a tile or coalesced threads.
#ifndef WARPGRADE_COOPERATIVE_GROUPS_REDUCE_H
#define WARPGRADE_COOPERATIVE_GROUPS_REDUCE_H

#include "../cooperative_groups.h"

namespace cooperative_groups {

#define WARPGRADE_OPERATOR(name, expression)                                 \
    template <class T = void>                                                \
    struct name {                                                            \
        WARPGRADE_INLINE T operator()(T a, T b) const { return expression; } \
    };                                                                       \
    template <>                                                              \
    struct name<void> {                                                      \
        template <class T>                                                   \
        WARPGRADE_INLINE T operator()(T a, T b) const {                      \
            return expression;                                               \
        }                                                                    \
    };
WARPGRADE_OPERATOR(plus, a + b)
WARPGRADE_OPERATOR(less, b < a ? b : a)
WARPGRADE_OPERATOR(greater, a < b ? b : a)
WARPGRADE_OPERATOR(bit_and, a& b)
WARPGRADE_OPERATOR(bit_or, a | b)
WARPGRADE_OPERATOR(bit_xor, a ^ b)
#undef WARPGRADE_OPERATOR

template <unsigned N, class Parent, class T, class Operation>
WARPGRADE_INLINE T reduce(const thread_block_tile<N, Parent>& group, T value, Operation operation) {
    for (int delta = N / 2; delta > 0; delta /= 2)
        value = operation(value, group.shfl_xor(value, delta));
    return value;
}
template <class T, class Operation>
WARPGRADE_INLINE T reduce(const coalesced_group& group, T value, Operation operation) {
    // Every thread takes the values in the order of ranks, so all get the same result.
    T result = group.shfl(value, 0);
    for (unsigned rank = 1; rank < group.num_threads(); rank++)
        result = operation(result, group.shfl(value, rank));
    return result;
}

}  // namespace cooperative_groups

#endif

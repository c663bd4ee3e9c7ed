"""Sum: out[0] = x[0] + x[1] + ... + x[n - 1].

One number depends on all elements, and programs can't wait for each other. So each program sums its
own block in registers, where that costs nothing beside the load, and then adds one number to out by
an atomic. Atomics on one address take turns: one for each element would be a queue of n, one for
each block is a queue of n / BLOCK.

The order in which programs come is any, so the last bits of a sum of floats may differ from run to
run. That is expected here. For the same bits each time, the programs' sums would go to memory, and
a second launch would add them in order.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    """One program adds the sum of BLOCK neighbouring elements to out."""
    # TODO: load this program's block. What must a masked element be, so that it adds nothing?
    # TODO: widen to float32 before you add: float16 ends at 65504.
    # TODO: tl.sum over the block, then one tl.atomic_add to out_ptr.


def reduce_sum(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write the sum of x to out.

    x: shape (n,), n >= 0, contiguous, one dtype of float32, float16, bfloat16; it may start at any
    element. out: shape (1,), float32; what it has before the call means nothing.
    """
    # TODO: every program adds to out. What must it be before the first one comes?
    # TODO: launch enough programs to cover every element; none where n is 0.
    raise NotImplementedError("reduce_sum: launch sum_kernel here")

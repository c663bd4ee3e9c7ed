"""SiLU: out[i] = x[i] * sigmoid(x[i]).

The work is in the bytes. An element costs a handful of operations and moves 2 * itemsize bytes (one
read, one write), far below what a GPU could compute in the same time, so the kernel is as fast as
memory and no cleverness in the arithmetic shows. What does show: every byte is moved once, by
threads that read neighbouring elements, in blocks large enough to keep the memory busy.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    """One program computes BLOCK neighbouring elements; the last one may have fewer left."""
    # TODO: which elements are this program's?
    #   tl.program_id(0) counts programs, tl.arange(0, BLOCK) counts within one.
    # TODO: the last program may reach past n_elements. Which of its elements exist?
    #   Every tl.load and tl.store needs that as its mask.
    # TODO: load x and widen it to float32: tl.exp takes nothing narrower, and the rounding to
    #   out's dtype should happen once, at the end.
    # TODO: compute silu. Try x = -100 on paper: does anything become inf / inf or inf * 0?
    # TODO: store. tl.store converts to the dtype of the pointer.


def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write silu(x) to out.

    x, out: shape (n,), n >= 1, contiguous, one dtype of float32, float16, bfloat16. x may start at
    any element, so its address need not be a multiple of 16 bytes.
    """
    # TODO: choose BLOCK (a power of two), launch enough programs to cover every element:
    #   silu_kernel[(number of programs,)](x, out, x.numel(), BLOCK=...)
    # Write to `out`; return nothing.
    raise NotImplementedError("silu: launch silu_kernel here")

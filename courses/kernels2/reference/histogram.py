"""Histogram: counts[b] is how often b stands in x.

Where an element counts depends on its value, so no program owns a counter: all of them add, by
atomics. One atomic for each element is right, and slow where values repeat, since atomics on one
address take turns. So a program counts its own block first, in registers, and then adds one number
to each counter: bins atomics for a block in place of BLOCK.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n_elements, bins, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """One program counts BLOCK elements; BINS is a power of two, and bins or more."""
    # BEGIN SOLUTION
    #| # TODO: load the block. A masked element must count nowhere: which bin would a 0 count in?
    #| # TODO: tl.histogram(x, BINS, mask=...) counts a block.
    #| # TODO: add the block's counts to counts by tl.atomic_add: bins of them, not BINS.
    # In int64, so that pid * BLOCK is right beyond 2**31 elements too.
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask, other=0)
    counts = tl.histogram(x, BINS, mask=mask)
    bin_offs = tl.arange(0, BINS)
    tl.atomic_add(counts_ptr + bin_offs, counts, mask=bin_offs < bins)
    # END SOLUTION


def histogram(x: torch.Tensor, counts: torch.Tensor) -> None:
    """Write to counts how often each number stands in x.

    x: shape (n,), int32, n >= 0; its elements are from 0 to bins - 1. counts: shape (bins,), int32;
    what it has before the call means nothing.
    """
    # BEGIN SOLUTION
    #| # TODO: every counter must be 0 before the first program adds to it.
    #| # TODO: BINS is the power of two from bins on; n may be 0.
    #| raise NotImplementedError("histogram: launch histogram_kernel here")
    counts.zero_()
    n_elements, bins = x.numel(), counts.numel()
    BLOCK = 4096
    if n_elements > 0:
        grid = (triton.cdiv(n_elements, BLOCK),)
        BINS = triton.next_power_of_2(bins)
        histogram_kernel[grid](x, counts, n_elements, bins, BLOCK=BLOCK, BINS=BINS)
    # END SOLUTION

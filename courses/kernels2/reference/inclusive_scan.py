"""Inclusive scan: out[i] = x[0] + x[1] + ... + x[i].

Each element depends on all before it, and still it can be done by blocks. What a block needs of
everything before it is one number, the sum. So: the sums of the blocks, the scan of these few sums,
and then each block's own scan, begun with the sum of what lies before it. x is read twice and out
written once. (Reduce, then scan: Merrill and Grimshaw, "Parallel Scan for Stream Architectures",
2009. Their later "decoupled look-back" reads x once, and lets blocks wait for those before them.)

x is int32, and out int64: two elements of 2**30 are beyond int32.
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def block_sums_kernel(x_ptr, sums_ptr, n_elements, BLOCK: tl.constexpr):
    """One program writes the sum of one block of x."""
    # BEGIN SOLUTION
    #| # TODO: load the block, widen it to int64, then sum. What is a masked element?
    # In int64, so that pid * BLOCK is right beyond 2**31 elements too.
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n_elements, other=0).to(tl.int64)
    tl.store(sums_ptr + pid, tl.sum(x, axis=0))
    # END SOLUTION


@triton.jit
def scan_sums_kernel(sums_ptr, n_blocks, BLOCK: tl.constexpr):
    """The only program replaces the sums of blocks by their inclusive scan."""
    # BEGIN SOLUTION
    #| # TODO: go along the sums BLOCK at a time, and carry the sum of what lies behind.
    carry = tl.zeros([], dtype=tl.int64)
    for start in range(0, n_blocks, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < n_blocks
        sums = tl.load(sums_ptr + offs, mask=mask, other=0)
        tl.store(sums_ptr + offs, carry + tl.cumsum(sums, axis=0), mask=mask)
        carry += tl.sum(sums, axis=0)
    # END SOLUTION


@triton.jit
def scan_blocks_kernel(x_ptr, sums_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    """One program scans one block of x, and adds the sum of all blocks before it."""
    # BEGIN SOLUTION
    #| # TODO: tl.cumsum of the block, in int64. The scan of the sums is inclusive: which of them
    #| #   belongs to the blocks before this one, and what does the first block add?
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask, other=0).to(tl.int64)
    before = tl.load(sums_ptr + pid - 1, mask=pid > 0, other=0)
    tl.store(out_ptr + offs, before + tl.cumsum(x, axis=0), mask=mask)
    # END SOLUTION


def inclusive_scan(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write the inclusive scan of x to out.

    x: shape (n,), int32, contiguous, n >= 0. out: shape (n,), int64.
    """
    # BEGIN SOLUTION
    #| # TODO: the sums of the blocks are a tensor of yours (torch.empty, on x.device, int64).
    #| # TODO: launch the three kernels, one after the other; a launch waits for the one before.
    #| # n may be 0.
    #| raise NotImplementedError("inclusive_scan: launch your kernels here")
    n_elements = x.numel()
    if n_elements == 0:
        return
    n_blocks = triton.cdiv(n_elements, BLOCK)
    sums = torch.empty(n_blocks, dtype=torch.int64, device=x.device)
    block_sums_kernel[(n_blocks,)](x, sums, n_elements, BLOCK=BLOCK)
    scan_sums_kernel[(1,)](sums, n_blocks, BLOCK=BLOCK)
    scan_blocks_kernel[(n_blocks,)](x, sums, out, n_elements, BLOCK=BLOCK)
    # END SOLUTION

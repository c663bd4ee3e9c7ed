"""RMSNorm at the speed of a copy, whatever the width: out = x / sqrt(mean(x ** 2) + eps) * weight.

What limits it: memory. The least is to read x once and to write out once, 2 * rows * cols *
itemsize bytes, with some four operations for each element: nothing else can show. A row that a
program holds in registers between the sum and the store reaches it, and a little more than it: all
loads of a row come before the first store, and DRAM likes long stretches of reads and of writes
better than the mixture of a copy. So what is left is the two ends:

narrow rows   A program for a row of 1024 columns loads little and is over soon. Several rows make a
              larger program, which loads its weights once for all of them.
wide rows     65536 columns in float32 are as large as all registers of an SM. The first KEPT stay
              in registers; the others are read twice, the second time backwards, so that what was
              read last, and is in L2 cache most surely, comes first. 132 SMs times half a row of
              256 KiB are 17 MB, and the cache has 50.

The sum of squares is kept in float32, in each thread for its own columns, and added up once.
"""

import torch
import triton
import triton.language as tl

KEPT = 32768  # columns that 32 warps hold in registers, 32 for each thread
FEWEST = 2048  # elements of a program: narrower rows are put together


@triton.jit
def rmsnorm_kernel(
    x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_rows, n_cols, eps,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program normalises ROWS rows, each of them in one block (n_cols <= BLOCK)."""
    offs_m = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    offs_n = tl.arange(0, BLOCK)
    mask = (offs_m[:, None] < n_rows) & (offs_n[None, :] < n_cols)

    # Masked elements are 0, which adds nothing to the sum.
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :]
    x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs_n, mask=offs_n < n_cols, other=0.0).to(tl.float32)

    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / n_cols + eps)
    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_n[None, :]
    tl.store(out_ptrs, x * rstd[:, None] * w[None, :], mask=mask)


@triton.jit
def rmsnorm_wide_kernel(
    x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_cols, eps,
    KEPT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program normalises one row: KEPT < n_cols columns are read once, the others twice."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    kept_n = tl.arange(0, KEPT)
    offs = tl.arange(0, BLOCK)

    # One partial sum for each place in a block. They are added up once, after the loop.
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    blocks = tl.cdiv(n_cols - KEPT, BLOCK)
    kept = tl.load(x_ptr + kept_n).to(tl.float32)
    for i in range(blocks):
        offs_n = KEPT + i * BLOCK + offs
        x = tl.load(x_ptr + offs_n, mask=offs_n < n_cols, other=0.0).to(tl.float32)
        acc += x * x
    rstd = 1.0 / tl.sqrt((tl.sum(acc, axis=0) + tl.sum(kept * kept, axis=0)) / n_cols + eps)

    for i in range(blocks):
        offs_n = KEPT + (blocks - 1 - i) * BLOCK + offs
        mask = offs_n < n_cols
        x = tl.load(x_ptr + offs_n, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + offs_n, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + offs_n, x * rstd * w, mask=mask)
    # After the loop: what is in registers can wait, what is in the cache can't.
    w = tl.load(w_ptr + kept_n).to(tl.float32)
    tl.store(out_ptr + kept_n, kept * rstd * w)


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> None:
    """Write each row of x, over its root mean square and times weight, to out.

    x, out: shape (rows, cols), the elements of a row side by side, rows any distance apart
    (x.stride(0) and out.stride(0), which can differ). weight: shape (cols,), contiguous. One dtype
    of float32, float16, bfloat16. eps > 0 is added to the mean square.
    """
    rows, cols = x.shape
    if cols > KEPT:
        rmsnorm_wide_kernel[(rows,)](
            x, weight, out, x.stride(0), out.stride(0), cols, eps,
            KEPT=KEPT, BLOCK=8192, num_warps=32,
        )  # fmt: skip
        return
    BLOCK = triton.next_power_of_2(cols)
    ROWS = max(1, FEWEST // BLOCK)
    # A warp for each KiB of x: two 16-byte loads for each of its threads.
    num_warps = min(max(ROWS * BLOCK * x.element_size() // 1024, 1), 32)
    rmsnorm_kernel[(triton.cdiv(rows, ROWS),)](
        x, weight, out, x.stride(0), out.stride(0), rows, cols, eps,
        ROWS=ROWS, BLOCK=BLOCK, num_warps=num_warps,
    )  # fmt: skip

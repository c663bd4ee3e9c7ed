"""RMSNorm: out[m, :] = x[m, :] / sqrt(mean(x[m, :] ** 2) + eps) * weight.

A reduction and a map over the same row. Done as two kernels, the row comes from memory twice; held
in registers between the two it comes once, and the kernel moves 2 * rows * cols * itemsize bytes,
as a copy does. So one program takes one row, and a row wider than a program can hold is the one
case that pays for a second read (from cache, mostly: the program has just read it).

The sum of squares is kept in float32. In float16 it would overflow at a few elements of size 100,
and stop growing long before that: 2048 + 1 is 2048.
"""

import torch
import triton
import triton.language as tl

MAX_BLOCK = 16384  # columns that one program can hold in registers


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_cols, eps, BLOCK: tl.constexpr):
    """One program normalises one row, all of it in one block (n_cols <= BLOCK)."""
    # BEGIN SOLUTION
    #| # TODO: which row is this program's? Row m of x starts at x_ptr + m * stride_xm, and
    #| #   rows can lie further apart than n_cols. out has a stride of its own.
    #| # TODO: load the row with a mask. What must a masked element be so that it adds nothing
    #| #   to the sum of squares? (tl.load's `other`)
    #| # TODO: widen to float32 before you square.
    #| # TODO: the mean is over n_cols, not over BLOCK, and eps goes under the root.
    #| # TODO: scale by weight, one per column, and store.
    # In int64, so that row * stride is right beyond 2**31 elements too.
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    mask = offs < n_cols

    # Masked elements are 0, which adds nothing to the sum.
    x = tl.load(x_ptr + row * stride_xm + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0).to(tl.float32)

    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(out_ptr + row * stride_om + offs, x * rstd * w, mask=mask)
    # END SOLUTION


# BEGIN SOLUTION
#| # TODO (last): a kernel for rows wider than MAX_BLOCK. It loops over the columns twice, once for
#| # the sum and once to write. Until you have it, a BLOCK as wide as the row is right, if slow.
@triton.jit
def rmsnorm_wide_kernel(
    x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_cols, eps, BLOCK: tl.constexpr
):
    """One program normalises one row of any width, BLOCK columns at a time, reading it twice."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    out_ptr += row * stride_om

    # One partial sum per lane; they are added up once, after the loop.
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n_cols, other=0.0).to(tl.float32)
        acc += x * x
    rstd = 1.0 / tl.sqrt(tl.sum(acc, axis=0) / n_cols + eps)

    for start in range(0, n_cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < n_cols
        x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + offs, x * rstd * w, mask=mask)


# END SOLUTION


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> None:
    """Write each row of x, over its root mean square and times weight, to out.

    x, out: shape (rows, cols), the elements of a row side by side, rows any distance apart
    (x.stride(0) and out.stride(0), which can differ). weight: shape (cols,), contiguous. One dtype
    of float32, float16, bfloat16. eps > 0 is added to the mean square.
    """
    # BEGIN SOLUTION
    #| # TODO: one program per row. BLOCK must be a power of two, and no less than cols:
    #| #   triton.next_power_of_2(cols).
    #| #   rmsnorm_kernel[(rows,)](x, weight, out, x.stride(0), ..., BLOCK=BLOCK)
    #| # Write to `out`; return nothing.
    #| raise NotImplementedError("rmsnorm: launch rmsnorm_kernel here")
    rows, cols = x.shape
    BLOCK = min(triton.next_power_of_2(cols), MAX_BLOCK)
    # A warp for each KiB of the row: two 16-byte loads for each of its threads.
    num_warps = min(max(BLOCK * x.element_size() // 1024, 1), 32)
    kernel = rmsnorm_kernel if cols <= BLOCK else rmsnorm_wide_kernel
    kernel[(rows,)](
        x, weight, out, x.stride(0), out.stride(0), cols, eps, BLOCK=BLOCK, num_warps=num_warps
    )
    # END SOLUTION

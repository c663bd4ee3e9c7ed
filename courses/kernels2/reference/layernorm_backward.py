"""LayerNorm, backward: dx, dweight and dbias from x, weight and dy.

With xhat = (x - mean) * rstd and g = dy * weight:

    dx      = rstd * (g - mean of g - xhat * mean of g * xhat)     means along a row
    dweight = sum of dy * xhat, dbias = sum of dy                  sums along a column

Two directions, so two kernels. The first takes a row for each program, as the forward kernel does,
and leaves the row's mean and rstd in memory: 8 bytes for a row. The second takes some columns and
goes down all rows, a block at a time. The other way, partial sums of each row block and a launch
that adds them, reads x and dy once, and is faster where there are few columns. (Triton's tutorial
"Layer Normalization" takes that one, with locks.)
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dx_kernel(x_ptr, w_ptr, dy_ptr, dx_ptr, mean_ptr, rstd_ptr, n_cols, eps, BLOCK: tl.constexpr):
    """One program computes one row of dx, and keeps the row's mean and rstd."""
    # BEGIN SOLUTION
    #| # TODO: the row's mean and rstd. Masked elements are 0, which isn't 0 minus the mean.
    #| # TODO: xhat, g = dy * weight, and the two means. They are over n_cols, not over BLOCK.
    #| # TODO: store dx, and mean and rstd for the second kernel.
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    mask = offs < n_cols
    x = tl.load(x_ptr + row * n_cols + offs, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * n_cols + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0).to(tl.float32)

    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    xhat = centred * rstd
    g = dy * w
    mean_g = tl.sum(g, axis=0) / n_cols
    mean_gx = tl.sum(g * xhat, axis=0) / n_cols
    tl.store(dx_ptr + row * n_cols + offs, rstd * (g - mean_g - xhat * mean_gx), mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    # END SOLUTION


@triton.jit
def dweight_kernel(
    x_ptr, dy_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, n_rows, n_cols,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_N columns of dweight and dbias, going down all rows."""
    # BEGIN SOLUTION
    #| # TODO: BLOCK_M rows at a time: load x, dy, mean and rstd. A masked row must add nothing.
    #| # TODO: add up dy * xhat and dy, in float32, and store the two sums at the end.
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    db = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, n_rows, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        row_mask = rows < n_rows
        mask = row_mask[:, None] & (cols < n_cols)[None, :]
        offs = rows.to(tl.int64)[:, None] * n_cols + cols[None, :]
        x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=row_mask, other=0.0)
        rstd = tl.load(rstd_ptr + rows, mask=row_mask, other=0.0)
        dw += dy * (x - mean[:, None]) * rstd[:, None]
        db += dy
    tl.store(dw_ptr + cols, tl.sum(dw, axis=0), mask=cols < n_cols)
    tl.store(db_ptr + cols, tl.sum(db, axis=0), mask=cols < n_cols)
    # END SOLUTION


def layernorm_backward(
    x: torch.Tensor,
    weight: torch.Tensor,
    dy: torch.Tensor,
    dx: torch.Tensor,
    dweight: torch.Tensor,
    dbias: torch.Tensor,
    eps: float,
) -> None:
    """Write the gradients of LayerNorm to dx, dweight and dbias.

    x, dy, dx: shape (rows, cols), weight: (cols,), all contiguous and of one dtype: float32,
    float16, bfloat16. dweight, dbias: (cols,), float32. eps > 0 is added to the variance.
    """
    # BEGIN SOLUTION
    #| # TODO: room for mean and rstd: torch.empty, float32, on x.device.
    #| # TODO: the first kernel has a program for each row, the second for each block of columns.
    #| raise NotImplementedError("layernorm_backward: launch the two kernels here")
    rows, cols = x.shape
    mean = torch.empty(rows, dtype=torch.float32, device=x.device)
    rstd = torch.empty(rows, dtype=torch.float32, device=x.device)
    BLOCK = triton.next_power_of_2(cols)
    dx_kernel[(rows,)](x, weight, dy, dx, mean, rstd, cols, eps, BLOCK=BLOCK)
    BLOCK_M, BLOCK_N = 16, 32
    dweight_kernel[(triton.cdiv(cols, BLOCK_N),)](
        x, dy, mean, rstd, dweight, dbias, rows, cols, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N
    )
    # END SOLUTION

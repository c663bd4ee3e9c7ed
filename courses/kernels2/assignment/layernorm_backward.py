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
    # TODO: the row's mean and rstd. Masked elements are 0, which isn't 0 minus the mean.
    # TODO: xhat, g = dy * weight, and the two means. They are over n_cols, not over BLOCK.
    # TODO: store dx, and mean and rstd for the second kernel.


@triton.jit
def dweight_kernel(
    x_ptr, dy_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, n_rows, n_cols,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_N columns of dweight and dbias, going down all rows."""
    # TODO: BLOCK_M rows at a time: load x, dy, mean and rstd. A masked row must add nothing.
    # TODO: add up dy * xhat and dy, in float32, and store the two sums at the end.


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
    # TODO: room for mean and rstd: torch.empty, float32, on x.device.
    # TODO: the first kernel has a program for each row, the second for each block of columns.
    raise NotImplementedError("layernorm_backward: launch the two kernels here")

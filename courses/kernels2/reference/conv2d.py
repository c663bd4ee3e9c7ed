"""2-D convolution: out[i, j] = sum over r, s of w[r, s] * x[i + r - K // 2, j + s - K // 2].

Neighbouring elements of out need nearly the same part of x. A program takes a tile of out and
loads, for each of the K * K places of w, the tile of x that is shifted by it. These loads overlap:
the first comes from memory, the others mostly from the L1 cache. In CUDA a block keeps the tile
and its halo in shared memory by hand; Triton has no shared memory of one's own.

Around the image x is 0. So each shifted tile has a mask of its own, on all four sides.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def conv2d_kernel(x_ptr, w_ptr, out_ptr, H, W, K, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    """One program computes a tile of BLOCK_H by BLOCK_W elements of out."""
    # BEGIN SOLUTION
    #| # TODO: the rows and columns of this program's tile.
    #| # TODO: for each r and s: load x shifted by (r - K // 2, s - K // 2). Which of its elements
    #| #   exist? There are four sides. Those that don't are 0.
    #| # TODO: acc += w[r, s] * that, in float32. Store with the mask of out.
    # Tiles are numbered along one axis: the grid's others end at 65,535.
    pid, tiles_w = tl.program_id(0), tl.cdiv(W, BLOCK_W)
    rows = pid // tiles_w * BLOCK_H + tl.arange(0, BLOCK_H)
    cols = pid % tiles_w * BLOCK_W + tl.arange(0, BLOCK_W)
    acc = tl.zeros([BLOCK_H, BLOCK_W], dtype=tl.float32)
    for r in range(K):
        x_rows = rows + r - K // 2
        row_mask = (x_rows >= 0) & (x_rows < H)
        for s in range(K):
            x_cols = cols + s - K // 2
            col_mask = (x_cols >= 0) & (x_cols < W)
            # Row offsets in int64: an image may have more than 2**31 elements.
            offs = x_rows.to(tl.int64)[:, None] * W + x_cols[None, :]
            x = tl.load(x_ptr + offs, mask=row_mask[:, None] & col_mask[None, :], other=0.0)
            w = tl.load(w_ptr + r * K + s)
            acc += w.to(tl.float32) * x.to(tl.float32)
    mask = (rows < H)[:, None] & (cols < W)[None, :]
    tl.store(out_ptr + rows.to(tl.int64)[:, None] * W + cols[None, :], acc, mask=mask)
    # END SOLUTION


def conv2d(x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
    """Write the convolution of x with w to out; x counts as 0 outside of its shape.

    x, out: shape (H, W); w: shape (K, K), K odd; all contiguous, one dtype of float32, float16,
    bfloat16.
    """
    # BEGIN SOLUTION
    #| # TODO: a program for each tile of out, numbered row by row along one axis.
    #| #   Why not along two? A grid's second axis ends at 65,535.
    #| raise NotImplementedError("conv2d: launch conv2d_kernel here")
    H, W = x.shape
    K = w.shape[0]
    BLOCK_H, BLOCK_W = 16, 32
    grid = (triton.cdiv(H, BLOCK_H) * triton.cdiv(W, BLOCK_W),)
    conv2d_kernel[grid](x, w, out, H, W, K, BLOCK_H=BLOCK_H, BLOCK_W=BLOCK_W)
    # END SOLUTION

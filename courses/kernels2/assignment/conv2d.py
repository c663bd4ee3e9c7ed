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
    # TODO: the rows and columns of this program's tile.
    # TODO: for each r and s: load x shifted by (r - K // 2, s - K // 2). Which of its elements
    #   exist? There are four sides. Those that don't are 0.
    # TODO: acc += w[r, s] * that, in float32. Store with the mask of out.


def conv2d(x: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> None:
    """Write the convolution of x with w to out; x counts as 0 outside of its shape.

    x, out: shape (H, W); w: shape (K, K), K odd; all contiguous, one dtype of float32, float16,
    bfloat16.
    """
    # TODO: a program for each tile of out, numbered row by row along one axis.
    #   Why not along two? A grid's second axis ends at 65,535.
    raise NotImplementedError("conv2d: launch conv2d_kernel here")

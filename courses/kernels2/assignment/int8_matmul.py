"""int8 matrix product with scales: out = scale_a * scale_b * (a @ b.T), element by element.

Quantised weights: a number is an int8 times a scale that its whole row shares, so the scales come
out of the sum. What is left inside is exact: products of int8 are at most 2**14, and an int32
holds the sum of 131,071 of them. The tensor cores multiply int8 twice as fast as float16, and each
element is half as many bytes. (Jacob et al., "Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference", 2018.)

b has a row for each column of out, as the weight of a linear layer: both matrices are read along k.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def int8_matmul_kernel(
    a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One program computes a tile of BLOCK_M by BLOCK_N elements of out."""
    # TODO: rows of a and rows of b of this tile. Count in int64: M * K can be beyond 2**31.
    # TODO: an accumulator of int32; BLOCK_K columns at a time, a's tile (BLOCK_M, BLOCK_K)
    #   and b's as (BLOCK_K, BLOCK_N). What is beyond K, M or N must add nothing.
    # TODO: tl.dot of int8 gives int32.
    # TODO: scale once, at the end, in float32.


def int8_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Write the scaled product of a and the transposed b to out.

    a: shape (M, K), b: (N, K), int8. scale_a: (M,), scale_b: (N,), out: (M, N), float32. All are
    contiguous.
    """
    # TODO: a program for each tile, numbered row by row along one axis.
    #   For int8, tl.dot wants BLOCK_K of 32 or more.
    raise NotImplementedError("int8_matmul: launch int8_matmul_kernel here")

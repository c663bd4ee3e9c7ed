"""Transpose: output[n, m] = input[m, n].

Nothing is computed: all there is to do well is to move. Memory comes in sectors of 32 bytes, and a
load or store costs as many sectors as its elements lie in. Along a row, neighbours share sectors;
along a column, each element has one of its own, of which the rest is carried for nothing. A
transpose goes along rows on one side and along columns on the other, so one side loses, unless a
whole tile is turned on the way:

    v0  torch                                   the baseline; ships solved
    v1  a program per row of output             whole sectors are stored; loads waste theirs
    v2  a program per row of input              whole sectors are loaded; stores waste theirs
    v3  a program per tile, turned on the way   whole sectors on both sides
    v4  the same, as fast as a copy             tile size, warps, and which tiles run together

In Triton a tile is turned by tl.trans: the program says which element goes where, and the compiler
takes them through shared memory so that both sides go along rows.
"""

import torch
import triton
import triton.language as tl

# --- v0 ------------------------------------------------------------------------------------------


def transpose_v0(input: torch.Tensor, output: torch.Tensor) -> None:
    """Write the transpose of input to output with torch: what the others are held against.

    input.t() moves nothing: it is the same memory with its two strides exchanged. The copy does.
    """
    output.copy_(input.t())


# --- v1 ------------------------------------------------------------------------------------------

ROW_BLOCK = 1024  # elements of a row that a program of v1 or v2 moves together


@triton.jit
def transpose_v1_kernel(x_ptr, out_ptr, stride_xm, stride_on, n_rows, BLOCK: tl.constexpr):
    """One program writes one row of output: a column of input, n_rows elements."""
    # TODO: which column of input is this program's? Its elements are stride_xm apart.
    # TODO: go along it in blocks of BLOCK elements, with a mask on the last one:
    #   for start in range(0, n_rows, BLOCK)
    # TODO: row n of output starts at out_ptr + n * stride_on.


def transpose_v1(input: torch.Tensor, output: torch.Tensor) -> None:
    """Write the transpose of input to output, a program for each row of output.

    input: shape (rows, cols), output: shape (cols, rows), one dtype; in both the elements of a row
    lie side by side, and rows any distance apart (input.stride(0), output.stride(0)).
    """
    # TODO: output has as many rows as input has columns.
    #   transpose_v1_kernel[(number of programs,)](input, output, input.stride(0), ...)
    raise NotImplementedError("transpose_v1: launch transpose_v1_kernel here")


# --- v2 ------------------------------------------------------------------------------------------


@triton.jit
def transpose_v2_kernel(x_ptr, out_ptr, stride_xm, stride_on, n_cols, BLOCK: tl.constexpr):
    """One program reads one row of input, n_cols elements, and writes a column of output."""
    # TODO: as v1, but the row of input is this program's, and the stores are strided.


def transpose_v2(input: torch.Tensor, output: torch.Tensor) -> None:
    """Write the transpose of input to output, a program for each row of input.

    Shapes and strides as for transpose_v1.
    """
    # TODO: launch transpose_v2_kernel, one program per row of input.
    raise NotImplementedError("transpose_v2: launch transpose_v2_kernel here")


# --- v3 ------------------------------------------------------------------------------------------


@triton.jit
def transpose_v3_kernel(
    x_ptr, out_ptr, stride_xm, stride_on, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """One program turns one tile of input, BLOCK_M rows by BLOCK_N columns."""
    # TODO: tiles are numbered along one axis of the grid (the other two end at 65535). With t
    #   tiles side by side, program p has tile row p // t and tile column p % t.
    # TODO: offs_m and offs_n are the rows and columns of the tile. A block of pointers has the
    #   shape of the tile: offs_m[:, None] counts down it, offs_n[None, :] across it.
    # TODO: the mask needs both edges: inside M and inside N.
    # TODO: tl.trans(tile) has BLOCK_N rows. Its pointers in output, and its mask, need that
    #   shape too, with the elements of an output row side by side.


def transpose_v3(input: torch.Tensor, output: torch.Tensor) -> None:
    """Write the transpose of input to output, a program for each tile.

    Shapes and strides as for transpose_v1.
    """
    # TODO: choose BLOCK_M and BLOCK_N (powers of two; 32 by 32 is a start) and launch as many
    #   programs as there are tiles, the ragged ones at the edges included.
    raise NotImplementedError("transpose_v3: launch transpose_v3_kernel here")


# --- v4 ------------------------------------------------------------------------------------------


@triton.jit
def transpose_v4_kernel(
    x_ptr, out_ptr, stride_xm, stride_on, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """One program turns one tile; programs that run together write along the rows of output."""
    # TODO: v3 is right and has whole sectors. What is left is to keep the memory busy: larger
    #   tiles, more warps, and an order of the tiles in which programs that run at the same time
    #   write pieces of the same rows of output. Which of the two tile numbers should count up
    #   first?


def transpose_v4(input: torch.Tensor, output: torch.Tensor) -> None:
    """Write the transpose of input to output as fast as a copy.

    Shapes and strides as for transpose_v1.
    """
    # TODO: launch transpose_v4_kernel; try tile sizes and num_warps, and measure.
    raise NotImplementedError("transpose_v4: launch transpose_v4_kernel here")

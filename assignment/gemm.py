"""GEMM: out = a @ b, with a of M rows and K columns, b of K rows and N columns.

out has M * N elements, each a sum of K products: 2 * M * N * K operations on M*K + K*N + M*N
elements. Nothing else in this assignment offers so much work per byte, if each byte that comes from
memory is used often. An element of a is needed N times and one of b M times; how often it has to be
fetched is up to the kernel:

    v0  torch                                     the baseline; ships solved
    v1  a program per small tile of out           right, whatever the shapes and strides
    v2  larger tiles, tl.dot                      a once per 64 columns of out, b once per 64 rows
    v3  tiles in groups                           programs that run together share more in L2 cache
    v4  tile sizes chosen by measuring            the best there is for each shape

The sum is kept in float32 for every dtype. float32 inputs are multiplied as they are
(input_precision="ieee"): by default the tensor cores drop 13 of their 23 bits.
"""

import torch
import triton
import triton.language as tl

# --- v0 ------------------------------------------------------------------------------------------


def gemm_v0(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out with torch: what the others are held against."""
    torch.matmul(a, b, out=out)


# --- v1 ------------------------------------------------------------------------------------------


@triton.jit
def gemm_v1_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program computes one tile of out, BLOCK rows by BLOCK columns."""
    # TODO: tiles are numbered along one axis of the grid. With t tiles side by side, program p
    #   has tile row p // t and tile column p % t: which rows of out, offs_m, and which columns,
    #   offs_n, are this program's?
    # TODO: acc = tl.zeros([BLOCK, BLOCK], dtype=tl.float32). Then for each block of K, load the
    #   tile of a, rows offs_m and columns offs_k, and the tile of b turned: its columns offs_n
    #   down, its rows offs_k across. An element's address is row * stride + column * stride,
    #   with the strides you were given: a and b may be transposed views. Mask both edges of both
    #   tiles: what must a masked element be so that it adds nothing?
    # TODO: a[:, None, :] * b[None, :, :] has every product, shape [rows, columns, k]. Add them
    #   up over k (tl.sum, axis=2), in float32.
    # TODO: store the tile. Which elements of it exist?


def gemm_v1(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out.

    a: shape (M, K), b: shape (K, N), out: shape (M, N), one dtype of float32, float16, bfloat16.
    Each has two strides of its own; a and b may be transposed views, with stride(0) == 1.
    """
    # TODO: as many programs as there are tiles, the ragged ones at the edges included. All
    #   products of a tile are in registers at once, so it has to be small: BLOCK = 32.
    raise NotImplementedError("gemm_v1: launch gemm_v1_kernel here")


# --- v2 ------------------------------------------------------------------------------------------


@triton.jit
def gemm_v2_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One program computes one tile of out, BLOCK_M rows by BLOCK_N columns."""
    # TODO: which tile is this program's? Its rows are offs_m, its columns offs_n.
    # TODO: acc has the tile's shape, in float32. For each block of BLOCK_K along K: load a tile
    #   of a, [BLOCK_M, BLOCK_K], and one of b, [BLOCK_K, BLOCK_N], both masked at their edges,
    #   and give them to tl.dot(a, b, acc, input_precision="ieee").
    # TODO: the last block along K is the trap: a mask on M and N alone lets it read on.
    # TODO: store the tile. Which elements of it exist?


def gemm_v2(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out, a tile in each program. Shapes and strides as for gemm_v1."""
    # TODO: choose the tile: powers of two, at least 16 each, since tl.dot takes no less. An
    #   element of a is read once for every BLOCK_N columns of out: how small may BLOCK_N be?
    raise NotImplementedError("gemm_v2: launch gemm_v2_kernel here")


# --- v3 ------------------------------------------------------------------------------------------


@triton.jit
def gemm_v3_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):  # fmt: skip
    """One program computes one tile of out; consecutive programs' tiles lie close together."""
    # TODO: programs with neighbouring numbers run together and share the L2 cache. In row-major
    #   order 16 of them read one row of tiles of a and 16 columns of tiles of b: 17. In a square
    #   of 4 by 4 they read 4 and 4: 8. So number the tiles in groups of GROUP_SIZE_M tile rows,
    #   and down the columns within a group. The last group may have fewer rows.
    # TODO: the rest is v2.


def gemm_v3(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out, tiles in groups. Shapes and strides as for gemm_v1."""
    # TODO: launch gemm_v3_kernel. For half precision the tensor cores want large tiles: the
    #   larger the tile, the more operations for each byte, until shared memory is full.
    raise NotImplementedError("gemm_v3: launch gemm_v3_kernel here")


# --- v4 ------------------------------------------------------------------------------------------

# TODO: more configurations, few enough to be tried in seconds: large tiles for large squares,
# small ones where M or N is small.
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_SIZE_M": 8}
CONFIGS = [triton.Config(SMALL, num_warps=4, num_stages=3)]


@triton.autotune(configs=CONFIGS, key=["M_KEY", "N_KEY", "K_KEY"])
@triton.jit
def gemm_v4_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K, M_KEY, N_KEY, K_KEY,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):  # fmt: skip
    """As gemm_v3_kernel, tuned anew for each combination of the keys, which it doesn't use."""
    # TODO: the body of v3. (A kernel can call a @triton.jit function, if you want to share it.)


def gemm_v4(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out, with the fastest of several tile sizes. Shapes and strides as gemm_v1."""
    # TODO: the grid depends on the configuration chosen: grid = lambda meta: (...,), with
    #   meta["BLOCK_M"] and the like.
    # TODO: the kernel is tuned once for each combination of its keys. Tuning takes a second or
    #   so: don't let it run for every single M. Powers of two, and one key for all that is
    #   small, will do: triton.next_power_of_2(max(M, 256)).
    raise NotImplementedError("gemm_v4: launch gemm_v4_kernel here")

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
    # BEGIN SOLUTION
    #| # TODO: tiles are numbered along one axis of the grid. With t tiles side by side, program p
    #| #   has tile row p // t and tile column p % t: which rows of out, offs_m, and which columns,
    #| #   offs_n, are this program's?
    #| # TODO: acc = tl.zeros([BLOCK, BLOCK], dtype=tl.float32). Then for each block of K, load the
    #| #   tile of a, rows offs_m and columns offs_k, and the tile of b turned: its columns offs_n
    #| #   down, its rows offs_k across. An element's address is row * stride + column * stride,
    #| #   with the strides you were given: a and b may be transposed views. Mask both edges of both
    #| #   tiles: what must a masked element be so that it adds nothing?
    #| # TODO: a[:, None, :] * b[None, :, :] has every product, shape [rows, columns, k]. Add them
    #| #   up over k (tl.sum, axis=2), in float32.
    #| # TODO: store the tile. Which elements of it exist?
    # In int64, so that an index times a stride is right beyond 2**31 elements too.
    pid = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK)
    offs_m = pid // tiles_n * BLOCK + tl.arange(0, BLOCK)
    offs_n = pid % tiles_n * BLOCK + tl.arange(0, BLOCK)

    acc = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for start in range(0, K, BLOCK):
        offs_k = (start + tl.arange(0, BLOCK)).to(tl.int64)
        # b turned, so that k comes last in both. With k in the middle some versions of the compiler
        # make a tl.dot of product and sum, which cuts float32 to TF32.
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_n[:, None] * stride_bn + offs_k[None, :] * stride_bk
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_n[:, None] < N) & (offs_k[None, :] < K), other=0.0)
        products = a.to(tl.float32)[:, None, :] * b.to(tl.float32)[None, :, :]
        acc += tl.sum(products, axis=2)

    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_n[None, :] * stride_on
    tl.store(out_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
    # END SOLUTION


def gemm_v1(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out.

    a: shape (M, K), b: shape (K, N), out: shape (M, N), one dtype of float32, float16, bfloat16.
    Each has two strides of its own; a and b may be transposed views, with stride(0) == 1.
    """
    # BEGIN SOLUTION
    #| # TODO: as many programs as there are tiles, the ragged ones at the edges included. All
    #| #   products of a tile are in registers at once, so it has to be small: BLOCK = 32.
    #| raise NotImplementedError("gemm_v1: launch gemm_v1_kernel here")
    (M, K), N = a.shape, b.shape[1]
    BLOCK = 32
    grid = (triton.cdiv(M, BLOCK) * triton.cdiv(N, BLOCK),)
    gemm_v1_kernel[grid](
        a, b, out, M, N, K,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), out.stride(0), out.stride(1),
        BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    # END SOLUTION


# --- v2 ------------------------------------------------------------------------------------------


@triton.jit
def gemm_v2_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One program computes one tile of out, BLOCK_M rows by BLOCK_N columns."""
    # BEGIN SOLUTION
    #| # TODO: which tile is this program's? Its rows are offs_m, its columns offs_n.
    #| # TODO: acc has the tile's shape, in float32. For each block of BLOCK_K along K: load a tile
    #| #   of a, [BLOCK_M, BLOCK_K], and one of b, [BLOCK_K, BLOCK_N], both masked at their edges,
    #| #   and give them to tl.dot(a, b, acc, input_precision="ieee").
    #| # TODO: the last block along K is the trap: a mask on M and N alone lets it read on.
    #| # TODO: store the tile. Which elements of it exist?
    pid = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK_N)
    offs_m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)

    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        offs_k = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")

    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_n[None, :] * stride_on
    tl.store(out_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
    # END SOLUTION


def gemm_v2(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out, a tile in each program. Shapes and strides as for gemm_v1."""
    # BEGIN SOLUTION
    #| # TODO: choose the tile: powers of two, at least 16 each, since tl.dot takes no less. An
    #| #   element of a is read once for every BLOCK_N columns of out: how small may BLOCK_N be?
    #| raise NotImplementedError("gemm_v2: launch gemm_v2_kernel here")
    (M, K), N = a.shape, b.shape[1]
    BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    gemm_v2_kernel[grid](
        a, b, out, M, N, K,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), out.stride(0), out.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    # END SOLUTION


# --- v3 ------------------------------------------------------------------------------------------


@triton.jit
def gemm_v3_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):  # fmt: skip
    """One program computes one tile of out; consecutive programs' tiles lie close together."""
    # BEGIN SOLUTION
    #| # TODO: programs with neighbouring numbers run together and share the L2 cache. In row-major
    #| #   order 16 of them read one row of tiles of a and 16 columns of tiles of b: 17. In a square
    #| #   of 4 by 4 they read 4 and 4: 8. So number the tiles in groups of GROUP_SIZE_M tile rows,
    #| #   and down the columns within a group. The last group may have fewer rows.
    #| # TODO: the rest is v2.
    pid = tl.program_id(0).to(tl.int64)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_SIZE_M * tiles_n
    first_m = pid // in_group * GROUP_SIZE_M
    rows_of_group = tl.minimum(tiles_m - first_m, GROUP_SIZE_M)
    pid_m = first_m + pid % in_group % rows_of_group
    pid_n = pid % in_group // rows_of_group
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)

    # Pointers that move on by one block are cheaper than new ones in every turn of the loop.
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        left = K - start
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < left) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_n[None, :] * stride_on
    tl.store(out_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
    # END SOLUTION


def gemm_v3(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out, tiles in groups. Shapes and strides as for gemm_v1."""
    # BEGIN SOLUTION
    #| # TODO: launch gemm_v3_kernel. For half precision the tensor cores want large tiles: the
    #| #   larger the tile, the more operations for each byte, until shared memory is full.
    #| raise NotImplementedError("gemm_v3: launch gemm_v3_kernel here")
    (M, K), N = a.shape, b.shape[1]
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 256, 64
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    gemm_v3_kernel[grid](
        a, b, out, M, N, K,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), out.stride(0), out.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_SIZE_M=8,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    # END SOLUTION


# --- v4 ------------------------------------------------------------------------------------------

# BEGIN SOLUTION
#| # TODO: more configurations, few enough to be tried in seconds: large tiles for large squares,
#| # small ones where M or N is small.
#| SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_SIZE_M": 8}
#| CONFIGS = [triton.Config(SMALL, num_warps=4, num_stages=3)]
TILES = [  # BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages
    (128, 256, 64, 8, 3),  # large squares
    (128, 128, 128, 8, 3),  # rows that don't begin at 16 bytes: long runs, by narrow loads
    (64, 128, 128, 4, 4),  # a long sum for a small result
    (16, 64, 128, 4, 5),  # a few rows
    (64, 64, 64, 4, 4),
]
CONFIGS = [
    triton.Config(
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_SIZE_M": 8},
        num_warps=warps,
        num_stages=stages,
    )
    for m, n, k, warps, stages in TILES
]
# END SOLUTION


@triton.autotune(configs=CONFIGS, key=["M_KEY", "N_KEY", "K_KEY"])
@triton.jit
def gemm_v4_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K, M_KEY, N_KEY, K_KEY,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):  # fmt: skip
    """As gemm_v3_kernel, tuned anew for each combination of the keys, which it doesn't use."""
    # BEGIN SOLUTION
    #| # TODO: the body of v3. (A kernel can call a @triton.jit function, if you want to share it.)
    pid = tl.program_id(0).to(tl.int64)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_SIZE_M * tiles_n
    first_m = pid // in_group * GROUP_SIZE_M
    rows_of_group = tl.minimum(tiles_m - first_m, GROUP_SIZE_M)
    pid_m = first_m + pid % in_group % rows_of_group
    pid_n = pid % in_group // rows_of_group
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)

    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        left = K - start
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < left) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_n[None, :] * stride_on
    tl.store(out_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
    # END SOLUTION


def gemm_v4(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out, with the fastest of several tile sizes. Shapes and strides as gemm_v1."""
    # BEGIN SOLUTION
    #| # TODO: the grid depends on the configuration chosen: grid = lambda meta: (...,), with
    #| #   meta["BLOCK_M"] and the like.
    #| # TODO: the kernel is tuned once for each combination of its keys. Tuning takes a second or
    #| #   so: don't let it run for every single M. Powers of two, and one key for all that is
    #| #   small, will do: triton.next_power_of_2(max(M, 256)).
    #| raise NotImplementedError("gemm_v4: launch gemm_v4_kernel here")
    (M, K), N = a.shape, b.shape[1]
    keys = [triton.next_power_of_2(max(size, 256)) for size in (M, N, K)]

    def grid(meta):
        return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)

    gemm_v4_kernel[grid](
        a, b, out, M, N, K, *keys,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), out.stride(0), out.stride(1),
    )  # fmt: skip
    # END SOLUTION

"""GEMM beyond the lessons: out = a @ b at the speed of the vendor's library, on a Hopper GPU.

What limits it. A product of 4096 x 4096 matrices is 137 GFLOP on 100 MB: the tensor cores' time, by
far. A block computes a tile of 128 x 256 sums, which its two warpgroups hold in registers: 128 of
each thread's. Each step of 64 along K keeps the tensor cores busy for 1024 cycles and wants 48 KB
of a and b. So loading has to be far ahead, and should take no turn from those who multiply.

The schedule, of `gemm_hopper_kernel`, written in Gluon, the layer of Triton where warps and shared
memory are laid out by hand:

    warp 8      asks the copy engine (TMA) for tiles of a and b, up to four steps ahead
    warps 0-3   wait for a step and multiply (wgmma, straight from shared memory) the upper half
    warps 4-7   the same with the lower half

They meet only at barriers in shared memory: `filled` of a slot counts the bytes that have arrived,
`drained` the warpgroups that are done with it. A warpgroup issues the next step's products before
it waits for those of the last, so the tensor cores always have some. As many blocks as the GPU has
multiprocessors run, each over several tiles; while one tile is converted and stored, the loads for
the next are under way. The tiles in work at one time lie close together, and share in L2.

What else is here, and when:

    a, b transposed views       tiles are loaded turned: wgmma takes either order
    rows of a or b that don't   TMA can't: `align_kernel` first copies that matrix into rows that
    begin on 16 bytes           do. It moves 2 numbers for each of M * K, the product 2 * N for each
    rows of out that don't      tiles are stored by masked stores instead of TMA
    few tiles, and K long       K in parts, float32 sums of each, added in a fixed order
    a tile of 256 x 128         where fewer rounds are needed: 4095 x 4097 is 32 x 17 tiles of
                                128 x 256, five rounds of 132, but 16 x 33 of 256 x 128, four
    M or N up to 64             `gemm_plain_kernel`: all is in reading the large matrix once. Tiles
                                64 columns wide, 64 KB under way in each
    small products, float32,    the same kernel: the launch takes longer than the work, or there is
    other GPUs, no GPU          nothing that TMA and wgmma would gain

What each trick bought, in speed over cuBLAS (drafts of these kernels, 16-bit floats, large squares,
one H100):

    tiles in groups, 128 x 256 x 64, 8 warps (the lesson's v3 and v4)     0.95 to 1.00
    as many programs as multiprocessors, TMA, the compiler's pipeline     0.98 to 1.02
    a loading warp and two warpgroups that multiply (Gluon)               0.985 to 1.02

Nothing depends on timing or on atomics: the same inputs give the same bits.

The rungs below gemm_v4 ask for less of the same, and get it.
"""

import warnings

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# Triton 3.6's names of the copy engine's two directions, and later ones'.
later = hasattr(tma, "async_load")
load_tile = tma.async_load if later else tma.async_copy_global_to_shared
store_tile = tma.async_store if later else tma.async_copy_shared_to_global

# --- Hopper: a warp that loads, two warpgroups that multiply --------------------------------------


@gluon.jit
def piece_of_work(
    number, M, N, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    GROUP_M: gl.constexpr, PARTS: gl.constexpr,
):  # fmt: skip
    """First row and column of piece `number`'s tile, its first and last step along K, its part."""
    tiles_m = gl.cdiv(M, BLOCK_M)
    tiles_n = gl.cdiv(N, BLOCK_N)
    part = number // (tiles_m * tiles_n)
    tile = number % (tiles_m * tiles_n)
    in_group = GROUP_M * tiles_n
    first_m = tile // in_group * GROUP_M
    rows_of_group = gl.minimum(tiles_m - first_m, GROUP_M)
    row = (first_m + tile % in_group % rows_of_group) * BLOCK_M
    col = tile % in_group // rows_of_group * BLOCK_N
    steps = gl.cdiv(K, BLOCK_K)
    steps_of_part = gl.cdiv(steps, PARTS)
    first = part * steps_of_part
    return row, col, first, gl.minimum(first + steps_of_part, steps), part


@gluon.jit
def load_tiles(
    a_desc, b_desc, a_slots, b_slots, filled, drained, M, N, K, pieces,
    A_TURNED: gl.constexpr, B_TURNED: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr, GROUP_M: gl.constexpr, PARTS: gl.constexpr,
):  # fmt: skip
    """The loading warp: fill slot after slot, each as soon as both warpgroups are done with it."""
    HALF: gl.constexpr = BLOCK_M // 2
    turn = 0
    for number in range(gl.program_id(0), pieces, gl.num_programs(0)):
        row, col, first, end, _ = piece_of_work(
            number, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, PARTS
        )
        for step in range(first, end):
            k = step * BLOCK_K
            slot = turn % STAGES
            full = filled.index(slot)
            mbarrier.wait(drained.index(slot), ((turn // STAGES) & 1) ^ 1)
            mbarrier.expect(full, 2 * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            # What lies beyond an edge arrives as zeros, which add nothing.
            if A_TURNED:
                load_tile(a_desc, [k, row], full, a_slots.index(slot * 2))
                load_tile(a_desc, [k, row + HALF], full, a_slots.index(slot * 2 + 1))
            else:
                load_tile(a_desc, [row, k], full, a_slots.index(slot * 2))
                load_tile(a_desc, [row + HALF, k], full, a_slots.index(slot * 2 + 1))
            if B_TURNED:
                load_tile(b_desc, [col, k], full, b_slots.index(slot))
            else:
                load_tile(b_desc, [k, col], full, b_slots.index(slot))
            turn += 1


@gluon.jit
def halves(block):
    """The left and the right half of a block's columns, which costs no instruction."""
    rows: gl.constexpr = block.shape[0]
    columns: gl.constexpr = block.shape[1]
    return block.reshape([rows, 2, columns // 2]).permute(0, 2, 1).split()


@gluon.jit
def store_piece(
    piece, out, staging, row, col, M, N, stride_om, number: gl.constexpr, BY_TMA: gl.constexpr
):  # fmt: skip
    """Store one of the four pieces of a warpgroup's half of the tile, out[row:, col:]."""
    if BY_TMA:
        # Two pieces of staging memory: the one of two pieces ago has been read.
        tma.store_wait(1)
        staging.index(number % 2).store(piece.to(out.dtype))
        fence_async_shared()
        store_tile(out, [row, col], staging.index(number % 2))
    else:
        dtype: gl.constexpr = out.dtype.element_ty
        if dtype == gl.float32:
            layout: gl.constexpr = piece.type.layout  # four lanes of a row have a whole sector
            value = piece
        else:
            layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
            value = gl.convert_layout(piece.to(dtype), layout)
        rows: gl.constexpr = piece.shape[0]
        columns: gl.constexpr = piece.shape[1]
        r = gl.arange(0, rows, layout=gl.SliceLayout(1, layout))
        c = gl.arange(0, columns, layout=gl.SliceLayout(0, layout))
        start = out + row.to(gl.int64) * stride_om + col
        offsets = r[:, None] * stride_om + c[None, :]  # from there, in 32 bits: registers are dear
        gl.store(start + offsets, value, mask=(r < M - row)[:, None] & (c < N - col)[None, :])


@gluon.jit
def multiply_tiles(
    half: gl.constexpr, out, a_slots, b_slots, staging, filled, drained,
    M, N, K, pieces, stride_om, stride_part,
    A_TURNED: gl.constexpr, B_TURNED: gl.constexpr, BY_TMA: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr, GROUP_M: gl.constexpr, PARTS: gl.constexpr,
):  # fmt: skip
    """A warpgroup: multiply slot after slot, for the upper (half 0) or lower rows of the tiles."""
    HALF: gl.constexpr = BLOCK_M // 2
    QUARTER: gl.constexpr = BLOCK_N // 4
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BLOCK_N, 16]
    )
    turn = 0
    for number in range(gl.program_id(0), pieces, gl.num_programs(0)):
        row, col, first, end, part = piece_of_work(
            number, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, PARTS
        )
        acc = gl.zeros([HALF, BLOCK_N], gl.float32, layout)
        for step in range(first, end):
            slot = turn % STAGES
            mbarrier.wait(filled.index(slot), (turn // STAGES) & 1)
            a = a_slots.index(slot * 2 + half)
            b = b_slots.index(slot)
            if A_TURNED:
                a = a.permute((1, 0))
            if B_TURNED:
                b = b.permute((1, 0))
            acc = warpgroup_mma(a, b, acc, use_acc=(step > first), is_async=True)
            # These products are queued. Those of the step before are done: its slot is free.
            acc = warpgroup_mma_wait(1, deps=[acc])
            mbarrier.arrive(
                drained.index((turn + STAGES - 1) % STAGES), count=1, pred=(step > first)
            )
            turn += 1
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(drained.index((turn + STAGES - 1) % STAGES), count=1)

        row += half * HALF
        target = out
        if PARTS > 1:
            target = out + part.to(gl.int64) * stride_part
        left, right = halves(acc)
        p0, p1 = halves(left)
        p2, p3 = halves(right)
        store_piece(p0, target, staging, row, col, M, N, stride_om, 0, BY_TMA)
        store_piece(p1, target, staging, row, col + QUARTER, M, N, stride_om, 1, BY_TMA)
        store_piece(p2, target, staging, row, col + 2 * QUARTER, M, N, stride_om, 2, BY_TMA)
        store_piece(p3, target, staging, row, col + 3 * QUARTER, M, N, stride_om, 3, BY_TMA)
    if BY_TMA:
        tma.store_wait(0)


@gluon.jit
def gemm_hopper_kernel(
    a_desc, b_desc, out, M, N, K, pieces, stride_om, stride_part,
    A_TURNED: gl.constexpr, B_TURNED: gl.constexpr, BY_TMA: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr, GROUP_M: gl.constexpr, PARTS: gl.constexpr,
):  # fmt: skip
    """Tiles of out, or with PARTS > 1 of float32 sums over parts of K, one after another.

    a_desc, b_desc: descriptors of a and b, or of a and b turned, so that what is contiguous comes
    last. out: a descriptor (BY_TMA) or a pointer, rows stride_om apart, parts stride_part.
    """
    dtype: gl.constexpr = a_desc.dtype
    HALF: gl.constexpr = BLOCK_M // 2
    a_shape: gl.constexpr = a_desc.block_type.shape
    b_shape: gl.constexpr = b_desc.block_type.shape
    a_slots = gl.allocate_shared_memory(dtype, [STAGES * 2, a_shape[0], a_shape[1]], a_desc.layout)
    b_slots = gl.allocate_shared_memory(dtype, [STAGES, b_shape[0], b_shape[1]], b_desc.layout)
    staging_0 = a_slots
    staging_1 = a_slots
    if BY_TMA:
        staging_0 = gl.allocate_shared_memory(dtype, [2, HALF, BLOCK_N // 4], out.layout)
        staging_1 = gl.allocate_shared_memory(dtype, [2, HALF, BLOCK_N // 4], out.layout)
    filled = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    drained = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        mbarrier.init(filled.index(slot), count=1)  # the loading warp, and its bytes
        mbarrier.init(drained.index(slot), count=2)  # the two warpgroups
    # Registers of each thread: these 232 and 40, of the launch's 168 for twelve warps. The first
    # warpgroup gets what is left, 232.
    gl.warp_specialize(
        [
            (
                multiply_tiles,
                (
                    0, out, a_slots, b_slots, staging_0, filled, drained,
                    M, N, K, pieces, stride_om, stride_part, A_TURNED, B_TURNED, BY_TMA,
                    BLOCK_M, BLOCK_N, BLOCK_K, STAGES, GROUP_M, PARTS,
                ),
            ),
            (
                multiply_tiles,
                (
                    1, out, a_slots, b_slots, staging_1, filled, drained,
                    M, N, K, pieces, stride_om, stride_part, A_TURNED, B_TURNED, BY_TMA,
                    BLOCK_M, BLOCK_N, BLOCK_K, STAGES, GROUP_M, PARTS,
                ),
            ),
            (
                load_tiles,
                (
                    a_desc, b_desc, a_slots, b_slots, filled, drained, M, N, K, pieces,
                    A_TURNED, B_TURNED, BLOCK_M, BLOCK_N, BLOCK_K, STAGES, GROUP_M, PARTS,
                ),
            ),
        ],
        [4, 1],
        [232, 40],
    )  # fmt: skip


# --- around it ------------------------------------------------------------------------------------


@gluon.jit
def align_kernel(
    x_ptr, aligned_ptr, rows, cols, stride_row, stride_col, stride_aligned,
    ROWS: gl.constexpr, COLS: gl.constexpr, WARPS: gl.constexpr,
):  # fmt: skip
    """Copy a matrix into one whose rows are stride_aligned apart.

    Loads can't be wider than an element, so a warp's lanes take neighbours; for the store each gets
    16 bytes. (Plain Triton takes the store's layout for the load too: eight times as many requests
    for the same sectors.)
    """
    by_element: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [WARPS, 1], [1, 0])
    by_8: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [WARPS, 1], [1, 0])
    blocks = gl.cdiv(cols, COLS)
    row = (gl.program_id(0) // blocks * ROWS).to(gl.int64)
    col = (gl.program_id(0) % blocks * COLS).to(gl.int64)
    r = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, by_element))
    c = col + gl.arange(0, COLS, layout=gl.SliceLayout(0, by_element))
    ptrs = x_ptr + r[:, None] * stride_row + c[None, :] * stride_col
    x = gl.load(ptrs, mask=(r < rows)[:, None] & (c < cols)[None, :])
    r = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, by_8))
    c = col + gl.arange(0, COLS, layout=gl.SliceLayout(0, by_8))
    ptrs = aligned_ptr + r[:, None] * stride_aligned + c[None, :]
    # Up to the end of the row, so that whole sectors are written; nobody reads what is beyond.
    mask = (r < rows)[:, None] & (c < stride_aligned)[None, :]
    gl.store(ptrs, gl.convert_layout(x, by_8), mask=mask)


@triton.jit
def add_parts_kernel(
    parts_ptr, out_ptr, M, N, stride_part, stride_om, stride_on,
    PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the parts' sums, always in the same order. parts: PARTS matrices like out, contiguous."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < M * N
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for part in tl.static_range(PARTS):
        acc += tl.load(parts_ptr + part * stride_part + offs, mask=mask)
    out_ptrs = out_ptr + offs // N * stride_om + offs % N * stride_on
    tl.store(out_ptrs, acc, mask=mask)


@triton.jit
def gemm_plain_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_om, stride_on, stride_part,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A tile of out by each program, or its sums over one part of K; any strides, any dtype."""
    pid = tl.program_id(0).to(tl.int64)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = pid // in_group * GROUP_M
    rows_of_group = tl.minimum(tiles_m - first_m, GROUP_M)
    offs_m = (first_m + pid % in_group % rows_of_group) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % in_group // rows_of_group * BLOCK_N + tl.arange(0, BLOCK_N)

    steps_of_part = tl.cdiv(tl.cdiv(K, BLOCK_K), PARTS)
    first = tl.program_id(1) * steps_of_part * BLOCK_K
    end = tl.minimum(first + steps_of_part * BLOCK_K, K)
    offs_k = first + tl.arange(0, BLOCK_K).to(tl.int64)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(first, end, BLOCK_K):
        left = K - start
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < left) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    out_ptr += tl.program_id(1).to(tl.int64) * stride_part
    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_n[None, :] * stride_on
    tl.store(out_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


# --- which of them --------------------------------------------------------------------------------

BLOCK_K = 64
STAGES = 4
TILES = [(128, 256), (256, 128)]  # BLOCK_M, BLOCK_N
SMALLEST = 2**28  # products: below, a launch with descriptors takes longer than the work
FEW = 64  # rows or columns


def gemm_v4(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out.

    a: shape (M, K), b: shape (K, N), out: shape (M, N), one dtype of float32, float16, bfloat16.
    Each has two strides of its own; a and b may be transposed views, with stride(0) == 1.
    """
    (M, K), N = a.shape, b.shape[1]
    large = min(M, N) > FEW and M * N * K >= SMALLEST
    rows_fit = out.stride(1) == 1 and out.stride(0) < 2**24  # a tile's offsets in 32 bits
    if large and rows_fit and a.element_size() == 2 and has_hopper(a):
        gemm_hopper(a, b, out)
    else:
        gemm_plain(a, b, out)


def gemm_v3(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """As gemm_v4."""
    gemm_v4(a, b, out)


def gemm_v2(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """As gemm_v4."""
    gemm_v4(a, b, out)


def gemm_v1(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """As gemm_v4."""
    gemm_v4(a, b, out)


def gemm_v0(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Write a @ b to out with torch: what the others are held against."""
    torch.matmul(a, b, out=out)


def has_hopper(a: torch.Tensor) -> bool:
    """Whether a is on a GPU with TMA and wgmma, as compute capability 9.0 alone has them."""
    if not a.is_cuda:
        return False
    capability = torch.cuda.get_device_capability(a.device)
    if capability != (9, 0):
        major, minor = capability
        warnings.warn(
            f"gemm_v4: TMA and wgmma need compute capability 9.0; {major}.{minor} has the plain "
            "kernel, which is slower",
            stacklevel=3,
        )
    return capability == (9, 0)


def multiprocessors(a: torch.Tensor) -> int:
    """How many blocks run at a time."""
    if not a.is_cuda:
        return 1
    return torch.cuda.get_device_properties(a.device).multi_processor_count


def gemm_hopper(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """a @ b by the Gluon kernel: 16-bit floats, out.stride(1) == 1, compute capability 9.0."""
    (M, K), N = a.shape, b.shape[1]
    programs = multiprocessors(a)
    (block_m, block_n), parts = tile_and_parts(M, N, K, programs)
    pieces = triton.cdiv(M, block_m) * triton.cdiv(N, block_n) * parts

    a_desc, a_turned = described(a, [block_m // 2, BLOCK_K])
    b_desc, b_turned = described(b, [BLOCK_K, block_n])
    by_tma = parts == 1 and is_aligned(out, 1)
    target, stride_part = out, 0
    if by_tma:
        target = describe(out, [M, N], out.stride(0), [block_m // 2, block_n // 4])
    elif parts > 1:
        target = torch.empty((parts, M, N), dtype=torch.float32, device=a.device)
        stride_part = M * N
    gemm_hopper_kernel[(min(programs, pieces),)](
        a_desc, b_desc, target, M, N, K, pieces,
        N if parts > 1 else out.stride(0), stride_part,
        A_TURNED=a_turned, B_TURNED=b_turned, BY_TMA=by_tma,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=BLOCK_K, STAGES=STAGES, GROUP_M=8, PARTS=parts,
        num_warps=4, maxnreg=168,
    )  # fmt: skip
    if parts > 1:
        add_parts(target, out)


def tile_and_parts(M: int, N: int, K: int, programs: int) -> tuple[tuple[int, int], int]:
    """The tile, and into how many parts K is cut, so that it should take the least time.

    Counted in steps of a tile along K, 1024 cycles of the tensor cores: each round of `programs`
    tiles has its steps, and some three more to begin and to store. Parts are written and read again
    as float32, which takes as long as memory does (1.5 MB in a step), and a launch more.
    """
    steps = triton.cdiv(K, BLOCK_K)
    best, least = (TILES[0], 1), float("inf")
    for parts in (1, 2, 3, 4, 6, 8, 12, 16):
        steps_of_part = triton.cdiv(steps, parts)
        if triton.cdiv(steps, steps_of_part) != parts:
            continue  # the last part would be empty
        adding = 0.0 if parts == 1 else 6 + parts * M * N * 8 / 1.5e6
        for block_m, block_n in TILES:
            tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
            time = triton.cdiv(tiles * parts, programs) * (steps_of_part + 3) + adding
            if time < least:
                best, least = ((block_m, block_n), parts), time
    return best


def is_aligned(x: torch.Tensor, contiguous: int) -> bool:
    """Whether TMA can reach x, whose dimension `contiguous` is: it wants steps of 16 bytes."""
    steps = [x.storage_offset(), x.stride(1 - contiguous)]
    return x.stride(contiguous) == 1 and all(s * x.element_size() % 16 == 0 for s in steps)


def describe(x: torch.Tensor, shape: list[int], stride: int, block: list[int]) -> TensorDescriptor:
    """What the copy engine is told: a matrix of `shape`, rows `stride` apart, tiles of `block`."""
    dtype = gl.bfloat16 if x.dtype == torch.bfloat16 else gl.float16
    layout = gl.NVMMASharedLayout.get_default_for(block, dtype)
    return TensorDescriptor(x, shape, [stride, 1], block, layout)


def described(x: torch.Tensor, block: list[int]) -> tuple[TensorDescriptor, bool]:
    """A descriptor of x, or of a copy with aligned rows; and whether of x turned, columns first."""
    rows, cols = x.shape
    if is_aligned(x, 1):
        return describe(x, [rows, cols], x.stride(0), block), False
    if is_aligned(x, 0):
        return describe(x, [cols, rows], x.stride(1), block[::-1]), True
    turned = x.stride(0) == 1 and x.stride(1) != 1
    (rows, cols), (stride_row, stride_col) = x.shape, x.stride()
    if turned:
        rows, cols, stride_row, stride_col = cols, rows, stride_col, stride_row
        block = block[::-1]
    width = triton.cdiv(cols, 64) * 64  # whole lines of 128 bytes
    copy = torch.empty((rows, width), dtype=x.dtype, device=x.device)
    ROWS, COLS = 8, 512
    align_kernel[(triton.cdiv(rows, ROWS) * triton.cdiv(cols, COLS),)](
        x, copy, rows, cols, stride_row, stride_col, width,
        ROWS=ROWS, COLS=COLS, WARPS=8, num_warps=8,
    )  # fmt: skip
    return describe(copy, [rows, cols], width, block), turned


def add_parts(parts: torch.Tensor, out: torch.Tensor) -> None:
    """Write the sum of parts, shape (PARTS, M, N), float32, to out."""
    count, M, N = parts.shape
    BLOCK = 1024
    add_parts_kernel[(triton.cdiv(M * N, BLOCK),)](
        parts, out, M, N, M * N, out.stride(0), out.stride(1), PARTS=count, BLOCK=BLOCK
    )


def gemm_plain(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """a @ b by the plain kernel. A product with few columns is turned: then it has few rows."""
    (M, K), N = a.shape, b.shape[1]
    am, ak, bk, bn, om, on = *a.stride(), *b.stride(), *out.stride()
    if N < M and N <= FEW:
        a, b, M, N = b, a, N, M
        am, ak, bk, bn, om, on = bn, bk, ak, am, on, om
    block_m, block_n, block_k, warps, stages = plain_tile(M, N, a.dtype)
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    # Too few tiles to keep every multiprocessor busy: parts of at least eight steps.
    steps = triton.cdiv(K, block_k)
    parts = max(1, min(multiprocessors(a) // tiles, steps // 8, 16))
    parts = triton.cdiv(steps, triton.cdiv(steps, parts))  # none of them empty
    target, stride_part = out, 0
    if parts > 1:
        target = torch.empty((parts, M, N), dtype=torch.float32, device=a.device)
        stride_part = M * N
    gemm_plain_kernel[(tiles, parts)](
        a, b, target, M, N, K, am, ak, bk, bn,
        N if parts > 1 else om, 1 if parts > 1 else on, stride_part,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=8, PARTS=parts,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    if parts > 1:
        BLOCK = 1024
        add_parts_kernel[(triton.cdiv(M * N, BLOCK),)](
            target, out, M, N, M * N, om, on, PARTS=parts, BLOCK=BLOCK
        )


def plain_tile(M: int, N: int, dtype: torch.dtype) -> tuple[int, int, int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages of the plain kernel."""
    if M <= FEW:
        block_m = 16 if M <= 16 else 32 if M <= 32 else 64
        return (block_m, 64, 64, 4, 4) if dtype == torch.float32 else (block_m, 64, 128, 4, 5)
    if dtype == torch.float32:
        return 64, 128, 32, 8, 3
    return (64, 64, 64, 4, 4) if M * N < 2**20 else (128, 128, 64, 8, 3)

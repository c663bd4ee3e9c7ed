"""Softmax at the speed of a copy, whatever the width: exp(x - max of the row) / sum of the same.

What limits it: memory, as in rmsnorm.py beside this, and the rest is that file's too: a row is read
once and held in registers, several narrow rows make a program, and a wide row is held in registers
and shared memory together. Of one that is wider still a part stays in registers while the rest is
read a second time, backwards, from L2 cache.

A row that is held gives its maximum first, and then its sum: two reductions, however wide it is,
and 1024 x 65536 in bfloat16 rose from 0.673 to 0.977 of a copy. Of one that isn't held the maximum
isn't known until its end. Its sum is kept as softmax_online does, relative to the largest so far;
but each thread sums its own columns, and only the maximum is agreed on with the others, once for
each block: half of the barriers. The next block is loaded before that.

How a kernel is launched early, and waits, and what its loads are to keep in L2 cache is in that
file too. That whoever comes next may get into place is said before anything else here: 0.1 % faster
than behind the loads, 0.4 % in bfloat16.
"""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

KEPT = 32768  # columns that 32 warps hold in registers, 32 for each thread
WIDE = 16384  # columns: wider rows are held in shared memory, too, where that can be
HELD = 8192  # columns in registers, and in each block in shared memory
FEWEST = 2048  # bytes of a program: narrower rows are put together

# Triton 3.9 calls it async_load, and 3.6 by its long name.
copy_in = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared


@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, stride_xm, stride_om, n_rows, n_cols,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, EVICT: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program normalises ROWS rows, each of them in one block (n_cols <= BLOCK)."""
    offs_m = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    offs_n = tl.arange(0, BLOCK)
    inside = offs_n[None, :] < n_cols
    # Rows beyond the last one are read as the last one: -inf in all of a row would give nan, which
    # nobody stores, but which needn't be.
    rows = tl.minimum(offs_m, n_rows - 1)[:, None]

    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    # exp(-inf) is 0: one value serves the maximum and the sum.
    x_ptrs = x_ptr + rows * stride_xm + offs_n[None, :]
    x = tl.load(x_ptrs, mask=inside, other=-float("inf"), eviction_policy=EVICT).to(tl.float32)
    y = tl.exp(x - tl.max(x, axis=1)[:, None])
    scale = 1.0 / tl.sum(y, axis=1)
    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_n[None, :]
    tl.store(out_ptrs, y * scale[:, None], mask=inside & (offs_m[:, None] < n_rows))


@gluon.jit
def softmax_held_kernel(
    x_ptr, out_ptr, stride_xm, stride_om, n_cols,
    BLOCKS: gl.constexpr, BLOCK: gl.constexpr, PDL: gl.constexpr,
):  # fmt: skip
    """One program normalises one row: BLOCKS blocks in shared memory, one in registers."""
    LANES: gl.constexpr = 128 // x_ptr.dtype.element_ty.primitive_bitwidth  # in 16 bytes
    LAYOUT: gl.constexpr = gl.BlockedLayout([LANES], [32], [gl.num_warps()], [0])
    PLAIN: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    row = gl.program_id(0).to(gl.int64)
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    offs = gl.arange(0, BLOCK, LAYOUT)
    rest_n = BLOCKS * BLOCK + offs
    inside = rest_n < n_cols

    if PDL:
        gdc_wait()
    blocks = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [BLOCKS, BLOCK], PLAIN)
    for i in gl.static_range(BLOCKS):
        copy_in(blocks.index(i), x_ptr + i * BLOCK + offs)
        async_copy.commit_group()
    rest = gl.load(x_ptr + rest_n, mask=inside, other=-float("inf"))
    if PDL:
        gdc_launch_dependents()

    # A maximum, and then a sum, for each place in a block; what they come to is found once.
    top = gl.full([BLOCK], -float("inf"), gl.float32, LAYOUT)
    for i in gl.static_range(BLOCKS):
        async_copy.wait_group(BLOCKS - 1 - i)
        top = gl.maximum(top, blocks.index(i).load(LAYOUT).to(gl.float32))
    m = gl.max(gl.maximum(top, rest.to(gl.float32)), axis=0)
    y_rest = gl.exp(rest.to(gl.float32) - m)
    acc = y_rest
    for i in range(BLOCKS):
        acc += gl.exp(blocks.index(i).load(LAYOUT).to(gl.float32) - m)
    scale = 1.0 / gl.sum(acc, axis=0)

    gl.store(out_ptr + rest_n, (y_rest * scale).to(rest.dtype), mask=inside)
    for i in range(BLOCKS):
        y = gl.exp(blocks.index(i).load(LAYOUT).to(gl.float32) - m) * scale
        gl.store(out_ptr + i * BLOCK + offs, y.to(rest.dtype))


@triton.jit
def softmax_wide_kernel(
    x_ptr, out_ptr, stride_xm, stride_om, n_cols,
    KEPT: tl.constexpr, BLOCK: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    """One program normalises one row: KEPT < n_cols columns are read once, the others twice."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    kept_n = tl.arange(0, KEPT)
    offs = tl.arange(0, BLOCK)
    blocks = tl.cdiv(n_cols - KEPT, BLOCK)

    kept = tl.load(x_ptr + kept_n).to(tl.float32)
    offs_n = KEPT + offs
    coming = tl.load(
        x_ptr + offs_n, mask=offs_n < n_cols, other=-float("inf"), eviction_policy=EVICT
    )
    m_i = tl.max(kept, axis=0)
    l_i = tl.sum(tl.exp(kept - m_i), axis=0)
    # One partial sum for each place in a block, all of them relative to m_i.
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for _ in range(blocks):
        x = coming.to(tl.float32)
        offs_n += BLOCK
        coming = tl.load(
            x_ptr + offs_n, mask=offs_n < n_cols, other=-float("inf"), eviction_policy=EVICT
        )
        m_new = tl.maximum(m_i, tl.max(x, axis=0))
        alpha = tl.exp(m_i - m_new)
        acc = acc * alpha + tl.exp(x - m_new)
        l_i *= alpha
        m_i = m_new
    scale = 1.0 / (l_i + tl.sum(acc, axis=0))

    for i in range(blocks):
        offs_n = KEPT + (blocks - 1 - i) * BLOCK + offs
        mask = offs_n < n_cols
        x = tl.load(x_ptr + offs_n, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + offs_n, tl.exp(x - m_i) * scale, mask=mask)
    # After the loop: what is in registers can wait, what is in the cache can't.
    tl.store(out_ptr + kept_n, tl.exp(kept - m_i) * scale)


def launching(x: torch.Tensor) -> dict[str, bool]:
    """How a kernel that works on x is launched: early, where the GPU knows how."""
    is_compiled = isinstance(softmax_kernel, triton.JITFunction)  # and not interpreted
    early = x.is_cuda and is_compiled and torch.cuda.get_device_capability(x.device) >= (9, 0)
    return {"PDL": True, "launch_pdl": True} if early else {"PDL": False}


def blocks_held(x: torch.Tensor) -> int:
    """How many blocks of a wide row shared memory is to hold. 0: it can't hold them, or needn't.

    cp.async (compute capability 8.0) copies 4 bytes or more, and 16 at best: a row begins at a
    multiple of that.
    """
    cols = x.shape[1]
    is_compiled = isinstance(softmax_kernel, triton.JITFunction)  # and not interpreted
    if cols <= WIDE or not (x.is_cuda and is_compiled):
        return 0
    blocks = triton.cdiv(cols - HELD, HELD)
    properties = torch.cuda.get_device_properties(x.device)
    fits = needed(x, blocks) <= properties.shared_memory_per_block_optin
    is_aligned = (x.data_ptr() | x.stride(0)) % 16 == 0
    return blocks if fits and is_aligned and properties.major >= 8 else 0


def needed(x: torch.Tensor, blocks: int) -> int:
    """Bytes of shared memory of a program: the blocks, and 1 KiB for sums and the system."""
    return blocks * HELD * x.element_size() + 1024


def two_fit(x: torch.Tensor, blocks: int) -> bool:
    """Whether an SM has the shared memory for two programs."""
    properties = torch.cuda.get_device_properties(x.device)
    return 2 * needed(x, blocks) <= properties.shared_memory_per_multiprocessor


def softmax(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write the softmax of each row of x to out.

    x, out: shape (rows, cols), the elements of a row side by side, rows any distance apart
    (x.stride(0) and out.stride(0), which can differ). One dtype of float32, float16, bfloat16.
    """
    rows, cols = x.shape
    EVICT = "evict_last" if x.element_size() == 4 else ""  # slower in 16 bits
    if blocks := blocks_held(x):
        softmax_held_kernel[(rows,)](
            x, out, x.stride(0), out.stride(0), cols,
            BLOCKS=blocks, BLOCK=HELD, num_warps=16 if two_fit(x, blocks) else 32, maxnreg=64,
            **launching(x),
        )  # fmt: skip
        return
    if cols > KEPT:
        softmax_wide_kernel[(rows,)](
            x, out, x.stride(0), out.stride(0), cols,
            KEPT=KEPT, BLOCK=4096, EVICT=EVICT, num_warps=32,
        )  # fmt: skip
        return
    BLOCK = triton.next_power_of_2(cols)
    ROWS = max(1, FEWEST // (BLOCK * x.element_size()))
    # A thread has one 16-byte load where the program is small, two where it is larger; and four in
    # rows of 1024 float32, whose two reductions then go through two warps.
    size = ROWS * BLOCK * x.element_size()
    num_warps = min(max(size // (512 if size <= 4096 else 1024), 1), 32)
    if size == 4096 and x.element_size() == 4:
        num_warps = 2
    softmax_kernel[(triton.cdiv(rows, ROWS),)](
        x, out, x.stride(0), out.stride(0), rows, cols,
        ROWS=ROWS, BLOCK=BLOCK, EVICT=EVICT, num_warps=num_warps, **launching(x),
    )  # fmt: skip

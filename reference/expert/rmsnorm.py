"""RMSNorm at the speed of a copy, whatever the width: out = x / sqrt(mean(x ** 2) + eps) * weight.

What limits it: memory. The least is to read x once and to write out once, 2 * rows * cols *
itemsize bytes, with some four operations for each element: nothing else can show. A row that a
program holds in registers between the sum and the store reaches it. So what is left is the ends:

narrow rows   A program for a row of 1024 columns is over soon, and what counts is how many of them
              are under way: one 16-byte load for each thread, 8 warps in float32 and 4 in 16 bits,
              are 0.5 % faster than two loads each, and 3 % faster than two rows in a program
              (float32). Narrower rows are put together.
wide rows     65536 columns in float32 are as large as all registers of an SM, and spill. Shared
              memory holds all of a wide row but its end, so that it is read once: it comes there by
              cp.async, which needs no registers while it is under way. In 16 bits two such programs
              share an SM, and one loads while the other stores. 1024 x 65536 in bfloat16 rose from
              0.912 to 0.973 of a copy; in float32, where one program fills an SM, from 0.936 to
              0.939, and 2048 x 32768, where two fit, from 0.805 to 0.979. This part is in Gluon:
              in Triton what shared memory holds isn't one's own choice.
wider ones    and rows that begin at no multiple of 16 bytes, which cp.async wants: the first KEPT
              columns stay in registers, and the others are read twice, the second time backwards,
              so that what was read last, and is in L2 cache most surely, comes first. 132 SMs times
              half a row of 256 KiB are 17 MB, and the cache has 50.
launches      A kernel starts about a microsecond after the one ahead of it has ended, of 90. A
              programmatic dependent launch (Hopper) has its programs in place by then: they wait in
              gdc_wait until all that was written before them is visible, and only then read. Each
              program says in gdc_launch_dependents, once its own loads are under way, that whoever
              comes next may get into place. At 8192 x 8192: 0.7 % in float32, 2 % in bfloat16.

L2 cache      Of a row that is read twice it is to keep what is read again (evict_last), and neither
              what stays in registers nor what is written (evict_first): 1024 x 65536, read so, rose
              from 0.845 to 0.927 of a copy in float32, from 0.888 to 0.914 in bfloat16. In float32
              evict_last makes rows that are read once and held in registers 0.5 to 0.9 % faster as
              well; in bfloat16 0.5 % slower. Why, isn't known. Nothing is found again there: it
              gains as much where calls go round 3.8 GB, and two thirds of it where what is left to
              the next kernel counts too.

Measured in turn with a copy and the peers, one H100. Without effect or worse: loads that leave L2
first (evict_first, 3 to 4 % slower), stores past it (.cs), half the warps, persistent programs that
load the next row before they store this one (4 to 6 % slower).

The sum of squares is kept in float32, in each thread for its own columns, and added up once.
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
def rmsnorm_kernel(
    x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_rows, n_cols, eps,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, EVICT: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program normalises ROWS rows, each of them in one block (n_cols <= BLOCK)."""
    offs_m = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    offs_n = tl.arange(0, BLOCK)
    mask = (offs_m[:, None] < n_rows) & (offs_n[None, :] < n_cols)

    # Masked elements are 0, which adds nothing to the sum.
    if PDL:
        gdc_wait()
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :]
    x = tl.load(x_ptrs, mask=mask, other=0.0, eviction_policy=EVICT).to(tl.float32)
    w = tl.load(w_ptr + offs_n, mask=offs_n < n_cols, other=0.0).to(tl.float32)
    if PDL:
        gdc_launch_dependents()

    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=1) / n_cols + eps)
    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_n[None, :]
    tl.store(out_ptrs, x * rstd[:, None] * w[None, :], mask=mask)


@gluon.jit
def rmsnorm_held_kernel(
    x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_cols, eps,
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
    rest = gl.load(x_ptr + rest_n, mask=inside, other=0.0)
    if PDL:
        gdc_launch_dependents()

    # One partial sum for each place in a block. They are added up once, after the loop.
    acc = gl.zeros([BLOCK], gl.float32, LAYOUT)
    for i in gl.static_range(BLOCKS):
        async_copy.wait_group(BLOCKS - 1 - i)
        x = blocks.index(i).load(LAYOUT).to(gl.float32)
        acc += x * x
    x_rest = rest.to(gl.float32)
    acc += x_rest * x_rest
    rstd = 1.0 / gl.sqrt(gl.sum(acc, axis=0) / n_cols + eps)

    w_rest = gl.load(w_ptr + rest_n, mask=inside, other=0.0).to(gl.float32)
    y_rest = x_rest * rstd * w_rest
    gl.store(out_ptr + rest_n, y_rest.to(rest.dtype), mask=inside)
    for i in range(BLOCKS):
        offs_n = i * BLOCK + offs
        w = gl.load(w_ptr + offs_n).to(gl.float32)
        y = blocks.index(i).load(LAYOUT).to(gl.float32) * rstd * w
        gl.store(out_ptr + offs_n, y.to(rest.dtype))


@triton.jit
def rmsnorm_wide_kernel(
    x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_cols, eps,
    KEPT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program normalises one row: KEPT < n_cols columns are read once, the others twice."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    kept_n = tl.arange(0, KEPT)
    offs = tl.arange(0, BLOCK)

    # One partial sum for each place in a block. They are added up once, after the loop.
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    blocks = tl.cdiv(n_cols - KEPT, BLOCK)
    kept = tl.load(x_ptr + kept_n, eviction_policy="evict_first").to(tl.float32)
    for i in range(blocks):
        offs_n = KEPT + i * BLOCK + offs
        mask = offs_n < n_cols
        x = tl.load(x_ptr + offs_n, mask=mask, other=0.0, eviction_policy="evict_last")
        x = x.to(tl.float32)
        acc += x * x
    rstd = 1.0 / tl.sqrt((tl.sum(acc, axis=0) + tl.sum(kept * kept, axis=0)) / n_cols + eps)

    for i in range(blocks):
        offs_n = KEPT + (blocks - 1 - i) * BLOCK + offs
        mask = offs_n < n_cols
        x = tl.load(x_ptr + offs_n, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + offs_n, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + offs_n, x * rstd * w, mask=mask, eviction_policy="evict_first")
    # After the loop: what is in registers can wait, what is in the cache can't.
    w = tl.load(w_ptr + kept_n).to(tl.float32)
    tl.store(out_ptr + kept_n, kept * rstd * w, eviction_policy="evict_first")


def launching(x: torch.Tensor) -> dict[str, bool]:
    """How a kernel that works on x is launched: early, where the GPU knows how."""
    is_compiled = isinstance(rmsnorm_kernel, triton.JITFunction)  # and not interpreted
    early = x.is_cuda and is_compiled and torch.cuda.get_device_capability(x.device) >= (9, 0)
    return {"PDL": True, "launch_pdl": True} if early else {"PDL": False}


def blocks_held(x: torch.Tensor) -> int:
    """How many blocks of a wide row shared memory is to hold. 0: it can't hold them, or needn't.

    cp.async (compute capability 8.0) copies 4 bytes or more, and 16 at best: a row begins at a
    multiple of that.
    """
    cols = x.shape[1]
    is_compiled = isinstance(rmsnorm_kernel, triton.JITFunction)  # and not interpreted
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


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> None:
    """Write each row of x, over its root mean square and times weight, to out.

    x, out: shape (rows, cols), the elements of a row side by side, rows any distance apart
    (x.stride(0) and out.stride(0), which can differ). weight: shape (cols,), contiguous. One dtype
    of float32, float16, bfloat16. eps > 0 is added to the mean square.
    """
    rows, cols = x.shape
    if blocks := blocks_held(x):
        rmsnorm_held_kernel[(rows,)](
            x, weight, out, x.stride(0), out.stride(0), cols, eps,
            BLOCKS=blocks, BLOCK=HELD, num_warps=16 if two_fit(x, blocks) else 32, maxnreg=64,
            **launching(x),
        )  # fmt: skip
        return
    if cols > KEPT:
        rmsnorm_wide_kernel[(rows,)](
            x, weight, out, x.stride(0), out.stride(0), cols, eps,
            KEPT=KEPT, BLOCK=8192, num_warps=32,
        )  # fmt: skip
        return
    BLOCK = triton.next_power_of_2(cols)
    ROWS = max(1, FEWEST // (BLOCK * x.element_size()))
    # A thread has one 16-byte load where the program is small, two where it is larger.
    size = ROWS * BLOCK * x.element_size()
    num_warps = min(max(size // (512 if size <= 4096 else 1024), 1), 32)
    EVICT = "evict_last" if x.element_size() == 4 else ""
    rmsnorm_kernel[(triton.cdiv(rows, ROWS),)](
        x, weight, out, x.stride(0), out.stride(0), rows, cols, eps,
        ROWS=ROWS, BLOCK=BLOCK, EVICT=EVICT, num_warps=num_warps, **launching(x),
    )  # fmt: skip

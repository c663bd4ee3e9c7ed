"""Flash attention, forward: out = softmax(q @ k^T * sm_scale) @ v, and each row's log-sum-exp.

What limits it. Every score takes HEAD_DIM multiplications on the tensor cores twice, in q @ k^T and
in p @ v, and one exponential on the special function unit, which makes 16 in a cycle where the
tensor cores make 2048 multiplications. At HEAD_DIM 64 both are busy equally long, at 128 the tensor
cores twice as long: a kernel that waits for one while it uses the other takes twice, or 1.5 times,
what it must. The work is to have both busy at once.

The schedule, for Hopper (compute capability 9.0), written in Gluon:
- One warp, the producer, does nothing but start TMA copies: q once for each tile of rows, and k and
  v block by block into a ring of buffers each. Barriers in shared memory say `full` (the copy has
  landed) and `empty` (every consumer has read it).
- Two or three consumer warpgroups have 64 rows of q each, so that while one takes exponentials
  another one multiplies. The registers go to them: the producer keeps 24.
- Inside a consumer q @ k^T of the next block is issued, then p @ v of this one, and the scores are
  waited for first. By the source their softmax runs while p @ v is still going on; the assembler
  moves the wait for p @ v up, before the exponentials (in the SASS, with CUDA 12.8's ptxas), so
  that only the row maxima run beside it, and the other consumers' work. Held where it is written,
  by a store that never happens, it gains nothing.
- While the first scores of a tile are computed, the tile before is stored: where registers suffice,
  so not causal, at HEAD_DIM 128, and with parts of tiles (below) at 64. By way of the buffers that
  its q has left: at HEAD_DIM 128 the memory that out would need holds a third block of values.
- p goes from the registers of the one product to those of the other: the layouts fit.
- Blocks of keys are taken from the last to the first. The diagonal of a causal tile then is the
  first block, outside of the loop, and the loop has no mask. In that block a mask takes two
  instructions for each score: only the half that has the edge gets one, and the other half is not
  computed where nobody sees it. A consumer passes over the blocks of its tile that none of its rows
  sees.
- The grid is persistent: a program per multiprocessor, which goes from tile to tile, so that copies
  for the next tile start while this one is computed. Causal tiles differ in length: they are dealt
  out from long to short, forth and back, in groups of heads whose keys and values fit in the L2
  cache. Which size of group evens out the programs' work is tried out on the host, once a shape.
- Not causal, tiles that whole rounds leave over are shared out by blocks of keys, where that is
  worth it (stream-K: Osama et al., PPoPP 2023). Who has the last keys of a tile adds what others
  left in memory, always in the same order: the bits are the same in each run. At HEAD_DIM 128 that
  is a launch of its own, whose programs follow each on its multiprocessor (programmatic dependent
  launch): in one kernel with the whole tiles it costs these as much as it brings.
- Tensor maps have four dimensions. A copy that crosses the end of a head fills up with zeros (or,
  storing, stops there): with heads stacked into one matrix it would read, and store to, the next.

What it reaches: the time of cuDNN's kernel over this one's on an H100, bfloat16, at (Z, H, N_CTX,
HEAD_DIM), in turn with it; docs/performance.md has more.

| | full | causal |
|---|---|---|
| (16, 16, 1024, 128) | 1.05 | 1.10 |
| (8, 16, 2048, 128) | 1.04 | 1.13 |
| (4, 16, 4096, 128) | 1.06 | 1.12 |
| (2, 16, 16384, 128) | 1.09 | 1.10 |
| (16, 16, 1024, 64) | 1.04 | 1.06 |
| (8, 16, 2048, 64) | 1.07 | 1.08 |
| (4, 16, 4096, 64) | 1.11 | 1.11 |
| (2, 16, 16384, 64) | 1.19 | 1.15 |

What a step brings:

| step | gain |
|---|---|
| 1024 rows, HEAD_DIM 64, causal: two consumers, not three | 0.927 to 0.996, measured |
| the same, full: three heads' short last tiles side by side | 0.942 to 0.981, measured |
| 2048 and 4096 rows, HEAD_DIM 64: three consumers, not two | 4-10 %, measured |
| consumers take turns at issuing products (PING_PONG), HEAD_DIM 64 | 1-3 %, measured |
| the same with two consumers, 1024 rows | 2 and 8 %, measured |
| the same, HEAD_DIM 128, causal, to 4096 keys; beyond it costs | 2-3 %, measured |
| HEAD_DIM 64, full: tiles left over in parts, and storing late; from 2048 rows | 4-7 %, measured |
| HEAD_DIM 128, full: storing late, and no mask on whole blocks of keys | 2-3 %, measured |
| the same, tiles left over in parts, launched apart; from 4096 rows | 1.6-2 %, measured |
| the same, a third block of values, in the place of out | 1.3-2.3 %, measured |
| the same, and turns, to 2048 rows | 4.5 % at 1024, 2.7-3.2 % at 2048, measured |
| 1024 rows, HEAD_DIM 64, full: a third stage for keys and values | 0.7 %, measured |
| the same, full: a mask on half of the last block of keys, not on all of it | 3.5 %, measured |
| the same, causal: half of the diagonal's block, and a third stage | 6 %, measured |
| HEAD_DIM 128, causal: half of the diagonal's block | 1.7 % at 1024 rows, 0.5 % at 2048, measured |
| 1024 rows, causal: launched beside the kernel before | 0.6-0.9 %, measured |
| causal tiles dealt out evenly: a bad size of group gives one program 1.1 to 1.6 times the mean | |
| p from step to step in float32: in 16 bits, 32 of 455 instructions move halves, and it spills | |
| last block first: one masked block a consumer, where the draft had two or three | |

Where TMA can't go (bases or strides that aren't multiples of 16 bytes), for other head dimensions,
float32, other GPUs, and where the launch would take longer than the work (four tensor maps made on
the host cost some 15 us), the plain Triton kernel below runs. By itself, with TMA for k and v where
the GPU has it, it reaches 0.90 to 1.00 of cuDNN's speed at HEAD_DIM 64, 0.75 to 0.90 at 128.
"""

import functools
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
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.tools.tensor_descriptor import TensorDescriptor as PlainDescriptor

# The hardware has exp2 and no exp: exp(x) = exp2(x * LOG2_E), and log(y) = log2(y) * LN_2.
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)

# Triton 3.9 calls them so; before, they had longer names.
copy_in = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
copy_out = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global

ROWS = gl.constexpr(64)  # of q for one warpgroup: what one wgmma instruction takes


# --- Hopper: which tiles a program computes -----------------------------------------------------


@gluon.jit
def _share(pid, sizes):
    """The part of program pid of the last tiles, with SPLIT: its first block of keys, and its end.

    Counted through the tiles that whole rounds leave over. As even as whole blocks go, at least one
    and at most a tile's: a program has the last blocks of one tile, the first of the next, or both.
    """
    _, _, _, _, blocks, n_tiles, _, _ = sizes
    programs = gl.num_programs(0)
    left = (n_tiles % programs * blocks).to(gl.int64)
    return (pid * left // programs).to(gl.int32), ((pid + 1) * left // programs).to(gl.int32)


@gluon.jit
def _number_of_items(sizes, TILES: gl.constexpr, SPLIT: gl.constexpr):
    """How many tiles, or parts of one, are this program's, by the order of _nth_item."""
    _, _, _, _, blocks, n_tiles, _, _ = sizes
    programs = gl.num_programs(0)
    pid = gl.program_id(0)
    number = n_tiles // programs if TILES != "none" else 0
    if SPLIT:
        first, end = _share(pid, sizes)
        number += (end - 1) // blocks - first // blocks + 1
    if TILES == "all":
        # The place in the last, unfinished round.
        place = gl.where((number & 1) == 1, programs - 1 - pid, pid)
        number += gl.where(place < n_tiles % programs, 1, 0)
    return number


@gluon.jit
def _nth_item(
    n, sizes, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, IS_CAUSAL: gl.constexpr,
    TILES: gl.constexpr, SPLIT: gl.constexpr,
):  # fmt: skip
    """This program's item number n: block of rows, batch, head, first and end block of keys.

    Programs take tiles in rounds, every other round in reverse: whoever got the longest tile of one
    round gets the shortest of the next. TILES says which are computed: "all", those of whole
    "rounds", or "none". With SPLIT the tiles left over follow, in parts. A program begins with its
    last part: see _gather.
    """
    H, N_CTX, N_KV, n_heads, blocks, n_tiles, blocks_m, group = sizes
    programs = gl.num_programs(0)
    pid = gl.program_id(0)
    tile = n * programs + gl.where((n & 1) == 1, programs - 1 - pid, pid)
    first = 0
    end = blocks
    if SPLIT:
        whole = n_tiles // programs
        before = whole if TILES == "rounds" else 0
        if n >= before:
            share, share_end = _share(pid, sizes)
            part = (share_end - 1) // blocks - (n - before)
            tile = whole * programs + part
            first = gl.maximum(share - part * blocks, 0)
            end = gl.minimum(share_end - part * blocks, blocks)
    # A group of heads at a time; in it the longest tiles first.
    first_head = tile // (group * blocks_m) * group
    rest = tile - first_head * blocks_m
    heads = gl.minimum(group, n_heads - first_head)
    head = first_head + rest % heads
    m = rest // heads
    if IS_CAUSAL:
        m = blocks_m - 1 - m
        end = _blocks_seen((m + 1) * BLOCK_M, N_CTX, N_KV, BLOCK_N, IS_CAUSAL)
    return m, head // H, head % H, first, end


@gluon.jit
def _blocks_seen(end_m, N_CTX, N_KV, BLOCK_N: gl.constexpr, IS_CAUSAL: gl.constexpr):
    """How many blocks of keys the rows below end_m see; at least 1, be it masked altogether."""
    end_n = N_KV
    if IS_CAUSAL:
        end_n = gl.minimum(N_KV, gl.minimum(end_m, N_CTX) + N_KV - N_CTX)
    return (gl.maximum(end_n, 1) + BLOCK_N - 1) // BLOCK_N


# --- Hopper: the producer -----------------------------------------------------------------------


@gluon.jit
def _producer(
    q_desc, k_desc, v_desc, buffers, barriers, sizes, IS_CAUSAL: gl.constexpr,
    TILES: gl.constexpr, SPLIT: gl.constexpr,
):  # fmt: skip
    """Copies q, k and v of one tile after the other to shared memory, as buffers come free."""
    q_s, k_s, v_s, _ = buffers
    q_full, q_empty, k_full, k_empty, v_full, v_empty, _ = barriers
    Q_STAGES: gl.constexpr = q_full.shape[0]
    CONSUMERS: gl.constexpr = q_s.shape[0] // Q_STAGES
    K_STAGES: gl.constexpr = k_s.shape[0]
    V_STAGES: gl.constexpr = v_s.shape[0]
    BLOCK_N: gl.constexpr = k_s.shape[1]
    BLOCK_M: gl.constexpr = CONSUMERS * ROWS
    block = 0  # of keys, counted over all tiles
    for n in range(_number_of_items(sizes, TILES, SPLIT)):
        item = _nth_item(n, sizes, BLOCK_M, BLOCK_N, IS_CAUSAL, TILES, SPLIT)
        m, z, h, first, end = item
        q_slot = n % Q_STAGES
        # A barrier's phase flips each time it completes. Waiting for the phase before the first
        # one passes at once: all buffers are empty at the start.
        mbarrier.wait(q_empty.index(q_slot), (n // Q_STAGES & 1) ^ 1)
        mbarrier.expect(q_full.index(q_slot), CONSUMERS * q_desc.block_type.nbytes)
        for i in gl.static_range(CONSUMERS):
            row = m * BLOCK_M + i * ROWS
            q_to = q_s.index(q_slot * CONSUMERS + i)
            copy_in(q_desc, [z, h, row, 0], q_full.index(q_slot), q_to)
        for i in range(end - first):
            start = (end - 1 - i) * BLOCK_N
            slot = block % K_STAGES
            mbarrier.wait(k_empty.index(slot), (block // K_STAGES & 1) ^ 1)
            mbarrier.expect(k_full.index(slot), k_desc.block_type.nbytes)
            copy_in(k_desc, [z, h, start, 0], k_full.index(slot), k_s.index(slot))
            slot = block % V_STAGES
            mbarrier.wait(v_empty.index(slot), (block // V_STAGES & 1) ^ 1)
            mbarrier.expect(v_full.index(slot), v_desc.block_type.nbytes)
            copy_in(v_desc, [z, h, start, 0], v_full.index(slot), v_s.index(slot))
            block += 1


# --- Hopper: the consumers ----------------------------------------------------------------------


@gluon.jit
def _softmax(s, m_i, l_i, qk_scale, last_seen, start, MASKED: gl.constexpr):
    """The online softmax of one block of scores: p in float32, and the factor for what was before.

    last_seen: the last key that each row sees. m_i is the largest score before scaling.
    """
    if MASKED:
        SCORES: gl.constexpr = s.type.layout
        keys = gl.arange(0, s.shape[1], layout=gl.SliceLayout(0, SCORES))
        s = gl.where(keys[None, :] <= (last_seen - start)[:, None], s, -float("inf"))
    m_new = gl.maximum(m_i, gl.max(s, 1))
    base = m_new * qk_scale
    if MASKED:  # a row that has seen no key: relative to 0, its exponentials are all 0
        base = gl.where(m_new == -float("inf"), 0.0, base)
    alpha = gl.exp2(m_i * qk_scale - base)
    p = gl.exp2(s * qk_scale - base[:, None])
    return p, m_new, l_i * alpha + gl.sum(p, 1), alpha


@gluon.jit
def _half_masked_softmax(
    s, qk_scale, last_seen, start, EDGE: gl.constexpr, SCORES: gl.constexpr
):  # fmt: skip
    """The softmax of a tile's first block, of whose keys one half only is seen by some of the rows.

    EDGE "left": s are the left 64 scores; nobody sees the right ones, whose p is 0. "right": s are
    all 128; everybody sees the left ones. Each row sees a key.
    """
    HALF: gl.constexpr = SCORES.instr_shape[1] // 2
    if EDGE == "left":
        edge = s
    else:
        left, edge = s.reshape([ROWS, 2, HALF]).permute((0, 2, 1)).split()
    keys = gl.arange(0, HALF, layout=gl.SliceLayout(0, edge.type.layout))
    if EDGE == "right":
        keys += HALF
    last = gl.convert_layout(last_seen - start, gl.SliceLayout(1, edge.type.layout))
    edge = gl.where(keys[None, :] <= last[:, None], edge, -float("inf"))
    m_i = gl.max(edge, 1)
    if EDGE == "right":
        m_i = gl.maximum(m_i, gl.max(left, 1))
    base = (m_i * qk_scale)[:, None]
    p_edge = gl.exp2(edge * qk_scale - base)
    l_i = gl.sum(p_edge, 1)
    if EDGE == "right":
        p_left = gl.exp2(left * qk_scale - base)
        l_i += gl.sum(p_left, 1)
        p = gl.join(p_left, p_edge)
    else:
        p = gl.join(p_edge, gl.zeros_like(p_edge))
    # A thread has the same columns of both halves: nothing moves.
    p = gl.convert_layout(p.permute((0, 2, 1)).reshape([ROWS, 2 * HALF]), SCORES, True)
    OF_ROWS: gl.constexpr = gl.SliceLayout(1, SCORES)
    return p, gl.convert_layout(m_i, OF_ROWS, True), gl.convert_layout(l_i, OF_ROWS, True)


@gluon.jit
def _step(
    q, p, o, m_i, l_i, buffers, barriers, block, turn, qk_scale, last_seen, start,
    MY_TURN: gl.constexpr, NEXT_TURN: gl.constexpr, MASKED: gl.constexpr, PING_PONG: gl.constexpr,
):  # fmt: skip
    """q @ k^T of this block, beside p @ v of the block before; then this block's softmax."""
    _, k_s, v_s, _ = buffers
    _, _, k_full, k_empty, v_full, v_empty, turns = barriers
    K_STAGES: gl.constexpr = k_s.shape[0]
    V_STAGES: gl.constexpr = v_s.shape[0]
    SCORES: gl.constexpr = p.type.layout
    OUT: gl.constexpr = o.type.layout
    slot = block % K_STAGES
    phase = block // K_STAGES & 1
    old_slot = (block - 1) % V_STAGES
    old_phase = (block - 1) // V_STAGES & 1
    # p comes here in float32: as 16-bit numbers it would be taken apart and put together again
    # between the loops.
    p_16 = gl.convert_layout(p.to(v_s.dtype), gl.DotOperandLayout(0, OUT, k_width=2))
    mbarrier.wait(k_full.index(slot), phase)
    if PING_PONG:
        mbarrier.wait(turns.index(MY_TURN), turn & 1)
    zeros = gl.zeros(p.shape, gl.float32, SCORES)
    s = warpgroup_mma(q, k_s.index(slot).permute((1, 0)), zeros, use_acc=False, is_async=True)
    mbarrier.wait(v_full.index(old_slot), old_phase)
    o = warpgroup_mma(p_16, v_s.index(old_slot), o, is_async=True)
    if PING_PONG:
        mbarrier.arrive(turns.index(NEXT_TURN), count=1)
    s = warpgroup_mma_wait(1, deps=[s])
    mbarrier.arrive(k_empty.index(slot), count=1)
    p, m_i, l_i, alpha = _softmax(s, m_i, l_i, qk_scale, last_seen, start, MASKED)
    o = warpgroup_mma_wait(0, deps=[o])
    mbarrier.arrive(v_empty.index(old_slot), count=1)
    o = o * gl.convert_layout(alpha, gl.SliceLayout(1, OUT))[:, None]
    return p, o, m_i, l_i


@gluon.jit
def _give(m_i, l_i, o, parts, NUMBER: gl.constexpr, CONSUMERS: gl.constexpr):
    """Leave the sums over some of a tile's keys for the program that has its last ones."""
    flags, numbers = parts
    at = gl.program_id(0) * CONSUMERS + NUMBER
    m_ptrs, l_ptrs, o_ptrs = _places(numbers, at, m_i, o)
    gl.store(m_ptrs, m_i)
    gl.store(l_ptrs, l_i)
    gl.store(o_ptrs, o)
    barrier()  # of this warpgroup: then the flag stands for what all of its threads have stored
    gl.atomic_xchg(flags + at, 1, sem="release", scope="gpu")


@gluon.jit
def _gather(
    m_i, l_i, o, parts, sizes, qk_scale, NUMBER: gl.constexpr, CONSUMERS: gl.constexpr
):  # fmt: skip
    """Add what other programs have summed over the keys before, in the order of programs.

    They are of lower numbers, and so have begun; and it is the first of their parts that they give,
    the last that is waited for: so whoever waits, waits for somebody who doesn't.
    """
    flags, numbers = parts
    _, _, _, _, blocks, n_tiles, _, _ = sizes
    programs = gl.num_programs(0)
    pid = gl.program_id(0)
    share, _ = _share(pid, sizes)
    before = share // blocks * blocks  # the tile's first block
    left = (n_tiles % programs * blocks).to(gl.int64)
    # Whose share goes beyond that: (p + 1) * left // programs > before.
    first_pid = (((before + 1).to(gl.int64) * programs + left - 1) // left).to(gl.int32) - 1
    for p in range(first_pid, pid):
        at = p * CONSUMERS + NUMBER
        given = 0
        while given == 0:  # the flag is taken back as it is found: for the next launch it is 0
            given = gl.atomic_cas(flags + at, 1, 0, sem="acquire", scope="gpu")
        m_ptrs, l_ptrs, o_ptrs = _places(numbers, at, m_i, o)
        m_part = gl.load(m_ptrs)
        m_new = gl.maximum(m_i, m_part)
        base = gl.where(m_new == -float("inf"), 0.0, m_new * qk_scale)
        alpha = gl.exp2(m_i * qk_scale - base)
        beta = gl.exp2(m_part * qk_scale - base)
        l_i = l_i * alpha + gl.load(l_ptrs) * beta
        OF_ROWS: gl.constexpr = gl.SliceLayout(1, o.type.layout)
        o = o * gl.convert_layout(alpha, OF_ROWS)[:, None]
        o += gl.load(o_ptrs) * gl.convert_layout(beta, OF_ROWS)[:, None]
        m_i = m_new
    return m_i, l_i, o


@gluon.jit
def _places(numbers, at, m_i, o):
    """Where the largest scores, the sums and the rows of out of part number `at` are."""
    HEAD_DIM: gl.constexpr = o.shape[1]
    OUT: gl.constexpr = o.type.layout
    first = numbers + at.to(gl.int64) * (ROWS * (HEAD_DIM + 2))
    rows = gl.arange(0, ROWS, layout=m_i.type.layout)
    out_rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, OUT))
    out_cols = gl.arange(0, HEAD_DIM, layout=gl.SliceLayout(0, OUT))
    out = first + out_rows[:, None] * HEAD_DIM + out_cols[None, :]
    sums = first + ROWS * HEAD_DIM
    return sums + rows, sums + ROWS + rows, out


@gluon.jit
def _store_lse(m_i, l_i, z, h, first_m, shared):
    """Write the log-sum-exp of 64 rows; returns what their rows of out are to be multiplied by."""
    _, lse_ptr, _, _, sizes, qk_scale, _ = shared
    H, N_CTX, _, _, _, _, _, _ = sizes
    rows = first_m + gl.arange(0, ROWS, layout=m_i.type.layout)
    lse = gl.where(l_i > 0.0, (m_i * qk_scale + gl.log2(l_i)) * LN_2, -float("inf"))
    gl.store(lse_ptr + (z * H + h).to(gl.int64) * N_CTX + rows, lse, mask=rows < N_CTX)
    return gl.where(l_i > 0.0, 1.0 / l_i, 0.0)


@gluon.jit
def _store_out(o, factor, z, h, first_m, shared, at):
    """Write 64 rows of out, by TMA, from buffer number `at`."""
    out_desc, _, buffers, _, _, _, _ = shared
    _, _, _, out_s = buffers
    o = o * gl.convert_layout(factor, gl.SliceLayout(1, o.type.layout))[:, None]
    tma.store_wait(0)  # until the last tile's rows have been read
    out_s.index(at).store(o.to(out_s.dtype))
    fence_async_shared()
    copy_out(out_desc, [z, h, first_m, 0], out_s.index(at))


@gluon.jit
def _consumer(
    NUMBER: gl.constexpr, shared, IS_CAUSAL: gl.constexpr, CROSSES: gl.constexpr,
    EDGE: gl.constexpr, PING_PONG: gl.constexpr, LATE: gl.constexpr, TILES: gl.constexpr,
    SPLIT: gl.constexpr,
):  # fmt: skip
    """The 64 rows number NUMBER of each tile."""
    _, _, buffers, barriers, sizes, qk_scale, parts = shared
    q_s, k_s, v_s, _ = buffers
    q_full, q_empty, k_full, k_empty, v_full, v_empty, turns = barriers
    _, N_CTX, N_KV, _, blocks, _, _, _ = sizes
    Q_STAGES: gl.constexpr = q_full.shape[0]
    CONSUMERS: gl.constexpr = q_s.shape[0] // Q_STAGES
    K_STAGES: gl.constexpr = k_s.shape[0]
    V_STAGES: gl.constexpr = v_s.shape[0]
    BLOCK_N: gl.constexpr = k_s.shape[1]
    HEAD_DIM: gl.constexpr = k_s.shape[2]
    BLOCK_M: gl.constexpr = CONSUMERS * ROWS
    NEXT: gl.constexpr = (NUMBER + 1) % CONSUMERS
    # The registers of the accumulators: a warp has 16 of the rows, four threads share a row.
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    OUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    block = 0  # of keys, counted over all tiles
    turn = 0
    if LATE:  # the item before is stored while the first scores of the next are computed
        o = gl.zeros([ROWS, HEAD_DIM], gl.float32, OUT)
        m_i = gl.full([ROWS], -float("inf"), gl.float32, gl.SliceLayout(1, SCORES))
        l_i = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, SCORES))
        is_done = 0
        old_z = 0
        old_h = 0
        old_m = 0
    for n in range(_number_of_items(sizes, TILES, SPLIT)):
        item = _nth_item(n, sizes, BLOCK_M, BLOCK_N, IS_CAUSAL, TILES, SPLIT)
        m, z, h, first, end = item
        first_m = m * BLOCK_M + NUMBER * ROWS
        rows = first_m + gl.arange(0, ROWS, layout=gl.SliceLayout(1, SCORES))
        last_seen = rows * 0 + N_KV - 1
        end_seen = end
        if IS_CAUSAL:
            last_seen = rows + N_KV - N_CTX
            end_seen = _blocks_seen(first_m + ROWS, N_CTX, N_KV, BLOCK_N, IS_CAUSAL)
        # One block past the end, where nothing is stored.
        end_seen = gl.where(first_m < N_CTX, end_seen, first + 1)
        mine = end_seen - first

        for _ in range(end - end_seen):  # these are for consumers with later rows
            slot = block % K_STAGES
            mbarrier.wait(k_full.index(slot), block // K_STAGES & 1)
            mbarrier.arrive(k_empty.index(slot), count=1)
            slot = block % V_STAGES
            mbarrier.wait(v_full.index(slot), block // V_STAGES & 1)
            mbarrier.arrive(v_empty.index(slot), count=1)
            if PING_PONG:
                mbarrier.wait(turns.index(NUMBER), turn & 1)
                mbarrier.arrive(turns.index(NEXT), count=1)
                turn += 1
            block += 1

        q_slot = n % Q_STAGES
        q = q_s.index(q_slot * CONSUMERS + NUMBER)
        mbarrier.wait(q_full.index(q_slot), n // Q_STAGES & 1)
        slot = block % K_STAGES
        mbarrier.wait(k_full.index(slot), block // K_STAGES & 1)
        # Where the edge lies in the left half of the block, nobody sees the right one.
        KEYS: gl.constexpr = BLOCK_N // 2 if EDGE == "left" else BLOCK_N
        FIRST: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
        k = k_s.index(slot).slice(0, KEYS)
        zeros = gl.zeros([ROWS, KEYS], gl.float32, FIRST)
        s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
        if LATE and is_done == 1:
            factor = _store_lse(m_i, l_i, old_z, old_h, old_m, shared)
            at = (n - 1) % Q_STAGES * CONSUMERS + NUMBER
            _store_out(o, factor, old_z, old_h, old_m, shared, at)
        s = warpgroup_mma_wait(0, deps=[s])
        mbarrier.arrive(k_empty.index(slot), count=1)
        block += 1
        m_i = gl.full([ROWS], -float("inf"), gl.float32, gl.SliceLayout(1, SCORES))
        l_i = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, SCORES))
        start = (end_seen - 1) * BLOCK_N
        if EDGE == "left" or EDGE == "right":
            p, m_i, l_i = _half_masked_softmax(s, qk_scale, last_seen, start, EDGE, SCORES)
        else:
            p, m_i, l_i, _ = _softmax(s, m_i, l_i, qk_scale, last_seen, start, EDGE == "anywhere")
        o = gl.zeros([ROWS, HEAD_DIM], gl.float32, OUT)
        if LATE and n > 0:
            # The item before is on its way out by now: the one after the next may come.
            tma.store_wait(0)
            barrier()  # it is one thread that stored and waited
            mbarrier.arrive(q_empty.index((n - 1) % Q_STAGES), count=1)

        done = 1
        if CROSSES:  # the diagonal may go through two blocks
            done = gl.minimum(mine, 2)
            for i in range(1, done):
                p, o, m_i, l_i = _step(
                    q, p, o, m_i, l_i, buffers, barriers, block, turn, qk_scale, last_seen,
                    start - i * BLOCK_N, NUMBER, NEXT, True, PING_PONG,
                )  # fmt: skip
                block += 1
                turn += 1
        for _ in range(done, mine):
            p, o, m_i, l_i = _step(
                q, p, o, m_i, l_i, buffers, barriers, block, turn, qk_scale, last_seen, 0,
                NUMBER, NEXT, False, PING_PONG,
            )  # fmt: skip
            block += 1
            turn += 1

        if not LATE:
            mbarrier.arrive(q_empty.index(q_slot), count=1)
        slot = (block - 1) % V_STAGES
        p_16 = gl.convert_layout(p.to(v_s.dtype), gl.DotOperandLayout(0, OUT, k_width=2))
        mbarrier.wait(v_full.index(slot), (block - 1) // V_STAGES & 1)
        o = warpgroup_mma(p_16, v_s.index(slot), o, is_async=True)
        if LATE:
            o = warpgroup_mma_wait(0, deps=[o])
            mbarrier.arrive(v_empty.index(slot), count=1)
            is_done = 1
            old_z = z
            old_h = h
            old_m = first_m
            if SPLIT:
                if end < blocks:
                    _give(m_i, l_i, o, parts, NUMBER, CONSUMERS)
                    is_done = 0
                elif first > 0:
                    m_i, l_i, o = _gather(m_i, l_i, o, parts, sizes, qk_scale, NUMBER, CONSUMERS)
        else:
            factor = _store_lse(m_i, l_i, z, h, first_m, shared)
            o = warpgroup_mma_wait(0, deps=[o])
            mbarrier.arrive(v_empty.index(slot), count=1)
            _store_out(o, factor, z, h, first_m, shared, NUMBER)
    if LATE and is_done == 1:
        factor = _store_lse(m_i, l_i, old_z, old_h, old_m, shared)
        at = (_number_of_items(sizes, TILES, SPLIT) - 1) % Q_STAGES * CONSUMERS + NUMBER
        _store_out(o, factor, old_z, old_h, old_m, shared, at)
    tma.store_wait(0)


@gluon.jit
def _ring(n: gl.constexpr, count: gl.constexpr):
    """n barriers, each of which completes when `count` arrivals have come."""
    barriers = gl.allocate_shared_memory(gl.int64, [n, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(n):
        mbarrier.init(barriers.index(i), count=count)
    return barriers


# Numbers that are 1 or divisible by 16 would each make another kernel, seconds to compile.
@gluon.jit(do_not_specialize=["H", "N_CTX", "N_KV", "n_heads", "blocks_m", "group"])
def flash_attention_hopper_kernel(
    q_desc, k_desc, v_desc, out_desc, lse_ptr, flags, numbers, H, N_CTX, N_KV, n_heads, blocks_m,
    group, qk_scale,
    HEAD_DIM: gl.constexpr, CONSUMERS: gl.constexpr, BLOCK_N: gl.constexpr,
    K_STAGES: gl.constexpr, V_STAGES: gl.constexpr, Q_STAGES: gl.constexpr, IS_CAUSAL: gl.constexpr,
    CROSSES: gl.constexpr, EDGE: gl.constexpr, ODD_EDGE: gl.constexpr, PING_PONG: gl.constexpr,
    LATE: gl.constexpr, TILES: gl.constexpr, SPLIT: gl.constexpr, OVERLAPS: gl.constexpr,
    REGISTERS: gl.constexpr,
):  # fmt: skip
    """Sets up shared memory, then each warp goes its way: one producer, 2 or 3 consumer groups.

    EDGE: where in the first block of a tile, which has its last keys, is the last one that a row
    sees: "left" or "right" half, "anywhere" in it, or at its end for all rows: "none". ODD_EDGE:
    the same for consumers of odd numbers.
    OVERLAPS: programs of the next launch, if it allows that, may take their places as these leave.
    A launch that has parts only waits for the one before, of whole tiles, at its end: only then may
    what follows believe that all of out is written.
    """
    dtype: gl.constexpr = q_desc.dtype
    Q_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, HEAD_DIM], dtype)
    KV_TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK_N, HEAD_DIM], dtype)
    q_s = gl.allocate_shared_memory(dtype, [Q_STAGES * CONSUMERS, ROWS, HEAD_DIM], Q_TILE)
    out_s = q_s  # stored late, rows of out go where the q that they are of was
    if not LATE:
        out_s = gl.allocate_shared_memory(dtype, [CONSUMERS, ROWS, HEAD_DIM], Q_TILE)
    buffers = (
        q_s,
        gl.allocate_shared_memory(dtype, [K_STAGES, BLOCK_N, HEAD_DIM], KV_TILE),
        gl.allocate_shared_memory(dtype, [V_STAGES, BLOCK_N, HEAD_DIM], KV_TILE),
        out_s,
    )
    turns = _ring(CONSUMERS, 1)
    barriers = (
        _ring(Q_STAGES, 1), _ring(Q_STAGES, CONSUMERS), _ring(K_STAGES, 1),
        _ring(K_STAGES, CONSUMERS), _ring(V_STAGES, 1), _ring(V_STAGES, CONSUMERS), turns,
    )  # fmt: skip
    if PING_PONG:
        mbarrier.arrive(turns.index(0), count=1)  # the first consumer begins
    if OVERLAPS and TILES != "none":
        gdc_wait()
        gdc_launch_dependents()
    blocks = _blocks_seen(N_CTX, N_CTX, N_KV, BLOCK_N, False)
    sizes = (H, N_CTX, N_KV, n_heads, blocks, n_heads * blocks_m, blocks_m, group)
    shared = (out_desc, lse_ptr, buffers, barriers, sizes, qk_scale, (flags, numbers))
    # Functions, then how many warps and registers a thread has; the first function's are left over.
    if CONSUMERS == 2:
        gl.warp_specialize([
            (_consumer, (0, shared, IS_CAUSAL, CROSSES, EDGE, PING_PONG, LATE, TILES, SPLIT)),
            (_consumer, (1, shared, IS_CAUSAL, CROSSES, ODD_EDGE, PING_PONG, LATE, TILES, SPLIT)),
            (_producer,
             (q_desc, k_desc, v_desc, buffers, barriers, sizes, IS_CAUSAL, TILES, SPLIT)),
        ], [4, 1], [REGISTERS, 24])  # fmt: skip
    else:
        gl.warp_specialize([
            (_consumer, (0, shared, IS_CAUSAL, CROSSES, EDGE, PING_PONG, LATE, TILES, SPLIT)),
            (_consumer, (1, shared, IS_CAUSAL, CROSSES, ODD_EDGE, PING_PONG, LATE, TILES, SPLIT)),
            (_consumer, (2, shared, IS_CAUSAL, CROSSES, EDGE, PING_PONG, LATE, TILES, SPLIT)),
            (_producer,
             (q_desc, k_desc, v_desc, buffers, barriers, sizes, IS_CAUSAL, TILES, SPLIT)),
        ], [4, 4, 1], [REGISTERS, REGISTERS, 24])  # fmt: skip
    if OVERLAPS and TILES == "none":
        gdc_wait()


# --- every other case: a plain Triton kernel ----------------------------------------------------


@triton.jit
def flash_attention_kernel(
    q_ptr, keys, values, out_ptr, lse_ptr, sm_scale, H, N_CTX, N_KV,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn,
    stride_vz, stride_vh, stride_vn, stride_oz, stride_oh, stride_om,
    HEAD_DIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_M rows of out, and their log-sum-exp, for one head.

    keys and values: tensor descriptors with TMA, where one instruction of one thread fetches a
    block; without, pointers, for any shape, stride and dtype. The blocks of keys that every row
    sees come first, without a mask.
    """
    pid = tl.program_id(0)
    blocks_m = tl.cdiv(N_CTX, BLOCK_M)
    first_m = (blocks_m - 1 - pid % blocks_m) * BLOCK_M  # causal: the longest programs start first
    # In int64, so that an index times a stride is right beyond 2**31 elements too.
    head = (pid // blocks_m).to(tl.int64)
    z, h = head // H, head % H
    offs_m = first_m + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    rows_m, rows_n = offs_m[:, None].to(tl.int64), offs_n[:, None].to(tl.int64)
    if TMA:
        z_32, h_32 = z.to(tl.int32), h.to(tl.int32)
    else:
        k_ptrs = keys + z * stride_kz + h * stride_kh + rows_n * stride_kn + offs_d[None, :]
        v_ptrs = values + z * stride_vz + h * stride_vh + rows_n * stride_vn + offs_d[None, :]

    rows = offs_m[:, None] < N_CTX
    q_ptrs = q_ptr + z * stride_qz + h * stride_qh + rows_m * stride_qm + offs_d[None, :]
    q = tl.load(q_ptrs, mask=rows, other=0.0)
    # exp(x) is exp2(x * log2(e)) in hardware: multiplied into the scale, it costs nothing.
    scale = sm_scale * LOG2_E

    m_i = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    end_n = offs_m * 0 + N_KV  # each row sees the keys before this one
    end = N_KV
    seen_by_all = N_KV
    if IS_CAUSAL:  # none of them above 0 where no row sees a key
        end_n = tl.minimum(N_KV, offs_m + 1 + N_KV - N_CTX)
        end = tl.minimum(N_KV, first_m + BLOCK_M + N_KV - N_CTX)
        seen_by_all = tl.minimum(N_KV, first_m + 1 + N_KV - N_CTX)
    # A mask is half as many instructions again: only the last blocks have one.
    unmasked = tl.maximum(seen_by_all, 0) // BLOCK_N * BLOCK_N
    for MASKED in tl.static_range(2):
        for start in range(unmasked if MASKED else 0, end if MASKED else unmasked, BLOCK_N):
            if TMA:  # past the end of a head come zeros
                k = keys.load([z_32, h_32, start, 0]).reshape(BLOCK_N, HEAD_DIM)
                v = values.load([z_32, h_32, start, 0]).reshape(BLOCK_N, HEAD_DIM)
            else:
                first_n = tl.cast(start, tl.int64)
                there = (start + offs_n[:, None] < N_KV) if MASKED else True
                k = tl.load(k_ptrs + first_n * stride_kn, mask=there, other=0.0)
                v = tl.load(v_ptrs + first_n * stride_vn, mask=there, other=0.0)

            scores = tl.dot(q, tl.trans(k), input_precision="ieee")
            if MASKED:
                visible = start + offs_n[None, :] < end_n[:, None]
                scores = tl.where(visible, scores, -float("inf"))

            m_new = tl.maximum(m_i, tl.max(scores, axis=1) * scale)
            base = m_new
            if MASKED:  # a row that has seen no key: relative to 0, its exponentials are all 0
                base = tl.where(m_new == -float("inf"), 0.0, m_new)
            p = tl.exp2(scores * scale - base[:, None])
            alpha = tl.exp2(m_i - base)
            l_i = l_i * alpha + tl.sum(p, axis=1)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
            m_i = m_new

    some = l_i > 0.0
    out = acc / tl.where(some, l_i, 1.0)[:, None]
    out_ptrs = out_ptr + z * stride_oz + h * stride_oh + rows_m * stride_om
    tl.store(out_ptrs + offs_d[None, :], out, mask=rows)
    lse = tl.where(some, m_i * LN_2 + tl.log(tl.where(some, l_i, 1.0)), -float("inf"))
    tl.store(lse_ptr + head * N_CTX + offs_m, lse, mask=offs_m < N_CTX)


# --- on the host --------------------------------------------------------------------------------

BLOCK_N = 128  # keys at a time, in the kernel for Hopper
LEAST_WORK = 2**34  # FLOP, some 30 us of an H100: below, the launch with tensor maps takes longer
L2_SHARE = 24 * 2**20  # bytes of keys and values that programs may have in use at the same time
SHARED_MEMORY = 230400  # bytes: what plain Triton takes at HEAD_DIM 128 with TMA
# Blocks of keys in whose time parts are begun, ended, left and read again, by HEAD_DIM; at 128 they
# are launched too.
PART_COST = {64: 4, 128: 8}
MOST_TILES = 1 << 14  # whose dealing out is tried; with more, no way to do it is far from even


@functools.lru_cache(maxsize=8)
def _multiprocessors(device: int) -> int:
    """How many the GPU has, if it can run the kernel for Hopper; else 0, and a warning, once."""
    properties = torch.cuda.get_device_properties(device)
    if (properties.major, properties.minor) == (9, 0):
        return properties.multi_processor_count
    warnings.warn(
        f"flash_attention: {properties.name} has no wgmma instructions (compute capability 9.0 "
        f"has, this is {properties.major}.{properties.minor}): the plain Triton kernel is used",
        stacklevel=3,
    )
    return 0


@functools.lru_cache(maxsize=256)
def _heads_in_a_group(
    n_heads: int, blocks_m: int, block_m: int, n_ctx: int, n_kv: int, most: int, programs: int
) -> int:
    """The size of group with which causal tiles come out most evenly, not above `most`.

    Follows _nth_item. A tile's length: its blocks of keys, and one for what else there is to do.
    """
    most = max(1, min(most, n_heads))
    if n_heads * blocks_m > MOST_TILES:
        return most
    lengths = [
        1 + max(1, triton.cdiv(n_kv - n_ctx + min((m + 1) * block_m, n_ctx), BLOCK_N))
        for m in reversed(range(blocks_m))
    ]

    def longest(group: int) -> int:
        """The length of all tiles of the program that has most."""
        sizes = [min(group, n_heads - first) for first in range(0, n_heads, group)]
        tiles = [length for size in sizes for length in lengths for _ in range(size)]
        loads = [0] * programs
        for first in range(0, len(tiles), programs):
            taken = tiles[first : first + programs]
            backwards = first // programs % 2 == 1
            for place, length in enumerate(taken):
                loads[programs - 1 - place if backwards else place] += length
        return max(loads)

    longests = [longest(group) for group in range(1, most + 1)]
    # Of those nearly as even as the best, the smallest: it has the fewest keys and values in use.
    return next(i for i, each in enumerate(longests, 1) if each <= 1.01 * min(longests))


def _is_worth_splitting(n_tiles: int, blocks: int, programs: int, head_dim: int) -> bool:
    """Whether the tiles that whole rounds leave over take less time in parts than one by one.

    With less than a block for each program some would have nothing to do, and others wait for it.
    """
    left = n_tiles % programs * blocks
    return left >= programs and left / programs + PART_COST[head_dim] < blocks


def _edges(
    shift: int | None, n_kv: int, crosses: bool, late: bool, consumers: int
) -> tuple[str, str]:
    """EDGE and ODD_EDGE of flash_attention_hopper_kernel. Causal, query i sees key i + shift."""
    if shift is not None:
        if crosses or consumers == 3:  # 192 rows: from tile to tile in the other half
            return "anywhere", "anywhere"
        return ("left", "right") if shift % BLOCK_N == 0 else ("right", "left")
    if late:  # all rows of one kind: a part of a tile, which may end with any block, has no half
        edge = "anywhere" if n_kv % BLOCK_N else "none"
    else:  # without any mask the assembler spills registers here
        edge = "left" if 0 < n_kv % BLOCK_N <= BLOCK_N // 2 else "right"
    return edge, edge


@functools.lru_cache(maxsize=16)
def _parts(device: int, stream: int, size: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the programs of a stream's launches leave `size` parts for each other: flags, sums.

    Launches of one stream come one after the other, and each leaves all flags at 0.
    """
    flags = torch.zeros(size, dtype=torch.int32, device=f"cuda:{device}")
    size *= 64 * (head_dim + 2)
    sums = torch.empty(size, dtype=torch.float32, device=f"cuda:{device}")
    return flags, sums


def _launch_hopper(q, k, v, out, lse, sm_scale: float, causal: bool, programs: int) -> bool:
    """Whether TMA can reach all four tensors; if so, the kernel for Hopper has been launched."""
    Z, H, N_CTX, HEAD_DIM = q.shape
    N_KV = k.shape[2]
    dtype = gl.bfloat16 if q.dtype == torch.bfloat16 else gl.float16
    q_tile, kv_tile = [1, 1, 64, HEAD_DIM], [1, 1, BLOCK_N, HEAD_DIM]
    q_layout = gl.NVMMASharedLayout.get_default_for(q_tile, dtype)
    kv_layout = gl.NVMMASharedLayout.get_default_for(kv_tile, dtype)
    try:
        q_desc = TensorDescriptor(q, list(q.shape), list(q.stride()), q_tile, q_layout)
        k_desc = TensorDescriptor(k, list(k.shape), list(k.stride()), kv_tile, kv_layout)
        v_desc = TensorDescriptor(v, list(v.shape), list(v.stride()), kv_tile, kv_layout)
        out_desc = TensorDescriptor(out, list(out.shape), list(out.stride()), q_tile, q_layout)
    except AssertionError:  # a base or a stride that isn't a multiple of 16 bytes
        return False
    # Rows start at multiples of 64 and blocks of keys at multiples of 128: between the two lies at
    # most one edge, and the diagonal of 64 rows stays in one half of a block, unless it is shifted
    # (or begins above the first key, where rows see none).
    crosses = causal and ((N_KV - N_CTX) % 64 != 0 or N_KV < N_CTX)
    # Three consumers take 192 rows, of which a short head has no whole number: the last tile leaves
    # consumers idle. Causal, two are better; else the last tiles of three heads side by side, that
    # spread over the programs: one head after the other, the same programs got all of them.
    is_short = N_CTX <= 1024
    consumers = 3 if HEAD_DIM == 64 and not crosses and not (causal and is_short) else 2
    block_m = 64 * consumers
    blocks_m = triton.cdiv(N_CTX, block_m)
    programs = min(programs, blocks_m * Z * H)
    group = 3 if consumers == 3 and is_short and blocks_m * block_m - N_CTX >= 64 else 1
    if causal:
        most = L2_SHARE // (2 * N_KV * HEAD_DIM * q.element_size())
        group = _heads_in_a_group(Z * H, blocks_m, block_m, N_CTX, N_KV, most, programs)
    blocks = triton.cdiv(N_KV, BLOCK_N)
    split = not causal and _is_worth_splitting(blocks_m * Z * H, blocks, programs, HEAD_DIM)
    flags = numbers = lse  # not used without
    if split:
        stream = torch.cuda.current_stream(q.device).cuda_stream
        flags, numbers = _parts(q.get_device(), stream, programs * consumers, HEAD_DIM)
    # At HEAD_DIM 64 storing late pays with parts only, even where no registers are spilled.
    late = not causal and (split or HEAD_DIM == 128)
    in_two = split and HEAD_DIM == 128
    overlaps = in_two or (causal and is_short)
    edge, odd_edge = _edges(N_KV - N_CTX if causal else None, N_KV, crosses, late, consumers)
    k_stages = 3 if HEAD_DIM == 64 and is_short else 2
    # Stored late, out needs no memory of its own: at HEAD_DIM 128 that is a third block of values.
    v_stages = 3 if HEAD_DIM == 128 and late else k_stages
    ping_pong = HEAD_DIM == 64 or N_KV <= 2048 or (causal and N_KV <= 4096)

    def launch(tiles: str, parts: bool, follows: bool) -> None:
        flash_attention_hopper_kernel[(programs,)](
            q_desc, k_desc, v_desc, out_desc, lse, flags, numbers, H, N_CTX, N_KV, Z * H, blocks_m,
            group, sm_scale * LOG2_E.value, HEAD_DIM=HEAD_DIM, CONSUMERS=consumers, BLOCK_N=BLOCK_N,
            K_STAGES=k_stages, V_STAGES=v_stages, Q_STAGES=2, IS_CAUSAL=causal, CROSSES=crosses,
            EDGE=edge, ODD_EDGE=odd_edge, PING_PONG=ping_pong, LATE=late, TILES=tiles, SPLIT=parts,
            OVERLAPS=overlaps, launch_pdl=follows, REGISTERS=240 if consumers == 2 else 160,
            num_warps=4, maxnreg=168 if consumers == 2 else 128,
        )  # fmt: skip

    if in_two:
        launch("rounds", parts=False, follows=False)
        launch("none", parts=True, follows=True)
    else:
        launch("rounds" if split else "all", parts=split, follows=overlaps)
    return True


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    sm_scale: float,
    causal: bool,
) -> None:
    """Write attention of q over k and v to out, and each row's log-sum-exp of scores to lse.

    q, out: shape (Z, H, N_CTX, HEAD_DIM); k, v: shape (Z, H, N_KV, HEAD_DIM), one dtype of float32,
    float16, bfloat16; HEAD_DIM one of 16, 32, 64, 128. The elements of a row lie side by side, the
    other strides are each tensor's own. lse: shape (Z, H, N_CTX), float32, contiguous. sm_scale is
    above 0. causal: query i sees the keys up to i + N_KV - N_CTX only. One that sees none: 0, -inf.
    """
    if _is_large(q, k):
        programs = _multiprocessors(q.get_device())
        if programs and _launch_hopper(q, k, v, out, lse, sm_scale, causal, programs):
            return
    flash_attention_plain(q, k, v, out, lse, sm_scale, causal)


def flash_attention_plain(q, k, v, out, lse, sm_scale: float, causal: bool) -> None:
    """The same in plain Triton; with TMA where the launch is worth it, and it can go."""
    Z, H, N_CTX, HEAD_DIM = q.shape
    N_KV = k.shape[2]
    maxnreg = None
    if q.element_size() == 4:  # twice the shared memory for each element
        BLOCK_M, BLOCK_KV, num_warps, num_stages = 64, 32, 4, 2
    elif HEAD_DIM == 128:
        BLOCK_M, BLOCK_KV, num_warps, num_stages = 128, 64, 8, 3
    else:
        BLOCK_M, BLOCK_KV, num_warps, num_stages = 64, 128, 4, 2
    keys, values = k, v
    if _is_large(q, k) and _has_tma(q.get_device()):
        try:
            keys, values = (PlainDescriptor.from_tensor(t, [1, 1, 128, HEAD_DIM]) for t in (k, v))
        except AssertionError:  # a base or a stride that isn't a multiple of 16 bytes
            keys, values = k, v
    tma = keys is not k
    if tma:  # no addresses in registers: 128 keys fit at any HEAD_DIM, and at 64 three programs
        BLOCK_KV = 128
        maxnreg = 168 if HEAD_DIM == 64 else None
    grid = (triton.cdiv(N_CTX, BLOCK_M) * Z * H,)
    flash_attention_kernel[grid](
        q, keys, values, out, lse, sm_scale, H, N_CTX, N_KV,
        q.stride(0), q.stride(1), q.stride(2), k.stride(0), k.stride(1), k.stride(2),
        v.stride(0), v.stride(1), v.stride(2), out.stride(0), out.stride(1), out.stride(2),
        HEAD_DIM=HEAD_DIM, IS_CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_KV, TMA=tma,
        num_warps=num_warps, num_stages=num_stages, maxnreg=maxnreg,
    )  # fmt: skip


@functools.lru_cache(maxsize=8)
def _has_tma(device: int) -> bool:
    """Whether the GPU has TMA, and shared memory for tiles of 128 keys in three stages."""
    properties = torch.cuda.get_device_properties(device)
    return properties.major >= 9 and properties.shared_memory_per_block_optin >= SHARED_MEMORY


def _is_large(q: torch.Tensor, k: torch.Tensor) -> bool:
    """Whether tensor maps are worth their launch, and the tiles are ones that they are made for."""
    Z, H, N_CTX, HEAD_DIM = q.shape
    work = 4 * Z * H * N_CTX * k.shape[2] * HEAD_DIM
    fits = HEAD_DIM in (64, 128) and q.dtype in (torch.float16, torch.bfloat16)
    return fits and q.is_cuda and work >= LEAST_WORK

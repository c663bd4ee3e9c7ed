"""Kernels whose programs race, and their twins that an atomic or a lock makes right."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def histogram(x, bins, n, ATOMIC: tl.constexpr, B: tl.constexpr, SCOPE: tl.constexpr = "gpu"):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = bins + tl.load(x + i, mask=i < n, other=0)
    if ATOMIC:
        tl.atomic_add(at, 1, mask=i < n, scope=SCOPE)
    else:
        tl.store(at, tl.load(at, mask=i < n, other=0) + 1, mask=i < n)


@triton.jit
def split_sum(x, out, n, ATOMIC: tl.constexpr, B: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    i = part * B + tl.arange(0, B)
    total = tl.sum(tl.load(x + row * n + i, mask=i < n, other=0.0))
    if ATOMIC:
        tl.atomic_add(out + row, total)
    else:
        tl.store(out + row, tl.load(out + row) + total)


@triton.jit
def stencil(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x + i - 1, mask=(i > 0) & (i < n), other=0.0)
    right = tl.load(x + i + 1, mask=i + 1 < n, other=0.0)
    tl.store(out + i, left + right, mask=i < n)


@triton.jit
def overlapping(x, out, n, EQUAL: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * (B // 2) + tl.arange(0, B)
    value = tl.load(x + i, mask=i < n, other=0.0)
    if not EQUAL:
        value += tl.program_id(0)
    tl.store(out + i, value, mask=i < n)


@triton.jit
def locked_sum(x, out, lock, n, LOCK: tl.constexpr, B: tl.constexpr, SCOPE: tl.constexpr = "gpu"):
    i = tl.arange(0, B)
    row = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    if LOCK:
        while tl.atomic_cas(lock, 0, 1, scope=SCOPE) == 1:
            pass
    tl.store(out + i, tl.load(out + i, mask=i < n, other=0.0) + row, mask=i < n)
    tl.debug_barrier()
    if LOCK:
        tl.atomic_xchg(lock, 0, scope=SCOPE)


@triton.jit
def last_reduces(x, partial, counter, out, n, ATOMIC: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(partial + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0)))
    if ATOMIC:
        before = tl.atomic_add(counter, 1)
    else:
        before = tl.load(counter)
        tl.store(counter, before + 1)
    if before == tl.num_programs(0) - 1:
        total = 0.0
        for index in range(tl.num_programs(0)):
            total += tl.load(partial + index)
        tl.store(out, total)


@triton.jit
def unheard(partial, counter, out):
    pid = tl.program_id(0)
    tl.store(partial + pid, pid)
    tl.atomic_add(counter, 1)  # what it returns is dropped: it says nothing about the others
    tl.store(out + pid, tl.load(partial + pid - 1, mask=pid > 0, other=0))


@triton.jit
def stored_and_mirrored(x, out, n, WAY: tl.constexpr, B: tl.constexpr):
    first = tl.program_id(0) * B
    i = first + tl.arange(0, B)
    back = first + B - 1 - tl.arange(0, B)
    x_value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, x_value, mask=i < n)
    at = out + back
    if WAY == "barrier":
        tl.debug_barrier()
    if WAY == "same place":
        at = out + i
    if WAY == "column":
        at = (out + i)[:, None]
    if WAY == "stored there again":
        tl.store(at, x_value)
    if WAY == "atomic":
        tl.atomic_add(out + first, 1.0)
    if WAY == "reduction":
        tl.store(x + first, tl.sum(x_value))
    if WAY == "one element":
        at = out + first + 1
    if WAY == "half a block":
        at = out + first + tl.arange(0, B // 2)
    if WAY == "transposed":
        at = out + first + tl.arange(0, B // 8)[None, :] * 8 + tl.arange(0, 8)[:, None]
    y = tl.load(at)
    tl.debug_barrier()
    tl.store(at, 2 * y)


@triton.jit
def turned_in_place(out, n, WAY: tl.constexpr, B: tl.constexpr):
    first = tl.program_id(0) * B
    i = first + tl.arange(0, B)
    at = first + B - 1 - tl.arange(0, B)
    if WAY == "one element for all":
        at = first + tl.arange(0, B) * 0
    if WAY == "same place":
        at = i
    y = tl.load(out + at, mask=at < n, other=0.0)
    if WAY == "barrier":
        tl.debug_barrier()
    if WAY == "maximum":
        y = y - tl.max(y)
    if WAY == "transposed":
        y = tl.reshape(tl.trans(tl.reshape(y, [B // 4, 4])), [B])
    tl.store(out + i, y, mask=i < n)


@triton.jit
def stored_twice(out, n, WAY: tl.constexpr, B: tl.constexpr):
    first = tl.program_id(0) * B
    i = first + tl.arange(0, B)
    tl.store(out + i, i.to(tl.float32))
    if WAY == "barrier":
        tl.debug_barrier()
    at = first + B - 1 - tl.arange(0, B)
    if WAY == "same place":
        at = i
    tl.store(out + at, at.to(tl.float32) if WAY == "same values" else 1.0)


@triton.jit
def stores_in_steps(out, n, STEP: tl.constexpr, B: tl.constexpr):
    for begin in range(0, n, STEP):
        tl.store(out + begin + tl.arange(0, B), 1.0)


@triton.jit
def adds_up(x, out, n, B: tl.constexpr):
    at = out + tl.arange(0, B)
    for begin in range(0, n, B):
        tl.store(at, tl.load(at) + tl.load(x + begin + tl.arange(0, B)))

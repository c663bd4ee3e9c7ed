"""The kernels whose TTIR is kept for each of the supported versions of Triton.

`python -m tests.grader.worker.ttir.golden.kernels` writes the texts of the Triton that is
installed; run it with another one on PYTHONPATH for the other versions.
"""

from __future__ import annotations

from pathlib import Path

import triton
import triton.language as tl
from triton.language.extra import libdevice

from ..frontend import ttir

HERE = Path(__file__).parent


@triton.jit
def _sign(a):
    if a > 0:
        return 1.0
    if a < 0:
        return -1.0
    return 0.0


@triton.jit(noinline=True)
def _scaled(a, b):
    return a * b, a + b


@triton.jit
def _linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def control(x, out, counter, n, B: tl.constexpr):
    """Branches, loops, calls, early returns, atomics, prints and assertions."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + pid * B + i, mask=pid * B + i < n, other=0.0)
    tl.device_assert(n > 0, "n is positive")
    if pid == 2:
        tl.store(out + pid * B + i, v)
        return
    total, j = 0.0, 0
    while j < 5:
        total += _sign(tl.load(x + j))
        if total > 2:
            total = total / 2
        j += 1
    first, second = _scaled(total, pid.to(tl.float32))
    for k in range(pid, 4):
        second += k
    old = tl.atomic_add(counter, 1, sem="relaxed")
    tl.atomic_cas(counter + 1, 0, pid + 7)
    tl.device_print("old", old)
    gate, state = tl.associative_scan((v * 0 + 0.5, v), 0, _linear, reverse=True)
    value = v + first + second + state + 0 * gate + tl.sum(tl.cumsum(v, 0)) + libdevice.tan(total)
    tl.store(out + pid * B + i, value, mask=pid * B + i < n)


@triton.jit
def blocks(x, out, M: tl.constexpr, N: tl.constexpr):
    """Products, shapes, reductions, conversions and descriptors."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [M, N])
    a = source.load([0, 0])
    b = tl.load(x + m * N + n, eviction_policy="evict_last", cache_modifier=".cg")
    product = tl.dot(a.to(tl.float16), tl.trans(b).to(tl.float16))
    product = tl.dot(a, tl.trans(b), product, input_precision="tf32x3")
    low, high = tl.split(tl.reshape(product, [M, M // 2, 2]))
    joined = tl.reshape(tl.join(high, low), [M, M])
    largest, place = tl.max(joined, 1, return_indices=True)
    counted = tl.histogram(place, 16)
    value = joined.to(tl.bfloat16).to(tl.float32) + largest[:, None] + counted[None, :]
    value += tl.gather(joined, tl.broadcast_to(tl.expand_dims(place, 1), [M, M]), 1)
    value = tl.clamp(value, -100.0, 100.0) + tl.where(value > 0, tl.exp2(tl.abs(value) * 0.01), 0.0)
    random = tl.rand(7, tl.arange(0, M))
    target = tl.make_tensor_descriptor(out, [M, M], [M, 1], [M, M])
    target.store([0, 0], value + random[None, :])


SIGNATURES = {
    "control": (
        control,
        {"x": "*fp32", "out": "*fp32", "counter": "*i32", "n": "i32", "B": "constexpr"},
        {"B": 16},
    ),
    "blocks": (
        blocks,
        {"x": "*fp32", "out": "*fp32", "M": "constexpr", "N": "constexpr"},
        {"M": 16, "N": 16},
    ),
}


def main() -> None:
    """Write the texts of the installed Triton."""
    folder = HERE / triton.__version__
    folder.mkdir(exist_ok=True)
    for name, (kernel, signature, constants) in SIGNATURES.items():
        text = ttir(kernel, signature, constants, debug=True)
        library = str(Path(triton.__file__).parent)
        text = text.replace(str(HERE), "golden").replace(library, "/triton")
        (folder / f"{name}.ttir").write_text(text)


if __name__ == "__main__":
    main()

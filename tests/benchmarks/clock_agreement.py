"""Does the clock outside a worker agree with the device's own inside? A table.

    python tests/benchmarks/clock_agreement.py [--pairs 40]

torch's operators of different lengths, timed as yardsticks are: the slope from outside, with the
sample read under the clock, beside CUDA events around the same calls inside. Kernels of 50 us and
more, eight of them at least, must agree within 2 %. Without a GPU it compares the same with the
worker's own clock, over smaller sizes: that says that the parts fit together, and nothing of a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics

from rich.console import Console
from rich.table import Table

from grader import machine
from grader.cases import fixed_case
from grader.confinement import Level
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.timing import lanes

CASES = [  # exercise, variant, yardstick, sizes on a GPU, sizes without one
    ("silu", "triton", "torch", {"n": 2**24}, {"n": 2**16}),
    ("silu", "triton", "torch", {"n": 2**25}, {"n": 2**17}),
    ("silu", "triton", "torch", {"n": 2**26}, {"n": 2**18}),
    ("silu", "triton", "copy", {"n": 2**26}, {"n": 2**18}),
    ("silu", "triton", "torch", {"n": 2**27}, {"n": 2**19}),
    ("rmsnorm", "triton", "torch", {"rows": 4096, "cols": 8192}, {"rows": 64, "cols": 512}),
    ("rmsnorm", "triton", "torch", {"rows": 8192, "cols": 8192}, {"rows": 128, "cols": 512}),
    ("softmax", "triton", "torch", {"rows": 8192, "cols": 8192}, {"rows": 128, "cols": 512}),
    ("transpose", "triton_v4", "torch", {"rows": 4096, "cols": 4096}, {"rows": 256, "cols": 256}),
    ("gemm", "triton_v3", "torch", {"M": 2048, "N": 2048, "K": 4096}, {"M": 96, "N": 96, "K": 96}),
    (
        "gemm",
        "triton_v3",
        "torch",
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 128, "N": 128, "K": 96},
    ),
]
LEAST_SECONDS = 50e-6
LEAST_KERNELS = 8  # of that length: what fewer show isn't enough
MOST_APART = 0.02


def main() -> None:
    """Print the table; exit status 1 where a kernel that is long enough doesn't agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    pairs = parser.parse_args().pairs
    device = machine.device()
    table = Table("kernel", "us outside", "us inside", "ratio", "fixed us", "calls")
    apart, long = [], 0
    for name, variant, yardstick, on_gpu, without in CASES:
        exercise = load_all()[name]
        sizes = on_gpu if device == "cuda" else without
        dtype = "bfloat16" if device == "cuda" else "float32"
        given = {**sizes, "dtype": dtype}
        row, ratio, long_enough = measured(
            device, exercise, exercise.variants[variant], yardstick, given, pairs
        )
        table.add_row(f"{name} {yardstick} {sizes}", *row)
        long += long_enough
        if long_enough and abs(ratio - 1) > MOST_APART:
            apart.append(name)
    console = Console()
    console.print(f"{machine.gpu_name() or 'no GPU'}, {pairs} pairs each")
    console.print(table)
    if apart:
        raise SystemExit(f"over {MOST_APART:.0%} apart: {', '.join(apart)}")
    if device == "cuda" and long < LEAST_KERNELS:
        raise SystemExit(f"only {long} kernels take {1e6 * LEAST_SECONDS:g} us or more here")


def measured(device, exercise, variant, yardstick, given, pairs):
    """A row of the table; the ratio of outside to inside; whether the kernel is long enough."""
    case = fixed_case(exercise, variant, given, 7)
    moved = 2 * 4 * given.get("n", 1 << 20)
    with Sandbox(device, Level.limits) as sandbox, contextlib.ExitStack() as opened:
        lane = lanes.yardstick(sandbox, yardstick, exercise, variant, case, moved, opened).ready()
        lane.settle()
        seen = [lane.pair() for _ in range(pairs)]
    outside = statistics.median(pair.slope for pair in seen)
    inside = statistics.median(pair.inside_seconds / pair.long_calls for pair in seen)
    fixed = statistics.median(pair.fixed for pair in seen)
    ratio = outside / inside
    row = (
        f"{outside * 1e6:.1f}",
        f"{inside * 1e6:.1f}",
        f"{ratio:.3f}",
        f"{fixed * 1e6:.0f}",
        str(seen[0].long_calls),
    )
    return row, ratio, device == "cuda" and inside >= LEAST_SECONDS


if __name__ == "__main__":
    main()

"""Compares the copy that kernels are timed against with the driver's own, over sizes: GB/s.

    python benchmarks/copies.py [--replays 20] [--mib 64 256 ...]

Both copy as many bytes from one buffer to another, by the grader's clock: the first is the kernel
of executors/gpu/copy_kernel.py, the second torch's `copy_`, which calls the driver. Sizes are in
MiB and needn't be whole.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics

from rich.console import Console
from rich.table import Table

from grader.cases import oracle
from grader.gpu import machine
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec import load_all
from grader.spec.task import Task
from grader.timing import contenders
from grader.timing.buffer_sets import Layout
from grader.timing.graph_replays import Replays

SIZES = (16, 64, 148.703125, 256, 290.875, 384, 512, 513, 640, 1024)
EXERCISES = load_all()
SILU = EXERCISES["silu"]


def seconds(replays: Replays, count: int) -> float:
    """Seconds of a copy; the median of replays."""
    replays.settle()
    return statistics.median(replays.seconds() for _ in range(count))


def copied(sandbox: Sandbox, executors: Sandbox, size: int, count: int) -> tuple[float, float]:
    """Seconds of a copy of `size` bytes, by the kernel and by the driver."""
    layout = Layout.of_inputs(contenders.copied(size))
    with contextlib.ExitStack() as opened:
        executor = contenders.executor(executors, [layout], opened)
        kernel = seconds(contenders.copy(executor, layout), count)
    with contextlib.ExitStack() as opened:
        given = (sandbox, contenders.BASELINES, "copy", [layout], opened)
        return kernel, seconds(contenders.start(*given).ungraded(layout), count)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--mib", type=float, nargs="+", default=SIZES)
    options = parser.parse_args()
    if machine.gpu_name() is None:
        raise SystemExit("No NVIDIA GPU that torch can use: there is nothing to copy on.")
    table = Table("MiB", "kernel, GB/s", "driver, GB/s", "ratio")
    with (
        Session(oracle.ORACLES.parent, EXERCISES, Options(device="cuda")) as session,
        Sandbox("cuda", Level.limits) as sandbox,
    ):
        executors = session.stopwatch.planned(Task(SILU, SILU.variants["triton"])).sandbox
        for mib in options.mib:
            size = int(mib * (1 << 20))
            ours, theirs = copied(sandbox, executors, size, options.replays)
            speeds = [f"{2 * size / each / 1e9:.0f}" for each in (ours, theirs)]
            table.add_row(f"{mib:g}", *speeds, f"{theirs / ours:.3f}")
    console = Console()
    console.print(machine.gpu_name())
    console.print(table)


if __name__ == "__main__":
    main()

"""Compares the grader's clock with Triton's benchmark and with CUDA events: prints a table.

    python benchmarks/clock_agreement.py [--replays 20] [--rounds 5] [--sizes N ...]

Times Silu on a GPU in several sizes, with one buffer set: torch's, run by a worker in Python, and
the solution's, run by the executor of plans. With a cold L2 cache, as in a grade, they are compared
with CUDA events around the same graph (overwrite the cache, then the call) in a process of its own.
With a warm one, many calls on the same set are compared with Triton's do_bench_cudagraph. The two
clocks take turns, since a GPU's clock rate changes as it gets warm; a ratio is the median of the
rounds'. Both must agree within 2 %: exit status 1 where they don't.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from grader.cases import fixed_case, oracle
from grader.gpu import machine
from grader.grading.session import Options, Session
from grader.spec import load_all
from grader.spec.task import Task
from grader.timing import contenders
from grader.timing.graph_replays import Replays

SIZES = (2**20, 2**22, 2**24, 2**26, 2**27)
MOST_APART = 0.02
WARM_CALLS = 1024  # the first one finds the cache overwritten
EXERCISES = load_all()
SILU = EXERCISES["silu"]
VARIANT = SILU.variants["triton"]

# Prints a call's seconds for each line, "warm" or "cold"; argv: whose, elements, replays, folder.
ELSEWHERE = """
import statistics, sys
import torch
from triton.testing import do_bench_cudagraph

whose, n, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
x = torch.randn(n, device="cuda", dtype=torch.bfloat16)
silu = torch.nn.functional.silu
if whose == "solution":
    sys.path.insert(0, folder)
    from silu import silu as solution
    out = torch.empty_like(x)
    silu = lambda x: solution(x, out)
cache = torch.cuda.get_device_properties(0).L2_cache_size
flushed = torch.empty(4 * cache, dtype=torch.uint8, device="cuda")
begin, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))
graph = torch.cuda.CUDAGraph()
silu(x)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    flushed.zero_()
    begin.record()
    silu(x)
    end.record()

def cold():
    graph.replay()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3

def warm():
    with torch.cuda.stream(torch.cuda.Stream()):
        return do_bench_cudagraph(lambda: silu(x), return_mode="median") * 1e-3

for line in sys.stdin:
    seconds = warm() if line.strip() == "warm" else statistics.median(cold() for _ in range(count))
    print(seconds, flush=True)
"""


def on_one_set(replays: Replays) -> None:
    """Make all calls of a replay use the first of its sets, with no decoys."""

    def prepare() -> None:
        replays._order, replays._decoys = [0] * replays.calls, ()
        replays._arrange(replays._order)
        replays._sets.fill([0])

    replays.prepare = prepare  # type: ignore[method-assign]  # the clock asks its own replays


def opened_here(session: Session, whose: str, n: int, opened: contextlib.ExitStack) -> Replays:
    """Replays of a call by the grader's clock, on one set."""
    case = fixed_case(SILU, VARIANT, {"n": n, "dtype": "bfloat16"}, 7)
    if whose == "torch":
        sandbox = session.stopwatch.trusted
        layout = contenders.layout_of("torch", Task(SILU, VARIANT), case, 0)
        what = (sandbox, "torch", Task(SILU, VARIANT), [layout])
        replays = contenders.baseline(*what, opened).ungraded(layout)
    else:
        planned = session.stopwatch.planned(SILU, VARIANT)
        replays = planned.begin(case, opened, graded=False)
    on_one_set(replays)
    return replays


def here(replays: Replays, calls: int, count: int) -> float:
    """Seconds per call, for so many calls on one set; the median of replays."""
    replays.calls = 1
    replays.seconds()
    replays.calls = calls
    return statistics.median(replays.seconds() for _ in range(count))


class Elsewhere:
    """Seconds per call, measured without the grader's clock, in another process."""

    def __init__(self, whose: str, n: int, count: int, opened: contextlib.ExitStack) -> None:
        folder = str(oracle.ORACLES.parent)
        command = [sys.executable, "-c", ELSEWHERE, whose, str(n), str(count), folder]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        opened.enter_context(self._process)

    def seconds(self, cache: str) -> float:
        """The seconds of a call with the L2 cache "warm" or "cold"; exits where there are none."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        print(cache, file=asked, flush=True)
        if not (line := answers.readline()):
            raise SystemExit("the other clock's process ended")
        return float(line)


def compared(
    session: Session, whose: str, n: int, count: int, rounds: int
) -> dict[str, tuple[float, float, float]]:
    """By the state of the cache: medians of seconds here and elsewhere, and of their ratio."""
    seen: dict[str, list[tuple[float, float]]] = {"warm": [], "cold": []}
    with contextlib.ExitStack() as opened:
        other = Elsewhere(whose, n, count, opened)
        replays = opened_here(session, whose, n, opened)
        for _, (cache, calls) in itertools.product(
            range(rounds), (("warm", WARM_CALLS), ("cold", 1))
        ):
            seen[cache].append((here(replays, calls, count), other.seconds(cache)))
    medians = {}
    for cache, times in seen.items():
        ratios = statistics.median(ours / theirs for ours, theirs in times)
        ours, theirs = (statistics.median(each) for each in zip(*times, strict=True))
        medians[cache] = ours, theirs, ratios
    return medians


def main() -> None:
    """Print the table; exit status 1 where two clocks disagree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replays", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="elements")
    options = parser.parse_args()
    if machine.gpu_name() is None:
        raise SystemExit("No NVIDIA GPU that torch can use: there are no two clocks to compare.")
    table = Table("silu of", "elements", "L2", "us here", "us elsewhere", "ratio")
    apart = []
    with Session(oracle.ORACLES.parent, EXERCISES, Options(device="cuda")) as session:
        for whose, n in itertools.product(("torch", "solution"), options.sizes):
            every = compared(session, whose, n, options.replays, options.rounds)
            for cache, (ours, theirs, ratio) in every.items():
                times = (f"{1e6 * ours:.2f}", f"{1e6 * theirs:.2f}")
                table.add_row(whose, f"{n:,}", cache, *times, f"{ratio:.3f}")
                if abs(ratio - 1) > MOST_APART:
                    apart.append(f"{whose} {n:,} {cache}")
    console = Console()
    console.print(f"{machine.gpu_name()}, {options.replays} replays each, {options.rounds} rounds")
    console.print(table)
    if apart:
        raise SystemExit(f"over {MOST_APART:.0%} apart: {'; '.join(apart)}")


if __name__ == "__main__":
    main()

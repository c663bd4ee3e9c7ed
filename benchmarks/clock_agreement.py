"""Compares the grader's clock with Triton's benchmark and with CUDA events: prints a table.

    python benchmarks/clock_agreement.py [--replays 20] [--rounds 5] [--sizes N ...]

Times Silu on a GPU in several sizes: torch's, run by a worker in Python, and the solution's, run by
the executor of plans. With a cold L2 cache a replay is compared with CUDA events around the same
graph in a process of its own: overwrite the cache, then the calls of a grade, each on a buffer set
of its own. With a warm one, many calls of the solution on one set are compared with Triton's
do_bench_cudagraph; torch's have an output each, which no cache keeps. The two clocks take turns,
since a GPU's clock rate changes as it gets warm; a ratio is the median of the rounds'. Both must
agree within 2 %: exit status 1 where they don't.

A further line, "one call", is the cold graph with a single call. It is only shown, since no grade
times that.
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
WARM, COLD, ONE = "warm", "cold", "one call"
EXERCISES = load_all()
SILU = EXERCISES["silu"]
VARIANT = SILU.variants["triton"]

# Prints a call's seconds for each line: the cold graph's calls, or 0 for a warm cache. argv: whose,
# elements, replays, folder.
ELSEWHERE = """
import functools, random, statistics, sys
import torch
from triton.testing import do_bench_cudagraph

whose, n, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
silu = torch.nn.functional.silu
if whose == "solution":
    sys.path.insert(0, folder)
    from silu import silu
cache = torch.cuda.get_device_properties(0).L2_cache_size
flushed = torch.empty(4 * cache, dtype=torch.uint8, device="cuda")
begin, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))

@functools.cache
def buffers(number):
    x = torch.randn(n, device="cuda", dtype=torch.bfloat16)
    return (x, torch.empty_like(x)) if whose == "solution" else (x,)

@functools.cache
def graph(calls):
    made = torch.cuda.CUDAGraph()
    order = [buffers(number) for number in random.sample(range(calls), calls)]
    silu(*order[0])
    torch.cuda.synchronize()
    with torch.cuda.graph(made):
        flushed.zero_()
        begin.record()
        kept = [silu(*each) for each in order]  # an output that is freed would be used again
        end.record()
    return made, kept

def cold(calls):
    graph(calls)[0].replay()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls

def warm():
    with torch.cuda.stream(torch.cuda.Stream()):
        return do_bench_cudagraph(lambda: silu(*buffers(0)), return_mode="median") * 1e-3

for line in sys.stdin:
    calls = int(line)
    seconds = statistics.median(cold(calls) for _ in range(count)) if calls else warm()
    print(seconds, flush=True)
"""


def on_one_set(replays: Replays) -> None:
    """Make all calls of a replay use the first of its sets, with no decoys."""

    def begin() -> None:
        replays._arrange([0] * replays.calls, ())

    replays.begin = begin  # type: ignore[method-assign]  # the clock asks its own replays


def opened_here(session: Session, whose: str, n: int, opened: contextlib.ExitStack) -> Replays:
    """Replays of a call by the grader's clock."""
    case = fixed_case(Task(SILU, VARIANT), {"n": n, "dtype": "bfloat16"}, 7)
    if whose == "torch":
        sandbox = session.stopwatch.trusted
        layout = contenders.layout_of("torch", Task(SILU, VARIANT), case, 0)
        what = (sandbox, "torch", Task(SILU, VARIANT), [layout])
        replays = contenders.baseline(*what, opened).ungraded(layout)
    else:
        planned = session.stopwatch.planned(Task(SILU, VARIANT))
        replays = planned.begin(case, opened, graded=False)
    return replays


def here(replays: Replays, cache: str, count: int) -> float:
    """Seconds per call with the L2 cache in a state; the median of replays."""
    vars(replays).pop("begin", None)
    if cache == COLD:
        replays.settle()
    else:
        on_one_set(replays)
        replays.calls = 1
        replays.seconds()
        replays.calls = WARM_CALLS if cache == WARM else 1
    return statistics.median(replays.seconds() for _ in range(count))


class Elsewhere:
    """Seconds per call, measured without the grader's clock, in another process."""

    def __init__(self, whose: str, n: int, count: int, opened: contextlib.ExitStack) -> None:
        folder = str(oracle.ORACLES.parent)
        command = [sys.executable, "-c", ELSEWHERE, whose, str(n), str(count), folder]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        opened.enter_context(self._process)

    def seconds(self, cold_calls: int) -> float:
        """Seconds of a call in a cold graph of so many, or warm for 0; exits without an answer."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        print(cold_calls, file=asked, flush=True)
        if not (line := answers.readline()):
            raise SystemExit("the other clock's process ended")
        return float(line)


def compared(
    session: Session, whose: str, n: int, count: int, rounds: int
) -> dict[str, tuple[float, float, float]]:
    """By the state of the cache: medians of seconds here and elsewhere, and of their ratio."""
    states = (WARM, COLD, ONE) if whose == "solution" else (COLD, ONE)
    seen: dict[str, list[tuple[float, float]]] = {cache: [] for cache in states}
    with contextlib.ExitStack() as opened:
        other = Elsewhere(whose, n, count, opened)
        replays = opened_here(session, whose, n, opened)
        for _, (cache, times) in itertools.product(range(rounds), seen.items()):
            ours = here(replays, cache, count)
            times.append((ours, other.seconds(0 if cache == WARM else replays.calls)))
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
                if cache != ONE and abs(ratio - 1) > MOST_APART:
                    apart.append(f"{whose} {n:,} {cache}")
    console = Console()
    console.print(f"{machine.gpu_name()}, {options.replays} replays each, {options.rounds} rounds")
    console.print(table)
    if apart:
        raise SystemExit(f"over {MOST_APART:.0%} apart: {'; '.join(apart)}")


if __name__ == "__main__":
    main()

"""Compares the grader's clock with Triton's benchmark and with CUDA events: prints a table.

    python benchmarks/clock_agreement.py [--replays 20]

Times Silu on a GPU in several sizes, with one buffer set: torch's, run by a worker in Python, and
the solution's, run by the executor of plans. With a cold L2 cache, as in a grade, they are compared
with CUDA events around the same graph (overwrite the cache, then the call) in a process of its own.
With a warm one, many calls on the same set are compared with Triton's do_bench_cudagraph. Both must
agree within 2 %: exit status 1 where they don't.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
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

# Prints seconds of a call as {"warm": ..., "cold": ...}; argv: whose, elements, replays, a folder.
ELSEWHERE = """
import json, statistics, sys
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
with torch.cuda.stream(torch.cuda.Stream()):
    warm = do_bench_cudagraph(lambda: silu(x), return_mode="median") * 1e-3
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
times = []
for _ in range(count):
    graph.replay()
    torch.cuda.synchronize()
    times.append(begin.elapsed_time(end) * 1e-3)
print(json.dumps({"warm": warm, "cold": statistics.median(times)}))
"""


def on_one_set(replays: Replays) -> None:
    """Make all calls of a replay use the first of its sets, with no decoys."""

    def prepare() -> None:
        replays._order, replays._decoys = [0] * replays.calls, ()
        replays._arrange(replays._order)
        replays._sets.fill([0])

    replays.prepare = prepare  # type: ignore[method-assign]  # the clock asks its own replays


def ours(session: Session, whose: str, n: int, calls: int, count: int) -> float:
    """Seconds per call, for so many calls on one set; the median of replays."""
    case = fixed_case(SILU, VARIANT, {"n": n, "dtype": "bfloat16"}, 7)
    with contextlib.ExitStack() as opened:
        if whose == "torch":
            sandbox = session.stopwatch.trusted
            layout = contenders.layout_of("torch", Task(SILU, VARIANT), case, 0)
            what = (sandbox, "torch", Task(SILU, VARIANT), [layout])
            replays = contenders.baseline(*what, opened).ungraded(layout)
        else:
            planned = session.stopwatch.planned(SILU, VARIANT)
            replays = planned.begin(case, opened, graded=False)
        on_one_set(replays)
        replays.calls = 1
        replays.seconds()
        replays.calls = calls
        return statistics.median(replays.seconds() for _ in range(count))


def elsewhere(whose: str, n: int, count: int) -> dict[str, float]:
    """Seconds per call, measured without the grader's clock."""
    folder = str(oracle.ORACLES.parent)
    command = [sys.executable, "-c", ELSEWHERE, whose, str(n), str(count), folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    """Print the table; exit status 1 where two clocks disagree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replays", type=int, default=20)
    count = parser.parse_args().replays
    if machine.gpu_name() is None:
        raise SystemExit("No NVIDIA GPU that torch can use: there are no two clocks to compare.")
    table = Table("silu of", "elements", "L2", "us here", "us elsewhere", "ratio")
    apart = []
    with Session(oracle.ORACLES.parent, EXERCISES, Options(device="cuda")) as session:
        for whose, n in itertools.product(("torch", "solution"), SIZES):
            known = elsewhere(whose, n, count)
            for cache, calls in (("warm", WARM_CALLS), ("cold", 1)):
                seen = ours(session, whose, n, calls, count)
                ratio = seen / known[cache]
                times = (f"{1e6 * seen:.2f}", f"{1e6 * known[cache]:.2f}")
                table.add_row(whose, f"{n:,}", cache, *times, f"{ratio:.3f}")
                if abs(ratio - 1) > MOST_APART:
                    apart.append(f"{whose} {n:,} {cache}")
    console = Console()
    console.print(f"{machine.gpu_name()}, {count} replays each")
    console.print(table)
    if apart:
        raise SystemExit(f"over {MOST_APART:.0%} apart: {'; '.join(apart)}")


if __name__ == "__main__":
    main()

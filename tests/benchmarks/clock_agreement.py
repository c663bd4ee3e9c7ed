"""Does the clock agree with Triton's benchmark and with CUDA events in another process? A table.

    python tests/benchmarks/clock_agreement.py [--replays 20]

Silu by torch in several sizes, on a GPU, with one buffer set. As in a grade with a cold L2 cache,
beside CUDA events around the same graph (a cache that is overwritten, then the call) in a process
of its own. And with a warm one, so many calls on the same set, beside what Triton's
do_bench_cudagraph tells of that call. Both must agree within 3 % from 20 us on: exit status 1 where
they don't.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from grader import machine
from grader.cases import fixed_case
from grader.confinement import Level
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.timing import contenders
from grader.timing.replays import Replays

SIZES = (2**20, 2**22, 2**24, 2**26, 2**27)
LEAST_SECONDS = 20e-6
MOST_APART = 0.03
WARM_CALLS = 256  # of which the first one finds the cache overwritten
SILU = load_all()["silu"]

# Prints seconds of a call as {"warm": ..., "cold": ...}; argv: elements and replays.
ELSEWHERE = """
import json, statistics, sys
import torch
from triton.testing import do_bench_cudagraph

n, count = map(int, sys.argv[1:])
x = torch.randn(n, device="cuda", dtype=torch.bfloat16)
silu = torch.nn.functional.silu
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


class OneSet(Replays):
    """Replays of which all calls are on the same set."""

    def prepare(self) -> None:
        self._order, self._decoys = [0] * self.calls, ()
        self._arrange(self._order)
        self._sets.fill([0])


def ours(sandbox: Sandbox, n: int, calls: int, count: int) -> float:
    """Seconds of one of so many calls on one set, the median of replays."""
    variant = SILU.variants["triton"]
    case = fixed_case(SILU, variant, {"n": n, "dtype": "bfloat16"}, 7)
    layout = contenders.layout_of("torch", SILU, variant, case, 0)
    with contextlib.ExitStack() as opened:
        standing = contenders.baseline(sandbox, "torch", SILU, variant, [layout], opened)
        replays = OneSet(standing.worker, contenders.Sets(standing.memory, layout, 1))
        replays.seconds()
        replays.calls = calls
        return statistics.median(replays.seconds() for _ in range(count))


def elsewhere(n: int, count: int) -> dict[str, float]:
    """The same by other means."""
    command = [sys.executable, "-c", ELSEWHERE, str(n), str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    """Print the table; exit status 1 where two clocks don't agree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--replays", type=int, default=20)
    count = parser.parse_args().replays
    if machine.gpu_name() is None:
        raise SystemExit("No NVIDIA GPU that torch can use: there are no two clocks to compare.")
    table = Table("silu of", "L2", "us here", "us elsewhere", "ratio")
    apart = []
    with Sandbox("cuda", Level.limits) as sandbox:
        for n in SIZES:
            known = elsewhere(n, count)
            for cache, calls in (("warm", WARM_CALLS), ("cold", 1)):
                seen = ours(sandbox, n, calls, count)
                ratio = seen / known[cache]
                times = (f"{1e6 * seen:.2f}", f"{1e6 * known[cache]:.2f}")
                table.add_row(f"{n:,}", cache, *times, f"{ratio:.3f}")
                if known[cache] >= LEAST_SECONDS and abs(ratio - 1) > MOST_APART:
                    apart.append(f"{n:,} {cache}")
    console = Console()
    console.print(f"{machine.gpu_name()}, {count} replays each")
    console.print(table)
    if apart:
        raise SystemExit(f"over {MOST_APART:.0%} apart: {'; '.join(apart)}")


if __name__ == "__main__":
    main()

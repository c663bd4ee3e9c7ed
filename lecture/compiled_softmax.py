"""`python -m lecture.compiled_softmax`: where the time of a compiled softmax goes, on this GPU.

For each number of columns it prints the kind of reduction that Inductor chose, the kernels that one
call launches with their time on the device, and three times of a call:

cold     as lecture/clock.py has it: launched while the device overwrites its L2 cache
queued   the same behind a longer wait, so that every launch is over before the device begins
host     until the call returns, without waiting for the device

What `cold` has beyond `queued` is the device waiting for the host.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from torch._inductor.graph import GraphLowering
from torch.profiler import ProfilerActivity, profile

from lecture.clock import REPETITIONS, WARM_UP, Clock
from lecture.operators import softmax, softmax_by_hand

ROWS = 4096
COLUMNS = (512, 1024, 2048, 4096)
CLOCKS_TO_WAIT = 2_000_000  # of the device: about a millisecond


def reductions(code: str) -> list[str]:
    """Inductor's heuristics and hints for each kernel of its output."""
    found = re.findall(r"@triton_heuristics\.(\w+)\(\s*size_hints=(\{[^}]*\})", code)
    return [f"{kind} {hints}" for kind, hints in found]


def kernels(call: Callable[[], object], table: Path | None = None) -> list[str]:
    """Each kernel of a call: how often it runs, and its mean time on the device."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(REPETITIONS):
            call()
        torch.cuda.synchronize()
    if table is not None:
        table.write_text(seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=25))
    on_device = torch.autograd.DeviceType.CUDA
    return [
        f"{each.key[:70]}: {each.count / REPETITIONS:g} a call, "
        f"{each.self_device_time_total / each.count:.1f} us"
        for each in seen.key_averages()
        if each.device_type == on_device
    ]


def queued(call: Callable[[], object], flush: torch.Tensor) -> float:
    """The time on the device of a call that it meets ready in its queue, in microseconds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(CLOCKS_TO_WAIT)
    flush.zero_()
    start.record()
    call()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end)


def hosts(call: Callable[[], object]) -> float:
    """How long the host takes to launch a call, in microseconds."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    call()
    return 1e6 * (time.perf_counter() - begun)


def look(order: tuple[int, ...], clock: Clock, folder: Path) -> None:
    """Print what is seen of each number of columns, compiled in this order."""
    torch.compiler.reset()
    flush = torch.empty(clock.flush_bytes, dtype=torch.int8, device="cuda")
    compiled = torch.compile(softmax_by_hand, dynamic=False)
    for cols in order:
        given = torch.randn((ROWS, cols), device="cuda")
        codes: list[str] = []
        with mock.patch.object(GraphLowering, "save_output_code", codes.append):
            compiled(given)
        call = partial(compiled, given)
        cold = clock.microseconds(call).median
        waits = statistics.median(queued(call, flush) for _ in range(REPETITIONS))
        launches = statistics.median(hosts(call) for _ in range(REPETITIONS))
        own = statistics.median(hosts(partial(softmax, given)) for _ in range(REPETITIONS))
        print(f"{cols}: cold {cold:.1f} us, queued {waits:.1f} us, host {launches:.1f} us")
        print(f"    torch's own: host {own:.1f} us")
        for code in codes:
            (folder / f"softmax-{cols}.py").write_text(code)
            print(*(f"    {each}" for each in reductions(code)), sep="\n")
        print(
            *(f"    {each}" for each in kernels(call, folder / f"profile-{cols}.txt")),
            sep="\n",
            flush=True,
        )


def main() -> None:
    """Look twice: in the order of the handout's table, and the other way round."""
    parser = argparse.ArgumentParser(prog="python -m lecture.compiled_softmax")
    parser.add_argument("--out", type=Path, default=Path("results/compiled_softmax"))
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    if not torch.cuda.is_available():
        print("No NVIDIA GPU that torch can use. Nothing ran.")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {WARM_UP} calls to warm up")
    clock = Clock("cuda")
    for order in (COLUMNS, COLUMNS[::-1]):
        print(f"compiled in the order {order}")
        look(order, clock, folder)


if __name__ == "__main__":
    main()

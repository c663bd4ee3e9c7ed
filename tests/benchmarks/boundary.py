"""What the boundary between grader and worker costs a case: the same cases in one process, in two.

    python tests/benchmarks/boundary.py [EXERCISE]... [--rounds N] [--sets N]

`make bench` prints the same, for silu and rmsnorm. There are six ways with a case, of which each
does what the one before it does, and more:

    kernel    the entry is called
    watched   it is seen where kernels load and store, and what torch computes for them
    bare      inputs are made before, and outputs compared with the truth afterwards
    checked   tensors lie in an arena, with guard zones and poison, and are judged from a copy
    two       the entry is called in a confined worker: Runner.run, as a grade calls it
    apart     the same, with CPUs to spare: grader and worker take one each

What `two` takes longer than `checked` is the boundary's: one process does all the rest as well. All
but `apart` have one CPU, one and the same, as a grader and its worker have in a grade, which runs
as many such pairs side by side as there are CPUs. Apart, each of the two sleeps while the other
works, and on a virtual machine waking a CPU that has gone to sleep takes a tenth of a millisecond.

A virtual machine's CPU may be half as fast while its neighbour on the physical core computes, for
tenths of a second to minutes. Which way meets such a phase is chance, and so is the ratio of any
two medians; and of two CPUs, which `apart` needs, one or the other is often in such a phase.
Therefore the ways have their processes at the same time, take turns part by part (tens of
milliseconds), and of each case the shortest of all rounds counts: what it takes where nothing else
is in the way. Rounds are spread over several sets of processes, each on the next CPU, for memory
lies differently in each; beside the share of all stand the least and the largest of a single set.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from grader import inputs as inputs_of_case  # noqa: E402
from grader import oracle  # noqa: E402
from grader.arena import Arena, Outcome, Placed, Slot  # noqa: E402
from grader.cases import Case, Space  # noqa: E402
from grader.compare import judge  # noqa: E402
from grader.grade import PUBLIC_SEED  # noqa: E402
from grader.inputs import Inputs  # noqa: E402
from grader.runner import ARENA_BYTES, Runner  # noqa: E402
from grader.sandbox import Sandbox  # noqa: E402
from grader.spec import Exercise, Variant, load_all  # noqa: E402

IN_ONE = ("kernel", "watched", "bare", "checked")
WAYS = (*IN_ONE, "two", "apart")
GOAL = 0.15
# 48 looks at each case. With fewer a case may meet no moment in which nothing is in its way.
SETS = 3
ROUNDS = 16
OFTEN = ("checked", "two", "apart")  # the others are only taken once in so many rounds:
SELDOM = 4

Times = list[list[float]]  # seconds of each case, by round


@dataclass(frozen=True)
class Seen:
    """Seconds of each case by way, round by round, from one set of processes after the other."""

    cases: int
    sets: list[dict[str, Times]]

    def of(self, way: str, sets: Sequence[dict[str, Times]] | None = None) -> float:
        """Seconds per case: of each the shortest, averaged over cases."""
        rounds = [each for one in sets or self.sets for each in one[way]]
        return statistics.mean(map(min, zip(*rounds, strict=True)))

    def share(
        self, way: str, of: str = "two", sets: Sequence[dict[str, Times]] | None = None
    ) -> float:
        """What of a case in two processes (`of`: two or apart) is beyond `way`."""
        return 1 - self.of(way, sets) / self.of(of, sets)

    def span(self, way: str, of: str = "two") -> tuple[float, float]:
        """The least and the largest share of a single set of processes."""
        shares = [self.share(way, of, [one]) for one in self.sets]
        return min(shares), max(shares)


def measure(
    exercise: Exercise,
    variant: Variant,
    submission: Path,
    sets: int = SETS,
    rounds: int = ROUNDS,
) -> Seen:
    """All ways with the cases of a Triton variant, in turn."""
    parts = parts_of(exercise, variant)
    cpus = sorted(os.sched_getaffinity(0))
    seen = []
    for turn in range(sets):
        cpu = cpus[turn % len(cpus)]
        told: dict[str, Times] = {way: [] for way in WAYS}
        with contextlib.ExitStack() as opened:
            servers = {
                kind: _Server(kind, exercise, variant, submission, None if kind == "apart" else cpu)
                for kind in ("one", "two", "apart")
            }
            for server in servers.values():
                opened.enter_context(server)
            for number in range(rounds):
                ways = WAYS if number % SELDOM == 0 else OFTEN
                seconds: dict[str, list[float]] = {way: [] for way in ways}
                for part in range(len(parts)):
                    first = (number + part) % len(ways)
                    for way in (*ways[first:], *ways[:first]):
                        seconds[way] += servers[way if way in servers else "one"].ask(way, part)
                for way in ways:
                    told[way].append(seconds[way])
        seen.append(told)
    return Seen(sum(map(len, parts)), seen)


def parts_of(exercise: Exercise, variant: Variant) -> list[list[Case]]:
    """A spread of what a grade runs, by dtype and size class, as there."""
    return [
        Space(exercise, variant, dtype, size_class, PUBLIC_SEED).edges()[::4]
        for dtype in variant.dtypes
        for size_class in variant.size_classes
    ]


class _Server:
    """A process that runs parts of a variant's cases when asked to."""

    def __init__(
        self,
        kind: str,
        exercise: Exercise,
        variant: Variant,
        submission: Path,
        cpu: int | None,
    ) -> None:
        """`kind`: one, two or apart; `cpu`: the only one that it may use, None for any."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if kind == "one":
            environment["TRITON_INTERPRET"] = "1"
        name = f"{exercise.name}/{variant.name}"
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", kind, name, str(submission)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if cpu is not None:
            os.sched_setaffinity(self._process.pid, {cpu})  # and all that it starts

    def __enter__(self) -> _Server:
        self._answer()  # it is ready
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()

    def ask(self, way: str, part: int) -> list[float]:
        """Seconds of each case of the part."""
        print(way, part, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> list[float]:
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"a process that times cases ended with status {self._process.wait()}")
        return json.loads(line)


def _serve(kind: str, name: str, submission: Path) -> None:
    """Time parts, one a line: of each case once, as a grade goes through them."""
    torch.set_num_threads(1)  # as in a grade
    exercise_name, variant_name = name.split("/")
    exercise = load_all()[exercise_name]
    variant = exercise.variants[variant_name]
    parts = parts_of(exercise, variant)
    with contextlib.ExitStack() as opened:
        if kind == "one":
            ways = _in_one(exercise, variant, submission / variant.file)
        else:
            ways = {kind: _in_two(exercise, variant, submission, opened)}
        for prepare in ways.values():
            for case in (case for part in parts for case in part):
                prepare(case)()
        gc.collect()
        gc.freeze()  # as worker and grader do with what they have imported
        print("[]", flush=True)
        for line in sys.stdin:
            way, part = line.split()
            calls = [ways[way](case) for case in parts[int(part)]]
            print(json.dumps([_seconds(call) for call in calls]), flush=True)


def _seconds(call: Callable[[], None]) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


Prepare = Callable[[Case], Callable[[], None]]  # a case, to what is timed of it


def _in_two(exercise, variant, submission: Path, opened: contextlib.ExitStack) -> Prepare:
    sandbox = opened.enter_context(Sandbox())
    held = sandbox.hold(variant.file, (submission / variant.file).read_bytes())
    runner = opened.enter_context(Runner(sandbox, exercise, variant, held))

    def run(case: Case) -> None:
        result = runner.run(case)
        assert result.verdict.passed, result.verdict.what

    return lambda case: lambda: run(case)


def _in_one(exercise: Exercise, variant: Variant, path: Path) -> dict[str, Prepare]:
    from grader.worker import devices, host, interpreter

    interpreter.install()
    spec = importlib.util.spec_from_file_location("submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    entry = getattr(module, variant.entry)
    device = devices.make_device("interpreter", str(path))
    device.loaded(module)
    session = host.Session(str(path), variant.entry, device, [], entry)
    truth_of, tolerance = oracle.load(exercise.oracle), exercise.tolerance_of(variant)
    arena = Arena(ARENA_BYTES, ARENA_BYTES)

    def alone(*values: Any) -> None:
        entry(*values)
        interpreter.launches.take()

    def watched(*values: Any) -> None:
        seen = device.guard(values)
        with seen.watching() if seen else contextlib.nullcontext(), session.library_calls:
            entry(*values)
        session.library_calls.take()
        interpreter.launches.take()

    def expect_right(made: Inputs, outcomes: list[Outcome]) -> None:
        truths = truth_of.truths(made.tensors, made.scalars, tolerance.magnitude)
        assert judge(outcomes, truths, tolerance).passed

    def bare(case: Case) -> None:
        made = inputs_of_case.make(exercise, variant, case)
        values = _values(made)
        watched(*values)
        nothing: dict[str, Any] = {"outside": (), "outside_count": 0, "changed": True}
        outcomes = [
            Outcome(slot, value, torch.zeros(slot.shape, dtype=torch.bool), **nothing)
            for slot, value in zip(made.order, values, strict=True)
            if isinstance(slot, Slot) and slot.role != "input"
        ]
        expect_right(made, outcomes)

    def checked(case: Case) -> None:
        made = inputs_of_case.make(exercise, variant, case)
        placed = arena.place(made.slots)
        there = {item.slot.name: _placed(arena, item) for item in placed}
        watched(*(there[s.name] if isinstance(s, Slot) else s.scalar for s in made.order))
        expect_right(made, arena.collect(placed))

    def called(call: Callable[..., None]) -> Prepare:
        def prepare(case: Case) -> Callable[[], None]:
            values = _values(inputs_of_case.make(exercise, variant, case))
            return lambda: call(*values)

        return prepare

    return {
        "kernel": called(alone),
        "watched": called(watched),
        "bare": lambda case: lambda: bare(case),
        "checked": lambda case: lambda: checked(case),
    }


def _values(made: Inputs) -> list[Any]:
    """The entry's arguments, tensors in memory of their own."""
    return [_laid_out(each) if isinstance(each, Slot) else each.scalar for each in made.order]


def _placed(arena: Arena, item: Placed) -> torch.Tensor:
    """What a worker sees of a slot in the arena."""
    slot, argument = item.slot, item.argument
    memory = (arena.inputs, arena.outputs)[argument.buffer]
    start, length = argument.allocation
    typed = memory[start : start + length].view(getattr(torch, slot.dtype))
    first = typed.storage_offset() + (argument.offset - start) // typed.element_size()
    return typed.as_strided(slot.shape, slot.strides, first)


def _laid_out(slot: Slot) -> torch.Tensor:
    memory = torch.zeros(slot.first + slot.extent, dtype=getattr(torch, slot.dtype))
    view = memory.as_strided(slot.shape, slot.strides, slot.first)
    if slot.values is not None:
        view.copy_(slot.values)
    return view


def main() -> None:
    """Print a line for each exercise, or serve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*", default=["silu", "rmsnorm"])
    parser.add_argument("--submission", type=Path, default=ROOT / "reference")
    parser.add_argument("--sets", type=int, default=SETS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        kind, name, submission = given.serve
        _serve(kind, name, Path(submission))
        sys.stdout.flush()
        os._exit(0)  # without what triton tells of its leaks
    every = load_all()
    for name in given.exercises:
        exercise = every[name]
        variant = next(v for v in exercise.variants.values() if v.language == "triton")
        seen = measure(exercise, variant, given.submission, given.sets, given.rounds)
        ways = ", ".join(f"{way} {1e3 * seen.of(way):.2f}" for way in WAYS)
        shares = (f"{_told(seen, of)} {of}" for of in ("two", "apart"))
        print(f"{name}/{variant.name}: {seen.cases} cases, ms each: {ways}", flush=True)
        print(f"  the boundary's share: {', '.join(shares)}", flush=True)


def _told(seen: Seen, of: str) -> str:
    least, most = seen.span("checked", of)
    return f"{seen.share('checked', of):.1%} ({least:.1%} to {most:.1%})"


if __name__ == "__main__":
    main()

"""Where the time of grading goes (no GPU used): `make bench`.

Prints, for the reference solutions of SiLU and RMSNorm (or of other Triton exercises, or of all of
them: minutes), graded in the interpreter: the whole time and its parts, cases per second, the cost
of a further worker, and what the boundary between the two processes costs a case: beside a process
that makes the same checks itself, and beside one that only calls the kernel and compares. Times are
wall seconds on this machine; repeated figures are medians.

    python tests/benchmarks/grading.py [--submission DIR] [--repeats N] [--only EXERCISE]... [--all]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

STARTED = time.perf_counter()
DEFAULT = ("silu", "rmsnorm")

import torch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from grader import inputs as inputs_of_case  # noqa: E402
from grader import oracle  # noqa: E402
from grader.arena import Arena, Outcome, Placed, Slot  # noqa: E402
from grader.cases import Case, Space  # noqa: E402
from grader.compare import judge  # noqa: E402
from grader.grade import PUBLIC_SEED, Session, selected  # noqa: E402
from grader.inputs import Inputs  # noqa: E402
from grader.runner import Runner, Times  # noqa: E402
from grader.sandbox import Sandbox  # noqa: E402
from grader.spec import Exercise, Variant, load_all  # noqa: E402

IMPORTED = time.perf_counter()
# Of the processes that are compared: where memory lies, and on which core, one and the same kernel
# takes 30 % more in one process than in the next.
ROUNDS = 5
ARENA_BYTES = 64 << 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submission", type=Path, default=ROOT / "reference")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", action="append", metavar="EXERCISE", help="not silu and rmsnorm")
    parser.add_argument("--all", action="store_true", help="every exercise: minutes")
    parser.add_argument("--inner", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inner:
        _time_in_one_process(given.inner[0], Path(given.inner[1]), given.repeats)
        return
    console = Console(width=100)
    python = platform.python_version()
    console.print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {python}")
    exercises = load_all()
    if unknown := sorted({*(given.only or ())} - exercises.keys()):
        parser.error(f"--only: expected one of {', '.join(exercises)}, got {', '.join(unknown)}")
    if not given.all:
        exercises = {name: exercises[name] for name in given.only or DEFAULT}
    _whole(console, exercises, given.submission)
    _workers(console, exercises, given.submission, given.repeats)
    _boundary(console, exercises, given.submission, given.repeats)


def triton_variants(exercises: dict[str, Exercise]) -> list[tuple[Exercise, Variant]]:
    """What the interpreter runs; the first of an exercise stands for it below."""
    return [pair for pair in selected(exercises) if pair[1].language == "triton"]


def _whole(console: Console, exercises: dict[str, Exercise], submission: Path) -> None:
    """One grade, as `grader grade` does it."""
    started = time.perf_counter()
    with Session(submission, exercises, device="interpreter") as session:
        session.sandbox.start()
        ready = time.perf_counter()
        rows = []
        for exercise, variant in triton_variants(exercises):
            before = time.perf_counter()
            seen = session.variant(exercise, variant)
            took = time.perf_counter() - before
            times = session.runners.times[f"{exercise.name}/{variant.name}"]
            rows.append((f"{exercise.name}/{variant.name}", seen.correctness.value, took, times))
    total = time.perf_counter() - started + (IMPORTED - STARTED)
    table = Table(title="One grade of the reference, seconds", title_justify="left")
    columns = ("", "verdict", "all", "workers", "cases", "answers", "compiling*", "cases/s")
    for column in columns:
        left = column in ("", "verdict")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    table.add_row("imports", "", f"{IMPORTED - STARTED:.2f}")
    table.add_row("forking parent", "", f"{ready - started:.2f}")
    for name, verdict, took, times in rows:
        table.add_row(name, verdict, f"{took:.2f}", *_split(times))
    table.add_row("all", "", f"{total:.2f}")
    console.print(table)
    console.print("answers: of the cases' time, waited for the worker; * waited for: the rest of")
    console.print("compiling ran beside the cases, on another core\n")


def _split(times: Times) -> tuple[str, ...]:
    return (
        f"{times.starts:.2f}",
        f"{times.cases:.2f}",
        f"{times.waiting:.2f}",
        f"{times.compiles:.2f}",
        f"{times.runs / times.cases:.0f}",
    )


def _workers(console: Console, exercises, submission: Path, repeats: int) -> None:
    """What a further worker costs: fork, load the file, answer the first case."""
    exercise, variant = triton_variants(exercises)[0]
    case = Space(exercise, variant, variant.dtypes[0], variant.size_classes[0], 1).edges()[0]
    with (
        Sandbox() as sandbox,
        Runner(sandbox, exercise, variant, _held(sandbox, submission, variant)) as runner,
    ):
        assert runner.run(case).verdict.passed
        first, loaded = [], []
        for _ in range(3 * repeats):
            runner.fresh_worker()
            starts = runner.times.starts
            before = time.perf_counter()
            runner.run(case)
            first.append(time.perf_counter() - before)
            loaded.append(runner.times.starts - starts)
    console.print(
        f"a further worker: {statistics.median(loaded):.3f} s until the file is loaded, "
        f"{statistics.median(first):.3f} s until its first case is judged "
        f"(median of {3 * repeats}; goal 0.05 s)\n"
    )


def _boundary(console: Console, exercises, submission: Path, repeats: int) -> None:
    """The same cases through the boundary, and made, called and judged in one process.

    What is looked at on the way would have to be without a boundary too: where kernels load and
    store and what torch computes for them (`watched`), whether inputs stay as they were, what was
    not written, what was written beside the outputs. `checked` does all of that in one process, so
    that what two take longer is the boundary's. `bare` only calls the kernel, watched, and
    compares. The kernel alone says little of a case: called again and again it finds all that it
    needs in the cache, where a case's other work comes in between.
    """
    title = "Per case, milliseconds (medians, averaged over cases)"
    table = Table(title=title, title_justify="left")
    columns = ("", "cases", "kernel", "watched", "bare", "checked", "in two")
    for column in (*columns, "boundary", "beside bare"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for exercise, variant in triton_variants(exercises):
        rounds = []
        for _ in range(ROUNDS):
            here = _in_one(exercise, submission / variant.file, repeats)
            told = (*zip(*here, strict=True), _in_two(exercise, variant, submission, repeats))
            rounds.append([1e3 * statistics.mean(times) for times in told])
        kernel, watched, bare, checked, two = map(statistics.median, zip(*rounds, strict=True))
        table.add_row(
            f"{exercise.name}/{variant.name}",
            str(len(here)),
            *(f"{each:.2f}" for each in (kernel, watched, bare, checked, two)),
            *(f"{1 - each / two:.1%}" for each in (checked, bare)),
        )
    console.print(table)
    console.print(
        f"Medians of {ROUNDS} rounds, in each of which every way has a process of its own.\n"
        "The goal for the boundary is 15 %."
    )


def _held(sandbox: Sandbox, submission: Path, variant: Variant) -> Path:
    return sandbox.hold(variant.file, (submission / variant.file).read_bytes())


def _cases(exercise: Exercise, variant: Variant) -> list[Case]:
    """A spread of what a grade runs."""
    cases = []
    for dtype in variant.dtypes:
        for size_class in variant.size_classes:
            cases += Space(exercise, variant, dtype, size_class, PUBLIC_SEED).edges()[::4]
    return cases


def _in_two(exercise, variant, submission: Path, repeats: int) -> list[float]:
    """Seconds per case, as a grade runs it."""
    with (
        Sandbox() as sandbox,
        Runner(sandbox, exercise, variant, _held(sandbox, submission, variant)) as runner,
    ):
        cases = _cases(exercise, variant)
        assert runner.run(cases[0]).verdict.passed
        return [_median(repeats, lambda: runner.run(case)) for case in cases]  # noqa: B023


def _median(repeats: int, work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(repeats):
        before = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - before)
    return statistics.median(seconds)


def _in_one(exercise: Exercise, path: Path, repeats: int) -> list[list[float]]:
    """Seconds per case in a process that does nothing else: kernel, watched, bare, checked."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--repeats", str(repeats), "--inner"]
    done = subprocess.run(
        [*command, exercise.name, str(path)], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def _time_in_one_process(name: str, path: Path, repeats: int) -> None:
    from grader.worker import devices, host, interpreter

    interpreter.install()
    spec = importlib.util.spec_from_file_location("submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exercise, variant = next(p for p in triton_variants(load_all()) if p[0].name == name)
    entry = getattr(module, variant.entry)
    device = devices.make_device("interpreter", str(path))
    device.loaded(module)
    session = host.Session(str(path), variant.entry, device, [], entry)

    def watched(*values):
        seen = device.guard(values)
        with seen.watching() if seen else contextlib.nullcontext(), session.library_calls:
            entry(*values)
        session.library_calls.take()

    truth_of, tolerance = oracle.load(exercise.oracle), exercise.tolerance_of(variant)

    def expect_right(made: Inputs, outcomes: list[Outcome]) -> None:
        truths = truth_of.truths(made.tensors, made.scalars, tolerance.magnitude)
        assert judge(outcomes, truths, tolerance).passed
        interpreter.launches.take()

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

    arena = Arena(ARENA_BYTES, ARENA_BYTES)

    def checked(case: Case) -> None:
        made = inputs_of_case.make(exercise, variant, case)
        placed = arena.place(made.slots)
        there = {item.slot.name: _placed(arena, item) for item in placed}
        watched(*(there[s.name] if isinstance(s, Slot) else s.scalar for s in made.order))
        expect_right(made, arena.collect(placed))

    seconds = []
    for case in _cases(exercise, variant):
        values = _values(inputs_of_case.make(exercise, variant, case))
        alone = [_median(repeats, lambda: call(*values)) for call in (entry, watched)]  # noqa: B023
        interpreter.launches.take()
        cases = [_median(repeats, lambda: way(case)) for way in (bare, checked)]  # noqa: B023
        seconds.append([*alone, *cases])
    print(json.dumps(seconds))


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


if __name__ == "__main__":
    main()

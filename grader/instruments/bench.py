"""Times a student's variants over sizes, beside every baseline that is there.

The clock is the grade's (timing/timed_variant.py); what it doesn't judge isn't judged here either.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from grader.cases import Case, fixed_case
from grader.evidence import PerformanceEvidence
from grader.gpu import machine, measured_roofs, nvml
from grader.gpu.roofline import Roofs
from grader.grading.session import Session
from grader.mistakes import Mistake
from grader.report import one_line
from grader.sandbox import Sandbox
from grader.spec import Tensor
from grader.spec.formula import FormulaError
from grader.spec.task import Task
from grader.status import Status
from grader.timing import sequential
from grader.timing.attempt import Options
from grader.timing.baselines import Baselines
from grader.timing.contenders import Planned, SharedExecutor
from grader.timing.failures import TimingFailed
from grader.timing.timed_variant import measure_case

NO_GPU = (
    "No NVIDIA GPU that torch can use: there is nothing to time. `grader check` says on any "
    "machine whether a kernel is right, `grader doctor` what this one can grade."
)
# Of a case that isn't scored: enough for a curve.
AROUND = sequential.Budget(pairs=sequential.MIN_PAIRS)
BASELINES = ("copy", "torch", "compile", "reference")
BESIDE_OTHERS = ("copy", "torch")
SHORT_MICROSECONDS = 50.0  # below which launches are timed as much as the kernel


@dataclass(frozen=True)
class Timed:
    """One case of a variant, timed; without a size, why nothing of the variant was timed."""

    exercise: str
    variant: str
    size: int | None  # see PlannedCase
    is_scored: bool
    evidence: PerformanceEvidence

    @property
    def name(self) -> str:
        return f"{self.exercise}/{self.variant}"


@dataclass(frozen=True)
class Step:
    """The case being timed: `number` of `count` of a variant."""

    name: str
    case: Case
    number: int
    count: int


def with_a_case(chosen: Sequence[Task], every: Sequence[Task]) -> list[Task]:
    """Those of the chosen tasks that have something to time.

    Raises Mistake where that is none, with what in `every` has.
    """
    timed = [task for task in chosen if task.variant.performance is not None]
    if timed:
        return timed
    names = ", ".join(str(task) for task in every if task.variant.performance is not None)
    asked = ", ".join(map(str, chosen))
    there_are = f": {names}" if names else ", and no exercise has one: see docs/spec.md#variants"
    raise Mistake(f"{asked}: expected a variant with a performance case{there_are}")


def why_not(session: Session, task: Task) -> tuple[Status, str] | None:
    """Why there is nothing to run of a task, as a grade would say; None where there is."""
    if reason := session.not_attempted(task):
        return Status.not_attempted, reason
    if reason := session.stopwatch.why_not(task.variant):
        return Status.not_measured, reason
    for violation in session.rules.violations(task):
        return violation.status, f"{violation.where}: {violation.what} {violation.hint}".strip()
    return None


def run(
    session: Session,
    trusted: Sandbox,
    chosen: Sequence[Task],
    sizes: Sequence[int] | None = None,
    known: Roofs | None = None,
    budget: sequential.Budget | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
    is_ladder: bool = False,
) -> Iterator[Timed]:
    """Time each variant on its performance cases and on sizes around the first of them.

    A ladder's variants are compared with each other: on no other sizes, and beside fewer baselines.
    `trusted` is where the baselines run. A timing that fails, and not for want of memory or quiet,
    is the last one of its variant. Raises Mistake before anything is timed.
    """
    plans = [plan(task, () if is_ladder else sizes) for task in chosen]
    names = BESIDE_OTHERS if is_ladder else BASELINES
    every = [
        (task, [fixed_case(task, p.given, session.seed) for p in planned])
        for task, planned in zip(chosen, plans, strict=True)
    ]
    baselines: Baselines | None = None
    with contextlib.ExitStack() as opened:
        for place, ((task, cases), planned) in enumerate(zip(every, plans, strict=True)):
            candidate, name_of = _candidate(session, task), (task.exercise.name, task.variant.name)
            if isinstance(candidate, PerformanceEvidence):
                yield Timed(*name_of, None, True, candidate)
                continue
            staff = partial(session.stopwatch.reference, task)
            if baselines is None:
                given = (trusted, candidate.sandbox, task, cases, staff, every[place + 1 :])
                baselines = opened.enter_context(Baselines(*given))
            else:
                baselines.turn_to(task, staff)
            baselines.expect(names)
            unscored = [c for each, c in zip(planned, cases, strict=True) if not each.is_scored]
            with SharedExecutor(task, unscored) as shared:
                for at, (each, case) in enumerate(zip(planned, cases, strict=True), 1):
                    on_step(Step(str(task), case, at, len(planned)))
                    is_scored = each.is_scored and not is_ladder
                    timed = candidate if each.is_scored else replace(candidate, shared=shared)
                    options = _options(names, known, budget, is_scored)
                    evidence = time_alike(timed, baselines, case, options)
                    yield Timed(*name_of, each.size, is_scored, evidence)
                    if evidence.status not in (Status.passed, Status.not_measured):
                        break


def _options(
    names: Sequence[str], known: Roofs | None, budget: sequential.Budget | None, is_scored: bool
) -> Options:
    """How a case is timed: one with points as strictly as in a grade."""
    budget = budget or (None if is_scored else AROUND)
    return Options(also=names, roofs=known, budget=budget, held_to_idle=is_scored)


def _candidate(session: Session, task: Task) -> Planned | PerformanceEvidence:
    """A variant ready to be timed, or why it isn't."""
    if reason := why_not(session, task):
        return PerformanceEvidence(*reason)
    try:
        return session.stopwatch.planned(task)
    except TimingFailed as failed:
        return PerformanceEvidence(failed.status, str(failed))


def time_alike(
    candidate: Planned, baselines: Baselines, case: Case, options: Options
) -> PerformanceEvidence:
    # Without thresholds the test goes on until every ratio is known to a percent, or as well as its
    # budget allows.
    variant = candidate.task.variant
    asks_nothing = variant.timed.model_copy(update={"thresholds": ()})
    variant = variant.model_copy(update={"performance": asks_nothing})
    candidate = replace(candidate, task=replace(candidate.task, variant=variant))
    return measure_case(candidate, baselines, case, options)


def roofs_here() -> Roofs | None:
    """This GPU's roofs: as measured and kept, else by its data sheet, else None."""
    gpu = machine.gpu_properties()
    if gpu is None:
        return None
    state = nvml.observe(gpu.uuid or None, None)
    if kept := measured_roofs.load(measured_roofs.identity_of(gpu, state)):
        return kept.roofs()
    peaks = measured_roofs.peaks_of(gpu, state)
    return peaks.roofs() if peaks else None


def axis(task: Task) -> str:
    """The sizes that change, as a plot names them: 'M = N = K (bfloat16)'."""
    first = task.variant.timed.every_case[0]
    names = scaled_names(task)
    others = [f"{name} = {first[name]}" for name in task.exercise.sizes_names if name not in names]
    dtype = str(first.get("dtype", task.variant.dtypes[0]))
    return one_line(f"{' = '.join(names)} ({', '.join([*others, dtype])})")


# --- which cases ---------------------------------------------------------------------------------

# Those of the spec, and the first one smaller and larger. What changes is the largest size of that
# case, together with the sizes equal to it: rows and cols of a square matrix, M, N and K, as many
# queries as keys. The others stay as they are.
EIGHTHS = (1, 2, 4, 16)  # of the size in the spec, which is timed as it is
MOST = 1 << 31  # what an index of 32 bits holds


@dataclass(frozen=True)
class PlannedCase:
    """A case to time, as a spec would give it.

    `size` is the one that changes; None where the case is of other proportions than the first one.
    """

    size: int | None
    given: Mapping[str, Any]
    is_scored: bool  # it is the spec's own


def scaled_names(task: Task) -> tuple[str, ...]:
    """The sizes that change together: the largest of the first case, and those equal to it."""
    first, sizes = task.variant.timed.every_case[0], task.exercise.sizes_names
    largest = max(first[name] for name in sizes)
    return tuple(name for name in sizes if first[name] == largest)


def plan(task: Task, sizes: Sequence[int] | None = None) -> list[PlannedCase]:
    """The cases to time, the spec's own first; `sizes` in the place of those derived from it.

    Needs a variant with a performance block. Raises Mistake where a tensor can't have such a
    size.
    """
    first, *others = task.variant.timed.every_case
    names = scaled_names(task)
    own = first[names[0]]
    if sizes is None:
        sizes = [max(1, own * eighths // 8) for eighths in EIGHTHS]
    planned = [PlannedCase(own, first, True), *(PlannedCase(None, given, True) for given in others)]
    for size in sorted(set(sizes) - {own}):
        given = {**first, **dict.fromkeys(names, size)}
        _expect_possible(task, given, size)
        planned.append(PlannedCase(size, given, False))
    return planned


def parse(text: str) -> list[int]:
    """'1024,2048' as numbers. Raises Mistake."""
    sizes = []
    for word in text.split(","):
        word = word.strip()
        if not (word.isascii() and word.isdecimal() and len(word) < 12 and 0 < int(word) < MOST):
            raise Mistake(
                f"--sizes: expected whole numbers from 1 on, as in 1024,2048, got {word!r}"
            )
        sizes.append(int(word))
    return sizes


def _expect_possible(task: Task, given: Mapping[str, Any], size: int) -> None:
    sizes = {name: given[name] for name in task.exercise.sizes_names}
    for tensor in task.signature:
        if isinstance(tensor, Tensor):
            try:
                tensor.concrete_shape(sizes)
            except FormulaError as error:
                raise Mistake(f"--sizes: {size}: the shape of {tensor.name}: {error}") from None

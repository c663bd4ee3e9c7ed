"""The runs that measure a variant's use of memory, and their joint evidence.

    the spec's case     with every launch, and again without those that the result doesn't need
    a size near it      drawn by the grader's seed, of the same divisibility, with the same bounds:
                        so knowing the spec's case is no advantage
    configurations      of a tuned kernel: a GPU may choose any of them that fits
    a large case        by its plan alone: the bytes that the entry allocates

`TritonRuns` and `NativeRuns` run the cases of a language; `measure` is common to both.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from grader.cases import Case, Space, fixed_case
from grader.cases.beside import case_beside
from grader.evidence import MemoryEvidence, Metric
from grader.executors import needless
from grader.executors.cuda import cuda_metrics
from grader.executors.cuda.native_runner import PlannedNativeRunner
from grader.executors.planning import blank_arguments
from grader.executors.runner import CaseResult, Runner
from grader.executors.source_text import SourceText
from grader.executors.triton import configurations, triton_metrics, triton_report
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.plan import Plan
from grader.plan.model import Alloc, Free
from grader.scoring import memory_bounds
from grader.spec import ITEMSIZE, Variant
from grader.spec.blocks import GROWTH
from grader.spec.task import Task
from grader.status import Status

MEBIBYTE = 1 << 20
MOST_CONFIGURATIONS = 32  # measured of one kernel
MOST_EDGES = 4  # edge cases that are looked at where the spec's case is too much
_KEPT = 4  # further runs in the evidence, besides the one at other sizes
BESIDE = "a size drawn beside the case"
PLANNED = (PlannedNativeRunner, PlannedTritonRunner)
_Runner = TypeVar("_Runner", bound=PlannedTritonRunner | PlannedNativeRunner)


class Runs(ABC, Generic[_Runner]):
    """Runs of one variant with counted accesses."""

    def __init__(self, runner: _Runner) -> None:
        self.task: Task = runner.task
        self.runner = runner

    @property
    def plan(self) -> Plan:
        """The plan of the last run, which must have passed."""
        assert self.runner.plan is not None
        return self.runner.plan

    @abstractmethod
    def evidence(
        self, case: Case, without: Collection[int] = (), configuration: int | None = None
    ) -> MemoryEvidence:
        """Run a case; launches at the places `without` of the plan are left out."""

    def plan_of(self, case: Case) -> Plan | CaseResult:
        """The plan of a case of any size, or why there is none; nothing runs."""
        return self.runner.plans.planned(case, blank_arguments(self.task, case))

    def standing(self) -> Collection[int]:
        """The numbers of the last plan's configurations that a GPU may choose, as far as known."""
        return ()


class TritonRuns(Runs[PlannedTritonRunner]):
    """Runs of Triton kernels in the TTIR executor."""

    def evidence(
        self, case: Case, without: Collection[int] = (), configuration: int | None = None
    ) -> MemoryEvidence:
        """Run a case, and one at larger sizes where the spec bounds growth.

        A fault counts only if its configuration fits the GPU; else `standing` drops it.
        """
        observed = self._evidence(case, without, configuration)
        for _ in range(configurations.MAX_TRIED):
            is_fine = observed.status is Status.passed and not memory_bounds.shortfalls(
                observed, self.task.variant
            )
            if is_fine or not self.runner.tuning.learns():
                break
            if configuration is not None and configuration not in self.standing():
                break
            observed = self._evidence(case, without, configuration)
        return observed

    def standing(self) -> Collection[int]:
        """The numbers of the last plan's configurations that a GPU may choose, as far as known."""
        return self.runner.tuning.standing(self.plan)

    def _evidence(
        self, case: Case, without: Collection[int], configuration: int | None
    ) -> MemoryEvidence:
        block = self.task.variant.counted
        wave = block.wave_bytes.programs if block.wave_bytes is not None else 0
        report = self.runner.measure(case, wave, without, configuration)
        if isinstance(report, CaseResult):
            return _failed(report, case)
        grown = None
        if block.growth is not None:
            plan, larger = self.plan, _grown(case, block.growth.sizes)
            after = self._grown(larger, bool(without), configuration)
            self.runner.plan = plan
            if isinstance(after, CaseResult):
                return _failed(after, larger)
            grown = (larger, after)
        lines = self.runner.source.splitlines()
        return triton_metrics.measure(report, self.task, case, lines, grown)

    def _grown(
        self, larger: Case, leaves_out: bool, configuration: int | None
    ) -> triton_report.Report | CaseResult:
        """A run at larger sizes; `leaves_out` skips the launches that its result doesn't need."""
        report = self.runner.measure(larger, 0, (), configuration)
        if not leaves_out or isinstance(report, CaseResult):
            return report
        places = needless.places(self.plan, larger, self.runner.is_right_without)
        return self.runner.measure(larger, 0, places, configuration)


class NativeRuns(Runs[PlannedNativeRunner]):
    """Runs of CUDA C++ in the emulator."""

    def evidence(
        self, case: Case, without: Collection[int] = (), configuration: int | None = None
    ) -> MemoryEvidence:
        """Run a case; CUDA C++ has no configurations."""
        report = self.runner.measure(case, without)
        if isinstance(report, CaseResult):
            return _failed(report, case)
        lines = {pc: site.line for pc, site in (self.runner.program.sites or {}).items()}
        return cuda_metrics.measure(report, lines, self.task, case, self.plan)


def runs_of(runner: PlannedTritonRunner | PlannedNativeRunner) -> TritonRuns | NativeRuns:
    """The runs of a runner's variant."""
    if isinstance(runner, PlannedTritonRunner):
        return TritonRuns(runner)
    return NativeRuns(runner)


def keeps_its_lesson(runner: Runner, seed: int) -> bool:
    """Whether a right variant uses memory as its spec asks, in the spec's own case."""
    task = runner.task
    if task.variant.memory is None or not isinstance(runner, PLANNED):
        return True
    observed = runs_of(runner).evidence(case_of(task, seed))
    is_counted = observed.status is Status.passed
    return is_counted and not memory_bounds.shortfalls(observed, task.variant)


def case_of(task: Task, seed: int) -> Case:
    """The spec's case for a task's use of memory."""
    return fixed_case(task, task.variant.counted.case, seed)


def measure(runs: TritonRuns | NativeRuns, seed: int) -> MemoryEvidence:
    """The evidence of a variant's use of memory, from all runs that count."""
    case = case_of(runs.task, seed)
    first, without = _contributing(runs, case)
    if first.status in (Status.timed_out, Status.out_of_memory):
        return _seen_in_an_edge_case(runs, first, seed)
    if first.status is not Status.passed:
        return first
    names = configurations.names_of(runs.plan)
    further: list[MemoryEvidence] = []
    for number in runs.standing():
        if len(further) == MOST_CONFIGURATIONS:
            break
        observed = runs.evidence(case, without, number)
        if number in runs.standing():
            further.append(replace(observed, run=configurations.label(number, names)))
    note = _of_configurations(len(names), len(further), len(names) - len(runs.standing()))
    chosen = next((each.run for each in further if each.metrics == first.metrics), "")
    first = replace(first, run=chosen)  # a bound that it misses is told with its configuration
    beside = case_beside(runs.task, case)
    if beside is not None:
        sizes = " ".join(f"{name}={value}" for name, value in beside.sizes)
        other = replace(_contributing(runs, beside)[0], run=f"{BESIDE} ({sizes})")
        further.insert(0, other)
    evidence = _joined(first, further, runs.task.variant, note)
    if misplaced := _misplaced_padding(runs.runner.source, evidence):
        evidence = replace(evidence, notes=(*evidence.notes, misplaced))
    if untiled := _without_tiles(runs.runner.source, evidence, runs.task.variant):
        evidence = replace(evidence, notes=(*evidence.notes, untiled))
    return _with_most_memory(runs, evidence, seed)


def _seen_in_an_edge_case(
    runs: TritonRuns | NativeRuns, evidence: MemoryEvidence, seed: int
) -> MemoryEvidence:
    """A run that needs too much time or memory, with what counters say of a smaller case.

    It is the largest of the edge cases in which they say that the target is missed.
    """
    task, variant = runs.task, runs.task.variant
    spaces = [Space(task, variant.dtypes[0], each, seed) for each in variant.size_classes]
    edges = sorted(
        (case for e in spaces for case in e.edges()), key=lambda case: case.complexity, reverse=True
    )
    for edge in edges[:MOST_EDGES]:
        observed = runs.evidence(edge)
        if observed.status is Status.target_missed:
            missed = observed.reason.split("; ")[0]
            return replace(evidence, reason=f"{evidence.reason} With {edge}, {missed}.")
    return evidence


def _without_tiles(source: str, evidence: MemoryEvidence, variant: Variant) -> str:
    """A sentence on CUDA C++ that reads an argument too often and has no shared memory."""
    if variant.language != "cuda" or "__shared__" in SourceText(source, False).code:
        return ""
    short = memory_bounds.shortfalls(evidence, variant)
    missed = [judged.path[1] for _, judged in short if judged.path[0] == "reads"]
    if not missed:
        return ""
    return (
        f"The threads of a block fetch the same elements of {' and '.join(missed)}, each for "
        "itself. Let them bring a tile into __shared__ memory together, and all use it."
    )


_PADDED_BELOW = re.compile(r"__shared__\s+\w+\s+(\w+)\[([\w ]+?) \+ (\d+)\]\[(\w+)\]")


def _misplaced_padding(source: str, evidence: MemoryEvidence) -> str:
    """A sentence on an array whose rows are padded with a row, where its accesses conflict."""
    lines = source.split("\n")
    conflicting = [lines[e.line - 1] for e in evidence.lines if e.conflicts and e.line]
    for array, rows, more, length in _PADDED_BELOW.findall(source):
        if any(re.search(rf"\b{array}\[", line) for line in conflicting):
            return (
                f"`{array}[{rows} + {more}][{length}]` has a row more, and its rows are still "
                f"{length} long: elements of a column share a bank. Lengthen the rows: "
                f"`{array}[{rows}][{length} + {more}]`."
            )
    return ""


def _with_most_memory(
    runs: TritonRuns | NativeRuns, evidence: MemoryEvidence, seed: int
) -> MemoryEvidence:
    """The evidence, failed if the entry allocates more than the spec allows for a large case.

    Nothing runs: the plan lists the allocations.
    """
    block = runs.task.variant.counted.memory_pressure
    if block is None or evidence.status is not Status.passed:
        return evidence
    case = fixed_case(runs.task, block.case, seed)
    sizes = {**dict(case.sizes), "itemsize": ITEMSIZE[case.dtype]}
    leaves = int(block.leaves.evaluate(sizes))
    planned = runs.plan_of(case)
    if isinstance(planned, CaseResult):
        return _failed(planned, case)
    allocated = most_allocated(planned)
    metric = Metric("memory_pressure", allocated, f"bytes that the entry has at a time for {case}")
    metrics = (*evidence.metrics, metric)
    if allocated <= leaves:
        return replace(evidence, metrics=metrics)
    reason = (
        f"the entry allocates {allocated / MEBIBYTE:.0f} MiB on the GPU for {case}, where "
        f"{leaves / MEBIBYTE:.0f} MiB would be free. Is there a buffer that grows with the product "
        "of the sizes?"
    )
    return replace(evidence, status=Status.target_missed, reason=reason, metrics=metrics)


def most_allocated(planned: Plan) -> int:
    """The most bytes that host code has on the device at a time, over the plan's calls."""
    here = most = 0
    for step in (each for call in planned.calls for each in call):
        if isinstance(step, Alloc | Free):
            buffer = planned.buffers[step.buffer]
            if buffer.kind in ("device", "managed"):
                here += buffer.bytes if isinstance(step, Alloc) else -buffer.bytes
                most = max(most, here)
    return most


def _contributing(
    runs: TritonRuns | NativeRuns, case: Case
) -> tuple[MemoryEvidence, frozenset[int]]:
    """The evidence without the launches that the result doesn't need, and their places."""
    evidence = runs.evidence(case)
    if evidence.status is not Status.passed:
        return evidence, frozenset()
    plan = runs.plan
    places = needless.places(plan, case, runs.runner.is_right_without)
    if not places:
        return evidence, places
    notes = tuple(needless.sentences(plan, places, runs.task.variant.file))
    return replace(runs.evidence(case, places), notes=notes), places


def _joined(
    first: MemoryEvidence, further: Sequence[MemoryEvidence], variant: Variant, note: str
) -> MemoryEvidence:
    """One evidence of all runs: a failed run's, or else the worst ones'."""
    failed = next((each for each in further if each.status is not Status.passed), None)
    if failed is not None:
        return replace(first, status=failed.status, reason=f"with {failed.run}: {failed.reason}")
    kept: list[MemoryEvidence] = []
    for each in further:
        is_missed = bool(memory_bounds.shortfalls(each, variant))
        if each.run.startswith(BESIDE) or (is_missed and len(kept) < _KEPT):
            kept.append(each if is_missed else replace(each, lines=()))
    notes = [f"It is the same with {each.run}." for each in kept[:1] if each.lines == ()]
    if note:
        notes.append(note)
    return replace(first, notes=(*first.notes, *notes), further=tuple(kept))


def _of_configurations(count: int, measured: int, passed_over: int) -> str:
    """How many configurations of a tuned kernel were measured; "" where nothing is tuned."""
    left_out = f", {passed_over} don't compile for the GPU" if passed_over else ""
    note = f"Of {count} configurations {measured} were measured{left_out}; the worst counts."
    return note if count else ""


def _grown(case: Case, names: Collection[str]) -> Case:
    sizes = tuple((name, value * GROWTH if name in names else value) for name, value in case.sizes)
    return replace(case, sizes=sizes)


def _failed(result: CaseResult, case: Case) -> MemoryEvidence:
    what = result.verdict.what
    if result.status.is_failure:  # of a case that no part has
        sizes = " ".join(f"{name}={value}" for name, value in case.sizes)
        what = f"{what.rstrip('.')}. The sizes were {sizes}."
    return MemoryEvidence(result.status, what, str(case))

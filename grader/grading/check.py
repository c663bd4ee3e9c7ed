"""The shared phase of a grade: a task's correctness and its use of memory.

Many tasks are checked at a time, also on one GPU. Cases that run on the GPU hold its shared lock.
All others run without a lock, also while something is timed.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.cases import Case, Space
from grader.cases.compare import Verdict
from grader.evidence import MemoryEvidence, PartEvidence, VariantEvidence
from grader.executors.cuda import cuda_build
from grader.executors.runner import CaseResult, Compiled, Runner
from grader.gpu import locks
from grader.grading import memory_use, submitted
from grader.grading.search import failure_of_compile, one_case, search_part, spread
from grader.grading.session import Progress, Session, Step, unwatched
from grader.sandbox.worker_process import SandboxError
from grader.spec.task import Task
from grader.status import Status

EDGES_ON_A_GPU = 2  # cases of a part that is right by plan
MOST_TIMED_OUT = 3  # parts of a task, after which the other parts aren't run
BY_PLAN, ON_GPU = 0, 1  # a task's runners, in their order; with one alone it is the first
DIED_COMPILING = "the process that compiled the kernel for the GPU ended without an answer, twice."


def check(session: Session, task: Task, on_step: Progress = unwatched) -> VariantEvidence:
    """Check all parts of a task, and the use of memory of a right one."""
    on_step(Step.at(task))
    if task.variant.performance is not None:
        session.stopwatch.begin()
    evidence = session.blank_evidence(task)
    evidence = replace(evidence, parts=check_parts(session, task, task.parts, on_step))
    if task.variant.memory is None or evidence.correctness is not Status.passed:
        return evidence
    return replace(evidence, memory=check_memory(session, task, on_step))


def check_parts(
    session: Session, task: Task, parts: Sequence[tuple[str, str]], on_step: Progress = unwatched
) -> tuple[PartEvidence, ...]:
    """Check some parts of a task, named by dtype and size class; none of an unattempted task."""
    if session.not_attempted(task):
        return ()
    checked = TaskCheck(session, task, on_step).parts(parts)
    session.runners.close_variant(task)
    return tuple(checked)


def check_part(session: Session, task: Task, dtype: str, size_class: str) -> PartEvidence:
    """Check one part of a task; its workers stay for the next one."""
    [part] = TaskCheck(session, task).parts([(dtype, size_class)])
    return part


def check_case(session: Session, task: Task, case: Case) -> PartEvidence:
    """Check one given case of any sizes, for `grader check --case`."""
    if failures := session.rules.violations(task):
        return PartEvidence(case.dtype, "case", Status.policy_violation, failures=failures)
    space = replace(any_space(session, task, case.dtype), seed=case.seed)
    return TaskCheck(session, task).case(case, space)


def check_memory(session: Session, task: Task, on_step: Progress = unwatched) -> MemoryEvidence:
    """How a task with a `memory` block uses memory, as observed on a CPU.

    The evidence is meaningful only for a right task. Another process may still be checking that.
    """
    on_step(Step.at(task, "memory"))
    evidence = _memory(session, task)
    session.runners.close_variant(task)
    return evidence


def any_space(session: Session, task: Task, dtype: str) -> Space:
    """The cases of the exercise's first size class, for use where the class doesn't matter."""
    size_class = next(iter(task.exercise.sizes))
    return Space(task.exercise, task.variant, dtype, size_class, session.seed)


def _memory(session: Session, task: Task) -> MemoryEvidence:
    """A task's use of memory, by the accesses of one call."""
    if failures := session.rules.violations(task):
        return MemoryEvidence(Status.policy_violation, failures[0].what)
    in_cuda = task.variant.language == "cuda"
    if in_cuda and (reason := cuda_build.why_not("emulator")):
        return MemoryEvidence(Status.not_measured, reason)
    case = memory_use.case_of(task, session.seed)
    try:
        if in_cuda:
            runner = session.runners.planned_native(task)
            return memory_use.measure(memory_use.NativeRuns(task, runner), session.seed)
        data = session.files.read(task.variant.file)
        source = data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
        planned = session.runners.planned(task)
        runs = memory_use.TritonRuns(task, planned, source.splitlines())
        return memory_use.measure(runs, session.seed)
    except Exception:
        reason = traceback.format_exc(limit=-6)
        return MemoryEvidence(Status.grader_error, reason, str(case))


@dataclass(frozen=True)
class TaskCheck:
    """The check of one task."""

    session: Session
    task: Task
    on_step: Progress = unwatched

    def parts(self, names: Sequence[tuple[str, str]]) -> list[PartEvidence]:
        """Check parts by plan, then on the GPU, where there is one, those that didn't fail."""
        if failures := self.session.rules.violations(self.task):
            status = Status.policy_violation
            return [PartEvidence(*name, status, failures=failures) for name in names]
        spaces = [self._space(*name) for name in names]
        parts, chosen = self._by_plan(spaces)
        right = [number for number, part in enumerate(parts) if part.status is Status.passed]
        with locks.shared_on(self.session.device):  # once for the few cases of all these parts
            for number in right:
                parts[number] = self._then_on_gpu(spaces[number], parts[number], chosen[number])
        for number in {*range(len(parts))} - {*right}:
            if not parts[number].status.is_failure:
                parts[number] = self._then_on_gpu(spaces[number], parts[number])
        return parts

    def case(self, case: Case, space: Space) -> PartEvidence:
        """Run one given case by plan and then on the GPU, where there is one."""
        called = self.session.files.called
        observed: list[PartEvidence] = []
        for number in (BY_PLAN, ON_GPU):
            part = self._observed(
                (case.dtype, "case"), number, lambda runner: one_case(space, runner, case, called)
            )
            observed += [] if part is None else [part]
            if observed[-1].status.is_failure:
                return observed[-1]
        return _together(observed)

    def _by_plan(
        self, spaces: Sequence[Space]
    ) -> tuple[list[PartEvidence], list[list[Case] | None]]:
        """Each part's evidence by plan, and the cases that the GPU is to run if it is right.

        Each part is compiled while the next one runs.
        """
        parts: list[PartEvidence] = []
        chosen = []
        pending = None
        for space in spaces:
            part = self._searched(space, BY_PLAN)
            assert part is not None  # a task has a runner
            parts.append(part)
            chosen.append(self._chosen(space))
            # Started before the last part's result is awaited: a rerun of that then runs alone.
            following = self._compile_in_background()
            if pending:
                parts[-2] = self._with_compiled(parts[-2], pending)
            pending = following
        if pending:
            parts[-1] = self._with_compiled(parts[-1], pending)
        return parts, chosen

    def _then_on_gpu(
        self, space: Space, part: PartEvidence, chosen: list[Case] | None = None
    ) -> PartEvidence:
        """A part's evidence by plan joined with the GPU's, of all its cases or of `chosen` ones."""
        on_gpu = self._searched(space, ON_GPU, chosen)
        if on_gpu is None or on_gpu.status.is_failure:
            return on_gpu or part
        return _together([part, on_gpu])

    def _observed(
        self, name: tuple[str, str], number: int, observe: Callable[[Runner], PartEvidence]
    ) -> PartEvidence | None:
        """The evidence of `observe` with one of the task's runners; None if there are fewer.

        An error of the grader becomes grader_error and costs no points.
        """
        if reason := self.session.runners.why_none(self.task.variant):
            return PartEvidence(*name, Status.not_measured, reason=reason)
        try:
            runners = self.session.runners.of(self.task)
            if number >= len(runners):
                return None
            part = observe(runners[number])
        except SandboxError as error:
            reason = f"no worker could be started: {error}"
            return PartEvidence(*name, Status.grader_error, reason=reason)
        except Exception:
            reason = traceback.format_exc(limit=-6)
            return PartEvidence(*name, Status.grader_error, reason=reason)
        return self._with_folder_named(part) if part.status.is_failure else part

    def _searched(
        self, space: Space, number: int, chosen: list[Case] | None = None
    ) -> PartEvidence | None:
        """Run a part's edge cases and drawn ones, or `chosen` ones, and diagnose a failure.

        With one of the task's runners; None if there are fewer.
        """
        step = Step.at(self.task, f"{space.dtype} {space.size_class}")
        self.on_step(step)
        timed_out, key = self.session.timed_out_parts, f"{self.task} {number}"
        if timed_out[key] >= MOST_TIMED_OUT:
            reason = "not run: three other parts of this variant had run out of time"
            return PartEvidence(space.dtype, space.size_class, Status.timed_out, reason=reason)
        effort = self.session.effort
        if timed_out[key]:
            effort = replace(effort, shrink_timeouts=0)
        cases = 0

        def on_case() -> None:
            nonlocal cases
            cases += 1
            self.on_step(replace(step, cases=cases))

        called = self.session.files.called
        part = self._observed(
            (space.dtype, space.size_class),
            number,
            lambda runner: search_part(space, runner, effort, on_case, called, chosen),
        )
        timed_out[key] += part is not None and part.status is Status.timed_out
        return part

    def _chosen(self, space: Space) -> list[Case] | None:
        """The cases to run on the GPU of a part that is right by plan; None: all cases.

        For Triton, each case that was the first with its set of constants, dtypes and options, and
        a few edge cases.
        """
        planned = self.session.runners.opened(self.task)
        if planned is None:
            return None
        edges = spread(space.edges(), EDGES_ON_A_GPU)
        return list(dict.fromkeys([*planned.take_first_met(), *edges]))

    def _compile_in_background(self) -> Any:
        """Start compiling ahead of time what ran, where the kernels are in Triton."""
        runner = self.session.runners.opened(self.task)
        if runner is None or not self.session.effort.compile_ahead:
            return None
        return runner.compile_in_background()

    def _with_compiled(self, part: PartEvidence, pending: Any) -> PartEvidence:
        """The part with the results of compiling ahead of time."""
        runner = self.session.runners.planned(self.task)
        compiled = runner.compiled(pending)
        if compiled is None and part.status is Status.passed:
            again = runner.compile_in_background()
            compiled = runner.compiled(again) if again else None
            if compiled is None:  # on a GPU, the compiler runs in the kernel's process and kills it
                died = Verdict(Status.compile_error, DIED_COMPILING)
                compiled = Compiled(CaseResult(None, died))
        if compiled is None:
            return part
        if compiled.failure is None:
            return replace(part, reason=part.reason or compiled.note)
        space = self._space(part.dtype, part.size_class)
        failure = failure_of_compile(space, compiled.failure, self.session.files.called)
        if part.status is not Status.passed:
            return replace(part, failures=(*part.failures, failure))
        return replace(part, status=failure.status, failures=(failure,))

    def _with_folder_named(self, part: PartEvidence) -> PartEvidence:
        """A failed part, with a hint where an import needs a folder beside the file."""
        failures = []
        for failure in part.failures:
            name = submitted.missing_folder(self.session.submission, failure.what)
            if name and failure.status is Status.import_error:
                hint = (
                    "Folders aren't handed in with a file: move the modules of "
                    f"{name} beside {self.task.variant.file}."
                )
                failure = replace(failure, hint=hint)
            failures.append(failure)
        return replace(part, failures=tuple(failures))

    def _space(self, dtype: str, size_class: str) -> Space:
        return Space(self.task.exercise, self.task.variant, dtype, size_class, self.session.seed)


def _together(observed: Sequence[PartEvidence]) -> PartEvidence:
    """A part's evidence from that of each runner, none of which found a fault.

    A part that one runner can't decide, the other may.
    """
    decided = [part for part in observed if part.status is Status.passed]
    last = (decided or observed)[-1]
    return replace(
        last,
        cases_run=sum(part.cases_run for part in decided) if decided else last.cases_run,
        seconds=sum(part.seconds for part in observed),
    )

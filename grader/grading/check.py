"""The shared phase of a grade: a task's correctness and its use of memory.

Many tasks are checked at a time, also on one GPU. Cases that run on the GPU hold its shared lock.
All others run without a lock, also while something is timed.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.cases import Case, Space, oracle
from grader.cases.case import parse
from grader.cases.compare import Verdict
from grader.cases.oracle import OracleError
from grader.evidence import Failure, MemoryEvidence, PartEvidence, VariantEvidence
from grader.executors.cuda import cuda_build
from grader.executors.runner import CaseResult, Compiled, Runner
from grader.gpu import locks
from grader.grading import large_sizes, memory_use, submitted
from grader.grading.search import failure_of, line_in, one_case, search_part, spread
from grader.grading.session import Progress, Session, Step, unwatched
from grader.plan import Plan
from grader.sandbox.worker_process import SandboxError
from grader.spec.task import Task
from grader.status import Status

LEAST_ON_A_GPU = {"triton": 2, "cuda": 6}  # cases of a part that is right by plan
MOST_TIMED_OUT = 3  # parts of a task, after which the other parts aren't run
# Failures of a kernel in the case whose use of memory is counted, which a search explains.
WRONG = frozenset(
    [
        *(Status.wrong_values, Status.not_finite, Status.not_written, Status.modified_input),
        *(Status.wrote_out_of_bounds, Status.invalid_read, Status.uninitialised_read),
        *(Status.data_race, Status.barrier_error),
    ]
)
STANDS_ALONE = "it imports {}. In a class's grade each file stands alone, without that."
DIED_COMPILING = "the process that compiled the kernel for the GPU ended without an answer, twice."


def check(
    session: Session,
    task: Task,
    on_step: Progress = unwatched,
    at_large_sizes: bool = True,
) -> VariantEvidence:
    """Check all parts of a task, and the use of memory of a right one.

    What is wrong `at_large_sizes` costs no points; it may be left out.
    """
    on_step(Step.at(task))
    evidence = session.blank_evidence(task)
    try:
        evidence = replace(evidence, parts=_parts(session, task, task.parts, on_step))
        if evidence.correctness is not Status.passed:
            return evidence
        if task.variant.memory is not None:
            evidence = replace(evidence, memory=_memory(session, task, on_step))
        if evidence.memory is not None and evidence.memory.failures:
            return evidence
        failures = check_large_sizes(session, task, on_step) if at_large_sizes else ()
        return replace(evidence, at_large_sizes=failures)
    finally:
        session.runners.close_variant(task)


def check_parts(
    session: Session, task: Task, parts: Sequence[tuple[str, str]], on_step: Progress = unwatched
) -> tuple[PartEvidence, ...]:
    """Check some parts of a task, named by dtype and size class; none of an unattempted task."""
    checked = _parts(session, task, parts, on_step)
    session.runners.close_variant(task)
    return checked


def check_part(session: Session, task: Task, dtype: str, size_class: str) -> PartEvidence:
    """Check one part of a task; its workers stay for the next one."""
    [part] = TaskCheck(session, task).parts([(dtype, size_class)])
    return session.files.placed(task.variant, part)


def check_case(session: Session, task: Task, case: Case) -> PartEvidence:
    """Check one given case of any sizes, for `grader check --case`."""
    if failures := session.rules.violations(task):
        part = PartEvidence(case.dtype, "case", Status.policy_violation, failures=failures)
        return session.files.placed(task.variant, part)
    space = replace(any_space(session, task, case.dtype), seed=case.seed)
    called = session.files.called

    def checked() -> PartEvidence:
        return TaskCheck(session, task).by_each_runner(
            (case.dtype, "case"), lambda runner, _: one_case(space, runner, case, called)
        )

    part = checked()
    part = checked() if session.runners.is_refused_by_nvcc(task) else part
    return session.files.placed(task.variant, part)


def check_memory(session: Session, task: Task, on_step: Progress = unwatched) -> MemoryEvidence:
    """How a task with a `memory` block uses memory, as observed on a CPU.

    The evidence is meaningful only for a right task. Another process may still be checking that.
    """
    evidence = _memory(session, task, on_step)
    session.runners.close_variant(task)
    return evidence


def check_large_sizes(session: Session, task: Task, on_step: Progress) -> tuple[Failure, ...]:
    """What is wrong with a task at sizes that are planned only; it costs no points.

    Its workers stay.
    """
    on_step(Step.at(task, "large sizes"))
    if session.rules.violations(task):
        return ()
    return session.files.placed(task.variant, large_sizes.findings(session, task))


def chosen_for_a_gpu(space: Space, first_met: Sequence[Case]) -> list[Case]:
    """The cases to run on the GPU of a part that is right by plan.

    They are those that were first to launch something. Where these are few, edge cases are added:
    they have kernels to be compiled, but some of each size class have to meet the GPU.
    """
    chosen = list(dict.fromkeys(first_met))
    missing = LEAST_ON_A_GPU[space.task.variant.language] - len(chosen)
    return list(dict.fromkeys([*chosen, *spread(space.edges(), max(0, missing))]))


def own_trouble(error: Exception) -> str:
    """Why the grader itself failed; to be called where the error is handled."""
    if isinstance(error, SandboxError):
        return f"no worker could be started: {error}"
    if isinstance(error, OracleError):
        place = f"{oracle.ORACLES.name}:{error.line}: " if error.line else ""
        return f"{place}{error}; `grader author check` tries the course's own functions."
    return traceback.format_exc(limit=-6)


def any_space(session: Session, task: Task, dtype: str) -> Space:
    """The cases of the exercise's first size class, for use where the class doesn't matter."""
    return TaskCheck(session, task).space(dtype, next(iter(task.exercise.sizes)))


def _parts(
    session: Session, task: Task, parts: Sequence[tuple[str, str]], on_step: Progress
) -> tuple[PartEvidence, ...]:
    if session.not_attempted(task):
        return ()
    checked = TaskCheck(session, task, on_step).parts(parts)
    return session.files.placed(task.variant, tuple(checked))


def _memory(session: Session, task: Task, on_step: Progress) -> MemoryEvidence:
    on_step(Step.at(task, "memory"))
    counted = _counted(session, task)
    if counted.status in WRONG:
        counted = replace(counted, failures=_explained(session, task, counted.case))
    return session.files.placed(task.variant, counted)


def _explained(session: Session, task: Task, text: str) -> tuple[Failure, ...]:
    """Why a right kernel is wrong in the case whose use of memory is counted."""
    case = parse(text, task, session.seed)
    space = any_space(session, task, case.dtype)
    causes = session.causes[str(task)]
    effort = session.effort.on_a_busy_machine()

    def searched(runner: Runner, is_right: bool) -> PartEvidence:
        called = session.files.called
        return search_part(space, runner, effort, lambda: None, called, [case], causes)

    return TaskCheck(session, task).by_each_runner((case.dtype, "memory"), searched).failures


def _counted(session: Session, task: Task) -> MemoryEvidence:
    """A task's use of memory, by the accesses of one call."""
    if failures := session.rules.violations(task):
        return MemoryEvidence(Status.policy_violation, failures[0].what)
    in_cuda = task.variant.language == "cuda"
    if in_cuda and (reason := cuda_build.why_not("emulator")):
        return MemoryEvidence(Status.not_measured, reason)
    case = memory_use.case_of(task, session.seed)
    try:
        runner = session.runners.planned(task)
        counted = memory_use.measure(memory_use.runs_of(runner), session.seed)
        return _with_refusal(session, runner, counted)
    except Exception as error:
        return MemoryEvidence(Status.grader_error, own_trouble(error), str(case))


def _with_refusal(session: Session, runner: Runner, counted: MemoryEvidence) -> MemoryEvidence:
    """The use of memory, failed if the compiler for the GPU refuses a kernel that ran for it."""
    if counted.status is not Status.passed or not session.effort.compile_ahead:
        return counted
    pending = runner.compile_in_background()
    compiled = runner.compiled(pending) if pending else None
    if compiled is None or compiled.failure is None:
        return counted
    verdict = compiled.failure.verdict
    return replace(counted, status=verdict.status, reason=verdict.what)


def count(session: Session, task: Task) -> tuple[MemoryEvidence, Plan]:
    """What one run of a task at the case of its `memory` counts, and the plan of that run."""
    runs = memory_use.runs_of(session.runners.planned(task))
    observed = runs.evidence(memory_use.case_of(task, session.seed))
    plan = runs.plan
    session.runners.close_variant(task)
    return observed, plan


@dataclass(frozen=True)
class TaskCheck:
    """The check of one task."""

    session: Session
    task: Task
    on_step: Progress = unwatched

    def parts(self, names: Sequence[tuple[str, str]]) -> list[PartEvidence]:
        """Check parts one after the other; each is compiled while the next one runs."""
        if failures := self.session.rules.violations(self.task):
            status = Status.policy_violation
            return [PartEvidence(*name, status, failures=failures) for name in names]
        parts: list[PartEvidence] = []
        pending = None
        for dtype, size_class in names:
            parts.append(self.part(self.space(dtype, size_class)))
            self._tell_first_failure(parts)
            # Started before the last part's result is awaited: a rerun of that then runs alone.
            following = self._compile_in_background()
            if pending:
                parts[-2] = self._with_compiled(parts[-2], pending)
            pending = following
        if pending:
            parts[-1] = self._with_compiled(parts[-1], pending)
        if self.session.runners.is_refused_by_nvcc(self.task):
            self.session.timed_out_parts[str(self.task)] = 0
            return [self.part(self.space(*name)) for name in names]
        return parts

    def _tell_first_failure(self, parts: Sequence[PartEvidence]) -> None:
        """Report the last part where it is the first that fails, before the others are checked."""
        *before, last = parts
        if last.status.is_failure and not any(each.status.is_failure for each in before):
            placed = self.session.files.placed(self.task.variant, last)
            step = Step.at(self.task, f"{last.dtype} {last.size_class}")
            self.on_step(replace(step, failed=placed))

    def by_each_runner(
        self, name: tuple[str, str], observe: Callable[[Runner, bool], PartEvidence]
    ) -> PartEvidence:
        """The evidence of `observe` by plan and then on the GPU, where there is one.

        The first fault is the verdict; a part that one runner can't decide, the other may.
        `observe` gets a runner, and whether the part was right with another one. An error of the
        grader becomes grader_error and costs no points.
        """
        if reason := self.session.runners.why_none(self.task.variant):
            return PartEvidence(*name, Status.not_measured, reason=reason)
        observed: list[PartEvidence] = []
        try:
            for runner in self.session.runners.of(self.task):
                is_right = any(part.status is Status.passed for part in observed)
                observed.append(observe(runner, is_right))
                if observed[-1].status.is_failure:
                    return self._with_folder_named(observed[-1])
        except Exception as error:
            return PartEvidence(*name, Status.grader_error, reason=own_trouble(error))
        decided = [part for part in observed if part.status is Status.passed]
        last = (decided or observed)[-1]
        return replace(
            last,
            cases_run=sum(part.cases_run for part in decided) if decided else last.cases_run,
            seconds=sum(part.seconds for part in observed),
        )

    def part(self, space: Space) -> PartEvidence:
        """Run a part's edge cases and drawn ones, and diagnose a failure."""
        step = Step.at(self.task, f"{space.dtype} {space.size_class}")
        self.on_step(step)
        timed_out = self.session.timed_out_parts
        if timed_out[str(self.task)] >= MOST_TIMED_OUT:
            reason = "not run, since other parts ran out of time"
            return PartEvidence(space.dtype, space.size_class, Status.timed_out, reason=reason)
        effort = self.session.effort.on_a_busy_machine()
        if timed_out[str(self.task)]:
            effort = replace(effort, shrink_timeouts=0)
        cases = 0

        def on_case() -> None:
            nonlocal cases
            cases += 1
            self.on_step(replace(step, cases=cases))

        by_plan: list[Runner] = []

        def observe(runner: Runner, is_right_by_plan: bool) -> PartEvidence:
            called, causes = self.session.files.called, self.session.causes[str(self.task)]
            if not is_right_by_plan:
                by_plan.append(runner)
                return search_part(space, runner, effort, on_case, called, None, causes)
            launches = by_plan[-1].launches
            first_met = launches.take_first_met() if launches else []
            chosen = chosen_for_a_gpu(space, first_met)
            runner.expect(chosen)  # compiles, while others may time something
            with locks.shared_on(self.session.device):  # once for all of these few cases
                return search_part(space, runner, effort, on_case, called, chosen, causes)

        part = self.by_each_runner((space.dtype, space.size_class), observe)
        if names := self.session.files.imported(self.task.variant):
            part = replace(part, notes=(*part.notes, STANDS_ALONE.format(" and ".join(names))))
        if part.status is Status.passed:
            part = self._with_launches(part)
        if part.status is Status.timed_out:
            timed_out[str(self.task)] += 1
            self.session.causes[str(self.task)].endless = line_in(part.failures)
        return part

    def _with_launches(self, part: PartEvidence) -> PartEvidence:
        """A part that passed, with the launches at large sizes that the spec names for it."""
        try:
            return large_sizes.with_launches(self.session, self.task, part)
        except Exception as error:
            return replace(part, status=Status.grader_error, reason=own_trouble(error))

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
        space = self.space(part.dtype, part.size_class)
        failure = failure_of(space, compiled.failure, self.session.files.called)
        if part.status is not Status.passed:
            return replace(part, failures=(*part.failures, failure))
        return replace(part, status=failure.status, failures=(failure,))

    def _with_folder_named(self, part: PartEvidence) -> PartEvidence:
        """A failed part, with a hint where an import needs a folder beside the file."""
        failures = []
        for failure in part.failures:
            name = submitted.missing_folder(self.session.submission, failure.what)
            if name and failure.status is Status.import_error:
                file = self.task.variant.file
                hint = f"Folders aren't handed in with a file: put what it needs into {file}."
                failure = replace(failure, hint=hint)
            failures.append(failure)
        return replace(part, failures=tuple(failures))

    def space(self, dtype: str, size_class: str) -> Space:
        """The cases of a part."""
        return Space(self.task.of_dtype(dtype), dtype, size_class, self.session.seed)

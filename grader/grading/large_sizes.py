"""Large sizes of a task: planned, held to the GPU's limits, and never run as a whole.

    sizes that a spec names     a launch that CUDA refuses there is a failure of the size class, and
                                so is host code that raises, or that launches nothing
    the sizes of cases/large.py     what is wrong there is told, and costs no points

Planning costs no data. Where a tensor has more than 2^31 elements, a few blocks or programs run on
addresses without memory, so that an index that has wrapped at 32 bits is seen.
"""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from grader.cases import Case, Space, large
from grader.evidence import Failure, PartEvidence
from grader.executors.cuda import cuda_build
from grader.executors.large_sizes import NOTHING, OF_HOST_CODE
from grader.executors.runner import CaseResult
from grader.grading import by_words
from grader.grading.search import failure_of, reproduce_line
from grader.grading.session import Session
from grader.sandbox.worker_process import SandboxError
from grader.spec.course import option_for
from grader.spec.task import Task
from grader.status import Status

_Probe = Callable[[Case], CaseResult | None]


def with_launches(session: Session, task: Task, part: PartEvidence) -> PartEvidence:
    """A part that passed, failed if a call has no plan, or a refused one, at a size of the spec."""
    cases = large.named_cases(task, part.dtype, part.size_class, session.seed)
    if part.status is not Status.passed or not cases or not _can_plan(task):
        return part
    runner = session.runners.planned(task)
    with runner.large_sizes() as sizes:
        refused = next(filter(None, map(sizes.launch_fault, cases)), None)
    if refused is None:
        return replace(part, cases_run=part.cases_run + len(cases))
    failure = _failure(session, task, runner.source, refused)
    return replace(
        part,
        status=failure.status,
        cases_run=part.cases_run + len(cases),
        cases_failed=1,
        failures=(failure,),
    )


def findings(session: Session, task: Task) -> tuple[Failure, ...]:
    """What is wrong with a right task at large sizes; one finding of each kind at a line."""
    if not _can_plan(task):
        return ()
    try:
        runner = session.runners.planned(task)
        with runner.large_sizes() as sizes:
            probes: Sequence[tuple[_Probe, Sequence[Case]]] = (
                (sizes.launch_fault, large.graded_cases(task, session.seed)),
                (sizes.fault, large.beyond_int(task, session.seed)),
                (sizes.loop_fault, large.at_grid_limits(task, session.seed)),
            )
            results = list(_distinct(probes))
    except SandboxError:  # nothing of the submission's
        return ()
    except Exception:
        reason = traceback.format_exc(limit=-6)
        return (Failure(Status.grader_error, "", reason),)
    return tuple(map(partial(_failure, session, task, runner.source), results))


def _distinct(probes: Sequence[tuple[_Probe, Sequence[Case]]]) -> Iterator[CaseResult]:
    known: set[tuple[bool, int | None]] = set()
    for probe, cases in probes:
        for result in filter(None, map(probe, cases)):
            # A wrapped index mostly shows at several lines: the first one is where to begin.
            key = _of_launch(result), result.line if _of_launch(result) else None
            if key not in known:
                known.add(key)
                yield result


def _of_launch(result: CaseResult) -> bool:
    """Whether it is about launches as such, which planning shows."""
    refusals = (Status.launch_error, Status.compile_error, *OF_HOST_CODE)
    return result.status in refusals or result.verdict.pattern == NOTHING


def _failure(session: Session, task: Task, source: str, result: CaseResult) -> Failure:
    """A result in words. Planning repeats a launch; all else, checking the variant again."""
    size_class = next(iter(task.variant.size_classes))
    assert result.case is not None
    space = Space(task, result.case.dtype, size_class, session.seed)
    failure = failure_of(space, result, session.files.called, source)
    if named := by_words.cause_of(result, source, task.variant.language):
        code = named.code or failure.code
        failure = replace(failure, cause=named.what, hint=named.advice, code=code)
    if _of_launch(result):
        called = session.files.called
        return replace(failure, reproduce=reproduce_line(space, result.case, called, "plan"))
    where = f" --submission {shlex.quote(called)}" if (called := session.files.called) else ""
    where += option_for(task.exercise)
    return replace(failure, reproduce=f"grader check {task}{where}")


def _can_plan(task: Task) -> bool:
    """Whether planning costs no data, and this machine can plan."""
    in_triton = task.variant.language == "triton"
    return large.is_plannable(task) and (in_triton or not cuda_build.why_not("emulator"))

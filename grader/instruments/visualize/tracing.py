"""A variant's run on a small case, without a GPU, with each access to memory recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from grader.cases import Case, inputs
from grader.cases.arena import Slot
from grader.executors.cuda.joining import Joined
from grader.executors.runner import CaseResult, Runner
from grader.executors.trace import Trace
from grader.grading.session import Session
from grader.mistakes import Mistake
from grader.sandbox import untrusted
from grader.spec.task import Task

MAX_LANES = 1 << 23  # lanes' accesses of a run that a page can step through
# Elements of all tensors of a case that nobody has chosen. Triton's cases for memory may be larger:
# an event is a whole block's access there.
ELEMENTS = {"cuda": 1 << 13, "triton": 1 << 18}
_TRIES = 4  # each with half as many elements


class NothingToDraw(Mistake, ValueError):
    """There is no picture of a variant: the message says why."""


@dataclass(frozen=True)
class Run:
    """A run of a variant, with its accesses. `slots` are its tensors, by place in the signature.

    `source` is the text that ran; `lab` says of which files, where they are several. `wrong` is
    what the run shows to be wrong, or "".
    """

    task: Task
    case: Case
    result: CaseResult
    trace: Trace
    slots: dict[int, Slot]
    source: str
    lab: Joined | None
    wrong: str

    def place(self, line: int) -> str:
        """The file and line of a line of `source`: `helper.cuh:8`."""
        file = self.task.variant.file
        return ":".join(map(str, self.lab.place(line) if self.lab else (file, line)))


def traced(session: Session, task: Task, chosen: Case, is_given: bool) -> Run:
    """A variant's run on a case; one that isn't `is_given` is made smaller until it can be drawn.

    Raises NothingToDraw, and SandboxError, BuildError or ToolchainError as running does.
    """
    if reason := session.not_attempted(task):
        raise NothingToDraw(f"{task}: not attempted: {reason}")
    if reason := session.runners.why_none(task.variant):
        raise NothingToDraw(f"{task}: {reason}")
    runner = session.runners.of(task)[0]
    for case in [chosen] if is_given else _smaller_and_smaller(task, chosen):
        run = None if _elements(task, case) > MAX_LANES else _run(session, task, runner, case)
        if run is not None:
            return run
    advice = "Choose a smaller one with --case." if is_given else "No smaller case fits either."
    raise NothingToDraw(f"{task}: {chosen} makes too many accesses to draw. {advice}")


def _run(session: Session, task: Task, runner: Runner, case: Case) -> Run | None:
    """A run that can be drawn; None where it makes too many accesses."""
    made = runner.trace(case)
    assert made is not None  # it runs on the CPU
    result, trace = made.result, made.trace
    said = f"{result.status.headline}: {result.verdict.what}"
    wrong = "" if result.verdict.passed else session.files.placed(task.variant, said)
    if trace is None or not any(launch.events for launch in trace.launches):
        why = f"{task.variant.entry} launches no kernel for {case}"
        if wrong:
            where = f"{task.variant.file}:{result.line}" if result.line else str(task)
            raise NothingToDraw(f"{session.files.placed(task.variant, where)}: {wrong}")
        raise NothingToDraw(f"{task}: {why}")
    if trace.cut or trace.lanes > MAX_LANES:
        return None
    tensors = inputs.blank(task, case).order
    slots = {place: each for place, each in enumerate(tensors) if isinstance(each, Slot)}
    source, lab = untrusted.clean(runner.source), session.files.lab(task.variant)
    return Run(task, case, result, trace, slots, source, lab, wrong)


def _smaller_and_smaller(task: Task, case: Case) -> Iterator[Case]:
    """A case with fewer and fewer elements; Triton's for memory as it is, first."""
    most = ELEMENTS[task.variant.language]
    if task.variant.memory is not None and task.variant.language == "triton":
        yield case
    for _ in range(_TRIES):
        yield (case := shrunk(task, case, most))
        most //= 2


def shrunk(task: Task, case: Case, most: int) -> Case:
    """A case with its largest size halved until its tensors have at most so many elements.

    Sizes of which a spec allows a few only stay as they are.
    """
    may_shrink = {
        name
        for name in task.exercise.sizes_names
        if any(rule.choices is None for rule in task.exercise.rules_of(name))
    }
    while _elements(task, case) > most:
        sizes = {name: size for name, size in case.sizes if name in may_shrink and size > 1}
        if not sizes:
            break
        largest = max(sizes, key=lambda name: sizes[name])
        case = case.with_size(largest, (sizes[largest] + 1) // 2)
    return case


def _elements(task: Task, case: Case) -> int:
    return sum(math.prod(each.shape) for each in inputs.blank(task, case).slots)

"""The rules of the assignment, enforced on a task's file before any of it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from grader import policy
from grader.evidence import Failure
from grader.grading import source_reading
from grader.grading.submitted import Files
from grader.policy.cuda.findings import instead_of
from grader.spec.task import Task
from grader.status import Status

MOST = 12  # violations in one message
# Rules on what lines do together: a place in a course's header may be a student's doing.
_OF_THE_WHOLE_FILE = ("unreadable", "preprocessor")


class Enforcement:
    """The rules that a submission is held to, and its violations."""

    def __init__(self, files: Files, lifted: Iterable[str], is_on: bool) -> None:
        """`lifted` names exercises and variants that may break rules; unless `is_on`, all may."""
        self._files = files
        self._lifted = frozenset(lifted)
        self._is_on = is_on
        self._violations: dict[str, tuple[Failure, ...]] = {}

    def are_lifted(self, task: Task) -> bool:
        """Whether a task may break the rules."""
        return bool({task.exercise.name, str(task)} & self._lifted)

    def apply_to(self, task: Task) -> bool:
        """Whether a task's plans must also keep the rules."""
        return self._is_on and not self.are_lifted(task)

    def violations(self, task: Task) -> tuple[Failure, ...]:
        """The violations in a task's file, which is then not run."""
        data = self._files.read(task.variant.file)
        if not self.apply_to(task) or isinstance(data, str):
            return ()
        if str(task) not in self._violations:
            self._violations[str(task)] = violations_of(
                task, data, self._files.is_given(task.variant)
            )
        return self._violations[str(task)]


def violations_of(
    task: Task, data: bytes, is_given: Callable[[int], bool] = lambda line: False
) -> tuple[Failure, ...]:
    """A file's violations as one failure of all the task's parts; () for none.

    `is_given` tells the lines of the course's own headers, which no student answers for.

    A Python file has none: host code is judged by its plan. A CUDA file is one program, so each
    variant in it answers for the whole file.
    """
    file = task.variant.file
    if task.variant.language != "cuda":
        return ()
    # Compilers accept any bytes in comments and strings; the rules concern ASCII.
    text = data.decode("utf-8-sig", "replace")
    every = _checked(policy.cuda.check, text, task.rules)
    violations = [e for e in every if e.rule in _OF_THE_WHOLE_FILE or not is_given(e.line)]
    if not violations:
        return ()
    first, *others = violations
    lines = [f"{file}:{each.line}: {each.message}" for each in others[:MOST]]
    if len(others) > MOST:
        lines.append(f"and {len(others) - MOST} more")
    detail = "\n".join(["It breaks rules in other lines too:", *lines]) if lines else ""
    return (
        Failure(
            status=Status.policy_violation,
            case="",
            what=f"{first.message} (rule: {first.rule}).",
            where=f"{file}:{first.line}",
            hint=first.instead,
            detail=detail,
        ),
    )


def _checked(check: Callable[..., list[policy.Violation]], *given: Any) -> list[policy.Violation]:
    """A check's violations, from a process with limits; exceeding them is the one violation."""
    try:
        violations = source_reading.limited(lambda: [asdict(each) for each in check(*given)])
    except source_reading.TooInvolved as error:
        message = f"the file is too involved to be read: {error}"
        return [policy.Violation("unreadable", 1, 1, message, instead_of("unreadable"))]
    return [policy.Violation(**each) for each in violations]

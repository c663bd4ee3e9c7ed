"""The rules on CUDA C++, applied to one variant's file before anything of it is compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from grader import policy
from grader.evidence import Failure
from grader.grading import source_reading
from grader.policy.cuda.findings import instead_of
from grader.spec import Exercise, Variant
from grader.status import Status

MOST = 12  # violations told in one message


def find(exercise: Exercise, variant: Variant, data: bytes) -> tuple[Failure, ...]:
    """What of a variant breaks the rules, as the one failure of all its parts; () for nothing.

    `data` is the file. Of Python no file breaks any: what host code may do is judged by its plan.
    A CUDA file is one program, so every variant in it answers for all of it.
    """
    if variant.language != "cuda":
        return ()
    # Compilers take any bytes in comments and texts; the rules are about what is ASCII.
    text = data.decode("utf-8-sig", "replace")
    found = _checked(policy.cuda.check, text, exercise.rules_of(variant))
    if not found:
        return ()
    first, *others = found
    lines = [f"{variant.file}:{each.line}: {each.message}" for each in others[:MOST]]
    if len(others) > MOST:
        lines.append(f"and {len(others) - MOST} more")
    detail = "\n".join(["It breaks rules in other lines too:", *lines]) if lines else ""
    return (
        Failure(
            status=Status.policy_violation,
            case="",
            what=f"{first.message} (rule: {first.rule}).",
            where=f"{variant.file}:{first.line}",
            hint=first.instead,
            detail=detail,
        ),
    )


def _checked(check: Callable[..., list[policy.Violation]], *given: Any) -> list[policy.Violation]:
    """What a check finds, in a process with limits; where it doesn't end, that is the violation."""
    try:
        found = source_reading.limited(lambda: [asdict(each) for each in check(*given)])
    except source_reading.TooInvolved as error:
        message = f"the file is too involved to be read: {error}"
        return [policy.Violation("unreadable", 1, 1, message, instead_of("unreadable"))]
    return [policy.Violation(**each) for each in found]

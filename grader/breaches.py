"""The rules of the assignment, applied to one variant's file before anything of it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from grader import policy, source_reading
from grader.evidence import Failure
from grader.policy.findings import instead_of
from grader.spec import Exercise, Tensor, Variant
from grader.status import Status

MOST = 12  # breaches told in one message


def find(
    exercise: Exercise, variant: Variant, data: bytes, by_plan: bool = False
) -> tuple[Failure, ...]:
    """What of a variant breaks the rules, as the one failure of all its parts; () for nothing.

    `data` is the file; `by_plan` says that its host code runs where there is no data. Of a Python
    file only what the entry reaches counts; a CUDA file is one program, so every variant in it
    answers for all of it.
    """
    found = _violations(exercise, variant, data, by_plan)
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


def _violations(
    exercise: Exercise, variant: Variant, data: bytes, by_plan: bool
) -> list[policy.Violation]:
    rules = exercise.rules_of(variant)
    if variant.language == "cuda":
        # Compilers take any bytes in comments and texts; the rules are about what is ASCII.
        text = data.decode("utf-8-sig", "replace")
        return _checked(policy.cuda.check, text, rules, by_plan)
    try:
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if variant.language == "triton" and _names_an_encoding(data):
            return [_unreadable("the file is not UTF-8")]
        return []  # nor does Python read it: loading it says where
    tensors = [isinstance(argument, Tensor) for argument in exercise.signature(variant)]
    return _checked(policy.check, source, variant.entry, rules, tensors)


def _checked(check: Callable[..., list[policy.Violation]], *given: Any) -> list[policy.Violation]:
    """What a check finds, in a process with limits; where it doesn't end, that is the breach."""
    try:
        found = source_reading.limited(lambda: [asdict(each) for each in check(*given)])
    except source_reading.TooInvolved as error:
        return [_unreadable(f"the file is too involved to be read: {error}")]
    return [policy.Violation(**each) for each in found]


def _names_an_encoding(data: bytes) -> bool:
    """Whether one of the first two lines says how the file is encoded, as PEP 263 has it."""
    return any(b"coding" in line for line in data.splitlines()[:2])


def _unreadable(message: str) -> policy.Violation:
    return policy.Violation("unreadable", 1, 1, message, instead_of("unreadable"))

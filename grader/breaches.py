"""The rules of the assignment, applied to one variant's file before anything of it runs."""

from __future__ import annotations

from grader import policy
from grader.evidence import Failure
from grader.spec import Exercise, Tensor, Variant
from grader.status import Status

MOST = 12  # breaches told in one message


def find(exercise: Exercise, variant: Variant, data: bytes) -> tuple[Failure, ...]:
    """What of a variant breaks the rules, as the one failure of all its parts; () for nothing.

    `data` is the file. Rules exist for Python files; those of CUDA files come with their compiler.
    """
    if variant.language != "triton":
        return ()
    try:
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ()  # nor does Python read it: loading it says where
    tensors = [isinstance(argument, Tensor) for argument in exercise.signature(variant)]
    found = policy.check(source, variant.entry, exercise.rules_of(variant), tensors)
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

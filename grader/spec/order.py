"""The order of the exercises: `order:` of a course.yaml.

That of a course has the order in which exercises are listed everywhere. A class's own course.yaml
may have another.

    order: [gelu, silu, softmax]

Exercises that aren't named follow in their previous order. An unknown name and a repeated name are
mistakes:

    course.yaml:5: order[2]: expected each exercise once, got 'silu' again; line 4 has it
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, TypeVar

from pydantic import BeforeValidator

from grader.spec.document import Document
from grader.spec.formula import as_written
from grader.spec.values import Mistake, hint, unexpected

T = TypeVar("T")


def _exercise_name(value: object) -> str:
    if not isinstance(value, str):
        raise unexpected("the name of an exercise", value)
    return value


# Any names, as in a course.yaml; mistakes_in checks them.
Order = tuple[Annotated[str, BeforeValidator(_exercise_name)], ...]


def in_order(exercises: Mapping[str, T], order: Sequence[str]) -> dict[str, T]:
    """The exercises with those that `order` names first, and the others as they were."""
    named = [name for name in order if name in exercises]
    return {name: exercises[name] for name in dict.fromkeys((*named, *exercises))}


def mistakes_in(
    order: Sequence[str], known: Collection[str], document: Document
) -> Iterator[Mistake]:
    """The mistakes in an `order` of a document, besides its form."""
    for index, name in enumerate(order):
        if name not in known:
            wanted = f"the name of an exercise, one of {', '.join(known)}"
            message = f"expected {wanted}, got {as_written(name)}{hint(name, known)}"
            yield Mistake(("order", index), message)
        elif (first := order.index(name)) < index:
            line = document.lines.get(("order", first), 0)
            message = f"expected each exercise once, got {name!r} again; line {line} has it"
            yield Mistake(("order", index), message)

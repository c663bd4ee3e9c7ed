"""Numbers that follow from sizes (`derived`), written out in the formulas that use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader.spec.formula import Formula, Relation
from grader.spec.values import Block


def resolved_definitions(derived: Mapping[str, Formula]) -> dict[str, Formula]:
    """Each number as a formula over sizes alone; one may use those before it."""
    resolved: dict[str, Formula] = {}
    for name, formula in derived.items():
        resolved[name] = formula.with_definitions(resolved)
    return resolved


def with_definitions(value: Any, definitions: Mapping[str, Formula]) -> Any:
    """A part of a spec with the definitions written out in its formulas; their texts stay."""
    if isinstance(value, (Formula, Relation)):
        return value.with_definitions(definitions)
    if isinstance(value, Block):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        changed = {name: with_definitions(each, definitions) for name, each in fields.items()}
        different = {name: each for name, each in changed.items() if each is not fields[name]}
        return value.model_copy(update=different) if different else value
    if isinstance(value, tuple):
        items = tuple(with_definitions(each, definitions) for each in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, Mapping):
        entries = {key: with_definitions(each, definitions) for key, each in value.items()}
        return value if all(entries[key] is value[key] for key in entries) else entries
    return value

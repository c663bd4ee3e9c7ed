"""The sizes of a class that are tried: edges first, which are always run, and drawn ones.

`where` are the relations that a case's sizes have to meet, such as `H >= R`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence

from grader.spec.blocks import SizeRule
from grader.spec.formula import FormulaError, Relation

Rules = Mapping[str, SizeRule]


def edge_sizes(rule: SizeRule) -> list[int]:
    """The edges of a rule: its ends, 1 to 3, and around powers of two; 0 where it may be."""
    zero = [0] if rule.or_zero else []
    if rule.choices is not None:
        return [*zero, *rule.choices]
    candidates = {rule.low, rule.high, 1, 2, 3}
    for k in range(1, rule.high.bit_length() + 1):
        candidates |= {2**k - 1, 2**k, 2**k + 1}
    candidates |= {rule.low + rule.multiple_of}
    return zero + sorted(size for size in candidates if size and rule.contains(size))


def named_sizes(rule: SizeRule, numbers: Collection[int], beside: int) -> set[int]:
    """The sizes of a rule at numbers, or so far beside them, and at multiples in the rule's steps.

    Edges are left out.
    """
    sizes = {math.lcm(number, rule.multiple_of) + beside for number in numbers}
    sizes |= {number + beside for number in numbers}
    return {size for size in sizes if rule.contains(size)}.difference(edge_sizes(rule))


def meet(where: Sequence[Relation], sizes: Mapping[str, int]) -> bool:
    """Whether the sizes meet every relation; not, where one has no value."""
    try:
        return all(each.holds(sizes) for each in where)
    except FormulaError:
        return False


def edges(rules: Rules, where: Sequence[Relation], turns: int) -> Iterator[dict[str, int]]:
    """The edge cases' sizes, `turns` of them or more: all sizes go through their edges together.

    Where these don't meet a relation, one size takes another of its edges; where that doesn't help,
    the turn is left out.
    """
    values = {name: edge_sizes(rule) for name, rule in rules.items()}
    for index in range(max(turns, *map(len, values.values()))):
        sizes = {
            name: each[(index + place) % len(each)]
            for place, (name, each) in enumerate(values.items())
        }
        if meet(where, sizes):
            yield sizes
            continue
        others = ({**sizes, name: value} for name in values for value in values[name])
        near = next((other for other in others if meet(where, other)), None)
        if near is not None:
            yield near


def is_exhausted(rules: Rules) -> bool:
    """Whether the edge cases have every combination of the sizes."""
    combinations = math.prod(_count(rule) for rule in rules.values())
    return combinations == len({tuple(sizes.items()) for sizes in edges(rules, (), 1)})


def _count(rule: SizeRule) -> int:
    """How many values a size has."""
    if rule.choices is not None:
        return len(rule.choices) + rule.or_zero
    return rule.high // rule.multiple_of - (rule.low - 1) // rule.multiple_of + rule.or_zero


def extremes(rules: Rules) -> Iterator[dict[str, int]]:
    """Each size at its lowest or its highest, in every combination; relations may not be met."""
    for ends in itertools.product(*((rule.low, rule.high) for rule in rules.values())):
        yield dict(zip(rules, ends, strict=True))


def drawn(rules: Rules, chooser: random.Random) -> dict[str, int]:
    """Sizes that the rules allow; relations may not."""
    sizes = {}
    for name, rule in rules.items():
        step = rule.multiple_of
        sizes[name] = (
            chooser.choice(rule.choices)
            if rule.choices is not None
            else step * chooser.randint(rule.low // step, rule.high // step)
        )
    return sizes

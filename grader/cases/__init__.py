"""The inputs of a case: drawn, placed in shared memory, and judged after a run."""

from grader.cases.case import (
    MAX_SIZE,
    Case,
    CaseError,
    Space,
    agrees,
    drawn_case,
    fixed_case,
    named_cases,
    parse,
)
from grader.spec.drawn_sizes import edge_sizes

__all__ = [
    "MAX_SIZE",
    "Case",
    "CaseError",
    "Space",
    "agrees",
    "drawn_case",
    "edge_sizes",
    "fixed_case",
    "named_cases",
    "parse",
]

"""The inputs of a case: drawn, placed in shared memory, and judged after a run."""

from grader.cases.case import (
    Case,
    CaseError,
    Space,
    agrees,
    drawn_case,
    fixed_case,
    named_cases,
    parse,
)

__all__ = [
    "Case",
    "CaseError",
    "Space",
    "agrees",
    "drawn_case",
    "fixed_case",
    "named_cases",
    "parse",
]

"""Inputs of a case: drawn, filled, placed in memory that is shared, and judged afterwards."""

from grader.cases.case import (
    MAX_SIZE,
    Case,
    CaseError,
    Space,
    agrees,
    edge_sizes,
    fixed_case,
    parse,
)

__all__ = [
    "MAX_SIZE",
    "Case",
    "CaseError",
    "Space",
    "agrees",
    "edge_sizes",
    "fixed_case",
    "parse",
]

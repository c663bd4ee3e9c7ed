"""Exercises from their YAML files: read, checked, and ready to use."""

from grader.spec.blocks import (
    OF_BASELINE,
    Bound,
    Limits,
    Memory,
    Milliseconds,
    Performance,
    Scalar,
    Size,
    SizeRule,
    Tensor,
    Threshold,
    Tolerance,
)
from grader.spec.course import EXERCISES, Course, load_all
from grader.spec.exercise import Exercise, Variant, load
from grader.spec.values import ITEMSIZE, SpecError

__all__ = [
    "EXERCISES",
    "ITEMSIZE",
    "OF_BASELINE",
    "Bound",
    "Course",
    "Exercise",
    "Limits",
    "Memory",
    "Milliseconds",
    "Performance",
    "Scalar",
    "Size",
    "SizeRule",
    "SpecError",
    "Tensor",
    "Threshold",
    "Tolerance",
    "Variant",
    "load",
    "load_all",
]

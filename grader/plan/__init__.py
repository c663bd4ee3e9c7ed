"""Plans: what a submission's host code asks of the device, without data.

An untrusted planner, which has neither data nor a GPU, writes a plan. `read` parses it as untrusted
bytes, `violations` applies the rules, and an executor runs it.
"""

from grader.plan.model import Buffer, KernelName, Launch, Plan, Specialisation, Step
from grader.plan.reader import Limits, PlanError, PlanTooLarge, read, to_json
from grader.plan.rules import (
    Allowed,
    Layout,
    Violation,
    allow,
    copies_alone,
    copies_to_arguments,
    repeats,
    violations,
)
from grader.plan.stream_order import left_running, reorder, streams
from grader.plan.text import difference, lines, summary

__all__ = [
    "Allowed",
    "Buffer",
    "KernelName",
    "Launch",
    "Layout",
    "Limits",
    "Plan",
    "PlanError",
    "PlanTooLarge",
    "Specialisation",
    "Step",
    "Violation",
    "allow",
    "copies_alone",
    "copies_to_arguments",
    "difference",
    "left_running",
    "lines",
    "read",
    "reorder",
    "repeats",
    "streams",
    "summary",
    "to_json",
    "violations",
]

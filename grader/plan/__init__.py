"""Plans: what host code of a submission asks of the device, without any data.

A planner (an untrusted process with neither data nor a GPU) writes one, `read` takes it as
untrusted bytes, `violations` holds it to the rules, an executor runs it.
"""

from grader.plan.differences import difference
from grader.plan.model import ITEM_BYTES, Buffer, KernelName, Launch, Plan, Specialisation, Step
from grader.plan.order import reorder, streams
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
from grader.plan.text import Line, lines, summary

__all__ = [
    "ITEM_BYTES",
    "Allowed",
    "Buffer",
    "KernelName",
    "Launch",
    "Layout",
    "Limits",
    "Line",
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
    "lines",
    "read",
    "reorder",
    "repeats",
    "streams",
    "summary",
    "to_json",
    "violations",
]

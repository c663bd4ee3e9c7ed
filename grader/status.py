"""The verdicts. Every check in every report ends in one of these."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Status(str, Enum):
    """The verdict on one check, variant or case.

    Members are in order of precedence: if two cases of a check fail differently, the first status
    is the more useful one to fix.
    """

    grader_error = "grader_error"
    not_attempted = "not_attempted"
    policy_violation = "policy_violation"
    import_error = "import_error"
    compile_error = "compile_error"
    launch_error = "launch_error"
    crashed = "crashed"
    timed_out = "timed_out"
    out_of_memory = "out_of_memory"
    modified_input = "modified_input"
    wrote_out_of_bounds = "wrote_out_of_bounds"
    invalid_read = "invalid_read"
    misaligned_access = "misaligned_access"
    wrong_memory_space = "wrong_memory_space"
    barrier_error = "barrier_error"
    data_race = "data_race"
    uninitialised_read = "uninitialised_read"
    nondeterministic = "nondeterministic"
    not_written = "not_written"
    wrong_shape_or_dtype = "wrong_shape_or_dtype"
    not_finite = "not_finite"
    wrong_values = "wrong_values"
    implausible_time = "implausible_time"
    target_missed = "target_missed"
    not_measured = "not_measured"
    passed = "passed"

    @property
    def headline(self) -> str:
        """The status in words at the start of a message: 'wrong values'."""
        return _HEADLINES[self]

    @property
    def is_failure(self) -> bool:
        """Whether the submission failed, so that points are lost."""
        return self not in _NOT_THE_SUBMISSIONS_FAULT

    @property
    def is_gradable(self) -> bool:
        """Whether the check was decided; points of an undecided one aren't lost but ungraded."""
        return self not in (Status.not_measured, Status.grader_error)


def worst(statuses: Iterable[Status]) -> Status:
    """The first status in the order of precedence. Raises ValueError when there is none."""
    return min(statuses, key=_PRECEDENCE.__getitem__)


_PRECEDENCE = {status: rank for rank, status in enumerate(Status)}

_NOT_THE_SUBMISSIONS_FAULT = frozenset(
    {Status.passed, Status.not_measured, Status.grader_error, Status.implausible_time}
)

_HEADLINES = {
    Status.passed: "passed",
    Status.wrong_values: "wrong values",
    Status.wrong_shape_or_dtype: "wrong shape or dtype",
    Status.not_finite: "nan or infinity where the result is finite",
    Status.wrote_out_of_bounds: "wrote out of bounds",
    Status.invalid_read: "read out of bounds",
    Status.uninitialised_read: "read memory nothing had written",
    Status.modified_input: "modified an input",
    Status.not_written: "left output unwritten",
    Status.data_race: "data race",
    Status.barrier_error: "threads missing at a barrier or warp function",
    Status.misaligned_access: "misaligned access",
    Status.wrong_memory_space: "host pointer used on the device, or the reverse",
    Status.launch_error: "kernel launch failed",
    Status.nondeterministic: "different answers to the same question",
    Status.crashed: "crashed",
    Status.timed_out: "ran out of time",
    Status.out_of_memory: "ran out of memory",
    Status.compile_error: "does not compile for the GPU",
    Status.import_error: "the file can't be loaded",
    Status.policy_violation: "breaks a rule of the assignment",
    Status.target_missed: "right, but short of the target",
    Status.implausible_time: "faster than the hardware can be: a person will look",
    Status.not_attempted: "not attempted",
    Status.not_measured: "not measured here",
    Status.grader_error: "the grader failed (no points are lost)",
}

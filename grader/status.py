"""The verdicts. Every check in every report ends in one of these."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Status(str, Enum):
    """The verdict on one check, variant or case.

    Members are in order of precedence: if two cases of a check fail differently, the first status
    is the more useful one to fix. `headline` has the status in words, at the start of a message.
    """

    headline: str

    def __new__(cls, value: str, headline: str = "") -> Status:
        """Make a member; `headline` has a default for type checkers alone.

        They also take a look-up, such as `Status("passed")`, for this call.
        """
        member = str.__new__(cls, value)
        member._value_, member.headline = value, headline
        return member

    grader_error = "grader_error", "the grader failed (no points are lost)"
    not_attempted = "not_attempted", "not attempted"
    policy_violation = "policy_violation", "breaks a rule of the assignment"
    import_error = "import_error", "the file can't be loaded"
    compile_error = "compile_error", "does not compile for the GPU"
    launch_error = "launch_error", "kernel launch failed"
    crashed = "crashed", "crashed"
    timed_out = "timed_out", "ran out of time"
    out_of_memory = "out_of_memory", "ran out of memory"
    modified_input = "modified_input", "modified an input"
    wrote_out_of_bounds = "wrote_out_of_bounds", "wrote out of bounds"
    invalid_read = "invalid_read", "read out of bounds"
    misaligned_access = "misaligned_access", "misaligned access"
    wrong_memory_space = "wrong_memory_space", "host pointer used on the device, or the reverse"
    barrier_error = "barrier_error", "threads missing at a barrier or warp function"
    data_race = "data_race", "data race"
    uninitialised_read = "uninitialised_read", "used an undefined value"
    nondeterministic = "nondeterministic", "different answers to the same question"
    not_written = "not_written", "left output unwritten"
    wrong_shape_or_dtype = "wrong_shape_or_dtype", "wrong shape or dtype"
    not_finite = "not_finite", "nan or infinity where the result is finite"
    wrong_values = "wrong_values", "wrong values"
    implausible_time = "implausible_time", "faster than the hardware can be: a person will look"
    target_missed = "target_missed", "right, but short of the target"
    not_measured = "not_measured", "not measured here"
    passed = "passed", "passed"

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

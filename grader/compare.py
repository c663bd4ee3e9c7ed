"""Output against oracle: is it right, and if not, what is wrong and where.

The rule (after the flash-attention project's tests, which allow a small factor of the error of
the framework's own low-precision result): errors are counted in units of eps(dtype) * magnitude,
element by element, where the magnitude is how large the numbers behind an element were. An element
may be off by `factor` times the largest such error of torch's own result on the same case, plus
a floor of a few units. So tiny elements are held to their own size, an honest order of summation
passes, and the next lower precision doesn't.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from grader.arena import Outcome
from grader.oracle import Truth
from grader.spec import Tolerance
from grader.status import Status

MAX_OWN_ERROR = 1e4  # units; torch being this wrong says that the magnitude is no measure of it


@dataclass(frozen=True)
class Verdict:
    """What one case shows. `what` is a sentence or two for the student; "" when it passed."""

    status: Status
    what: str = ""
    pattern: str = ""  # "tail", "all", "row", ... : what diagnosis looks at

    @property
    def passed(self) -> bool:
        """Whether the case is right."""
        return self.status is Status.passed


def judge(
    outcomes: Sequence[Outcome], truths: Sequence[Truth], tolerance: Tolerance
) -> Verdict:
    """The verdict on a run from the grader's copy of its tensors.

    `outcomes` are every tensor that was in writable memory: all outputs, in order, and inputs
    where they were writable too; `truths` belong to the outputs.
    """
    for outcome in outcomes:
        if outcome.slot.role == "input" and (outcome.changed or outcome.outside_count):
            return _modified(outcome)
    for outcome in outcomes:
        if outcome.outside_count:
            return Verdict(Status.wrote_out_of_bounds, _describe_outside(outcome), "outside")
    outputs = [outcome for outcome in outcomes if outcome.slot.role != "input"]
    for outcome, truth in zip(outputs, truths, strict=True):
        verdict = _judge_output(outcome, truth, tolerance)
        if not verdict.passed:
            return verdict
    return Verdict(Status.passed)


def allowed_error(truth: Truth, dtype: str, tolerance: Tolerance) -> torch.Tensor:
    """How far each element of an output may be from `truth.expected`, float64 of its shape."""
    kind = getattr(torch, dtype)
    if not kind.is_floating_point:
        return torch.zeros_like(truth.expected, dtype=torch.float64)
    unit = _unit(truth, kind)
    own = 0.0
    if truth.own is not None:
        error = (truth.own.double() - truth.expected).abs() / unit
        finite = error[error.isfinite()]
        own = min(float(finite.max()), MAX_OWN_ERROR) if finite.numel() else 0.0
    return (tolerance.factor * own + tolerance.floor(dtype)) * unit


def describe_index(shape: Sequence[int], flat: int) -> str:
    """`[0, 1024]` for the flat index of a contiguous tensor."""
    index = []
    for length in reversed(shape):
        index.append(flat % length)
        flat //= length
    return "[" + ", ".join(map(str, reversed(index))) + "]"


def wrong_pattern(wrong: torch.Tensor) -> tuple[str, str]:
    """How the wrong elements lie: a name for it and a phrase for the student.

    Names: all, tail (of the last dimension, in every row), rows_tail, row, column, every_kth,
    scattered. `wrong` is bool and has at least one true element.
    """
    count, total = int(wrong.count_nonzero()), wrong.numel()
    if count == total:
        return "all", "all of them" if total > 1 else "the only element"
    rows = wrong.reshape(-1, wrong.shape[-1])
    n_rows, n_cols = rows.shape
    by_row, by_col = rows.any(dim=1), rows.any(dim=0)
    bad_rows, bad_cols = int(by_row.count_nonzero()), int(by_col.count_nonzero())
    whole_rows = bool((rows.all(dim=1) == by_row).all())
    whole_cols = bool((rows.all(dim=0) == by_col).all())
    if whole_rows and n_rows > 1:
        first = int(by_row.nonzero()[0, 0])
        if bad_rows == 1:
            return "row", f"all of row {first} and nothing else"
        if bool(by_row[first:].all()):
            return "rows_tail", f"every row from {first} on"
    if whole_cols:
        first = int(by_col.nonzero()[0, 0])
        if bool(by_col[first:].all()):
            where = "the tail" if n_rows == 1 else "the tail of every row"
            return "tail", f"{where}, from {first} on ({bad_cols} of {n_cols})"
        if bad_cols == 1:
            return "column", f"all of column {first} and nothing else"
        every = _every_kth(by_col.nonzero()[:, 0])
        if every:
            return "every_kth", every
    return "scattered", f"{count} of {total}"


def _judge_output(outcome: Outcome, truth: Truth, tolerance: Tolerance) -> Verdict:
    slot, actual = outcome.slot, outcome.values
    if not outcome.changed:
        return Verdict(
            Status.not_written, f"nothing was written to {slot.name}.", "nothing"
        )
    kind = actual.dtype
    expected = truth.expected
    wide = actual.double()
    # A truth beyond the dtype's range must be infinite in it; near the edge torch's own decides.
    rounded = expected.to(kind).double()
    infinite = ~rounded.isfinite()
    error = (wide - expected).abs()
    wrong = ~(error <= allowed_error(truth, slot.dtype, tolerance))
    same = (wide == rounded) | (wide.isnan() & rounded.isnan())
    if truth.own is not None:
        own = truth.own.double()
        same |= ~own.isfinite() & ((wide == own) | (wide.isnan() & own.isnan()))
    wrong = torch.where(infinite | ~wide.isfinite(), ~same, wrong)
    if not bool(wrong.any()):
        return Verdict(Status.passed)
    unwritten = wrong & outcome.unwritten
    if bool((unwritten == wrong).all()):
        return _not_written(outcome, unwritten)
    not_finite = wrong & ~wide.isfinite() & rounded.isfinite()
    if bool(not_finite.any()):
        return _wrong(Status.not_finite, outcome, expected, not_finite)
    return _wrong(Status.wrong_values, outcome, expected, wrong)


def _unit(truth: Truth, kind: torch.dtype) -> torch.Tensor:
    limits = torch.finfo(kind)
    smallest = limits.smallest_normal * limits.eps  # the spacing of subnormal numbers
    magnitude = torch.where(truth.magnitude.isfinite(), truth.magnitude, limits.max)
    return (magnitude.double() * limits.eps).clamp_min(smallest)


def _wrong(
    status: Status, outcome: Outcome, expected: torch.Tensor, wrong: torch.Tensor
) -> Verdict:
    name, phrase = wrong_pattern(wrong)
    flat = int(wrong.flatten().nonzero()[0, 0])
    count, total = int(wrong.count_nonzero()), wrong.numel()
    what = (
        f"{_element(outcome, flat)} is {_number(outcome.values.flatten()[flat])}, "
        f"expected {_number(expected.flatten()[flat])}"
    )
    if total == 1:
        return Verdict(status, what + ".", name)
    extent = f"{phrase}" if name == "all" else f"{count} of {total} elements are wrong: {phrase}"
    if name == "scattered":
        extent = f"{count} of {total} elements are wrong"
    elif name == "all":
        extent = f"all {total} elements are wrong"
    return Verdict(status, f"{what}; {extent}.", name)


def _not_written(outcome: Outcome, unwritten: torch.Tensor) -> Verdict:
    name, phrase = wrong_pattern(unwritten)
    flat = int(unwritten.flatten().nonzero()[0, 0])
    count, total = int(unwritten.count_nonzero()), unwritten.numel()
    what = f"{_element(outcome, flat)} was never written"
    if total > 1:
        what += f"; {count} of {total} elements were not"
        what += f": {phrase}" if name not in ("scattered", "all") else ""
    return Verdict(Status.not_written, what + ".", name)


def _modified(outcome: Outcome) -> Verdict:
    slot = outcome.slot
    if not outcome.changed:
        return Verdict(
            Status.modified_input,
            f"the kernel wrote beside the input {slot.name}: {_describe_outside(outcome)}",
            "input",
        )
    changed = ~outcome.unwritten
    flat = int(changed.flatten().nonzero()[0, 0])
    count = int(changed.count_nonzero())
    return Verdict(
        Status.modified_input,
        f"{_element(outcome, flat)} was overwritten ({count} of {changed.numel()} elements of the "
        f"input {slot.name} changed).",
        "input",
    )


def _describe_outside(outcome: Outcome) -> str:
    """What was written where nothing should be, by the nearest thing a student can name."""
    slot = outcome.slot
    extent = slot.extent
    after = [offset for offset in outcome.outside if offset >= extent]
    before = [offset for offset in outcome.outside if offset < 0]
    count = outcome.outside_count
    elements = f"{count} element{'s' if count != 1 else ''}"
    if len(after) == len(outcome.outside):
        return (
            f"{elements} past the end of {slot.name} {list(slot.shape)} were overwritten, the first "
            f"one {after[0] - extent + 1} past its last element."
        )
    if len(before) == len(outcome.outside):
        return f"{elements} before the start of {slot.name} {list(slot.shape)} were overwritten."
    inside = next(offset for offset in outcome.outside if 0 <= offset < extent)
    row, col = divmod(inside, slot.strides[0]) if len(slot.shape) > 1 else (0, inside)
    return (
        f"{elements} between the rows of {slot.name} {list(slot.shape)}, whose rows are "
        f"{slot.strides[0]} elements apart, were overwritten, the first one at row {row}, "
        f"column {col}."
    )


def _element(outcome: Outcome, flat: int) -> str:
    return f"{outcome.slot.name}{describe_index(outcome.slot.shape, flat)}"


def _number(value: torch.Tensor) -> str:
    number = value.item()
    if isinstance(number, float):
        return f"{number:.5g}"
    return str(number)


def _every_kth(places: torch.Tensor) -> str:
    if len(places) < 3:
        return ""
    steps = places.diff()
    step = int(steps[0])
    if step < 2 or not bool((steps == step).all()):
        return ""
    return f"every {step}th column, from {int(places[0])} on"

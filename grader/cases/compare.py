"""Comparison of outputs with the oracle: whether they are right, and where and how they differ.

The rule follows the flash-attention project's tests, which allow a small factor of the error of the
framework's own low-precision result. Errors are counted in units of eps(dtype) * magnitude, for
each element; the magnitude is the size of the numbers behind it. An element may be off by `factor`
times the largest such error of torch's own result on the same case, plus a floor of a few units. So
small elements are held to their own size, any reasonable order of summation passes, and a lower
precision doesn't.

nan and infinities are compared by position. One exception: a result near the largest number of the
dtype may round to it or to infinity, if both are near enough. Where inputs have them and the
tolerance is 0, numbers are only moved: then all bits but a nan's must be those of torch's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from grader.cases.arena import BITS, Outcome
from grader.cases.oracle import Checker, OracleError, Truth
from grader.spec import Tolerance
from grader.status import Status

# Of the magnitude: an error of torch's beyond it sets no tolerance.
MAX_OWN_ERROR = 1 / 16
RAISED = "raised"  # the pattern of an exception in host code
RETURNED = "returned"  # the pattern of an entry that returns its result and writes nothing
READS_RESULTS = "reads_results"  # host code ends for what it read of results, which it can't read
LEFT_RUNNING = "left_running"  # a kernel goes on behind the end of the entry
USED_MEMORY = "used_memory"  # it fails only where unwritten memory holds numbers instead of NaNs


@dataclass(frozen=True)
class Verdict:
    """The result of one case. `what` is a sentence or two for the student; "" when it passed."""

    status: Status
    what: str = ""
    pattern: str = ""  # "tail", "all", "row", ...: for the diagnosis

    @property
    def passed(self) -> bool:
        return self.status is Status.passed


def judge(
    outcomes: Sequence[Outcome],
    truths: Sequence[Truth],
    tolerance: Tolerance,
    checker: Checker | None = None,
) -> Verdict:
    """The verdict on a run, from the grader's copy of its tensors.

    `outcomes` has every tensor in writable memory: all outputs, in order, and writable inputs.
    `truths` belong to the outputs. A `checker` decides on values in the place of the tolerance.
    Raises OracleError where a function of the oracle doesn't fit the outputs.
    """
    for outcome in outcomes:
        if outcome.slot.role == "input" and (outcome.changed or outcome.outside_count):
            return _modified(outcome)
    for outcome in outcomes:
        if outcome.outside_count:
            return Verdict(Status.wrote_out_of_bounds, _describe_outside(outcome), "outside")
    outputs = [outcome for outcome in outcomes if outcome.slot.role != "input"]
    if checker is not None:
        return _checked(outputs, truths, checker)
    for outcome, truth in zip(outputs, truths, strict=True):
        verdict = _judge_output(outcome, truth, tolerance.of(outcome.slot.name), outputs)
        if not verdict.passed:
            return verdict
    return Verdict(Status.passed)


def allowed_error(truth: Truth, dtype: str, tolerance: Tolerance) -> torch.Tensor:
    """The largest allowed error of each element, as float64 of the shape of `truth.expected`.

    0 for integers.
    """
    kind = getattr(torch, dtype)
    if not kind.is_floating_point:
        return torch.zeros_like(truth.expected, dtype=torch.float64)
    unit = _unit(truth, kind)
    own = 0.0
    if truth.own is not None:
        error = (truth.own.double() - truth.expected).abs() / unit
        finite = error.nan_to_num(nan=0.0, posinf=0.0)
        own = float(finite.max()) if finite.numel() else 0.0
        own = min(own, MAX_OWN_ERROR / torch.finfo(kind).eps)
    return (tolerance.factor * own + tolerance.floor(dtype)) * unit


def wrong_values(
    values: torch.Tensor, truth: Truth, dtype: str, tolerance: Tolerance
) -> torch.Tensor:
    """Wrong elements of an output's values, as bool of its shape."""
    return wrong_elements(values, truth, allowed_error(truth, dtype, tolerance))


def wrong_elements(values: torch.Tensor, truth: Truth, allowed: torch.Tensor) -> torch.Tensor:
    """Wrong elements of an output's values; `allowed` is `allowed_error`'s."""
    kind = values.dtype
    if not kind.is_floating_point and not truth.expected.is_floating_point():
        return values != truth.expected.to(kind)  # float64 holds no 64 bits
    if truth.of_any_bits and truth.own is not None and not bool(allowed.any()):
        bits = BITS[kind.itemsize]
        own = truth.own.to(kind).contiguous()
        differ = values.contiguous().view(bits) != own.view(bits)
        return differ & ~(values.isnan() & own.isnan())
    wide, expected = values.double(), truth.expected.double()
    right = (wide - expected).abs() <= allowed
    if bool(right.all()):
        return ~right
    if kind.is_floating_point:
        largest = torch.finfo(kind).max
        right |= (wide.clamp(-largest, largest) - expected).abs() <= allowed
    right |= _same(wide, truth.expected.to(kind).double())
    if truth.own is not None:
        # Where torch overflows the dtype on the way, a kernel may do the same.
        left = ~truth.own.double().isfinite()  # floats of 8 bits don't know it
        if bool(left.any()):
            right |= left & _same(wide, truth.own.double())
    return ~right


def describe_index(shape: Sequence[int], flat: int) -> str:
    """`[0, 1024]` for the flat index of a contiguous tensor."""
    index = []
    for length in reversed(shape):
        index.append(flat % length)
        flat //= length
    return "[" + ", ".join(map(str, reversed(index))) + "]"


def wrong_pattern(wrong: torch.Tensor) -> tuple[str, str]:
    """The pattern of the wrong elements: a name, and a phrase for the student.

    Names: all, one, row, rows_tail, column, tail (of the last dimension, in every row), every_kth,
    scattered; the phrase is "" for all, one and scattered. A tensor of one dimension is one row.
    `wrong` is bool with at least one true element.
    """
    count = int(wrong.count_nonzero())
    if count == wrong.numel():
        return "all", ""
    if count == 1:
        return "one", ""
    rows = wrong.reshape(-1, wrong.shape[-1])
    by_row, by_col = rows.any(dim=1), rows.any(dim=0)
    whole_rows = bool((rows.all(dim=1) == by_row).all())
    whole_cols = bool((rows.all(dim=0) == by_col).all())
    pattern = _row_pattern(by_row, wrong.shape[:-1]) if whole_rows else None
    if pattern is None and whole_cols:
        pattern = _column_pattern(by_col, flat=len(rows) == 1)
    return pattern or ("scattered", "")


def _row_pattern(by_row: torch.Tensor, shape: Sequence[int]) -> tuple[str, str] | None:
    """The pattern of whole wrong rows; `shape` has the dimensions before the last."""
    places = by_row.nonzero()[:, 0]
    first = describe_index(shape, int(places[0])) if len(shape) > 1 else str(int(places[0]))
    if len(places) == 1:
        return "row", f"all of row {first} and nothing else"
    if int(places[0]) + len(places) == len(by_row):
        return "rows_tail", f"every row from {first} on"
    every = _every_kth(places, "row")
    return ("every_kth", every) if every else None


def _column_pattern(by_col: torch.Tensor, flat: bool) -> tuple[str, str] | None:
    """The pattern of whole wrong columns, or of elements where there is only one row."""
    places = by_col.nonzero()[:, 0]
    first = int(places[0])
    if first + len(places) == len(by_col):
        return "tail", f"every {'element' if flat else 'column'} from {first} on"
    if len(places) == 1:
        return "column", f"all of column {first} and nothing else"
    every = _every_kth(places, "element" if flat else "column")
    return ("every_kth", every) if every else None


def _checked(outputs: Sequence[Outcome], truths: Sequence[Truth], checker: Checker) -> Verdict:
    """The verdict of an exercise's own check."""
    for outcome in outputs:
        if _is_poison(outcome):
            return _nothing_written(outcome, outputs)
    values = {outcome.slot.name: outcome.values for outcome in outputs}
    refused = checker.refused(values, [truth.expected for truth in truths])
    if not refused:
        return Verdict(Status.passed)
    for outcome in outputs:
        if not outcome.changed and outcome.values.numel():
            return _nothing_written(outcome, outputs)
    if isinstance(refused, str):
        return Verdict(Status.wrong_values, f"{refused.rstrip('.')}.", "checked")
    outcome = next(each for each in outputs if each.slot.name in refused)
    wrong = refused[outcome.slot.name]
    name, phrase = wrong_pattern(wrong)
    flat = int(wrong.flatten().nonzero()[0, 0])
    message = (
        f"{_element(outcome, flat)} is {_short(outcome.values.flatten()[flat])}, which "
        f"{checker.name}_check refuses, as it does {int(wrong.count_nonzero())} of "
        f"{wrong.numel()} elements"
    )
    return Verdict(Status.wrong_values, message + (f": {phrase}." if phrase else "."), name)


def _short(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.5g}" if isinstance(number, float) else str(number)


def _is_poison(outcome: Outcome) -> bool:
    """Whether it is an output of nan that nobody has written, whatever nan is worth here.

    An unwritten integer may be right by chance, and what is input and output without a change.
    """
    values, role = outcome.values, outcome.slot.role
    is_nan = role == "output" and values.is_floating_point() and values.numel() > 0
    return is_nan and not outcome.changed


def _nothing_written(outcome: Outcome, outputs: Sequence[Outcome]) -> Verdict:
    written = next((f", only to {each.slot.name}" for each in outputs if each.changed), "")
    message = f"nothing was written to {outcome.slot.name}{written}."
    return Verdict(Status.not_written, message, "nothing")


def _judge_output(
    outcome: Outcome, truth: Truth, tolerance: Tolerance, outputs: Sequence[Outcome]
) -> Verdict:
    slot, actual, expected = outcome.slot, outcome.values, truth.expected
    if expected.shape != actual.shape:
        raise OracleError(
            f"{slot.name}: expected shape {list(actual.shape)}, got {list(expected.shape)}"
        )
    wrong = wrong_values(actual, truth, slot.dtype, tolerance)
    if truth.of_any_bits and actual.is_floating_point():
        wrong |= outcome.unwritten  # the poison is nan, which may be what was expected
    if _is_poison(outcome) or (bool(wrong.any()) and not outcome.changed):
        return _nothing_written(outcome, outputs)
    if not bool(wrong.any()):
        return Verdict(Status.passed)
    unwritten = wrong & outcome.unwritten
    if _left_out(actual, wrong, unwritten):
        return _not_written(outcome, unwritten, wrong)
    finite = expected.to(actual.dtype).double().isfinite()
    not_finite = wrong & ~actual.double().isfinite() & finite
    if bool(not_finite.any()) and not truth.of_any_bits:
        return _wrong(Status.not_finite, outcome, expected, not_finite)
    return _wrong(Status.wrong_values, outcome, expected, wrong)


def _left_out(actual: torch.Tensor, wrong: torch.Tensor, unwritten: torch.Tensor) -> bool:
    """Whether elements were left out, rather than written with the poison's value.

    Poison is random, so a kernel that writes nan, or any integer, may match some of it.
    """
    suspects = wrong & actual.isnan() if actual.is_floating_point() else wrong
    count = int(unwritten.count_nonzero())
    return count > 0 and 2 * count > int(suspects.count_nonzero())


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Where two tensors of floats are equal, including nan."""
    return (one == other) | ((one != one) & (other != other))


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
    actual, wanted = _apart(outcome.values.flatten()[flat], expected.flatten()[flat])
    message = f"{_element(outcome, flat)} is {actual}, expected {wanted}"
    others = total - count
    if total > 1:
        kind = "not finite" if status is Status.not_finite else "wrong"
        if name == "all":
            message += f"; {'both' if total == 2 else f'all {total}'} elements are {kind}"
        elif name == "one" and kind == "wrong":
            message += (
                f"; the other {others} are right" if others > 1 else "; the other one is right"
            )
        else:
            message += f"; {count} of {total} elements {'is' if count == 1 else 'are'} {kind}"
            message += f": {phrase}" if phrase else ""
    return Verdict(status, message + ".", name)


def _not_written(outcome: Outcome, unwritten: torch.Tensor, wrong: torch.Tensor) -> Verdict:
    name, phrase = wrong_pattern(unwritten)
    flat = int(unwritten.flatten().nonzero()[0, 0])
    count, total = int(unwritten.count_nonzero()), unwritten.numel()
    message = f"{_element(outcome, flat)} was never written"
    if total > 1:
        message += f"; {count} of {total} elements {'was' if count == 1 else 'were'} not"
        message += f": {phrase}" if phrase else ""
    others = int(wrong.count_nonzero()) - count
    message += f"; {others} of the others {'is' if others == 1 else 'are'} wrong" if others else ""
    return Verdict(Status.not_written, message + ".", name)


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
    """A write outside the view, described by the nearest thing that a student can name."""
    slot, count = outcome.slot, outcome.outside_count
    extent = slot.extent
    between = [offset for offset in outcome.outside if 0 <= offset < extent]
    after = [offset for offset in outcome.outside if offset >= extent]
    were = f"{count} element was" if count == 1 else f"{count} elements were"
    name = f"{slot.name} {list(slot.shape)}"
    if between:
        apart = slot.strides[-2]
        row, column = divmod(between[0], apart)
        place = f"one at row {row}, column {column}"
        if len(slot.shape) > 2:
            past = column - slot.shape[-1] + 1
            place = f"one {past} past the end of a row" if past > 0 else "one past a last row"
        return (
            f"{were} overwritten between the rows of {name}, whose rows are {apart} elements "
            f"apart: the first {place}."
        )
    if after and after[0] == outcome.outside[0]:
        steps = after[0] - extent + 1
        place = (
            "right behind its last element" if steps == 1 else f"{steps} elements behind its last"
        )
        return f"{were} overwritten past the end of {name}: the first one {place}."
    if after:
        return f"{were} overwritten before the start and past the end of {name}."
    return f"{were} overwritten before the start of {name}."


def _element(outcome: Outcome, flat: int) -> str:
    return f"{outcome.slot.name}{describe_index(outcome.slot.shape, flat)}"


def _apart(actual: torch.Tensor, expected: torch.Tensor) -> tuple[str, str]:
    """Both numbers as text, with enough digits to differ."""
    one, other = actual.item(), expected.item()
    if not isinstance(one, float):
        return str(one), str(other)
    for digits in (5, 7, 9):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _every_kth(places: torch.Tensor, noun: str) -> str:
    """`every 4th column, from 3 on` for places at equal distances, else ""."""
    steps = places.diff()
    if len(steps) < 2 or int(steps[0]) < 2 or not bool((steps == steps[0]).all()):
        return ""
    return f"every {_ordinal(int(steps[0]))} {noun}, from {int(places[0])} on"


def _ordinal(number: int) -> str:
    """`2nd`, `3rd`, `4th`, `11th`, `21st`."""
    teens = 10 < number % 100 < 20
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

"""Hypotheses on wrong outputs: each says what a kernel with one mistake would compute.

A hypothesis is tried on the smallest failing case first. It is told only if its outputs are the
kernel's, within the tolerance, there and in most of the largest other failing cases. One of these
may differ: where nothing but rounding is left, such as a variance of equal values, it decides.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar

import torch

from grader.cases import Case, Space, inputs, oracle
from grader.cases.compare import allowed_error
from grader.cases.oracle import Oracle, OracleError, Truth
from grader.executors.runner import CaseResult
from grader.grading import mutations
from grader.grading.diagnosis import Cause
from grader.grading.flaws import FLAWS
from grader.spec import Scalar, Tolerance
from grader.spec.task import Task
from grader.status import Status

SECONDS = 3.0  # of computing, for all hypotheses on one failure
FURTHER = 3  # failing cases, beside the smallest, that a hypothesis has to explain
SMALLEST_FACTOR = 1e-3  # of scalars that may be factors, of which 1.0 has no effect
MOST_PASSING = 2  # cases that a hypothesis has to leave right
NEARLY_WRONG = 0.5  # of the allowed error: the kernel's own rounding may add the rest
CLEARLY = 2.0  # times nearer to the kernel's outputs: another mistake is the one
NEARER = 0.5  # an output's distance from a hypothesis, at most, by that from the right result
ENOUGH = 6  # elements in all cases: fewer agree by chance

Outputs = list[torch.Tensor]
Results = Sequence[tuple[Space, CaseResult]]


@dataclass(frozen=True)
class Observed:
    """A failing case, what the kernel made of it, and what is right."""

    task: Task
    case: Case
    outputs: Outputs
    tensors: dict[str, torch.Tensor]  # the inputs, in the dtype under test
    numbers: dict[str, float | int | bool]  # scalars and sizes
    truths: list[Truth]
    oracle: Oracle

    @property
    def wide(self) -> dict[str, torch.Tensor]:
        """The inputs as float64."""
        return {n: t.double() if t.is_floating_point() else t for n, t in self.tensors.items()}

    def explained_by(self, outputs: Sequence[torch.Tensor] | None) -> bool:
        """Whether all outputs are the kernel's, within the tolerance."""
        if outputs is None or len(outputs) != len(self.outputs):
            return False
        tolerances = [self.task.tolerance.of(each.name) for each in self.task.outputs]
        quadruples = zip(self.outputs, outputs, self.truths, tolerances, strict=True)
        return all(_agree(*each) for each in quadruples)

    def apart(self, outputs: Sequence[torch.Tensor] | None) -> float:
        """How far outputs are from the kernel's, as a share of these; 0 for none."""
        shares = []
        for one, other in zip(self.outputs, outputs or (), strict=False):
            off = (one.double() - other.double()).nan_to_num(0.0, 0.0, 0.0).abs().sum()
            shares.append(float(off / one.double().nan_to_num(0.0, 0.0, 0.0).abs().sum()))
        return sum(each for each in shares if math.isfinite(each))


# What computing with a mistake raises where the shapes don't allow for it.
_IMPOSSIBLE = (RuntimeError, ValueError, TypeError, IndexError, AttributeError)

# What the kernel would compute with a mistake: its name and words, and its outputs in a case.
Attempt = tuple[Cause, Callable[[Observed], Outputs | None]]


def cause_of(
    space: Space,
    results: Sequence[CaseResult],
    smallest: CaseResult,
    elsewhere: Callable[[], Results] = tuple,
) -> Cause | None:
    """The mistake that explains the outputs, whose place in the code they don't tell; or None.

    It explains the smallest failure and others of its kind. Where the outputs tell little, such as
    nan everywhere, several mistakes may explain them: then none is told. `elsewhere` runs cases of
    other size classes, once a mistake explains those of this one.
    """
    until = time.thread_time() + SECONDS
    if not smallest.outputs or smallest.status not in (Status.wrong_values, Status.not_finite):
        return None
    try:
        first, *further = _all_observed(space, results, smallest)
    except OracleError:
        return None
    # More than one result is right, or bits alone are wrong, such as the sign of a 0.
    if first.oracle.check is not None or first.explained_by(_expected(first)):
        return None
    elements = sum(output.numel() for each in (first, *further) for output in each.outputs)
    if not further or elements < ENOUGH:
        return None
    possible = {name for case in space.edges() for name, value in case.sizes if value > 1}
    untried = possible - _above_one(results)
    # Nan everywhere is what several mistakes give: of those one has to leave passing cases right.
    passing = [] if is_telling(smallest) else _passing(space, results)
    known: Cause | None = None
    # Run when a mistake first explains this size class.
    others = cache(lambda: [_as_seen(*each) for each in elsewhere()])
    for hypothesis in HYPOTHESES:
        agreed = [
            (_explained_elsewhere(attempt[0], first, others()), attempt)
            for attempt in hypothesis(first)
            if time.thread_time() <= until and _explains_most(*attempt, first, further, untried)
        ]
        # In small cases mistakes look alike that others tell apart.
        needed = max(len(others()) / 2 if agreed else 0, *(count for count, _ in agreed), 0)
        explaining = [attempt for count, attempt in agreed if count >= needed]
        if is_telling(smallest) and explaining:
            return replace(_nearest(explaining, [first, *further]), is_unplaced=True)
        for cause, compute in explaining:
            if not passing or not all(_explains(compute, each) for each in passing):
                continue
            if known is not None and known.name != cause.name:
                return None
            known = known or replace(cause, is_unplaced=True)
    return known


def _nearest(explaining: Sequence[Attempt], observed: Sequence[Observed]) -> Cause:
    """The first mistake, unless the outputs of a later one are clearly nearer to the kernel's.

    What half precision allows can be more than two mistakes differ by.
    """
    apart = [sum(_apart(compute, each) for each in observed) for _, compute in explaining]
    near = CLEARLY * min(apart)
    return next(cause for (cause, _), off in zip(explaining, apart, strict=True) if off <= near)


def _apart(compute: Callable[[Observed], Outputs | None], observed: Observed) -> float:
    try:
        return observed.apart(compute(observed))
    except _IMPOSSIBLE:
        return math.inf


def _passing(space: Space, results: Sequence[CaseResult]) -> list[Observed]:
    """The smallest passing cases, with the right results as the kernel's."""
    passed = sorted(
        (each for each in results if each.verdict.passed and each.case is not None),
        key=lambda each: each.case.complexity if each.case else 0,
    )
    return [_as_seen(space, each) for each in passed[:MOST_PASSING]]


def _as_seen(space: Space, result: CaseResult) -> Observed:
    """A case with the kernel's outputs, which are the right ones where it passes."""
    one = _observed(space, result)
    if not result.verdict.passed:
        return one
    kinds = [getattr(torch, each.concrete_dtype(one.case.dtype)) for each in one.task.outputs]
    right = [truth.expected.to(kind) for truth, kind in zip(one.truths, kinds, strict=True)]
    return replace(one, outputs=right)


def _all_observed(
    space: Space, results: Sequence[CaseResult], smallest: CaseResult
) -> list[Observed]:
    """The smallest failure, and the largest others. Raises OracleError."""
    wrong = (Status.wrong_values, Status.not_finite)
    others = [
        each
        for each in results
        if each.outputs and each.status in wrong and each.case != smallest.case
    ]
    # Those with most elements: there it isn't by chance that a hypothesis holds.
    others.sort(key=lambda each: sum(t.numel() for t in each.outputs), reverse=True)
    chosen = others[:FURTHER]
    for name in sorted(_above_one(others) - _above_one(chosen)):  # at 1 many mistakes look alike
        chosen.append(next(each for each in others if name in _above_one([each])))
    return [_observed(space, each) for each in (smallest, *chosen)]


def _above_one(results: Sequence[CaseResult | Observed]) -> set[str]:
    """The sizes that are above 1 in some of the cases."""
    sizes = (size for each in results if each.case is not None for size in each.case.sizes)
    return {name for name, value in sizes if value > 1}


def _explains_most(
    cause: Cause,
    compute: Callable[[Observed], Outputs | None],
    first: Observed,
    further: Sequence[Observed],
    untried: set[str],
) -> bool:
    """Whether a mistake explains most of the cases; `untried` are sizes that none is above 1 in."""
    if not _explains(compute, first):
        return False
    explained = [each for each in further if _explains(compute, each)]
    enough = len(explained) >= max(1, len(further) - 1)
    if cause.name == "rounded":  # which sizes don't tell from another mistake
        many = (min(map(torch.Tensor.numel, each.outputs)) >= LEAST_ROUNDED for each in explained)
        return enough and any(many)
    needed = untried | _above_one([first, *further])
    return enough and needed <= _above_one([first, *explained])


def _explained_elsewhere(cause: Cause, first: Observed, others: Sequence[Observed]) -> int:
    """How many cases of other size classes a mistake explains.

    A kernel may choose the length of its blocks there anew, so each length that is known counts.
    """
    alike = [
        compute
        for hypothesis in HYPOTHESES
        for each, compute in hypothesis(first)
        if each.what == cause.what
    ]
    return sum(any(_explains(compute, each) for compute in alike) for each in others)


def is_telling(result: CaseResult) -> bool:
    """Whether enough of the outputs are numbers: many mistakes give nothing but nan."""
    outputs = [each for each in result.outputs if each.is_floating_point()]
    finite = sum(int(each.double().isfinite().sum()) for each in outputs)
    return 4 * finite >= sum(each.numel() for each in outputs)


def _observed(space: Space, result: CaseResult) -> Observed:
    assert result.case is not None
    task = space.task
    made = inputs.make(space.task, result.case)
    right = oracle.of(space.task.exercise)
    truths = right.truths(made.tensors, made.numbers, task.magnitude)
    outputs = [*result.outputs]
    return Observed(task, result.case, outputs, made.tensors, made.numbers, truths, right)


def _explains(compute: Callable[[Observed], Outputs | None], observed: Observed) -> bool:
    try:
        return observed.explained_by(compute(observed))
    except _IMPOSSIBLE:
        return False


def _agree(actual: torch.Tensor, wrong: torch.Tensor, truth: Truth, tolerance: Tolerance) -> bool:
    """Whether an output is that of a mistake: with nan and infinities at the same places.

    Where the output is wrong, the mistake's must be wrong, too, or nearly so: one that is right
    there, but for a little that is allowed here, explains nothing.
    """
    if wrong.shape != actual.shape:
        return False
    kind = actual.dtype
    one, other, right = actual.double(), wrong.double(), truth.expected.double()
    if not kind.is_floating_point:
        return bool((one == other).all())
    allowed = allowed_error(truth, str(kind).removeprefix("torch."), tolerance)
    allowed = allowed.nan_to_num(0.0, 0.0)
    is_wrong, explains = (
        ((each - right).abs() > share * allowed) | (each.isnan() != right.isnan())
        for each, share in ((one, 1.0), (other, NEARLY_WRONG))
    )
    allowed = allowed + 16 * torch.finfo(kind).eps * other.abs()
    beyond = other.abs() > torch.finfo(kind).max
    as_far = one.sign() == other.sign()
    same = (one - other).abs() <= allowed.nan_to_num(0.0, 0.0)
    same |= (one == other) | (one.isnan() & other.isnan()) | (one.isinf() & beyond & as_far)
    # What half precision allows can be more than the kernel is wrong by.
    apart = (one - other)[is_wrong].nan_to_num(0.0, 0.0, 0.0).abs().sum()
    off = (one - right)[is_wrong].abs().nan_to_num(math.inf).sum()
    return bool((same & (explains | ~is_wrong)).all()) and bool(apart <= NEARER * off)


# --- the table ---------------------------------------------------------------------------------


def _expected(observed: Observed) -> Outputs:
    return [truth.expected for truth in observed.truths]


def _transposed(each: Observed) -> Outputs | None:
    right = _expected(each)
    turned = [t.mT.reshape(t.shape) if t.dim() > 1 else t for t in right]
    # A row, a column or a constant is its own transpose, which explains nothing.
    return None if all(map(torch.equal, turned, right)) else turned


def _copied(each: Observed) -> Outputs | None:
    source = next(iter(each.wide.values()), None)
    return None if source is None else [source.reshape(t.shape) for t in _expected(each)]


def _beginning(each: Observed) -> Outputs | None:
    source = next(iter(each.wide.values()), None)
    expected = _expected(each)
    if source is None or source.numel() <= max(t.numel() for t in expected):
        return None
    return [source.flatten()[: t.numel()].reshape(t.shape) for t in expected]


def _through_half(observed: Observed) -> Outputs | None:
    """What of a bfloat16 result is left in float16."""
    is_wider = all(each.dtype is torch.bfloat16 for each in observed.outputs)
    return [each.half().double() for each in _expected(observed)] if is_wider else None


# Nothing is computed wrong: right values stand in other places, or pass through another dtype.
_MOVES: Sequence[Attempt] = (
    (
        Cause(
            "first_row",
            "Every row of the output is the first row's result",
            "Each program must move its pointers to the row of its own program id or block.",
        ),
        lambda each: [t[:1].expand(t.shape) for t in _expected(each)],
    ),
    (
        Cause(
            "copied",
            "The output is a plain copy of the input: the same elements in the same order",
            "Store what is computed, each element at its own place.",
        ),
        _copied,
    ),
    (
        Cause(
            "beginning",
            "The output is the beginning of the input: its first elements, as they lie in memory",
            "How far apart are the elements that belong into the output?",
        ),
        _beginning,
    ),
    (
        Cause(
            "transposed",
            "The values are right, and the output is transposed: rows and columns are exchanged",
            "Which index is multiplied with the row's stride in the store?",
        ),
        _transposed,
    ),
    (
        Cause(
            "through_half",
            "The result passes through float16, which ends at 65504 and holds nothing below 3e-8",
            "Convert it once, to the dtype of the output that is stored to.",
        ),
        _through_half,
    ),
)
_FACTORS = {
    "-1": -1.0,
    "2": 2.0,
    "1/2": 0.5,
    "log2(e) = 1.4427": math.log2(math.e),
    "ln 2 = 0.6931": math.log(2),
    "0": 0.0,
}
_Factor = Callable[[Observed], float]
_Value = Callable[[Observed], float | int | bool]
_Number = TypeVar("_Number", float, int, bool)


def _constant(number: _Number, observed: Observed) -> _Number:
    return number


def _squared(name: str, observed: Observed) -> float:
    return float(observed.numbers[name]) ** 2


def _of_size(name: str, power: float, observed: Observed) -> float:
    return float(observed.case.size(name) ** power)


def _scaled(observed: Observed) -> Iterator[Attempt]:
    """One output is off by a constant factor."""
    factors = {text: partial(_constant, factor) for text, factor in _FACTORS.items()}
    return _by_factors(observed, factors)


def _scaled_by_size(observed: Observed) -> Iterator[Attempt]:
    """One output is off by a size or the root of one."""
    powers = (("{}", 1.0), ("1/{}", -1.0), ("sqrt({})", 0.5), ("1/sqrt({})", -0.5))
    factors = {
        text.format(name): partial(_of_size, name, power)
        for name, _ in observed.case.sizes
        for text, power in powers
    }
    return _by_factors(observed, factors)


def _by_factors(observed: Observed, factors: Mapping[str, _Factor]) -> Iterator[Attempt]:
    for place, output in enumerate(observed.task.outputs):
        for text, factor in factors.items():

            def scaled(each: Observed, place: int = place, factor: _Factor = factor) -> Outputs:
                right = _expected(each)
                right[place] = right[place] * factor(each)
                return right

            usual = f"is {text} times what it should be"
            special = {"-1": "has the wrong sign everywhere", "0": "is 0 or nearly 0 everywhere"}
            what = f"`{output.name}` {special.get(text, usual)}"
            advice = "Where does that factor come from, or where was it left out?"
            if text == "0":
                advice = "Is it the result that is stored, and with the dtype of the tensor?"
            yield Cause("factor", what, advice), scaled


def _other_scalar(observed: Observed) -> Iterator[Attempt]:
    """The result is right for another value of a scalar argument than the one passed."""
    for argument in observed.task.signature:
        if not isinstance(argument, Scalar):
            continue
        name, given = argument.name, observed.numbers[argument.name]
        others: dict[str, _Value] = {}
        if isinstance(given, float):  # no effect at all comes first: 1 / sqrt(size) may be 1 too
            others = {"0.0": partial(_constant, 0.0)}
            if abs(given) > SMALLEST_FACTOR:  # what is added, such as an eps, isn't near 1
                others["1.0"] = partial(_constant, 1.0)
                others["its square"] = partial(_squared, name)
            for size, _ in observed.case.sizes:
                others[f"1 / sqrt({size})"] = partial(_of_size, size, -0.5)
        others |= {str(each): partial(_constant, each) for each in argument.values}
        others.pop(str(given), None)
        for text, value in others.items():

            def with_value(each: Observed, name: str = name, value: _Value = value) -> Outputs:
                return _result_of(each.oracle.definition, each, **{name: value(each)})

            ignored = text in ("0.0", "1.0")
            what = f"`{name}` counts as {text}, whatever is passed"
            if ignored:
                what = f"`{name}` has no effect: it is left out, or stands in the wrong place"
            advice = f"Use the argument {name} where the definition has it, and pass it on."
            if text == "its square":
                what = f"`{name}` is applied twice: its square counts"
                advice = f"Apply {name} in one place alone."
            yield Cause("scalar", what, advice), with_value


def _exchanged_inputs(observed: Observed) -> Iterator[Attempt]:
    """Two inputs of one shape are passed in the wrong order."""
    advice = "Compare the order of the launch's arguments with the kernel's parameters."
    for one, other in itertools.combinations(observed.tensors, 2):

        def exchanged(each: Observed, one: str = one, other: str = other) -> Outputs | None:
            turned = {one: each.wide[other], other: each.wide[one]}
            return _result_of(each.oracle.definition, each, **turned)

        yield Cause("exchanged", f"`{one}` and `{other}` are exchanged", advice), exchanged


def _by_columns(observed: Observed) -> Iterator[Attempt]:
    """An input is read as if its elements lay column after column, as in Fortran or cuBLAS."""
    advice = "The elements of a row are neighbours: (row, column) is at row * columns + column."
    for name in (name for name, tensor in observed.tensors.items() if tensor.dim() > 1):

        def by_columns(each: Observed, name: str = name) -> Outputs:
            turned = each.wide[name].reshape(each.wide[name].mT.shape).mT
            return _result_of(each.oracle.definition, each, **{name: turned})

        what = f"`{name}` is read as if it lay column after column"
        yield Cause("by_columns", what, advice), by_columns


def _other_axis(observed: Observed) -> Iterator[Attempt]:
    """Columns are reduced in the place of rows."""

    def along_columns(each: Observed) -> Outputs:
        turned = {name: tensor.mT for name, tensor in each.wide.items()}
        return [t.mT for t in _result_of(each.oracle.definition, each, **turned)]

    advice = (
        "Which index stays the same in a program or block, and which one goes along? The elements "
        "of a row are neighbours."
    )
    what = "Each column is computed as a row has to be: rows and columns are exchanged throughout"
    if all(tensor.dim() == 2 for tensor in observed.tensors.values()):
        yield Cause("other_axis", what, advice), along_columns


def _changed_formula(observed: Observed) -> Iterator[Attempt]:
    """The definition with one part left out, exchanged or moved."""
    for formula in mutations.of(observed.oracle):
        what = f"Held against `{observed.oracle.name}` in reference/oracles.py, {formula.what}"
        advice = "The code quoted is that file's: find the same step in yours."
        yield Cause("formula", what, advice), partial(_result_of, formula.function)


def _flawed(observed: Observed) -> Iterator[Attempt]:
    """A known mistake in the way that the exercise's lesson teaches."""
    for flaw in FLAWS.get(observed.oracle.name, ()):
        yield Cause(flaw.name, flaw.what, flaw.advice), partial(_result_of, flaw.compute)


def _rounded(observed: Observed) -> Iterator[Attempt]:
    """A step is computed in half precision: all is right but for errors of either sign."""
    half = "half precision" + (" or TF32" if observed.outputs[0].dtype.itemsize > 2 else "")

    def is_near(each: Observed) -> Outputs | None:
        pairs = zip(each.outputs, each.truths, strict=True)
        return each.outputs if all(_is_rounding(*pair) for pair in pairs) else None

    what = f"All is right but for rounding: a step is computed in {half} that belongs in float32"
    advice = (
        "Keep sums, products and exponentials in float32, and convert where the result is stored."
    )
    yield Cause("rounded", what, advice), is_near


LEAST_OFF = 0.02  # share of wrong elements off by over a unit: cancelled digits alone make few
LEAST_ROUNDED = 16  # elements of an output whose errors have to vary, as both signs then occur


def _is_rounding(actual: torch.Tensor, truth: Truth) -> bool:
    """Whether an output is off by a few units of half precision, up and down."""
    unit = torch.finfo(actual.dtype if actual.dtype.itemsize == 2 else torch.float16).eps
    scale = truth.magnitude.double().clamp_min(torch.finfo(actual.dtype).tiny)
    error = ((actual.double() - truth.expected) / scale).flatten()
    most = float(error.square().mean().sqrt())
    if actual.dtype.itemsize == 2:
        many = float((error[error != 0].abs() > unit).double().mean()) > LEAST_OFF
        units, varies = 8, many and float(error.std(correction=0)) > 0.15 * most
    else:  # a wrong formula may be as near: its errors have one sign
        signs = error[error.abs() > 0.25 * most].sign()
        units, varies = 32, float(signs.mean().abs()) < 0.7
    small = error.numel() < LEAST_ROUNDED
    return bool((error.abs() <= units * unit).all()) and (small or varies)


def _result_of(
    function: Callable[..., Any], observed: Observed, /, **changed: torch.Tensor | float
) -> Outputs:
    """What a function computes from the case's inputs, some of them `changed`."""
    given = {**observed.wide, **observed.numbers, **changed}
    tensors = {name: given[name] for name in observed.tensors}
    numbers = {name: given[name] for name in observed.numbers}
    result = oracle.called(function, tensors, numbers)
    return list(result) if isinstance(result, (tuple, list)) else [result]


# In the order in which they are tried: cheap ones first, and special ones before general ones.
HYPOTHESES: Sequence[Callable[[Observed], Iterator[Attempt]]] = (
    lambda observed: iter(_MOVES),
    _other_scalar,
    _flawed,
    _scaled,
    _exchanged_inputs,
    _by_columns,
    _other_axis,
    _changed_formula,
    _scaled_by_size,
    _rounded,
)

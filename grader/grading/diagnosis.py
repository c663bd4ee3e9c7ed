"""Diagnosis of a failing kernel: the condition under which it fails, and a hint at the mistake.

A condition is proposed only if it separates all failing cases run so far from the passing ones. It
is then tested on more cases, on both sides and next to the boundary. A contradiction drops it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, gt, lt
from typing import Any

from grader.cases import Case, Space
from grader.cases.compare import RAISED, Verdict
from grader.evidence import SourceLine
from grader.status import Status

MAX_PROBES = 12  # for one condition
MAX_PROBES_IN_ALL = 48
_UNWRITTEN = re.compile(r"nothing was written to (\w+)(, only to \w+)?")
# A finite element, and what is expected of it: less than 1e-7, the spacing of numbers about 1.
_NEAR_ZERO = re.compile(r" is -?\d\S*, expected -?\d\S*e-(?:0[89]|[1-9]\d)")


@dataclass(frozen=True)
class Cause:
    """A mistake that was found to explain a failure."""

    name: str
    what: str  # a sentence, perhaps without its stop
    advice: str  # a sentence: what to do
    code: tuple[SourceLine, ...] = ()  # where it is, if not where the failure is
    is_unplaced: bool = False  # whether its place in the code is not known


@dataclass(frozen=True)
class Condition:
    """A property of cases: those that have it fail, the others pass.

    Sizes, layouts, data and scalars are written as in a case's text.
    """

    text: str  # "cols > 1024", "x.layout=row_padded", "data=large"; "" for kind always
    complement: str  # "cols <= 1024"; "" stands for "every other case"
    holds: Callable[[Case], bool]
    kind: str  # above, below, odd_size, not_multiple, not_multiples, layout, data, scalar, always
    subject: str = ""  # the size or argument
    value: int | float | str = ""


@dataclass(frozen=True)
class Separation:
    """A condition that every case confirms."""

    condition: Condition
    failing: int  # cases on each side
    passing: int
    dtype: str = ""  # of all cases, where the variant has other dtypes as well

    @property
    def sentence(self) -> str:
        """For the student."""
        text, complement = self.condition.text, self.condition.complement
        if self.condition.kind == "always":
            which = f"{self.dtype} case" if self.dtype else "case"
            return f"Every {which} fails ({self.failing} tried)."
        rest = f"every case with {complement}" if complement else "every other case"
        return (
            f"Every case with {text} fails ({self.failing} tried); "
            f"{rest} passes ({self.passing} tried)."
        )


def separate(
    space: Space, smallest: Case, outcomes: dict[Case, bool], fails: Callable[[Case], bool | None]
) -> Separation | None:
    """The simplest condition that separates failing from passing cases, or None.

    `outcomes` maps each case that was run to whether it failed, and is added to. `fails` runs a
    case, and returns None when there is no time for more. It is called at most MAX_PROBES_IN_ALL
    times.
    """
    probe = _Prober(outcomes, fails)
    for condition in _candidates(space, smallest, outcomes):
        if not all(condition.holds(case) == failed for case, failed in outcomes.items()):
            continue
        if _confirm(condition, _probes(space, smallest, condition), probe):
            failing = sum(condition.holds(case) for case in outcomes)
            dtype = space.dtype if len(space.task.variant.dtypes) > 1 else ""
            condition = _as_tried(condition, outcomes)
            return Separation(condition, failing, len(outcomes) - failing, dtype)
    return None


def hint(verdict: Verdict, separation: Separation | None) -> str:
    """A question that points at the likely mistake, or "" where none is likely.

    Only a condition that was tried says anything on layouts, data and scalars.
    """
    if verdict.pattern == RAISED or verdict.status is Status.compile_error:
        return ""  # the other hints are about kernels that run, and none has
    condition = separation.condition if separation else None
    return (
        _hint_from_status(verdict, condition)
        or _hint_from_lost_digits(verdict, condition)
        or _hint_from_condition(verdict, condition)
        or (_HINT_NOT_FINITE if verdict.status is Status.not_finite else "")
    )


# --- conditions --------------------------------------------------------------------------------


def _candidates(space: Space, smallest: Case, outcomes: dict[Case, bool]) -> Iterator[Condition]:
    """Conditions that the smallest failing case meets, the simplest first."""
    yield Condition("", "", lambda case: True, "always")
    categorical = list(_categorical(space, smallest))
    yield from categorical
    sizes = list(_of_sizes(smallest, outcomes))
    yield from sizes
    if len(smallest.sizes) > 1:
        yield from map(partial(_of_tiles, smallest), (2**k for k in range(2, 8)))
    # Padded rows only matter where there is a second row, so both conditions count together.
    for one in categorical:
        passing = {case: failed for case, failed in outcomes.items() if one.holds(case)}
        for other in _of_sizes(smallest, passing):
            is_alone = not any(other.holds(case) and not one.holds(case) for case in outcomes)
            if other.kind == "above" and not is_alone:
                yield _both(one, other)


def _categorical(space: Space, smallest: Case) -> Iterator[Condition]:
    for tensor in space.tensors:
        if len(tensor.layout) > 1:
            name = f"{tensor.name}.layout"
            others = [f"{name}={v}" for v in tensor.layout if v != smallest.layout_of(tensor)]
            rest = others[0] if len(others) == 1 else ""
            of = partial(Case.layout_of, tensor=tensor)
            yield _as_in(smallest, of, name, rest, "layout", tensor.name)
    if len(space.task.exercise.data) > 1:
        yield _as_in(smallest, attrgetter("data"), "data", "other data", "data", "data")
    for name, _ in smallest.patterns:
        of_input = partial(lambda of, case: dict(case.patterns).get(of), name)
        yield _as_in(smallest, of_input, f"{name}.data", f"other data in {name}", "data", name)
    for scalar in space.scalars:
        if len(scalar.values) > 1:
            name, value = scalar.name, smallest.scalar(scalar)
            rest = f"{name}={not value}" if isinstance(value, bool) else f"another {name}"
            given = partial(Case.scalar, scalar=scalar)
            yield _as_in(smallest, given, name, rest, "scalar", name)


def _as_in(
    smallest: Case, of: Callable[[Case], Any], name: str, rest: str, kind: str, subject: str
) -> Condition:
    """The condition that what `of` gives is as in the smallest failing case."""
    value = of(smallest)
    return Condition(f"{name}={value}", rest, lambda case: of(case) == value, kind, subject, value)


def _of_sizes(smallest: Case, outcomes: dict[Case, bool]) -> Iterator[Condition]:
    """Bounds between the smallest failing case and the nearest passing one, and remainders."""
    # Of two sizes that separate alike, the larger one comes first: it is what passes a block's end.
    for name, value in sorted(smallest.sizes, key=lambda each: each[1], reverse=True):
        passing = [case.size(name) for case, failed in outcomes.items() if not failed]
        below = [size for size in passing if size < value]
        if below:
            yield _of_size("above", name, max(below))
        above = [size for size in passing if size > value]
        if above:
            yield _of_size("below", name, min(above))
        if not _power_of_two(value):
            yield _of_size("odd_size", name)
        for k in range(1, 14):
            if value % 2**k:
                yield _of_size("not_multiple", name, 2**k)


# By kind: a condition on a size and its complement, in words, and whether a size meets it.
_OF_SIZES: dict[str, tuple[str, str, Callable[[int, int], bool]]] = {
    "above": ("{} > {}", "{} <= {}", gt),
    "below": ("{} < {}", "{} >= {}", lt),
    "odd_size": ("{} not a power of two", "{} a power of two", lambda n, _: not _power_of_two(n)),
    "not_multiple": ("{} not a multiple of {}", "{} a multiple of {}", lambda n, k: n % k > 0),
}


def _of_size(kind: str, name: str, value: int = 0) -> Condition:
    """A condition on one size, and for most kinds on how it compares with a value."""
    text, other, is_met = _OF_SIZES[kind]
    words = text.format(name, value), other.format(name, value)
    return Condition(*words, lambda case: is_met(case.size(name), value), kind, name, value)


def _of_tiles(smallest: Case, step: int) -> Condition:
    """The condition that some size isn't a multiple of `step`: a kernel is for whole tiles only."""
    *first, last = (name for name, _ in smallest.sizes)
    either, all_of = (f"{', '.join(first)} {word} {last}" for word in ("or", "and"))
    return Condition(
        f"{either} not a multiple of {step}",
        f"{all_of} multiples of {step}",
        lambda case: any(size % step for _, size in case.sizes),
        "not_multiples",
        either,
        step,
    )


def _as_tried(condition: Condition, outcomes: dict[Case, bool]) -> Condition:
    """The condition, with the nearest size that failed where its own bound is far from that."""
    choose, sign = {"above": (min, ">="), "below": (max, "<=")}.get(condition.kind, (None, ""))
    if choose is None:
        return condition
    name = condition.subject
    nearest = choose(case.size(name) for case, failed in outcomes.items() if failed)
    low, high = sorted((nearest, int(condition.value)))
    is_near = high - low == 1 or 2 * high < 3 * low
    return condition if is_near else replace(condition, text=f"{name} {sign} {nearest}", value=0)


def _both(one: Condition, other: Condition) -> Condition:
    """Both conditions, explained by the first."""
    return replace(
        one,
        text=f"{one.text} and {other.text}",
        complement="",
        holds=lambda case: one.holds(case) and other.holds(case),
    )


# --- probing -----------------------------------------------------------------------------------


@dataclass
class _Prober:
    """Runs new cases, within a budget."""

    outcomes: dict[Case, bool]
    fails: Callable[[Case], bool | None]
    left: int = MAX_PROBES_IN_ALL

    def __call__(self, case: Case) -> bool | None:
        """Whether the case fails; None when there is no time or budget to run it."""
        if case in self.outcomes:
            return self.outcomes[case]
        if self.left <= 0:
            return None
        self.left -= 1
        failed = self.fails(case)
        if failed is not None:
            self.outcomes[case] = failed
        return failed


def _confirm(condition: Condition, probes: Iterable[Case], probe: _Prober) -> bool:
    """Whether the condition also holds on probes that could contradict it.

    Out of time the cases so far decide if a probe has passed: other passing cases may differ from
    the failing ones in more than this condition.
    """
    contrasted = condition.kind == "always"
    for case in probes:
        failed = probe(case)
        if failed is None:
            if contrasted:
                break
            return False
        if failed != condition.holds(case):
            return False
        contrasted |= not failed
    failing = sum(probe.outcomes.values())
    if condition.kind == "always":
        return failing >= 3
    return failing >= 2 and len(probe.outcomes) - failing >= 2


def _probes(space: Space, smallest: Case, condition: Condition) -> list[Case]:
    """Cases of the class near the boundary and far from it, at most MAX_PROBES."""
    plain = replace(smallest, layouts=(), data=space.plain_data, scalars=(), patterns=())
    if condition.kind in ("above", "below", "not_multiple"):
        name, bound = condition.subject, int(condition.value)
        high = max(rules[name].high for rules in space.alternatives)
        sizes: Iterable[int] = (
            bound, bound + 1, bound - 1, bound + 2, 2 * bound - 1, 2 * bound, 2 * bound + 1,
            3 * bound, 3 * bound + 1, bound // 2, high, high - 1,
        )  # fmt: skip
        probes = [smallest.with_size(name, size) for size in sizes]
        # Early, since at most MAX_PROBES are tried: other sizes may be what matters.
        others = [(other, value) for other, value in smallest.sizes if other != name]
        probes[2:2] = [smallest.with_size(other, value + 1) for other, value in others]
    elif condition.kind == "not_multiples":
        step, names = int(condition.value), [name for name, _ in smallest.sizes]
        probes = [_with_sizes(plain, dict.fromkeys(names, n * step)) for n in (1, 2, 3)]
        more = [(name, step + rest) for name in names for rest in (1, step // 2)]
        probes[2:2] = [probes[0].with_size(*each) for each in more]
    elif condition.kind == "odd_size":
        name, value = condition.subject, smallest.size(condition.subject)
        power = 1 << value.bit_length()
        sizes = (2 * value, power, 3 * power, 1, 2, 6, 12, power // 2, 5 * value, power - 1, 96, 64)
        probes = [smallest.with_size(name, size) for size in sizes]
    else:
        probes = [plain, replace(smallest, layouts=()), replace(smallest, data=space.plain_data)]
        if condition.kind == "always":
            probes += _whole_tiles(space, plain)
        probes.append(replace(smallest, patterns=()))
        for name, value in smallest.sizes:
            sizes = (value + 1, 2 * value, value + 7, value - 1)
            probes += [smallest.with_size(name, size) for size in sizes]
            probes.append(plain.with_size(name, 2 * value))
    allowed = [case for case in dict.fromkeys(probes) if space.allows(dict(case.sizes))]
    return allowed[:MAX_PROBES]


def _whole_tiles(space: Space, case: Case) -> Iterator[Case]:
    """The case with large powers of two as its sizes: many kernels are right for whole tiles only.

    The cases that a search has run may all be small ones, which no such kernel is right for.
    """
    for rules in space.alternatives:
        largest = {name: 1 << (rule.high.bit_length() - 1) for name, rule in rules.items()}
        yield _with_sizes(case, largest)


def _with_sizes(case: Case, sizes: dict[str, int]) -> Case:
    for name, size in sizes.items():
        case = case.with_size(name, size)
    return case


# --- hints -------------------------------------------------------------------------------------


def _hint_from_status(verdict: Verdict, condition: Condition | None) -> str:
    if verdict.status is Status.wrote_out_of_bounds:
        if "between the rows" in verdict.what:
            return "Is the store masked with the number of columns, and are out's strides used?"
        return "Is the store masked with the number of elements, or does a block run past the end?"
    if verdict.status is Status.modified_input:
        return "Which pointer does the store use? Inputs must stay as they are."
    if verdict.status is Status.nondeterministic:
        return (
            "Does one program read what another one writes, or does the result depend on something "
            "that changes between runs?"
        )
    by_size = condition is not None and condition.kind not in ("data", "always", "layout", "below")
    if verdict.status is Status.not_written and verdict.pattern == "nothing" and not by_size:
        name = _UNWRITTEN.search(verdict.what)
        output = name[1] if name else "the output"
        if condition is not None and condition.kind == "below":
            size = condition.subject
            return f"Has a loop no turn, or a grid no block, since {size} // BLOCK is 0 there?"
        if name and name[2]:
            return f"Does a kernel store to {output}, too?"
        return f"Does the entry launch the kernel, and does the kernel store to {output}?"
    if verdict.status is Status.wrong_values and " is nan, expected" in verdict.what:
        return "Where the result is infinite, what gives nan: inf - inf, 0 * inf, 0 / 0?"
    return ""


def _hint_from_lost_digits(verdict: Verdict, condition: Condition | None) -> str:
    """The hint for a result so near 0 that it may be lost beside larger numbers."""
    if condition is None or (condition.kind, condition.value) != ("data", "large"):
        return ""
    if verdict.status is Status.wrong_values and _NEAR_ZERO.search(verdict.what):
        return (
            "What is subtracted from a number nearly equal, so that a small rest is lost, as in "
            "1 + tanh(x) where x is far below 0? Or is anything divided by inf?"
        )
    return ""


def _hint_from_condition(verdict: Verdict, condition: Condition | None) -> str:
    if condition is None:
        return ""
    name, value = condition.subject, condition.value
    if condition.kind == "layout":
        return _LAYOUT_HINTS.get(str(value), "").format(name=name)
    if condition.kind == "data":
        return _DATA_HINTS.get(str(value), "")
    if condition.kind == "scalar" and isinstance(value, bool):
        word = "set" if value else "not set"
        return (
            f"What does the kernel do only where {name} is {word}, and is that right at its edges?"
        )
    if condition.kind == "scalar":
        return f"Is {name} used as it was passed, or does the kernel hold a number of its own?"
    if condition.kind == "not_multiple" and verdict.status in _MAYBE_LEFT_OUT:
        return (
            f"Who stores the last elements of {name}, which are fewer than {value}? A number of "
            "blocks that is rounded down leaves them out."
        )
    if condition.kind == "not_multiples":
        return (
            f"Is the number of blocks rounded up for {name}, and are loads and stores of the last, "
            "partly filled block masked?"
        )
    if condition.kind == "not_multiple":
        return f"Is the last, partly filled block of {name} masked with what adds nothing?"
    if condition.kind == "odd_size":
        return (
            f"A block is often the next power of two: does its size stand where {name} belongs, or "
            f"does what lies past {name} enter the result?"
        )
    if condition.kind == "above" and value != 1 and _power_of_two(value):
        return (
            f"Is every block of {value} along {name} visited, each of them once, and masked, and "
            "has a reduction all its steps?"
        )
    if condition.kind == "below":
        return f"What if a block is larger than {name}: is all that lies past {name} masked?"
    return ""


_MAYBE_LEFT_OUT = (Status.not_written, Status.not_finite)  # memory of torch.empty holds nan
_HINT_NOT_FINITE = (
    "Where does that come from: a division by 0, inf - inf, a number beyond the dtype's "
    "range, or what the output held before, which is full of NaNs: 0 * NaN is NaN?"
)
_LAYOUT_HINTS = {
    "row_padded": "Rows of {name} can lie further apart than they are long: step by its stride(0).",
    "padded": "Gaps can lie between all dimensions of {name}: step by each of its strides.",
    "offset": "{name} need not start at a multiple of 16 bytes: is an aligned access assumed?",
    "transposed": "The elements of a row of {name} need not be neighbours: step by its stride(-1).",
}
_DATA_HINTS = {
    "large": (
        "What leaves the dtype's range: a square, a sum, an exponential? float16 ends at 65504, so "
        "compute in float32; there exp(x) is inf from x = 88.8 on. Of inf / inf, inf - inf and "
        "0 / 0 comes nan."
    ),
    "tiny": (
        "With tiny inputs what is added to them shows (an epsilon), and in float16 their squares "
        "are lost: is each step where, and in the dtype, that the formula needs?"
    ),
    "far_below_zero": (
        "What takes part in a maximum where a mask leaves elements out? A 0 there is above every "
        "element of such a row, and each exp(x - maximum) becomes 0."
    ),
    "huge": "Which step overflows, or is cut off at some bound that no formula has?",
    "any_bits": (
        "Is each element stored just as it was loaded? Whatever computes with it changes some: a "
        "maximum loses nan, a bound infinity, a sum with 0 the sign of -0."
    ),
    "constant_rows": "Is a mean taken over the right number of elements?",
    "one_hot": "Do zeros come out as zeros, and does the one element find its own place?",
}


def _power_of_two(value: int | float | str) -> bool:
    return isinstance(value, int) and value >= 1 and value & (value - 1) == 0

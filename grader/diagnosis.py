"""Why a kernel fails: which cases do, found by probing, and what to try.

A condition is proposed only if it separates every case seen so far, and then has to hold on
cases run for the purpose, on both sides and next to the boundary. What doesn't hold is not said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from grader.cases import Case, Space
from grader.compare import Verdict
from grader.status import Status

MAX_PROBES = 12


@dataclass(frozen=True)
class Condition:
    """A property of cases: those that have it fail, those that haven't pass."""

    text: str  # "cols > 1024"
    complement: str  # "cols <= 1024"
    holds: Callable[[Case], bool]
    kind: str  # above, below, not_multiple, layout, data, scalar, always
    subject: str = ""  # the size or argument it speaks of
    value: int | float | str = ""


@dataclass(frozen=True)
class Separation:
    """A condition that held on every case run."""

    condition: Condition
    failing: int  # cases seen on each side
    passing: int

    @property
    def sentence(self) -> str:
        """For the student."""
        if self.condition.kind == "always":
            return f"Every case fails ({self.failing} tried)."
        return (
            f"Every case with {self.condition.text} fails ({self.failing} tried); "
            f"every case with {self.condition.complement} passes ({self.passing} tried)."
        )


def separate(
    space: Space, smallest: Case, outcomes: dict[Case, bool], fails: Callable[[Case], bool | None]
) -> Separation | None:
    """The simplest condition that tells failing cases from passing ones, or None.

    `outcomes` maps each case seen to whether it failed and is added to; `fails` runs a case,
    and answers None when there is no time for more.
    """
    for condition in _candidates(space, smallest, outcomes):
        if not _agrees(condition, outcomes):
            continue
        if _confirm(space, smallest, condition, outcomes, fails):
            failing = sum(condition.holds(case) for case in outcomes)
            return Separation(condition, failing, len(outcomes) - failing)
    return None


def hint(verdict: Verdict, separation: Separation | None, language: str) -> str:
    """What to try: a question that points at the likely mistake, or "" where nothing is likely."""
    condition = separation.condition if separation else None
    for rule in _HINTS:
        text = rule(verdict, condition)
        if text:
            return text
    return ""


# --- conditions --------------------------------------------------------------------------------


def _candidates(
    space: Space, smallest: Case, outcomes: dict[Case, bool]
) -> Iterator[Condition]:
    """Conditions that the smallest failing case meets, the simplest first."""
    yield Condition("any size", "", lambda case: True, "always")
    yield from _categorical(space, smallest)
    for name, value in smallest.sizes:
        passing = [case.size(name) for case, failed in outcomes.items() if not failed]
        below = [size for size in passing if size < value]
        if below:
            yield _above(name, max(below))
        above = [size for size in passing if size > value]
        if above:
            yield _below(name, min(above))
        for k in range(1, 14):
            if value % 2**k:
                yield _not_multiple(name, 2**k)


def _categorical(space: Space, smallest: Case) -> Iterator[Condition]:
    for tensor in space.tensors:
        layout = smallest.layout_of(tensor)
        if len(tensor.layout) > 1:
            yield Condition(
                f"{tensor.name} {_LAYOUT_WORDS[layout]}",
                f"{tensor.name} {' or '.join(_LAYOUT_WORDS[v] for v in tensor.layout if v != layout)}",
                lambda case, tensor=tensor, layout=layout: case.layout_of(tensor) == layout,
                "layout",
                tensor.name,
                layout,
            )
    if len(space.exercise.data) > 1:
        yield Condition(
            f"{_DATA_WORDS[smallest.data]} data",
            "other data",
            lambda case: case.data == smallest.data,
            "data",
            "",
            smallest.data,
        )
    for scalar in space.scalars:
        value = smallest.scalar(scalar)
        if len(scalar.values) > 1:
            yield Condition(
                f"{scalar.name} = {value}",
                f"another {scalar.name}",
                lambda case, scalar=scalar, value=value: case.scalar(scalar) == value,
                "scalar",
                scalar.name,
                value,
            )


def _above(name: str, bound: int) -> Condition:
    return Condition(
        f"{name} > {bound}",
        f"{name} <= {bound}",
        lambda case: case.size(name) > bound,
        "above",
        name,
        bound,
    )


def _below(name: str, bound: int) -> Condition:
    return Condition(
        f"{name} < {bound}",
        f"{name} >= {bound}",
        lambda case: case.size(name) < bound,
        "below",
        name,
        bound,
    )


def _not_multiple(name: str, step: int) -> Condition:
    return Condition(
        f"{name} not a multiple of {step}",
        f"{name} a multiple of {step}",
        lambda case: bool(case.size(name) % step),
        "not_multiple",
        name,
        step,
    )


def _agrees(condition: Condition, outcomes: dict[Case, bool]) -> bool:
    return all(condition.holds(case) == failed for case, failed in outcomes.items())


def _confirm(
    space: Space,
    smallest: Case,
    condition: Condition,
    outcomes: dict[Case, bool],
    fails: Callable[[Case], bool | None],
) -> bool:
    """Whether the condition also holds on probes chosen to break it."""
    for probe in _probes(space, smallest, condition):
        if probe in outcomes:
            continue
        failed = fails(probe)
        if failed is None:
            break  # out of time: what was seen so far has to do
        outcomes[probe] = failed
        if failed != condition.holds(probe):
            return False
    failing = sum(outcomes.values())
    if condition.kind == "always":
        return failing >= 3
    return failing >= 2 and len(outcomes) - failing >= 2


def _probes(space: Space, smallest: Case, condition: Condition) -> list[Case]:
    """Cases next to the boundary and far from it, that the class (or its neighbours) allows."""
    probes: dict[Case, None] = {}
    if condition.kind in ("above", "below", "not_multiple"):
        name, bound = condition.subject, int(condition.value)
        high = max(rules[name].high for rules in space.alternatives)
        sizes: Iterable[int] = (
            bound, bound + 1, bound - 1, bound + 2, 2 * bound - 1, 2 * bound, 2 * bound + 1,
            3 * bound, 3 * bound + 1, bound // 2, high, high - 1,
        )  # fmt: skip
        probes |= {smallest.with_size(name, size): None for size in sizes}
    else:
        for name, value in smallest.sizes:
            sizes = (value + 1, 2 * value, value + 7, value - 1)
            probes |= {smallest.with_size(name, size): None for size in sizes}
        probes |= {replace(smallest, layouts=(), data="normal", scalars=()): None}
        probes |= {replace(smallest, layouts=()): None, replace(smallest, data="normal"): None}
    allowed = [case for case in probes if space.allows(dict(case.sizes))]
    return allowed[:MAX_PROBES]


# --- hints -------------------------------------------------------------------------------------


def _hint_from_status(verdict: Verdict, condition: Condition | None) -> str:
    if verdict.status is Status.wrote_out_of_bounds:
        if "between the rows" in verdict.what:
            return "Is the store masked with the number of columns, and does it step by out's stride?"
        return "Is the store masked with the number of elements, or does a block run past the end?"
    if verdict.status is Status.modified_input:
        return "Which pointer does the store use? Inputs must stay as they are."
    if verdict.status is Status.nondeterministic:
        return (
            "Does one program read what another one writes, or does the result depend on something "
            "that changes between runs?"
        )
    if verdict.status is Status.not_written:
        if verdict.pattern == "nothing":
            return "Does the entry launch the kernel, and does the kernel store to `out`?"
        if verdict.pattern in ("tail", "rows_tail"):
            return "Does the grid cover the last, partly filled block? triton.cdiv rounds up."
        return "Which programs write these elements? Count them against the grid."
    return ""


def _hint_from_condition(verdict: Verdict, condition: Condition | None) -> str:
    if condition is None:
        return ""
    size, bound = condition.subject, condition.value
    if condition.kind == "layout" and bound == "row_padded":
        return f"Rows of {size} can lie further apart than they are long: step by its stride(0)."
    if condition.kind == "layout" and bound == "offset":
        return f"{size} need not start at a multiple of 16 bytes: is an aligned access assumed?"
    if condition.kind == "above" and _power_of_two(bound):
        return f"Does the kernel loop over, or mask, {size} past one block of {bound}?"
    if condition.kind == "above" and bound == 1:
        return f"Only {size} = 1 works: does every program find its own part?"
    if condition.kind == "not_multiple":
        return f"Is the last, partly filled block of {size} masked with what adds nothing?"
    if condition.kind == "data":
        return _DATA_HINTS.get(str(bound), "")
    return ""


def _hint_from_values(verdict: Verdict, condition: Condition | None) -> str:
    if verdict.status is Status.not_finite:
        return "Does a power or an exponential leave the dtype's range, or something divide by 0?"
    if condition is not None and condition.kind == "always" and verdict.pattern == "all":
        return "Compare one element by hand with the definition in reference/oracles.py."
    return ""


_HINTS: Sequence[Callable[[Verdict, Condition | None], str]] = (
    _hint_from_status,
    _hint_from_condition,
    _hint_from_values,
)

_LAYOUT_WORDS = {
    "contiguous": "contiguous",
    "row_padded": "with padded rows",
    "offset": "at an unaligned address",
    "transposed": "transposed",
}
_DATA_WORDS = {
    "normal": "normal",
    "large": "large",
    "tiny": "tiny",
    "constant_rows": "constant",
    "one_hot": "one-hot",
}
_DATA_HINTS = {
    "large": "Is the sum kept in float32? float16 ends at 65504.",
    "tiny": "With tiny inputs the term added for stability shows: is it where the formula has it?",
    "constant_rows": "Is a mean taken over the right number of elements?",
    "one_hot": "Do zeros come out as zeros, and does the one element find its own place?",
}


def _power_of_two(value: int | float | str) -> bool:
    return isinstance(value, int) and value > 1 and value & (value - 1) == 0

"""What the elements of an input are, beyond the case's data: the key `values` of an argument.

    values: uniform             floats from 0 to 1
    values: normal              standard normal, and no harder pattern
    values: full_range          any finite value of the dtype; integers are drawn so by default
    values: positive            above 0
    values: one_hot             a 1 in each row, and zeros
    values: permutation         0 to n - 1 in each row, in any order
    values: sorted              each row in rising order
    values: [0, V - 1]          from a lowest to a highest value, both included
    values: {sorted: [0, 9]}    one of the others, each row in rising order
    values: {offsets: nnz}      each row rises from 0 to a total, as the row pointers of CSR do

Bounds are formulas over sizes and scalars that are whole numbers. A row lies along the last
dimension.

Each input is drawn in patterns. The first one is usual. The others are hard: they meet overflow in
an accumulator, collisions, and the ends of a range. Every pattern occurs among a part's cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from grader.spec.formula import Formula, FormulaError, Number
from grader.spec.values import FLOATS, INTEGERS, Block, choice_problem, refusal, unexpected

Word = Literal["normal", "uniform", "full_range", "positive", "one_hot", "permutation"]
_WORDS = (*get_args(Word), "sorted")
_OTHER_FORMS = "[lowest, highest], {sorted: ...} or {offsets: total}"

USUAL = "usual"
# Of integers: from -8 to 8; each element the dtype's or the range's lowest; its highest.
SMALL, LOWEST, HIGHEST = "small", "lowest", "highest"
IN_ORDER, REVERSED = "in_order", "reversed"  # of permutations
# Of offsets: the first row has everything, or the last.
ALL_FIRST, ALL_LAST = "all_first", "all_last"
MOST = 2**63 - 1  # of a range of whole numbers; `full_range` has them all


class Ends(NamedTuple):
    """The lowest and the highest value of an input in one case."""

    low: Number
    high: Number


class Contents(Block):
    """What the elements of an input are.

    `default` is what an argument without `values` has: floats by the exercise's `data`, integers
    over their full range. `range` has `low` and `high`; `offsets` rise from 0 to `high`.
    """

    kind: Word | Literal["default", "range", "offsets"] = "default"
    low: Formula | None = None
    high: Formula | None = None
    in_order: bool = False  # each row rises

    @property
    def names(self) -> frozenset[str]:
        """The sizes and scalars that the bounds depend on."""
        bounds = (each for each in (self.low, self.high) if each is not None)
        return frozenset(name for each in bounds for name in each.names)

    def problem(self, dtype: str) -> str:
        """Why elements of this dtype can't be so, or ""."""
        if self.kind in ("normal", "uniform") and dtype not in FLOATS:
            return f"expected full_range or [lowest, highest] for {dtype}, got {self.kind}"
        if self.kind in ("permutation", "offsets") and dtype not in INTEGERS:
            return f"expected an integer dtype for {self.kind}, got {dtype}"
        if dtype == "bool" and self.kind not in ("default", "full_range", "one_hot"):
            return f"expected full_range or one_hot for bool, got {self.kind}"
        return ""

    def patterns(self, dtype: str, data: tuple[str, ...]) -> tuple[str, ...]:
        """The patterns that elements are drawn in; `data` are the exercise's, for floats."""
        is_float = dtype in FLOATS
        if is_float and self.kind in ("default", "positive"):
            kept = (each for each in data if self.kind == "default" or each != "one_hot")
            return tuple(dict.fromkeys(("normal", *kept)))
        if self.kind == "range":
            return (USUAL, LOWEST, HIGHEST)
        if self.kind == "permutation":
            return (USUAL, IN_ORDER, REVERSED)
        if self.kind == "offsets":
            return (USUAL, ALL_FIRST, ALL_LAST)
        if is_float or self.kind == "one_hot":
            return (USUAL,)
        small = () if dtype == "bool" else (SMALL,)
        lowest = () if self.kind == "positive" else (LOWEST,)
        return (USUAL, *small, *lowest, HIGHEST)

    def ends(self, env: Mapping[str, Number], dtype: str) -> Ends:
        """The lowest and the highest value of a `range` or of `offsets`.

        Raises FormulaError where the dtype can't hold them, or the highest is below the lowest.
        """
        assert self.high is not None  # these two kinds have it
        low = 0 if self.low is None else self.low.evaluate(env)
        high = self.high.evaluate(env)
        if low > high:
            least = 0 if self.low is None else self.low
            raise FormulaError(f"expected {least} <= {self.high}, got {low} and {high}")
        for bound in (low, high):
            if dtype in INTEGERS and not isinstance(bound, int):
                raise FormulaError(f"expected whole numbers for {dtype}, got {bound:g}")
            if not holds(dtype, bound):
                raise FormulaError(f"expected numbers that {dtype} holds, got {bound}")
        if dtype in INTEGERS and (high >= MOST or high - low >= MOST):
            raise FormulaError(f"expected numbers below 2**63 - 1, and fewer, got {low} to {high}")
        return Ends(low, high)


def holds(dtype: str, number: Number) -> bool:
    """Whether a dtype holds a number; floats hold all."""
    low, high = INTEGERS.get(dtype, (number, number))
    return bool(low <= number <= high)


def contents_of(value: object) -> Contents:
    """Contents from any of their forms in YAML."""
    if isinstance(value, Contents):
        return value
    if isinstance(value, str):
        if problem := choice_problem(_WORDS, value):
            raise refusal(f"{problem}; or {_OTHER_FORMS}")
        if value == "sorted":
            return Contents(in_order=True)
        return Contents.model_validate({"kind": value})
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise refusal(f"expected [lowest, highest], got a list of {len(value)}")
        return Contents(kind="range", low=Formula.of(value[0]), high=Formula.of(value[1]))
    if isinstance(value, Mapping) and len(value) == 1:
        [(key, inner)] = value.items()
        if problem := choice_problem(("sorted", "offsets"), key):
            raise refusal(problem)
        if key == "offsets":
            return Contents(kind="offsets", high=Formula.of(inner))
        ordered = contents_of(inner)
        if ordered.kind in ("one_hot", "permutation", "offsets"):
            raise refusal(f"expected values that can be sorted, got {ordered.kind}")
        return ordered.model_copy(update={"in_order": True})
    raise unexpected(f"one of {', '.join(_WORDS)}, {_OTHER_FORMS}", value)

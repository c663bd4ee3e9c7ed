"""Concrete cases of a spec: the sizes, layouts, scalars and data that a kernel is run on.

A size class starts with its edge cases: each size at 1, 2, 3 and at 2^k - 1, 2^k, 2^k + 1 where the
class allows it, since masks and grids fail there. Hypothesis draws more. A case fits on a command
line, so that it can be repeated.
"""

from __future__ import annotations

import difflib
import itertools
import math
import random
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

from grader.spec import Scalar, SizeRule, Tensor, Variant, drawn_sizes
from grader.spec.formula import FormulaError
from grader.spec.task import Task
from grader.spec.values import FLOATS

MAX_SIZE = 1 << 20  # of a case on the command line
MAX_ELEMENTS = 1 << 26
MAX_PLANNED_SIZE = 1 << 31  # of a size, where nothing runs
_TRIES = 100  # of drawing sizes that meet a spec's relations
MAX_PLANNED_ELEMENTS = 1 << 33  # of a tensor there


class CaseError(ValueError):
    """The text of a case doesn't fit its exercise: the message names the word and the reason."""


@dataclass(frozen=True)
class Case:
    """Concrete sizes, dtype, layouts, scalars and data patterns, and the seed of the data.

    `data` is the leading input's pattern, `patterns` are the other inputs'. `layouts`, `scalars`
    and `patterns` hold only what differs from the first choice, in the spec's order, so that equal
    cases are equal values.
    """

    sizes: tuple[tuple[str, int], ...]
    dtype: str
    seed: int
    data: str = "normal"
    layouts: tuple[tuple[str, str], ...] = ()
    scalars: tuple[tuple[str, float | int | bool], ...] = ()
    patterns: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """The text for --case: `rows=1 cols=1025 dtype=float16 seed=7`."""
        words = [f"{name}={value}" for name, value in self.sizes]
        words.append(f"dtype={self.dtype}")
        if self.data != "normal":
            words.append(f"data={self.data}")
        words += [f"{name}.data={pattern}" for name, pattern in self.patterns]
        words += [f"{name}.layout={layout}" for name, layout in self.layouts]
        words += [f"{name}={value}" for name, value in self.scalars]
        return " ".join([*words, f"seed={self.seed}"])

    @property
    def elements(self) -> int:
        """The product of the sizes."""
        return math.prod(value for _, value in self.sizes)

    def size(self, name: str) -> int:
        return dict(self.sizes)[name]

    def with_size(self, name: str, value: int) -> Case:
        return replace(self, sizes=tuple((n, value if n == name else v) for n, v in self.sizes))

    def layout_of(self, tensor: Tensor) -> str:
        return dict(self.layouts).get(tensor.name, tensor.layout[0])

    def scalar(self, scalar: Scalar) -> float | int | bool:
        if scalar.follows is not None:
            return scalar.followed(dict(self.sizes))
        values: Mapping[str, float | int | bool] = dict(self.scalars)
        return values.get(scalar.name, scalar.values[0])

    @property
    def complexity(self) -> tuple[int, int, int, int, int]:
        """The sort key of the smallest failing case: size first, then plainness."""
        return (
            self.elements,
            sum(value for _, value in self.sizes),
            len(self.layouts),
            int(self.data != "normal") + len(self.patterns),
            len(self.scalars),
        )


def agrees(text: str, variant: Variant, named: Mapping[str, Any]) -> bool:
    """Whether the text of a case is that of the fixed case in a spec's block."""
    words = dict(word.partition("=")[::2] for word in text.split())
    wanted = {"dtype": variant.dtypes[0], **named}
    # A case's text omits the spec's first choices; sizes and dtype are always in it.
    return "dtype" in words and all(
        words.get(name, str(value)) == str(value)
        for name, value in wanted.items()
        if type(value) is int or name == "dtype"
    )


def fixed_case(task: Task, given: Mapping[str, Any], seed: int) -> Case:
    """The fixed case of a spec's block, on which speed or use of memory is measured."""
    return Case(
        sizes=tuple((name, int(given[name])) for name in task.exercise.sizes_names),
        dtype=str(given.get("dtype", task.variant.dtypes[0])),
        seed=seed,
        data=str(given.get("data", "normal")),
        scalars=tuple(
            (argument.name, given[argument.name])
            for argument in task.signature
            if isinstance(argument, Scalar) and argument.name in given
        ),
    )


@dataclass(frozen=True)
class Space:
    """All cases of one dtype and size class of a variant."""

    task: Task
    dtype: str
    size_class: str
    seed: int

    @cached_property
    def tensors(self) -> list[Tensor]:
        return [each for each in self.task.signature if isinstance(each, Tensor)]

    @cached_property
    def scalars(self) -> list[Scalar]:
        """The scalars that a case chooses a value of."""
        scalars = (e for e in self.task.signature if isinstance(e, Scalar))
        return [each for each in scalars if each.follows is None]

    @cached_property
    def patterns(self) -> dict[str, tuple[str, ...]]:
        """The patterns of each input but the leading one, whose are the exercise's `data`."""
        inputs = self.task.inputs
        leading = self.task.exercise.leading_input(self.task.variant, self.dtype)
        return {
            each.name: each.contents.patterns(
                each.concrete_dtype(self.dtype), self.task.exercise.data
            )
            for each in inputs
            if each.name != leading
        }

    @property
    def alternatives(self) -> tuple[dict[str, SizeRule], ...]:
        """The rules for sizes; a case follows one of the mappings."""
        return self.task.exercise.sizes[self.size_class]

    @cached_property
    def drawn_from(self) -> Sequence[dict[str, SizeRule]]:
        """The alternatives with sizes that no edge case has, or all where there is no such one.

        Of the others each combination of sizes is one case, so that large ones cost little.
        """
        unlisted = [each for each in self.alternatives if not drawn_sizes.is_exhausted(each)]
        return unlisted or self.alternatives

    @property
    def plain_data(self) -> str:
        """The plainest data pattern: normal, or the spec's first."""
        return "normal" if "normal" in self.task.exercise.data else self.task.exercise.data[0]

    def allows(self, sizes: Mapping[str, int]) -> bool:
        return drawn_sizes.meet(self.task.exercise.where, sizes) and any(
            all(rule.contains(sizes[name]) for name, rule in rules.items())
            for rules in self.alternatives
        )

    def case(
        self,
        sizes: Mapping[str, int],
        data: str,
        layouts: Mapping[str, str],
        scalars: Mapping[str, float | int | bool],
        patterns: Mapping[str, str] | None = None,
    ) -> Case:
        """A case in the spec's order, without first choices."""
        return Case(
            sizes=tuple((name, sizes[name]) for name in self.task.exercise.sizes_names),
            dtype=self.dtype,
            seed=self.seed,
            data=data,
            layouts=tuple(
                (tensor.name, layouts[tensor.name])
                for tensor in self.tensors
                if layouts.get(tensor.name, tensor.layout[0]) != tensor.layout[0]
            ),
            scalars=tuple(
                (scalar.name, scalars[scalar.name])
                for scalar in self.scalars
                if scalars.get(scalar.name, scalar.values[0]) != scalar.values[0]
            ),
            patterns=tuple(
                (name, patterns[name])
                for name, known in self.patterns.items()
                if patterns and patterns.get(name, known[0]) != known[0]
            ),
        )

    def edges(self) -> list[Case]:
        """The cases that are always run, smallest first."""
        leading = self.leading_edges()
        return sorted(
            dict.fromkeys((*leading, *self._other_edges(leading))), key=attrgetter("complexity")
        )

    def leading_edges(self) -> list[Case]:
        """The edge cases in which inputs without `values` but the leading one are normal.

        All sizes go through their edges together, not in every combination. Data patterns, layouts
        and scalars alternate, and each occurs even if there are few sizes.
        """
        cases: dict[Case, None] = {}
        turn = itertools.count()
        for rules in self.alternatives:
            turns = self._enough_turns if rules in self.drawn_from else 1
            for sizes in drawn_sizes.edges(rules, self.task.exercise.where, turns):
                cases[self._turn(sizes, next(turn))] = None
        return sorted(cases, key=attrgetter("complexity"))

    def _other_edges(self, cases: Sequence[Case]) -> Iterator[Case]:
        """A case for each pattern of each float input but the leading one, on sizes of `cases`.

        They come on top of the others, which so stay what they were before inputs but the leading
        one had patterns: results of those are kept.
        """
        wanted = [
            (name, pattern)
            for name, known in self.patterns.items()
            if name not in self.stated
            for pattern in known[1:]
        ]
        middle = len(cases) // 2
        for index, pair in enumerate(wanted):
            case = cases[(middle + index) % len(cases)]
            yield replace(case, data=self.plain_data, patterns=(pair,))

    @cached_property
    def stated(self) -> dict[str, tuple[str, ...]]:
        """The patterns that are drawn for inputs with `values` and for integers.

        Other floats' patterns are in edge cases alone: drawn cases stay those of stored results.
        """
        stated = {
            each.name
            for each in self.task.inputs
            if each.values is not None or each.concrete_dtype(self.dtype) not in FLOATS
        }
        return {name: known for name, known in self.patterns.items() if name in stated}

    @cached_property
    def _choices(self) -> dict[str, tuple[Any, ...]]:
        """The alternatives by name, besides sizes, where there are any."""
        choices: dict[str, tuple[Any, ...]] = {"data": self.task.exercise.data}
        choices |= {f"{name}.data": patterns for name, patterns in self.stated.items()}
        choices |= {f"{tensor.name}.layout": tensor.layout for tensor in self.tensors}
        choices |= {scalar.name: scalar.values for scalar in self.scalars}
        return {name: values for name, values in choices.items() if len(values) > 1}

    @property
    def _enough_turns(self) -> int:
        """Turns after which each alternative was chosen."""
        return max((pace * len(v) for pace, v in enumerate(self._choices.values(), 1)), default=1)

    def _turn(self, sizes: Mapping[str, int], turn: int) -> Case:
        """The case of one turn, in which each choice changes at its own pace.

        `turn` is a number whose digits count through the choices. A choice adds its digit to the
        digits below it, so that each combination occurs.
        """
        chosen: dict[str, Any] = {"data": self.plain_data}
        below = 1  # the combinations of the choices so far
        for pace, (name, values) in enumerate(self._choices.items(), 1):
            digit, lower = divmod(turn, below)
            # `lower` varies the later choices from the start, while their digit is still 0.
            chosen[name] = values[(digit + lower // max(pace - 1, 1)) % len(values)]
            below *= len(values)
        layouts = {
            tensor.name: chosen.get(f"{tensor.name}.layout", tensor.layout[0])
            for tensor in self.tensors
        }
        scalars = {s.name: chosen.get(s.name, s.values[0]) for s in self.scalars}
        patterns = {
            name: chosen.get(f"{name}.data", known[0]) for name, known in self.stated.items()
        }
        return self.case(sizes, chosen["data"], layouts, scalars, patterns)


def drawn_case(space: Space, chooser: random.Random) -> Case:
    """A case of a space as `chooser` draws it.

    Its sizes are an edge case's where none of many draws meets the spec's relations.
    """
    for _ in range(_TRIES):
        sizes = drawn_sizes.drawn(chooser.choice(space.alternatives), chooser)
        if drawn_sizes.meet(space.task.exercise.where, sizes):
            break
    else:
        sizes = dict(chooser.choice(space.leading_edges()).sizes)
    return _with_sizes(space, sizes, chooser)


def named_cases(
    space: Space, numbers: Collection[int], most: int, chooser: random.Random
) -> list[Case]:
    """Cases with a size that a submission's text names, or else one beside it; the rest is drawn.

    A kernel whose tiles are 48 wide may be wrong at 48, 49 or 47 alone. Sizes of edge cases are
    left out, so a text that names powers of two has no such cases.
    """
    wanted: dict[tuple[int, str, int], None] = {}
    for beside in (0, 1, -1):
        listed = [
            (place, name, size)
            for place, rules in enumerate(space.alternatives)
            for name, rule in rules.items()
            for size in sorted(drawn_sizes.named_sizes(rule, numbers, beside))
        ]
        wanted |= dict.fromkeys(chooser.sample(listed, len(listed)))
    cases = []
    for place, name, size in itertools.islice(wanted, most):
        sizes = drawn_sizes.drawn(space.alternatives[place], chooser) | {name: size}
        if drawn_sizes.meet(space.task.exercise.where, sizes):
            cases.append(_with_sizes(space, sizes, chooser))
    return cases


def _with_sizes(space: Space, sizes: Mapping[str, int], chooser: random.Random) -> Case:
    return space.case(
        sizes,
        chooser.choice(space.task.exercise.data),
        {tensor.name: chooser.choice(tensor.layout) for tensor in space.tensors},
        {scalar.name: chooser.choice(scalar.values) for scalar in space.scalars},
        {name: chooser.choice(known) for name, known in space.stated.items()},
    )


def parse(text: str, task: Task, seed: int, is_run: bool = True) -> Case:
    """The case that a `--case` text describes; what it omits has the spec's first choice.

    `is_run=False` is for a case that is only planned, which may be larger. Raises CaseError for a
    word that isn't `key=value`, an unknown or repeated key, and an impossible value.
    """
    exercise = task.exercise
    space = Space(task, task.variant.dtypes[0], next(iter(exercise.sizes)), seed)
    readers = _readers(space, MAX_SIZE if is_run else MAX_PLANNED_SIZE)
    given: dict[str, Any] = {}
    for key, value in _words(text):
        if key not in readers:
            raise CaseError(_unknown_key(key, space))
        if key in given:
            raise CaseError(f"{key}: expected one value, got another one: {value!r}")
        given[key] = readers[key](key, value)
    missing = [name for name in exercise.sizes_names if name not in given]
    if missing:
        raise CaseError(f"expected a value for {' and '.join(missing)}, as in {missing[0]}=17")
    space = replace(space, dtype=given.get("dtype", space.dtype), seed=given.get("seed", seed))
    layouts, patterns = (
        {key.removesuffix(end): value for key, value in given.items() if key.endswith(end)}
        for end in (".layout", ".data")
    )
    scalars = {scalar.name: given[scalar.name] for scalar in space.scalars if scalar.name in given}
    case = space.case(given, given.get("data", space.plain_data), layouts, scalars, patterns)
    if is_run and case.elements > MAX_ELEMENTS:
        raise CaseError(f"expected at most {MAX_ELEMENTS} elements in all, got {case.elements}")
    for relation in exercise.where:
        if not drawn_sizes.meet([relation], dict(case.sizes)):
            raise CaseError(f"expected sizes with {relation}, as the spec's `where` has it")
    for tensor in space.tensors:
        try:
            elements = math.prod(tensor.concrete_shape(dict(case.sizes)))
        except FormulaError as error:
            raise CaseError(f"the shape of {tensor.name}: {error}") from None
        if elements > MAX_PLANNED_ELEMENTS:
            raise CaseError(
                f"{tensor.name}: expected at most {MAX_PLANNED_ELEMENTS} elements, got {elements}"
            )
    return case


def _readers(space: Space, largest: int = MAX_SIZE) -> dict[str, Callable[[str, str], Any]]:
    """The reader of a value, for each key of a case's text; no size is above `largest`."""
    exercise = space.task.exercise
    readers: dict[str, Callable[[str, str], Any]] = {
        name: partial(_whole, low=least, high=largest)
        for name in exercise.sizes_names
        for least in [int(not any(rule.or_zero for rule in exercise.rules_of(name)))]
    }
    readers["dtype"] = partial(_choice, known=space.task.variant.dtypes)
    readers["data"] = partial(_choice, known=exercise.data)
    readers["seed"] = partial(_whole, low=0, high=2**63)
    for scalar in space.scalars:
        readers[scalar.name] = partial(_scalar, kind=scalar.scalar)
    for tensor in space.tensors:
        readers[f"{tensor.name}.layout"] = partial(_choice, known=tensor.layout)
    # The dtype is perhaps not read yet: the patterns of all of them are known.
    spaces = [replace(space, dtype=dtype) for dtype in space.task.variant.dtypes]
    for name in {name for each in spaces for name in each.patterns}:
        known = tuple(
            dict.fromkeys(word for each in spaces for word in each.patterns.get(name, ()))
        )
        readers[f"{name}.data"] = partial(_choice, known=known)
    return readers


def _unknown_key(key: str, space: Space) -> str:
    single = {f"{tensor.name}.layout" for tensor in space.tensors if len(tensor.layout) == 1}
    single |= {f"{name}.data" for name, patterns in space.patterns.items() if len(patterns) == 1}
    known = [name for name in _readers(space) if name not in single]
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{key}: expected one of {', '.join(known)}{hint}"


def _words(text: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CaseError(f"can't be read: {error}") from None
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise CaseError(f"expected words like rows=17, got {word!r}")
        if "=" in value:
            raise CaseError(f"{key}: expected blanks between words like rows=17, got {word!r}")
        yield key, value


def _whole(key: str, value: str, *, low: int, high: int) -> int:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise CaseError(f"{key}: expected a whole number, got {value!r}")
    if not low <= int(value) <= high:
        raise CaseError(f"{key}: expected {low} to {high}, got {value}")
    return int(value)


def _choice(key: str, value: str, *, known: tuple[str, ...]) -> str:
    if value not in known:
        raise CaseError(f"{key}: expected one of {', '.join(known)}, got {value!r}")
    return value


def _scalar(key: str, value: str, *, kind: str) -> float | int | bool:
    try:
        if kind == "bool":
            return {"true": True, "false": False}[value.lower()]
        number = int(value) if kind == "int" else float(value)
    except (KeyError, ValueError):
        raise CaseError(f"{key}: expected {_KINDS[kind]}, got {value!r}") from None
    if kind == "int" and not -(2**63) <= number < 2**63:
        raise CaseError(f"{key}: expected a whole number of 64 bits, got {value}")
    if not math.isfinite(number):
        raise CaseError(f"{key}: expected a finite number, got {value}")
    return number


_KINDS = {"bool": "true or false", "int": "a whole number", "float": "a number"}

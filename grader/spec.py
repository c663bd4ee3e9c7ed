"""Exercise specs: YAML in, frozen and validated objects out.

One file of `grader/exercises/` is one Exercise. Reading goes text -> YAML nodes (which know their
lines) -> plain data -> pydantic models -> checks across fields. Whatever is wrong becomes one
line each in a SpecError:

    rmsnorm.yaml:31: variants.triton.points.ragged: expected a number >= 0, got -2
"""

from __future__ import annotations

import difflib
import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import pydantic
import yaml
from pydantic import BeforeValidator, Discriminator, Tag, ValidationInfo
from pydantic_core import PydanticCustomError

from grader.formula import FUNCTIONS, Formula, FormulaError

EXERCISES = Path(__file__).parent / "exercises"

# Bytes per element of every dtype a spec may name.
ITEMSIZE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
FLOATS = ("float64", "float32", "float16", "bfloat16")

Layout = Literal["contiguous", "row_padded", "offset", "transposed"]
Pattern = Literal["normal", "large", "tiny", "constant_rows", "one_hot"]
Yardstick = Literal["copy", "torch", "compile", "reference", "roofline"]

MAX_LINES = 10  # of a SpecError
MAX_RANK = 8  # what the protocol's request has room for
MAX_INT = 2**31 - 1
MAX_NODES = 20_000  # of a file: what aliases of aliases would pass
# Words a case string or a formula uses for something else.
RESERVED = frozenset({"itemsize", "dtype", "seed", "data", "layout", *FUNCTIONS})
# pytest -k matches a word against these too, so no exercise's stem may lie inside one of them.
SURROUNDINGS = ("tests", "grader", "assignment", "reference", "test_assignment.py", "performance")


class SpecError(ValueError):
    """A spec is wrong. `mistakes` holds one line each: file, line, key, expected and what came."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        shown = list(self.mistakes[:MAX_LINES])
        if len(self.mistakes) > MAX_LINES:
            shown.append(f"and {len(self.mistakes) - MAX_LINES} more")
        super().__init__("\n".join(shown))


class Mistake(NamedTuple):
    """What is wrong at one place of a spec; `path` holds keys and indices from its top."""

    path: tuple[str | int, ...]
    message: str


# --- what one value may be -----------------------------------------------------------------------


def _problem(message: str) -> PydanticCustomError:
    return PydanticCustomError("spec", "{message}", {"message": message})


def _expected(what: str, value: object, advice: str = "") -> PydanticCustomError:
    return _problem(f"expected {what}, got {_shown(value)}{advice}")


def _problems(mistakes: list[Mistake]) -> PydanticCustomError:
    """Several mistakes below the place where this is raised, as one pydantic error."""
    text = "; ".join(f"{_joined(mistake.path)}: {mistake.message}" for mistake in mistakes)
    return PydanticCustomError("spec", "{message}", {"message": text, "mistakes": mistakes})


def _shown(value: object) -> str:
    """A value as its author would recognise it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _closest(word: object, known: Iterable[str]) -> str:
    """`, did you mean 'dtype'?` where one of the known words is close, else nothing."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


_EXPONENT = re.compile(r"([+-]?)(\d*)\.?(\d*)[eE]([+-]?)(\d+)", re.ASCII)


def _number_in_text(text: str) -> str:
    """How to write the number that YAML took for text, or nothing where it isn't one."""
    match = _EXPONENT.fullmatch(text)
    if match:
        sign, whole, fraction, exponent_sign, exponent = match.groups()
        right = f"{sign}{whole or 0}.{fraction or 0}e{exponent_sign or '+'}{exponent}"
        if right == text:
            return f": write it without quotes, {right}"
        return f": write {right}: YAML reads {text} as text"
    try:
        float(text)
    except ValueError:
        return ""
    return ": write it without quotes"


def _number(at_least: float | None = None, above: float | None = None) -> BeforeValidator:
    """A finite number (no bool, no text) with a lower bound, itself allowed or not."""
    wanted = "a number"
    if at_least is not None:
        wanted += f" >= {at_least:g}"
    if above is not None:
        wanted += f" > {above:g}"

    def check(value: object) -> object:
        if isinstance(value, str):
            raise _expected(wanted, value, _number_in_text(value))
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _expected(wanted, value)
        if not math.isfinite(value):
            raise _expected(wanted, value)
        if (at_least is not None and value < at_least) or (above is not None and value <= above):
            raise _expected(wanted, value)
        return value

    return BeforeValidator(check)


def _whole(value: object, wanted: str = "a whole number >= 1") -> int:
    """A whole number that a C int can hold: kernels get their sizes as one."""
    if isinstance(value, str) and value.isdigit():
        raise _expected(wanted, value, ": write it without quotes")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _expected(wanted, value)
    if value > MAX_INT:
        raise _expected(f"at most {MAX_INT} (a C int)", value)
    return value


def _matching(pattern: str, wanted: str, forbidden: Iterable[str] = ()) -> BeforeValidator:
    def check(value: object) -> object:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise _expected(wanted, value)
        if value in forbidden or keyword.iskeyword(value):
            raise _problem(f"expected another name: {value!r} has a meaning of its own")
        return value

    return BeforeValidator(check)


def _choice_problem(known: Sequence[str], value: object) -> str:
    if value in known:
        return ""
    return f"expected one of {', '.join(known)}, got {_shown(value)}{_closest(value, known)}"


def _one_of(known: Iterable[str]) -> BeforeValidator:
    words = tuple(known)

    def check(value: object) -> object:
        problem = _choice_problem(words, value)
        if problem:
            raise _problem(problem)
        return value

    return BeforeValidator(check)


def _some(value: object) -> list[Any] | tuple[Any, ...]:
    """A list with something in it, and nothing twice."""
    if not isinstance(value, (list, tuple)):
        raise _expected("a list", value)
    if not value:
        raise _problem("expected at least one, got an empty list")
    twice = [item for index, item in enumerate(value) if _stands_in(item, value[:index])]
    if twice:
        raise _problem(f"expected each one once, got {_shown(twice[0])} twice")
    return value


def _stands_in(item: object, others: Iterable[object]) -> bool:
    # By type too: 1 == True, but a list with both has another mistake.
    return any(type(item) is type(other) and item == other for other in others)


def _filled(value: object) -> object:
    """A mapping with something in it."""
    if not isinstance(value, Mapping):
        raise _expected("a mapping", value)
    if not value:
        raise _problem("expected at least one entry, got an empty mapping")
    return value


_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_Identifier = Annotated[str, _matching(_IDENTIFIER, "a name of letters, digits and _")]
# Sizes and scalars are also written in formulas and case strings.
_Name = Annotated[str, _matching(_IDENTIFIER, "a name of letters, digits and _", RESERVED)]
# Parts of pytest ids, where '-' separates: lower case, so that `pytest -k` has no surprises.
_Label = Annotated[str, _matching(r"[a-z][a-z0-9_]*", "a lower-case name of letters, digits and _")]
_ClassLabel = Annotated[
    str,
    _matching(
        r"[a-z][a-z0-9_]*",
        "a lower-case name of letters, digits and _",
        ("performance", "memory"),
    ),
]
_File = Annotated[str, _matching(r"[A-Za-z0-9_]+\.(py|cu)", "a file name ending in .py or .cu")]
_Dtype = Annotated[str, _one_of(ITEMSIZE)]
_TensorDtype = Annotated[str, _one_of(["$dtype", *ITEMSIZE])]
_Points = Annotated[float, _number(at_least=0)]
_Positive = Annotated[float, _number(above=0)]


class _Block(pydantic.BaseModel):
    """A mapping of a spec: keys it doesn't know are mistakes, values never change."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _remember(cls, data: Any, info: ValidationInfo) -> Any:
        # Which model read which mapping: an unknown key's message names the closest known one.
        if isinstance(info.context, dict):
            info.context[id(data)] = cls
        return data


# --- arguments -----------------------------------------------------------------------------------


def _dimensions(shape: object) -> object:
    if not isinstance(shape, (list, tuple)):
        raise _expected("a list of sizes or formulas", shape)
    if not 1 <= len(shape) <= MAX_RANK:
        raise _problem(f"expected 1 to {MAX_RANK} dimensions, got {len(shape)}")
    return shape


class Tensor(_Block):
    """A tensor argument.

    `shape` holds a formula over sizes per dimension; `dtype` is a concrete name or `$dtype`, the
    variant's dtype under test. `layout` lists the ways the grader may lay it out:
    `contiguous`; `row_padded`, rows further apart than they are long (rank 2 and up); `offset`,
    contiguous, but the first element isn't 16-byte aligned; `transposed`, strides swapped (rank 2).
    """

    name: _Identifier
    shape: Annotated[tuple[Formula, ...], BeforeValidator(_dimensions)]
    dtype: _TensorDtype
    role: Annotated[Literal["input", "output", "inout"], _one_of(["input", "output", "inout"])] = (
        "input"
    )
    space: Annotated[Literal["device", "host"], _one_of(["device", "host"])] = "device"
    layout: Annotated[
        tuple[Annotated[Layout, _one_of(get_args(Layout))], ...], BeforeValidator(_some)
    ] = ("contiguous",)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_input(self) -> bool:
        """Whether its contents mean something before the call."""
        return self.role != "output"

    @property
    def is_output(self) -> bool:
        """Whether the kernel may and must write it."""
        return self.role != "input"

    def concrete_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for these sizes, every dimension >= 1. Raises FormulaError otherwise."""
        shape = []
        for dimension in self.shape:
            extent = dimension.evaluate(sizes)
            if not isinstance(extent, int) or extent < 1:
                raise FormulaError(f"expected a whole number >= 1, got {dimension} = {extent}")
            shape.append(extent)
        return tuple(shape)

    def concrete_dtype(self, dtype: str) -> str:
        """`dtype` where the spec says `$dtype`, else the tensor's own."""
        return dtype if self.dtype == "$dtype" else self.dtype


_SCALAR_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: type(value) is int),
    "float": (
        "a finite number",
        lambda value: type(value) in (int, float) and math.isfinite(value),
    ),
}


def _scalar_problem(kind: str, value: object) -> str:
    wanted, fits = _SCALAR_KINDS[kind]
    if fits(value):
        return ""
    advice = _number_in_text(value) if isinstance(value, str) and kind != "bool" else ""
    return f"expected {wanted}, got {_shown(value)}{advice}"


class Scalar(_Block):
    """A number passed by value; a case draws one of `values`."""

    name: _Name
    scalar: Annotated[Literal["float", "int", "bool"], _one_of(_SCALAR_KINDS)]
    values: Annotated[tuple[Any, ...], BeforeValidator(_some)]

    @pydantic.field_validator("values")
    @classmethod
    def _of_its_kind(cls, values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        if "scalar" not in info.data:  # already a mistake of its own
            return values
        kind = info.data["scalar"]
        problems = [_scalar_problem(kind, value) for value in values]
        if any(problems):
            raise _problems([Mistake((i,), text) for i, text in enumerate(problems) if text])
        return tuple(float(value) for value in values) if kind == "float" else values


class Size(_Block):
    """A size passed to the kernel as an int."""

    name: _Name


def _argument_kind(value: Any) -> str:
    # Tags show up in pydantic's error paths; no key of a spec looks like these.
    has_scalar = "scalar" in value if isinstance(value, Mapping) else isinstance(value, Scalar)
    return "<scalar>" if has_scalar else "<tensor>"


Argument = Annotated[
    Annotated[Tensor, Tag("<tensor>")] | Annotated[Scalar, Tag("<scalar>")],
    Discriminator(_argument_kind),
]

# --- sizes ---------------------------------------------------------------------------------------


class SizeRule(_Block):
    """The values one size may take: low..high inclusive, in steps, or a few choices.

    In YAML: `1`; `[1, 2049]`; `{multiple_of: 64, up_to: 2048}`, with `from:` where it shouldn't
    start at the first multiple; `{one_of: [32, 64]}`.
    """

    low: int = pydantic.Field(ge=1)
    high: int = pydantic.Field(ge=1)
    multiple_of: int = pydantic.Field(1, ge=1)
    choices: tuple[int, ...] | None = None

    def contains(self, value: int) -> bool:
        """Whether the size may be `value`."""
        if self.choices is not None:
            return value in self.choices
        return self.low <= value <= self.high and value % self.multiple_of == 0


_SIZE_FORMS = "1, [1, 64], {multiple_of: 64, up_to: 2048} or {one_of: [1, 2]}"


def _size_rule(value: object) -> SizeRule:
    """A SizeRule from any of its YAML forms."""
    if isinstance(value, SizeRule):
        return value
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise _problem(f"expected [lowest, highest], got a list of {len(value)}")
        low, high = (_whole(end) for end in value)
        if low > high:
            raise _problem(f"expected [lowest, highest], got [{low}, {high}]")
        return SizeRule(low=low, high=high)
    if isinstance(value, Mapping):
        return _size_choices(value) if "one_of" in value else _size_multiples(value)
    size = _whole(value, f"a size >= 1 ({_SIZE_FORMS})")
    return SizeRule(low=size, high=size)


def _only_keys(value: Mapping[Any, object], known: tuple[str, ...]) -> None:
    for key in value:
        if key not in known:
            raise _problem(
                f"expected one of the keys {', '.join(known)}, got {key!r}{_closest(key, known)}"
            )


def _size_choices(value: Mapping[Any, object]) -> SizeRule:
    _only_keys(value, ("one_of",))
    choices = sorted(_whole(choice) for choice in _some(value["one_of"]))
    return SizeRule(low=choices[0], high=choices[-1], choices=tuple(choices))


def _size_multiples(value: Mapping[Any, object]) -> SizeRule:
    _only_keys(value, ("multiple_of", "up_to", "from"))
    missing = [key for key in ("multiple_of", "up_to") if key not in value]
    if missing:
        raise _problem(f"expected the key {missing[0]!r} ({_SIZE_FORMS})")
    step = _whole(value["multiple_of"])
    first = _whole(value.get("from", 1))
    last = _whole(value["up_to"])
    low, high = -(-first // step) * step, last // step * step
    if low > high:
        raise _problem(f"expected a multiple of {step} between {first} and {last}: there is none")
    return SizeRule(low=low, high=high, multiple_of=step)


def _alternatives(value: object) -> object:
    """A size class is one mapping of rules, or a list of such mappings of which any may hold."""
    if isinstance(value, Mapping):
        return (value,)
    return _some(value)


SizeRules = dict[_Name, Annotated[SizeRule, BeforeValidator(_size_rule)]]
SizeClass = Annotated[
    tuple[Annotated[SizeRules, BeforeValidator(_filled)], ...], BeforeValidator(_alternatives)
]

# --- what is promised about results, time and memory ---------------------------------------------

_FLOOR_ULPS = {"float64": 64.0, "float32": 64.0, "float16": 2.0, "bfloat16": 2.0}


class Tolerance(_Block):
    """How far a result may be from the float64 oracle.

    Allowed for an element: `factor` times the error torch makes in the dtype on the same case, plus
    `floor_ulps` times the dtype's eps times `magnitude`. The floor is by dtype; where it doesn't
    say, 64 for float32 and float64, 2 for half precision, 0 for integers. The magnitude is how
    large the numbers behind the element were: the `expected` value itself, the oracle's result on
    `absolute_inputs` (for sums), or what the function `<oracle>_magnitude` says (`oracle`).
    """

    factor: Annotated[float, _number(at_least=1)] = 2.0
    floor_ulps: dict[_Dtype, _Points] = pydantic.Field(default_factory=dict)
    magnitude: Annotated[
        Literal["expected", "absolute_inputs", "oracle"],
        _one_of(["expected", "absolute_inputs", "oracle"]),
    ] = "expected"

    @pydantic.field_validator("floor_ulps", mode="before")
    @classmethod
    def _for_every_dtype(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return dict.fromkeys(FLOATS, value)
        raise _expected("a number, or a number for each dtype", value)

    def floor(self, dtype: str) -> float:
        """The floor in units in the last place of `dtype`; 0 for integers unless the spec says."""
        return self.floor_ulps.get(dtype, _FLOOR_ULPS.get(dtype, 0.0))

    def overridden_by(self, other: Tolerance) -> Tolerance:
        """This tolerance with what `other` was given in its place, dtype by dtype."""
        said = {name: getattr(other, name) for name in other.model_fields_set}
        said["floor_ulps"] = {**self.floor_ulps, **other.floor_ulps}
        return self.model_copy(update=said)


class Limits(_Block):
    """What one case may use up: CPU `seconds` and memory in MiB."""

    seconds: _Positive = 10.0
    memory_mb: Annotated[int, BeforeValidator(_whole)] = 2048

    def overridden_by(self, other: Limits) -> Limits:
        """These limits with what `other` was given in their place."""
        said = {name: getattr(other, name) for name in other.model_fields_set}
        return self.model_copy(update=said)


class Bound(_Block):
    """A target for a measured number: at least, at most, or both, as formulas over sizes."""

    at_least: Formula | None = None
    at_most: Formula | None = None

    @pydantic.model_validator(mode="after")
    def _says_something(self) -> Bound:
        if self.at_least is None and self.at_most is None:
            raise _problem("expected at_least or at_most, got neither")
        return self


class LoadStore(_Block):
    """A bound each for loads and stores."""

    load: Bound | None = None
    store: Bound | None = None


def _case_value(value: object) -> object:
    if not isinstance(value, (bool, int, float, str)):
        raise _expected("one value", value)
    return value


Case = dict[str, Annotated[Any, BeforeValidator(_case_value)]]


class Memory(_Block):
    """Targets for how memory is used, measured on one fixed case.

    `case` gives every size, the dtype where the variant has several, and scalars or a data
    pattern where they matter. `useful_bytes_per_sector` is of 32; `reads` says how often each
    element of an argument is read from global memory; `copies` and `bytes_copied` are between
    host and device.
    """

    case: Case
    useful_bytes_per_sector: LoadStore | None = None
    shared_bank_conflicts: Bound | None = None
    copies: Bound | None = None
    bytes_copied: Bound | None = None
    reads: dict[str, Bound] | None = None

    def bounds(self) -> Iterator[tuple[tuple[str, ...], Bound]]:
        """Every bound with its key path below this block, in the order of the fields."""
        sectors = self.useful_bytes_per_sector
        if sectors is not None:
            for side in ("load", "store"):
                if getattr(sectors, side) is not None:
                    yield ("useful_bytes_per_sector", side), getattr(sectors, side)
        for metric in ("shared_bank_conflicts", "copies", "bytes_copied"):
            if getattr(self, metric) is not None:
                yield (metric,), getattr(self, metric)
        for argument, bound in (self.reads or {}).items():
            yield ("reads", argument), bound


class Milliseconds(_Block):
    """An absolute time on one kind of GPU, named as the driver names it."""

    gpu: str
    at_most: _Positive


class Threshold(_Block):
    """One step of the performance points.

    Either `speed_vs` a yardstick (the yardstick's time over the kernel's, `at_least`), or
    absolute `milliseconds`.
    """

    speed_vs: Annotated[Yardstick, _one_of(get_args(Yardstick))] | None = None
    at_least: _Positive | None = None
    milliseconds: Milliseconds | None = None
    points: _Points

    @pydantic.model_validator(mode="after")
    def _one_way_of_measuring(self) -> Threshold:
        if (self.speed_vs is None) == (self.milliseconds is None):
            raise _problem("expected one of speed_vs and milliseconds")
        if (self.at_least is None) == (self.speed_vs is not None):
            raise _problem("expected at_least beside speed_vs, and only there")
        return self


class Performance(_Block):
    """What is timed, what it must move and compute, and what a speed is worth.

    `bytes` and `flops` are formulas over sizes and `itemsize` (bytes per element of the dtype);
    `device` names the GPU the thresholds were calibrated on. Of `thresholds` the first that
    holds counts.
    """

    case: Case
    bytes: Formula
    flops: Formula | None = None
    thresholds: Annotated[tuple[Threshold, ...], BeforeValidator(_some)]
    device: str | None = None


# --- variants and exercises ----------------------------------------------------------------------


class Variant(_Block):
    """One thing to implement: a function `entry` of one file of the submission.

    `points` maps size classes, `performance` and `memory` to points. `arguments` names arguments
    and sizes in call order; None means the exercise's own. `tolerance` and `limits`, where given,
    are complete: what the variant leaves open comes from the exercise.
    """

    name: _Label
    file: _File
    entry: _Identifier
    dtypes: Annotated[tuple[_Dtype, ...], BeforeValidator(_some)]
    points: Annotated[dict[str, _Points], BeforeValidator(_filled)]
    arguments: Annotated[tuple[str, ...], BeforeValidator(_some)] | None = None
    tolerance: Tolerance | None = None
    limits: Limits | None = None
    performance: Performance | None = None
    memory: Memory | None = None

    @property
    def language(self) -> Literal["triton", "cuda"]:
        return "triton" if self.file.endswith(".py") else "cuda"

    @property
    def max_points(self) -> float:
        return math.fsum(self.points.values())

    @property
    def size_classes(self) -> tuple[str, ...]:
        """The size classes that give points, in the order of `sizes`."""
        return tuple(key for key in self.points if key not in ("performance", "memory"))


class Exercise(_Block):
    """A kernel task as its spec tells it; `name` is the stem of its file.

    `sizes` maps a size class to its alternatives: a case of the class follows the rules of any
    one of them. `oracle` names the function of reference/oracles.py that says what is right.
    """

    name: _Label
    title: str
    summary: str = ""
    oracle: _Identifier = ""
    arguments: Annotated[tuple[Argument, ...], BeforeValidator(_some)]
    sizes: Annotated[dict[_ClassLabel, SizeClass], BeforeValidator(_filled)]
    data: Annotated[
        tuple[Annotated[Pattern, _one_of(get_args(Pattern))], ...], BeforeValidator(_some)
    ] = ("normal",)
    tolerance: Tolerance = Tolerance()
    limits: Limits = Limits()
    variants: Annotated[dict[str, Variant], BeforeValidator(_filled)]

    @pydantic.model_validator(mode="after")
    def _finish(self) -> Exercise:
        mistakes = list(_across(self))
        if mistakes:
            raise _problems(mistakes)
        if not self.oracle:
            object.__setattr__(self, "oracle", self.name)
        resolved = {name: _resolved(variant, self) for name, variant in self.variants.items()}
        object.__setattr__(self, "variants", resolved)
        return self

    @property
    def sizes_names(self) -> tuple[str, ...]:
        """The names of the sizes; every class has the same."""
        first = next(iter(self.sizes.values()))
        return tuple(first[0])

    @property
    def max_points(self) -> float:
        return math.fsum(variant.max_points for variant in self.variants.values())

    def signature(self, variant: Variant | str) -> tuple[Tensor | Scalar | Size, ...]:
        """What the variant's entry is called with, in call order."""
        chosen = self._variant(variant)
        if chosen.arguments is None:
            return self.arguments
        by_name: dict[str, Tensor | Scalar | Size] = {
            **{name: Size(name=name) for name in self.sizes_names},
            **{argument.name: argument for argument in self.arguments},
        }
        return tuple(by_name[name] for name in chosen.arguments)

    def inputs(self, variant: Variant | str) -> tuple[Tensor, ...]:
        """The tensors the variant reads, in call order; an inout is among them."""
        return tuple(tensor for tensor in self._tensors(variant) if tensor.is_input)

    def outputs(self, variant: Variant | str) -> tuple[Tensor, ...]:
        """The tensors the variant writes, in call order; an inout is among them."""
        return tuple(tensor for tensor in self._tensors(variant) if tensor.is_output)

    def tolerance_of(self, variant: Variant | str) -> Tolerance:
        """The tolerance in force for a variant."""
        return self._variant(variant).tolerance or self.tolerance

    def limits_of(self, variant: Variant | str) -> Limits:
        """The limits in force for a variant."""
        return self._variant(variant).limits or self.limits

    def _tensors(self, variant: Variant | str) -> Iterator[Tensor]:
        return (each for each in self.signature(variant) if isinstance(each, Tensor))

    def _variant(self, variant: Variant | str) -> Variant:
        return self.variants[variant] if isinstance(variant, str) else variant


def _resolved(variant: Variant, exercise: Exercise) -> Variant:
    """The variant with what its overrides leave open filled in, its points in spec order."""
    points = {key: variant.points[key] for key in _point_keys(exercise) if key in variant.points}
    update: dict[str, Any] = {"points": points}
    if variant.tolerance is not None:
        update["tolerance"] = exercise.tolerance.overridden_by(variant.tolerance)
    if variant.limits is not None:
        update["limits"] = exercise.limits.overridden_by(variant.limits)
    return variant.model_copy(update=update)


def _point_keys(exercise: Exercise) -> tuple[str, ...]:
    return (*exercise.sizes, "memory", "performance")


# --- checks across fields ------------------------------------------------------------------------


def _across(exercise: Exercise) -> Iterator[Mistake]:
    """Every mistake that only shows when several fields are looked at together."""
    yield from _size_mistakes(exercise)
    yield from _argument_mistakes(exercise)
    entries: dict[tuple[str, str], str] = {}
    for key, variant in exercise.variants.items():
        path = ("variants", key)
        if variant.name != key:
            yield Mistake((*path, "name"), f"expected {key!r}, its key, got {variant.name!r}")
        first = entries.setdefault((variant.file, variant.entry), key)
        if first != key:
            yield Mistake(
                (*path, "entry"),
                f"expected another function than variant {first!r} has in {variant.file}, "
                f"got {variant.entry!r}",
            )
        for mistake in _variant_mistakes(exercise, variant):
            yield Mistake((*path, *mistake.path), mistake.message)


def _size_mistakes(exercise: Exercise) -> Iterator[Mistake]:
    wanted = exercise.sizes_names
    for name, alternatives in exercise.sizes.items():
        for index, rules in enumerate(alternatives):
            if set(rules) != set(wanted):
                yield Mistake(
                    ("sizes", name, index),
                    f"expected the sizes {', '.join(wanted)}, as in the first class, "
                    f"got {', '.join(rules)}",
                )


def _argument_mistakes(exercise: Exercise) -> Iterator[Mistake]:
    sizes = exercise.sizes_names
    seen: set[str] = set()
    for index, argument in enumerate(exercise.arguments):
        path = ("arguments", index)
        if argument.name in sizes:
            yield Mistake((*path, "name"), f"expected another name: {argument.name!r} is a size")
        if argument.name in seen:
            yield Mistake((*path, "name"), f"expected each name once, got {argument.name!r} twice")
        seen.add(argument.name)
        if isinstance(argument, Tensor):
            for mistake in _tensor_mistakes(exercise, argument):
                yield Mistake((*path, *mistake.path), mistake.message)
    if not any(isinstance(each, Tensor) and each.is_output for each in exercise.arguments):
        yield Mistake(("arguments",), "expected an argument with role: output or inout, got none")


def _tensor_mistakes(exercise: Exercise, tensor: Tensor) -> Iterator[Mistake]:
    for index, dimension in enumerate(tensor.shape):
        path = ("shape", index)
        unknown = list(_unknown_names(dimension, exercise.sizes_names, "sizes"))
        yield from (Mistake(path, message) for message in unknown)
        if not unknown:
            yield from (Mistake(path, text) for text in _extent_mistakes(exercise, dimension))
    for index, layout in enumerate(tensor.layout):
        if layout == "row_padded" and tensor.rank < 2:
            yield Mistake(("layout", index), "expected 2 dimensions or more for row_padded, got 1")
        if layout == "transposed" and tensor.rank != 2:
            yield Mistake(
                ("layout", index), f"expected 2 dimensions for transposed, got {tensor.rank}"
            )


def _extent_mistakes(exercise: Exercise, dimension: Formula) -> Iterator[str]:
    """What is wrong with a dimension at the smallest and largest sizes of each class."""
    for name, alternatives in exercise.sizes.items():
        for rules in alternatives:
            if not dimension.names <= set(rules):  # a mistake of the class, told elsewhere
                continue
            for end in ("low", "high"):
                sizes = {size: getattr(rule, end) for size, rule in rules.items()}
                problem = _extent_problem(dimension, sizes)
                if problem:
                    yield f"{problem} (class {name})"
                    return


def _extent_problem(dimension: Formula, sizes: Mapping[str, int]) -> str:
    try:
        extent = dimension.evaluate(sizes)
    except FormulaError as error:
        return str(error)
    if isinstance(extent, int) and extent >= 1:
        return ""
    given = "".join(f", {size}={sizes[size]}" for size in sizes if size in dimension.names)
    advice = ": divide with //" if isinstance(extent, float) and "/" in str(dimension) else ""
    return f"expected a whole number >= 1, got {dimension} = {extent}{given}{advice}"


def _unknown_names(formula: Formula, known: Iterable[str], kind: str) -> Iterator[str]:
    known = tuple(known)
    for name in sorted(formula.names - set(known)):
        yield f"expected one of the {kind} {', '.join(known)}, got {name!r}{_closest(name, known)}"


def _variant_mistakes(exercise: Exercise, variant: Variant) -> Iterator[Mistake]:
    yield from _call_mistakes(exercise, variant)
    known = _point_keys(exercise)
    for key in variant.points:
        if key not in known:
            yield Mistake(
                ("points", key),
                f"expected a size class, performance or memory ({', '.join(known)}), "
                f"got {key!r}{_closest(key, known)}",
            )
    for key in ("performance", "memory"):
        block = getattr(variant, key)
        if key in variant.points and block is None:
            yield Mistake(("points", key), f"expected a block {key!r} in the variant, got none")
        if block is not None and key not in variant.points:
            yield Mistake((key,), f"expected points for {key!r}, got none")
        if block is not None:
            checks = _performance_mistakes if key == "performance" else _memory_mistakes
            for mistake in checks(exercise, variant, block):
                yield Mistake((key, *mistake.path), mistake.message)


def _call_mistakes(exercise: Exercise, variant: Variant) -> Iterator[Mistake]:
    if variant.arguments is None:
        return
    known = (*(argument.name for argument in exercise.arguments), *exercise.sizes_names)
    unknown = [name for name in variant.arguments if name not in known]
    for name in unknown:
        yield Mistake(
            ("arguments", variant.arguments.index(name)),
            _choice_problem(known, name),
        )
    if not unknown and not exercise.outputs(variant):
        yield Mistake(("arguments",), "expected an output among them, got none")


def _performance_mistakes(
    exercise: Exercise, variant: Variant, block: Performance
) -> Iterator[Mistake]:
    in_case = list(_case_mistakes(exercise, variant, block.case, dtype_needed=True))
    in_case = in_case or list(_case_shape_mistakes(exercise, block.case))
    yield from in_case
    for key in ("bytes", "flops"):
        formula = getattr(block, key)
        if formula is not None:
            problem = _amount_problem(
                exercise, variant, formula, {} if in_case else block.case, above=0
            )
            if problem:
                yield Mistake((key,), problem)
    yield from _threshold_mistakes(block.thresholds, variant.points.get("performance"))


def _memory_mistakes(exercise: Exercise, variant: Variant, block: Memory) -> Iterator[Mistake]:
    needed = len(variant.dtypes) > 1
    in_case = list(_case_mistakes(exercise, variant, block.case, dtype_needed=needed))
    in_case = in_case or list(_case_shape_mistakes(exercise, block.case))
    yield from in_case
    tensors = [
        each.name
        for each in exercise.arguments
        if isinstance(each, Tensor)
        and each.is_input
        and (variant.arguments is None or each.name in variant.arguments)
    ]
    for name in block.reads or {}:
        if name not in tensors:
            yield Mistake(
                ("reads", name),
                _choice_problem(tensors, name),
            )
    bounds = list(block.bounds())
    if not bounds:
        yield Mistake((), "expected a target beside the case, got none")
    for path, bound in bounds:
        # In the good direction only: a kernel that does better than asked never loses points.
        good, bad = "at_most", "at_least"
        if path[0] == "useful_bytes_per_sector":
            good, bad = bad, good
        if getattr(bound, bad) is not None:
            yield Mistake((*path, bad), f"expected {good} for {path[0]}, got {bad}")
        elif getattr(bound, good) is not None:
            case = {} if in_case else block.case
            problem = _amount_problem(exercise, variant, getattr(bound, good), case)
            if problem:
                yield Mistake((*path, good), problem)


def _amount_problem(
    exercise: Exercise,
    variant: Variant,
    formula: Formula,
    case: Mapping[str, Any],
    above: int = -1,
) -> str:
    """What is wrong with a formula over sizes and itemsize; evaluated unless the case is empty."""
    known = (*exercise.sizes_names, "itemsize")
    unknown = next(_unknown_names(formula, known, "names"), "")
    if unknown or not case:
        return unknown
    env = {name: case[name] for name in exercise.sizes_names}
    env["itemsize"] = ITEMSIZE[case.get("dtype", variant.dtypes[0])]
    try:
        amount = formula.evaluate(env)
    except FormulaError as error:
        return str(error)
    return "" if amount > above else f"expected a number > {above}, got {formula} = {amount}"


def _case_mistakes(
    exercise: Exercise, variant: Variant, case: Mapping[str, Any], dtype_needed: bool
) -> Iterator[Mistake]:
    """What is wrong with the fixed case of a performance or memory block."""
    scalars = {each.name: each for each in exercise.arguments if isinstance(each, Scalar)}
    known = (*exercise.sizes_names, "dtype", "data", *scalars)
    needed = (*exercise.sizes_names, *(["dtype"] if dtype_needed else []))
    missing = [key for key in needed if key not in case]
    if missing:
        yield Mistake(("case",), f"expected {', '.join(needed)}, got no {' and no '.join(missing)}")
    for key, value in case.items():
        if key in exercise.sizes_names:
            problem = _told(lambda value=value: _whole(value, "a size >= 1"))
        elif key == "dtype":
            problem = _choice_problem(variant.dtypes, value)
        elif key == "data":
            problem = _choice_problem(get_args(Pattern), value)
        elif key in scalars:
            problem = _scalar_problem(scalars[key].scalar, value)
        else:
            problem = _choice_problem(known, key)
        if problem:
            yield Mistake(("case", key), problem)


def _case_shape_mistakes(exercise: Exercise, case: Mapping[str, Any]) -> Iterator[Mistake]:
    """Where a case gives a tensor an impossible shape that no size class gives it."""
    sizes = {name: case[name] for name in exercise.sizes_names}
    for argument in exercise.arguments:
        for dimension in argument.shape if isinstance(argument, Tensor) else ():
            told = not dimension.names <= set(sizes) or any(_extent_mistakes(exercise, dimension))
            problem = "" if told else _extent_problem(dimension, sizes)
            if problem:
                yield Mistake(("case",), f"{problem} (a dimension of {argument.name})")


def _told(check: Callable[[], object]) -> str:
    """The message a validator raises, or nothing."""
    try:
        check()
    except PydanticCustomError as error:
        return error.message()
    return ""


def _threshold_mistakes(
    thresholds: tuple[Threshold, ...], points: float | None
) -> Iterator[Mistake]:
    """The first threshold that holds counts, so each must ask less, and give less, than before."""
    if points is not None and thresholds[0].points != points:
        yield Mistake(
            ("thresholds", 0, "points"),
            f"expected {points:g}, the variant's points for performance, "
            f"got {thresholds[0].points:g}",
        )
    asked: dict[str, float] = {}
    for index, threshold in enumerate(thresholds):
        path = ("thresholds", index)
        if index and threshold.points >= thresholds[index - 1].points:
            yield Mistake(
                (*path, "points"),
                f"expected fewer points than the threshold before gives "
                f"({thresholds[index - 1].points:g}), got {threshold.points:g}",
            )
        if threshold.milliseconds is not None:
            key, yardstick = ("milliseconds", "at_most"), f"on {threshold.milliseconds.gpu}"
            now, wanted, hardness = threshold.milliseconds.at_most, "more", -1.0
        else:
            key, yardstick = ("at_least",), f"against {threshold.speed_vs}"
            now, wanted, hardness = threshold.at_least or 0.0, "less", 1.0
        before = asked.get(yardstick)
        if before is not None and now * hardness >= before * hardness:
            yield Mistake(
                (*path, *key),
                f"expected {wanted} than {before:g}, which an earlier threshold asks {yardstick}, "
                f"got {now:g}: this one would never count",
            )
        asked[yardstick] = now


# --- reading -------------------------------------------------------------------------------------


class _Document(NamedTuple):
    """A YAML file as plain data, with what messages need: lines and names of places."""

    file: str
    data: dict[str, Any]
    lines: dict[tuple[str | int, ...], int]

    def report(self, mistakes: Iterable[Mistake]) -> SpecError:
        """The mistakes as lines, in the order of the file."""
        placed = []
        for mistake in mistakes:
            path = self.real(mistake.path)
            line = self.line(path)
            where = f"{self.file}:{line}" if line else self.file
            shown = self.shown(path)
            placed.append(
                (
                    line,
                    f"{where}: {shown}: {mistake.message}"
                    if shown
                    else f"{where}: {mistake.message}",
                )
            )
        placed.sort(key=lambda entry: entry[0])
        return SpecError(dict.fromkeys(text for _, text in placed))

    def real(self, path: Iterable[str | int]) -> tuple[str | int, ...]:
        """The path without the steps that aren't in the file (tags, wrapped alternatives)."""
        real: tuple[str | int, ...] = ()
        for step in path:
            if (*real, step) in self.lines or _child(self.at(real), step) is not None:
                real = (*real, step)
        if real and real[-1] == "name" and real not in self.lines:  # added by load()
            real = real[:-1]
        return real

    def at(self, path: Iterable[str | int]) -> Any:
        """What the file says at a real path."""
        value: Any = self.data
        for step in path:
            value = _child(value, step)
        return value

    def line(self, path: tuple[str | int, ...]) -> int:
        """The line of a place, or of the nearest place around it; 0 for the whole file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def shown(self, path: tuple[str | int, ...]) -> str:
        """A path as text; an item that has a name is shown by it: `arguments.out.shape[1]`."""
        steps: list[str | int] = []
        for index, step in enumerate(path):
            item = self.at(path[: index + 1])
            name = item.get("name") if isinstance(item, Mapping) else None
            steps.append(name if isinstance(step, int) and isinstance(name, str) else step)
        return _joined(steps)


def _child(value: Any, step: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _joined(path: Iterable[str | int]) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _read(path: Path) -> _Document:
    """The file as data and lines. Raises SpecError where it isn't a YAML mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError([f"{path}: can't be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise SpecError([f"{path}: can't be read: not UTF-8 text"]) from None
    loader = yaml.SafeLoader("")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            kinds = {"sequence": "a list", "scalar": "one value"}
            came = kinds[root.id] if root else "an empty file"
            raise SpecError([f"{path.name}: expected a mapping (title: ...), got {came}"])
        document = _Document(path.name, {}, {})
        mistakes = list(_walk(root, (), document.lines, ()))
        if mistakes:
            raise document.report(mistakes)
        return document._replace(data=loader.construct_document(root))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path.name}:{mark.line + 1}" if mark else path.name
        raise SpecError(
            [f"{where}: can't be read as YAML: {error.problem or error.context}"]
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SpecError([f"{path.name}:{line}: can't be read as YAML: {error.reason}"]) from None
    except RecursionError:
        raise SpecError([f"{path.name}: nested too deeply"]) from None
    except ValueError as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError([f"{path.name}: a value can't be read: {error}"]) from None
    finally:
        loader.dispose()


_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9_]*)")
_INT, _FLOAT, _STR, _MERGE = (
    f"tag:yaml.org,2002:{tag}" for tag in ("int", "float", "str", "merge")
)


def _walk(
    node: yaml.Node,
    path: tuple[str | int, ...],
    lines: dict[tuple[str | int, ...], int],
    around: tuple[yaml.Node, ...],
) -> Iterator[Mistake]:
    """Note the line of everything below a node; yield what YAML allows and a spec doesn't."""
    if any(node is outer for outer in around) or len(lines) > MAX_NODES:
        raise yaml.MarkedYAMLError(
            problem="an alias that makes the file endless", problem_mark=node.start_mark
        )
    if isinstance(node, yaml.ScalarNode):
        yield from _scalar_mistakes(node, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            yield from _walk(item, (*path, index), lines, (*around, node))
    else:
        for key, value in node.value:
            if key.tag == _MERGE:
                continue
            here = (*path, key.value) if isinstance(key, yaml.ScalarNode) else path
            line = key.start_mark.line + 1
            if key.tag != _STR:
                lines.setdefault(here, line)
                yield Mistake(here, "expected text as key: put it in quotes, or rename it")
            elif here in lines:
                yield Mistake(here, f"expected each key once, got it again on line {line}")
            else:
                lines[here] = line
                yield from _walk(value, here, lines, (*around, node))


def _scalar_mistakes(node: yaml.ScalarNode, path: tuple[str | int, ...]) -> Iterator[Mistake]:
    """Numbers that YAML reads otherwise than people do: 010 is 8, and 1:30 is 90."""
    odd_int = node.tag == _INT and not _DECIMAL.fullmatch(node.value)
    if odd_int or (node.tag == _FLOAT and ":" in node.value):
        yield Mistake(
            path, f"expected a plain decimal number, got {node.value}, which YAML reads otherwise"
        )


def load(path: Path) -> Exercise:
    """Read one spec. Raises SpecError, with a line for every mistake found."""
    path = Path(path)
    document = _read(path)
    mistakes = _name_after_keys(document.data, path.stem)
    if mistakes:
        raise document.report(mistakes)
    models: dict[int, type[_Block]] = {}
    try:
        return Exercise.model_validate(document.data, context=models)
    except pydantic.ValidationError as error:
        found = [
            mistake
            for detail in error.errors(include_url=False)
            for mistake in _mistakes_of(detail, document, models)
        ]
        raise document.report(found) from None


def _name_after_keys(data: dict[str, Any], stem: str) -> list[Mistake]:
    """Give the exercise and its variants their names: a file's stem and a mapping's keys."""
    mistakes = []
    if "name" in data:
        mistakes.append(Mistake(("name",), "expected no name: an exercise is named by its file"))
    data["name"] = stem
    variants = data.get("variants")
    for key, variant in variants.items() if isinstance(variants, dict) else ():
        if isinstance(variant, dict):
            if "name" in variant:
                path = ("variants", key, "name")
                mistakes.append(Mistake(path, "expected no name: a variant is named by its key"))
            variant["name"] = key
    return mistakes


def _mistakes_of(
    detail: Any, document: _Document, models: Mapping[int, type[_Block]]
) -> Iterator[Mistake]:
    """One of pydantic's errors in the words of this module."""
    path, kind, came = tuple(detail["loc"]), detail["type"], _shown(detail["input"])
    context = detail.get("ctx", {})
    if "mistakes" in context:
        for mistake in context["mistakes"]:
            yield Mistake((*path, *mistake.path), mistake.message)
    elif kind == "missing":
        yield Mistake(path[:-1], f"expected the key {path[-1]!r}, which is missing")
    elif kind == "extra_forbidden":
        model = models.get(id(document.at(document.real(path[:-1]))))
        known = [key for key in (model.model_fields if model else ()) if key != "name"]
        if model in (Tensor, Scalar):
            known = ["name", *known]
        advice = _closest(path[-1], known)
        yield Mistake(
            path, f"expected one of the keys {', '.join(known)}, got {path[-1]!r}{advice}"
        )
    elif kind == "spec":
        yield Mistake(path, context["message"])
    elif kind == "value_error":
        yield Mistake(path, str(context["error"]))
    else:
        wanted = {
            "string_type": "text",
            "tuple_type": "a list",
            "dict_type": "a mapping",
            "model_type": "a mapping",
        }.get(kind, detail["msg"])
        yield Mistake(path, f"expected {wanted}, got {came}")


def load_all(folder: Path = EXERCISES) -> dict[str, Exercise]:
    """Read every spec of a folder, by name and sorted.

    Raises SpecError with the mistakes of all files, or where one exercise's name lies inside
    another word that `pytest -k` would match.
    """
    folder = Path(folder)
    exercises: dict[str, Exercise] = {}
    mistakes: list[str] = []
    if not folder.is_dir():
        raise SpecError([f"{folder}: expected a folder of specs, there is none"])
    for path in sorted(folder.iterdir()):
        if path.suffix == ".yml":
            mistakes.append(f"{path.name}: expected a name ending in .yaml")
        if path.suffix != ".yaml":
            continue
        try:
            exercises[path.stem] = load(path)
        except SpecError as error:
            mistakes.extend(error.mistakes)
    if not exercises and not mistakes:
        mistakes.append(f"{folder}: expected at least one .yaml file, got none")
    mistakes.extend(_name_conflicts(exercises))
    if mistakes:
        raise SpecError(mistakes)
    return exercises


def _name_conflicts(exercises: Mapping[str, Exercise]) -> Iterator[str]:
    """`pytest -k NAME` matches parts of words without regard to case: it must find NAME alone."""
    for name in exercises:
        words = dict.fromkeys((*SURROUNDINGS, *ITEMSIZE), "which stands in the names of tests")
        for other, exercise in exercises.items():
            if other != name:
                words.update(dict.fromkeys(exercise.sizes, f"a size class of {other}.yaml"))
                words.update(dict.fromkeys(exercise.variants, f"a variant of {other}.yaml"))
                words[other] = f"the name of {other}.yaml"
        for word, what in words.items():
            if name.lower() in word.lower():
                yield (
                    f"{name}.yaml: expected another file name: {name!r} lies inside {word!r}, "
                    f"{what}, and pytest -k {name} would match both"
                )
                break

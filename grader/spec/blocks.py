"""The mappings in a spec: arguments, sizes, tolerance, limits, rules, and so on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, get_args

import pydantic
from pydantic import BeforeValidator, Discriminator, Tag, ValidationInfo

from grader.gpu import kinds
from grader.policy import RULES, cuda
from grader.spec.contents import Contents, contents_of
from grader.spec.formula import Formula, FormulaError, Number, as_written
from grader.spec.values import (
    FLOAT8,
    FLOATS,
    MAX_INT,
    Block,
    Dtype,
    Identifier,
    Mistake,
    Name,
    Points,
    Positive,
    TensorDtype,
    choice_problem,
    filled,
    is_number,
    nonempty_list,
    number,
    number_in_text,
    one_of,
    refusal,
    refusals,
    unexpected,
    whole,
)

Layout = Literal["contiguous", "row_padded", "padded", "offset", "transposed"]
Pattern = Literal[
    "normal", "large", "tiny", "constant_rows", "one_hot", "far_below_zero", "huge", "any_bits"
]
BaselineName = Literal["copy", "torch", "compile", "reference", "roofline"]
# A ratio to a baseline, as in "0.9 of a copy's speed".
OF_BASELINE: dict[str, str] = {
    "copy": "of a copy's speed",
    "torch": "of torch's speed",
    "compile": "of torch.compile's speed",
    "reference": "of the solution's speed",
    "roofline": "of the roofline",
}

MAX_RANK = 8  # of the protocol's requests


def _dimensions(shape: object) -> object:
    if not isinstance(shape, (list, tuple)):
        raise unexpected("a list of sizes or formulas", shape)
    if not 1 <= len(shape) <= MAX_RANK:
        raise refusal(f"expected 1 to {MAX_RANK} dimensions, got {len(shape)}")
    return shape


Layouts = Annotated[
    tuple[Annotated[Layout, one_of(get_args(Layout))], ...], BeforeValidator(nonempty_list)
]


class Tensor(Block):
    """A tensor argument.

    `shape` has a formula over sizes per dimension; `dtype` is a name or `$dtype`, the variant's
    dtype under test. `layout` lists the layouts that the grader may use: `contiguous`;
    `row_padded`, with gaps between rows (rank 2 and up); `padded`, with gaps between matrices and
    so on as well (rank 3 and up); `offset`, contiguous, but the first element isn't 16-byte
    aligned; `transposed`, the strides of the last two dimensions swapped (rank 2 and up). `values`
    says what an input's elements are: see contents.py.
    """

    name: Identifier
    shape: Annotated[tuple[Formula, ...], BeforeValidator(_dimensions)]
    dtype: TensorDtype
    role: Annotated[Literal["input", "output", "inout"], one_of(["input", "output", "inout"])] = (
        "input"
    )
    space: Annotated[Literal["device", "host"], one_of(["device", "host"])] = "device"
    layout: Layouts = ("contiguous",)
    values: Annotated[Contents, BeforeValidator(contents_of)] | None = None

    @property
    def contents(self) -> Contents:
        """What its elements are, also where the spec doesn't say so."""
        return self.values or Contents()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_input(self) -> bool:
        """Whether its contents have a meaning before the call."""
        return self.role != "output"

    @property
    def is_output(self) -> bool:
        """Whether the kernel must write it."""
        return self.role != "input"

    def concrete_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for these sizes, every dimension >= 1, or 0 where some size is.

        Raises FormulaError otherwise.
        """
        shape, least = [], least_extent(sizes)
        for dimension in self.shape:
            extent = dimension.evaluate(sizes)
            if not isinstance(extent, int) or extent < least:
                wanted = f"a whole number >= {least}"
                raise FormulaError(f"expected {wanted}, got {dimension} = {extent}")
            shape.append(extent)
        return tuple(shape)

    def concrete_dtype(self, dtype: str) -> str:
        """`dtype` where the spec says `$dtype`, else the tensor's own."""
        return dtype if self.dtype == "$dtype" else self.dtype


def least_extent(sizes: Mapping[str, int]) -> int:
    """The least extent of a dimension: 1, or 0 in a case with a size that is 0."""
    return int(0 not in sizes.values())


_SCALAR_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: type(value) is int),
    "float": ("a finite number of float32", lambda value: is_number(value) and abs(value) < 2**128),
}


def scalar_problem(kind: str, value: object) -> str:
    wanted, fits = _SCALAR_KINDS[kind]
    if fits(value):
        return ""
    advice = number_in_text(value) if isinstance(value, str) and kind != "bool" else ""
    return f"expected {wanted}, got {as_written(value)}{advice}"


class Scalar(Block):
    """A number passed by value: a case draws one of `values`, or its sizes give it (`follows`)."""

    name: Name
    scalar: Annotated[Literal["float", "int", "bool"], one_of(_SCALAR_KINDS)]
    values: Annotated[tuple[Any, ...], BeforeValidator(nonempty_list)] = ()
    follows: Formula | None = None

    @pydantic.field_validator("values")
    @classmethod
    def _of_its_kind(cls, values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        if "scalar" not in info.data:  # a mistake that is already reported
            return values
        kind = info.data["scalar"]
        problems = [scalar_problem(kind, value) for value in values]
        if any(problems):
            raise refusals([Mistake((i,), text) for i, text in enumerate(problems) if text])
        return tuple(float(value) for value in values) if kind == "float" else values

    @pydantic.model_validator(mode="after")
    def _drawn_or_followed(self) -> Scalar:
        if bool(self.values) == (self.follows is not None):
            raise refusal("expected one of the keys values and follows")
        if self.follows is not None and self.scalar == "bool":
            raise refusal("expected values for a bool, got follows, which gives a number")
        return self

    def followed(self, sizes: Mapping[str, int]) -> float | int:
        """The value that these sizes give. Raises FormulaError where it isn't of its kind."""
        assert self.follows is not None
        value = self.follows.evaluate(sizes)
        if self.scalar == "int" and not isinstance(value, int):
            raise FormulaError(f"expected a whole number, got {self.follows} = {value:g}")
        return float(value) if self.scalar == "float" else value


class Size(Block):
    """A size, or a number derived from sizes, passed to the kernel as an int."""

    name: Name
    formula: Formula | None = None

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number in a case. Raises FormulaError where there is none."""
        return sizes[self.name] if self.formula is None else derived_size(self.formula, sizes)


def derived_size(formula: Formula, sizes: Mapping[str, int]) -> int:
    """A number that follows from sizes, as a C int. Raises FormulaError where it isn't one."""
    value: Number = formula.evaluate(sizes)
    if not isinstance(value, int) or not 0 <= value <= MAX_INT:
        raise FormulaError(f"expected a whole number >= 0 (a C int), got {formula} = {value}")
    return value


def _argument_kind(value: Any) -> str:
    # Tags appear in pydantic's error paths; no key of a spec looks like these.
    has_scalar = "scalar" in value if isinstance(value, Mapping) else isinstance(value, Scalar)
    return "<scalar>" if has_scalar else "<tensor>"


Argument = Annotated[
    Annotated[Tensor, Tag("<tensor>")] | Annotated[Scalar, Tag("<scalar>")],
    Discriminator(_argument_kind),
]


# --- sizes ---------------------------------------------------------------------------------------


class SizeRule(Block):
    """The values of one size: low..high inclusive, in steps, or a few choices.

    In YAML: `1`; `[1, 2049]`; `{multiple_of: 64, up_to: 2048}`, with `from:` where it starts later
    than at the first multiple; `{one_of: [32, 64]}`; `{power_of_two: [16, 1024]}`. One of these in
    `{or_zero: ...}` allows 0 too.
    """

    low: int = pydantic.Field(ge=1)
    high: int = pydantic.Field(ge=1)
    multiple_of: int = pydantic.Field(default=1, ge=1)
    choices: tuple[int, ...] | None = None
    or_zero: bool = False

    def contains(self, value: int) -> bool:
        if value == 0:
            return self.or_zero
        if self.choices is not None:
            return value in self.choices
        return self.low <= value <= self.high and value % self.multiple_of == 0


_SIZE_FORMS = "1, [1, 64], {multiple_of: 64, up_to: 2048} or {one_of: [1, 2]}"
_OF_SIZES = ("multiple_of", "up_to", "from")
_ONE_KEY = ("one_of", "power_of_two", "or_zero")


def _size_rule(value: object) -> SizeRule:
    """A SizeRule from any of its YAML forms."""
    if isinstance(value, SizeRule):
        return value
    if isinstance(value, (list, tuple)):
        low, high = _size_range(value)
        return SizeRule(low=low, high=high)
    if isinstance(value, Mapping):
        form = next((each for each in _ONE_KEY if each in value), "")
        if not form:
            return _size_multiples(value)
        _only_keys(value, (form,))
        if form == "or_zero":
            return _size_rule(value[form]).model_copy(update={"or_zero": True})
        if form == "power_of_two":
            return _size_powers(value[form])
        choices = sorted(whole(choice) for choice in nonempty_list(value[form]))
        return SizeRule(low=choices[0], high=choices[-1], choices=tuple(choices))
    size = whole(value, f"a size >= 1 ({_SIZE_FORMS})")
    return SizeRule(low=size, high=size)


def _only_keys(value: Mapping[Any, object], known: tuple[str, ...]) -> None:
    for key in value:
        if problem := choice_problem(known, key, "the keys "):
            raise refusal(problem)


def _size_range(value: object) -> tuple[int, int]:
    if not isinstance(value, (list, tuple)):
        raise unexpected("[lowest, highest]", value)
    if len(value) != 2:
        raise refusal(f"expected [lowest, highest], got a list of {len(value)}")
    low, high = (whole(end) for end in value)
    if low > high:
        raise refusal(f"expected [lowest, highest], got [{low}, {high}]")
    return low, high


def _size_powers(value: object) -> SizeRule:
    """The powers of two from a lowest to a highest value."""
    low, high = _size_range(value)
    powers = [2**k for k in range(high.bit_length()) if 2**k >= low]
    if not powers:
        raise refusal(f"expected a power of two between {low} and {high}: there is none")
    return SizeRule(low=powers[0], high=powers[-1], choices=tuple(powers))


def _size_multiples(value: Mapping[Any, object]) -> SizeRule:
    _only_keys(value, (*_OF_SIZES, *_ONE_KEY) if not {*value} & {*_OF_SIZES} else _OF_SIZES)
    missing = [key for key in ("multiple_of", "up_to") if key not in value]
    if missing:
        raise refusal(f"expected the key {missing[0]!r} ({_SIZE_FORMS})")
    step = whole(value["multiple_of"])
    first = whole(value.get("from", 1))
    last = whole(value["up_to"])
    low, high = -(-first // step) * step, last // step * step
    if low > high:
        raise refusal(f"expected a multiple of {step} between {first} and {last}: there is none")
    return SizeRule(low=low, high=high, multiple_of=step)


def _alternatives(value: object) -> object:
    """A size class is one mapping of rules, or a list of alternatives."""
    if isinstance(value, Mapping):
        return (value,)
    return nonempty_list(value)


SizeRules = dict[Name, Annotated[SizeRule, BeforeValidator(_size_rule)]]
SizeClass = Annotated[
    tuple[Annotated[SizeRules, BeforeValidator(filled)], ...], BeforeValidator(_alternatives)
]

# Sizes of cases whose launches are planned, and that never run: one mapping, or a list of them.
PlannedSizes = Annotated[
    tuple[
        Annotated[dict[Name, Annotated[int, BeforeValidator(whole)]], BeforeValidator(filled)], ...
    ],
    BeforeValidator(_alternatives),
]

# --- what is promised about results, time and memory ---------------------------------------------

_FLOOR_ULPS = {
    "float64": 64.0,
    "float32": 64.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    **dict.fromkeys(FLOAT8, 1.0),
}


class Tolerance(Block):
    """How far a result may be from the float64 oracle.

    An element may be off by `factor` times torch's error in the dtype on the same case, plus
    `floor_ulps` times the dtype's eps times `magnitude`. The floor is by dtype; by default it is 64
    for float32 and float64, 2 for half precision, 1 for 8 bits, 0 for integers. The magnitude is
    the size of the numbers behind the element: the `expected` value itself, the oracle's result on
    `absolute_inputs` (for sums), or the result of the function `<oracle>_magnitude` (`oracle`).
    `outputs` has, by name, what differs for one of several outputs.
    """

    factor: Annotated[float, number(at_least=1)] = 2.0
    floor_ulps: dict[Dtype, Points] = pydantic.Field(default_factory=dict)
    magnitude: Annotated[
        Literal["expected", "absolute_inputs", "oracle"],
        one_of(["expected", "absolute_inputs", "oracle"]),
    ] = "expected"
    outputs: dict[str, Tolerance] = pydantic.Field(default_factory=dict)

    def of(self, output: str) -> Tolerance:
        """The tolerance of one output."""
        own = self.outputs.get(output)
        return self if own is None else self.overridden_by(own)

    def magnitude_of(self, outputs: Sequence[str]) -> str | tuple[str, ...]:
        """The magnitude, or one for each of the outputs where they differ."""
        if not self.outputs:
            return self.magnitude
        return tuple(self.of(name).magnitude for name in outputs)

    @pydantic.field_validator("outputs")
    @classmethod
    def _one_level(cls, outputs: dict[str, Tolerance]) -> dict[str, Tolerance]:
        inner = [
            Mistake((n, "outputs"), "expected none here") for n, e in outputs.items() if e.outputs
        ]
        if inner:
            raise refusals(inner)
        return outputs

    @pydantic.field_validator("floor_ulps", mode="before")
    @classmethod
    def _for_every_dtype(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return value
        if is_number(value):
            return dict.fromkeys(FLOATS, value)
        raise unexpected("a number, or a number for each dtype", value)

    def floor(self, dtype: str) -> float:
        """The floor in units in the last place of `dtype`; by default 0 for integers."""
        return self.floor_ulps.get(dtype, _FLOOR_ULPS.get(dtype, 0.0))


class Limits(Block):
    """Limits of one case: CPU `seconds` and memory in MiB."""

    seconds: Positive = 10.0
    memory_mb: Annotated[int, BeforeValidator(whole)] = 2048


class Policy(Block):
    """What a variant may do beyond the rules of the assignment (policy/findings.py, policy/cuda/).

    `torch` are functions and methods that may compute, or `"*"` for all; `lifted` rules are off.
    """

    torch: tuple[str, ...] = ()
    lifted: tuple[Annotated[str, one_of((*RULES, *cuda.CUDA_RULES))], ...] = ()

    def with_more(self, other: Policy) -> Policy:
        """What either of them allows."""
        names = type(self).model_fields
        return Policy(**{name: (*getattr(self, name), *getattr(other, name)) for name in names})


class _Bounds(Block):
    """A block with two keys that may be left out, of which it has at least one."""

    @pydantic.model_validator(mode="after")
    def _says_something(self) -> _Bounds:
        names = [n for n, field in type(self).model_fields.items() if not field.is_required()]
        if all(getattr(self, name) is None for name in names):
            raise refusal(f"expected {' or '.join(names)}, got neither")
        return self


class Bound(_Bounds):
    """A bound on a measured number: at least, at most, or both, as formulas over sizes."""

    at_least: Formula | None = None
    at_most: Formula | None = None


class LoadStore(Block):
    load: Bound | None = None
    store: Bound | None = None


class Wave(_Bounds):
    """Bounds on the loads of `programs` programs that run at once, in the launch's order.

    `distinct` bounds the distinct bytes of such a wave, `to_row_major` their ratio to the loads of
    the same programs in row-major order of their tiles.
    """

    programs: Annotated[int, BeforeValidator(whole)]
    distinct: Bound | None = None
    to_row_major: Bound | None = None


class Growth(_Bounds):
    """Bounds on growth when the named `sizes` are four times as large.

    `tile` bounds the ratio of the largest blocks' elements. `scratch` bounds that of the bytes that
    the entry allocates, and that of the bytes that kernels store if these are more than all
    arguments have. 1 where nothing may grow, 4 where growth may be linear in the sizes.
    """

    sizes: Annotated[tuple[Name, ...], BeforeValidator(nonempty_list)]
    tile: Bound | None = None
    scratch: Bound | None = None


def _case_value(value: object) -> object:
    if not isinstance(value, (bool, int, float, str)):
        raise unexpected("one value", value)
    return value


Case = dict[str, Annotated[Any, BeforeValidator(_case_value)]]


class MemoryPressure(Block):
    """On a GPU, a case that must run with at most `leaves` bytes of free memory."""

    case: Case
    leaves: Formula


# Metrics of how a kernel shares its work, counted in both languages.
SHARED_WORK = ("largest_share", "requests", "blocks", "simt_efficiency")
SHARES = ("largest_share", "simt_efficiency")  # from 0 to 1
GROWTH = 4  # factor of the sizes that `growth` names
# Times what a case needs: more traffic beside that of the work could lift an average. A spec whose
# kernels have to go over their data more often says so: `most_traffic`.
MOST_TRAFFIC = 2


class Memory(Block):
    """Bounds on the use of memory, measured on one fixed case.

    `case` gives every size, the dtype where the variant has several, and scalars or a data pattern
    where they matter. `useful_bytes_per_sector` is of 32; `reads` is how often each element of an
    argument is read from global memory, or from a copy in scratch. `largest_share` is of the bytes
    that the case needs, all arguments once, the part that the busiest thread (CUDA C++) or program
    (Triton) of each launch moves; `requests` are accesses of whole warps to global memory;
    `simt_efficiency` is the part of a warp's threads, or of a block's elements, that take part in
    them; `blocks` are those, or programs, of the largest launch that store or atomically add
    anything. A formula may name `sms`, the SMs of the course's GPU. For CUDA C++ alone:
    `shared_bank_conflicts`; `copies` and `bytes_copied` between host and device; `scratch_stores`,
    the bytes that kernels store to global memory other than arguments. For Triton alone:
    `scratch_bytes` of tensors that the entry allocates; `wave_bytes`; `growth`; `memory_pressure`,
    a bound on allocations for a large case.

    Kernels that load or store more than `most_traffic` times the arguments' bytes earn no points
    for useful bytes per sector, `largest_share` and `simt_efficiency` (by default MOST_TRAFFIC).
    """

    case: Case
    useful_bytes_per_sector: LoadStore | None = None
    shared_bank_conflicts: Bound | None = None
    copies: Bound | None = None
    bytes_copied: Bound | None = None
    scratch_stores: Bound | None = None
    reads: dict[str, Bound] | None = None
    largest_share: Bound | None = None
    requests: Bound | None = None
    blocks: Bound | None = None
    simt_efficiency: Bound | None = None
    scratch_bytes: Bound | None = None
    wave_bytes: Wave | None = None
    growth: Growth | None = None
    memory_pressure: Annotated[
        MemoryPressure | None,
        pydantic.Field(validation_alias=pydantic.AliasChoices("memory_pressure", "ballast")),
    ] = None  # "ballast" in specs of an earlier version
    most_traffic: Positive | None = None

    def bounds(self) -> Iterator[tuple[tuple[str, ...], Bound]]:
        """Every bound with its key path below this block, in the order of the fields."""
        return _bounds_in(self)

    @property
    def traffic_limit(self) -> float:
        """How many times the bytes needed kernels may load, or store, where it matters."""
        return self.most_traffic or MOST_TRAFFIC

    def limited_traffic(self) -> dict[str, list[str]]:
        """The accesses, "load" or "store", of `traffic_limit`, each with the bounds that need it.

        A share needs it only where no other bound limits that traffic.
        """
        keys = {key for path, _ in self.bounds() for key in (path[0], ".".join(path))}
        limited = {}
        for kind, limit in (("load", "reads"), ("store", "scratch_stores")):
            of_sectors = f"useful_bytes_per_sector.{kind}"
            names = [of_sectors, *(SHARES if limit not in keys else ())]
            if bounds := [name for name in names if name in keys]:
                limited[kind] = bounds
        return limited

    def grown_case(self) -> Case:
        """The case with the sizes in `growth` four times as large."""
        grown = self.growth.sizes if self.growth is not None else ()
        return {k: v * GROWTH if k in grown else v for k, v in self.case.items()}


def _bounds_in(
    value: object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Bound]]:
    """The bounds in a block or a mapping, each with its key path."""
    if isinstance(value, Bound):
        yield path, value
    elif isinstance(value, (Block, Mapping)):
        for key, each in dict(value).items():
            yield from _bounds_in(each, (*path, key))


class Milliseconds(Block):
    """An absolute time on one kind of GPU, by the driver's name."""

    gpu: str
    at_most: Positive


def _known_gpu(value: object) -> str:
    if wrong := kinds.problem(str(value)):
        raise refusal(wrong)
    return str(value)


Gpu = Annotated[str, BeforeValidator(_known_gpu)]

MOST_STEPS = 10  # of linear points
LEAST_STEP = 0.04  # as a share of the required speed: twice the resolution of a measurement


class Threshold(Block):
    """One performance threshold, or several steps of linear points.

    It is relative, `speed_vs` a baseline (`at_least` is the baseline's time over the kernel's, or
    the fraction of the roofline), or absolute, in `milliseconds`. With `from`, points rise from 0
    there to `points` at `at_least` in equal steps: MOST_STEPS of them, or fewer so that none is
    narrower than LEAST_STEP. Steps give the same points in each grade; a continuous line wouldn't.

    `missed_by` names submissions of the staff's (tests/submissions/wrong/) that are right but too
    slow, which the threshold has to exclude. `grader calibrate` times them.
    """

    speed_vs: Annotated[BaselineName, one_of(get_args(BaselineName))] | None = None
    from_: Annotated[Positive | None, pydantic.Field(alias="from")] = None
    at_least: Positive | None = None
    milliseconds: Milliseconds | None = None
    points: Points
    missed_by: tuple[Name, ...] = ()

    @property
    def limit(self) -> float:
        """The least ratio, or the most milliseconds."""
        limit = self.milliseconds.at_most if self.milliseconds else self.at_least
        assert limit is not None  # a validator below requires one of both
        return limit

    @pydantic.model_validator(mode="after")
    def _one_way_of_measuring(self) -> Threshold:
        if (self.speed_vs is None) == (self.milliseconds is None):
            raise refusal("expected one of speed_vs and milliseconds")
        if (self.at_least is None) == (self.speed_vs is not None):
            raise refusal("expected at_least beside speed_vs, and only there")
        if self.from_ is not None and self.speed_vs is None:
            raise refusal("expected from beside speed_vs and at_least, got it beside milliseconds")
        if self.from_ is not None and self.at_least is not None:
            if self.from_ >= self.at_least:
                wanted = f"from below at_least ({self.at_least:g})"
                raise refusal(f"expected {wanted}, got {self.from_:g}")
            if not _step_count(self.from_, self.at_least):
                raise refusal(
                    f"expected from at {self.at_least * (1 - LEAST_STEP):g} or less, a step of "
                    f"{100 * LEAST_STEP:g} % below at_least ({self.at_least:g}), got {self.from_:g}"
                )
        return self

    @property
    def steps(self) -> tuple[Threshold, ...]:
        """Its steps, the highest first; itself where it has no `from`."""
        if self.from_ is None or self.at_least is None:
            return (self,)
        count = _step_count(self.from_, self.at_least)
        rise = (self.at_least - self.from_) / count
        return tuple(
            Threshold(
                speed_vs=self.speed_vs,
                at_least=self.at_least if step == count else round(self.from_ + step * rise, 6),
                points=round(self.points * step / count, 6),
            )
            for step in range(count, 0, -1)
        )


def _step_count(start: float, end: float) -> int:
    # Exact: 0.96 to 1 is a step of 4 %, despite binary fractions.
    first, last, least = (Fraction(repr(float(each))) for each in (start, end, LEAST_STEP))
    return min(MOST_STEPS, math.floor((last - first) / (least * last)))


class Performance(Block):
    """What is timed, the bytes and operations it must have, and the points for speed.

    There is one `case`, or several `cases`, of which the worst speed counts. `bytes` and `flops`
    are formulas over sizes and `itemsize` (bytes per element of the dtype); `device` names the GPU
    the thresholds were calibrated on. The first of `thresholds` that holds counts, and of linear
    points the highest step. `beside`: drawn sizes near the first case's are timed too, and the
    worse speed counts. `thresholds` may be those of several GPUs, {H100: [...], A100: [...]}; on a
    GPU that isn't named the first's count. Without thresholds the variant has no points for speed:
    a grade doesn't time it, and `grader bench` does.
    """

    case: Case | None = None
    cases: Annotated[tuple[Case, ...], BeforeValidator(nonempty_list)] | None = None
    bytes: Formula
    flops: Formula | None = None
    thresholds: Annotated[
        tuple[Threshold, ...],
        BeforeValidator(lambda v: () if isinstance(v, Mapping) else nonempty_list(v)),
    ] = ()
    by_gpu: Annotated[
        dict[Gpu, Annotated[tuple[Threshold, ...], BeforeValidator(nonempty_list)]],
        BeforeValidator(lambda v: filled(v) if isinstance(v, Mapping) else {}),
    ] = pydantic.Field(default_factory=dict, validation_alias="thresholds")
    device: str | None = None
    beside: bool = False

    @pydantic.model_validator(mode="after")
    def _one_or_several(self) -> Performance:
        if (self.case is None) == (self.cases is None):
            raise refusal("expected one of case and cases")
        if self.by_gpu:
            object.__setattr__(self, "thresholds", next(iter(self.by_gpu.values())))
        return self

    @property
    def calibrated_on(self) -> tuple[str, ...]:
        """The GPUs that the thresholds are for, as far as the spec names them."""
        return tuple(self.by_gpu) or ((self.device,) if self.device else ())

    def on(self, device: str) -> Performance:
        """As it is on a device: with the thresholds of that GPU, or the first if it has none."""
        mine = (each for gpu, each in self.by_gpu.items() if kinds.is_of(gpu, device))
        return self.model_copy(update={"thresholds": next(mine, self.thresholds)})

    @property
    def every_case(self) -> tuple[Case, ...]:
        return self.cases or (() if self.case is None else (self.case,))

    @property
    def steps(self) -> tuple[Threshold, ...]:
        """The thresholds, with linear points as steps; the first that holds counts."""
        return tuple(step for each in self.thresholds for step in each.steps)

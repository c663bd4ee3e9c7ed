"""What was observed about a submission: frozen, complete, and without points.

Grading writes evidence once. Points follow from it and the spec (score.py), so that a changed
threshold needs no new run. It is stored as JSON (`to_json`, `from_json`) with a schema number.
Reading checks every field and names a wrong one.

    Evidence
      VariantEvidence            one per variant asked for
        PartEvidence             one per dtype and size class: a run of the correctness loop
          Failure                the smallest failing case of each status
            SourceLine           a line of the submission that it is about
            Picture              where in memory it went wrong
          Printed                what kernels printed in one case
        PerformanceEvidence      timings, where a device could take them
        MemoryEvidence           how memory was used, counted on one case
          Metric                 a number that a spec may bound
          LineCounters           the same by source line
        PredictionsEvidence      answers to an exercise's questions, in the place of a variant
          Prediction             one of them
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from grader import given_files
from grader.mistakes import Mistake
from grader.status import Status, worst

SCHEMA = 1
MOST_BYTES = 64 << 20  # of a file of evidence
MOST_VALUES = 4_000_000  # in it: once read, each takes hundreds of bytes
_Measured = Annotated[float, pydantic.Field(ge=-1e100, le=1e100)]  # in percent it is a float, too
_Integer = Annotated[int, pydantic.Field(ge=-(1 << 100), lt=1 << 100)]  # a float holds it
_CONFIG = pydantic.ConfigDict(allow_inf_nan=False)


@dataclass(frozen=True)
class SourceLine:
    """A line of the submission that a failure is about, and the place in it."""

    line: _Integer  # counted from 1
    text: str
    note: str = ""  # "thread (0,0,0) of block (1,0,0) writes"
    start: _Integer = 0  # column of the place, counted from 0
    length: _Integer = 0  # of the place; 0: the whole line


@dataclass(frozen=True)
class Touch:
    """One of the accesses that a finding is about."""

    who: str  # "thread (0,0,0) of block (1,0,0)", "program (3, 0, 0)"
    does: str  # "writes"
    line: _Integer = 0  # in the submission's file; 0 where unknown


@dataclass(frozen=True)
class Picture:
    """Where a failing case went wrong in memory, for a small drawing.

    For wrong values: `rows` is a map of an output, a letter for each cell of `cell` rows and
    columns of elements, "x" where one of them is wrong. `writers` are those who wrote the most of
    the wrong elements, with their number. For a race or a stray access: `touches` are the accesses,
    at `offset` bytes from the first of the tensor's `size`.
    """

    tensor: str = ""  # "" where the memory has no name
    shape: tuple[_Integer, ...] = ()
    cell: tuple[_Integer, _Integer] = (1, 1)
    rows: Annotated[tuple[str, ...], pydantic.Field(max_length=32)] = ()
    wrong: _Integer = 0  # elements
    writers: Annotated[tuple[tuple[str, _Integer], ...], pydantic.Field(max_length=8)] = ()
    touches: Annotated[tuple[Touch, ...], pydantic.Field(max_length=2)] = ()
    offset: _Integer = 0
    size: _Integer = 0


@dataclass(frozen=True)
class Failure:
    """The smallest failing case of one status, and its diagnosis.

    A message to a student has four parts: what went wrong (`what`, with `where`), expected and
    actual values (inside `what`), what to try (`hint`), and the line that repeats it (`reproduce`).
    """

    status: Status
    case: str  # for --case: "rows=1 cols=1025 dtype=float16 seed=7"
    what: str  # one or two sentences: "out[0, 1024] is nan, expected 0.173; the others are right."
    where: str = ""  # "rmsnorm.py:23", or "" where no line is known
    pattern: str = ""  # "every case with cols > 1024 fails; every case with cols <= 1024 passes"
    cause: str = ""  # "lse is in powers of two.": a mistake that a try has confirmed
    hint: str = ""  # "is every block of 64 along N visited?"
    reproduce: str = ""  # "grader check rmsnorm --case '...'"
    occurrences: str = ""  # "wrong in 3 of 10 runs", for nondeterministic
    code: tuple[SourceLine, ...] = ()
    detail: str = ""  # a traceback or compiler output, shortened to the student's part
    observed_by: Literal["grader", "worker"] = "grader"
    picture: Picture | None = None  # None in evidence of an earlier version, too


@dataclass(frozen=True)
class Printed:
    """The output of kernels in one case, as of tl.device_print; clean text, shortened."""

    case: str
    text: str


@dataclass(frozen=True)
class PartEvidence:
    """One dtype in one size class of one variant: the unit of a verdict."""

    dtype: str
    size_class: str
    status: Status
    cases_run: _Integer = 0
    cases_failed: _Integer = 0
    failures: tuple[Failure, ...] = ()  # the one to fix first comes first
    reason: str = ""  # why it was not measured, or stopped early
    seconds: float = 0.0
    printed: Printed | None = None  # in the first failure's case, else in the first that printed
    notes: tuple[str, ...] = ()  # sentences on the launcher's requests


@dataclass(frozen=True)
class Baseline:
    """A baseline that was timed in turn with the candidate."""

    name: str  # "torch", "copy", "roofline"
    microseconds: float  # median per call
    ratio: float  # median of paired (baseline time / candidate time): above 1, the candidate wins
    low: float | None = None  # bounds of the ratio (sequential.py has the confidence);
    high: float | None = None  # None in evidence of an earlier version

    @property
    def at_best(self) -> float:
        """The largest ratio that the measurement allows."""
        return self.ratio if self.high is None else self.high

    @property
    def at_worst(self) -> float:
        """The smallest ratio that the measurement allows."""
        return self.ratio if self.low is None else self.low


@dataclass(frozen=True)
class PerformanceEvidence:
    """Timings of one variant on a performance case; medians of paired runs.

    Where the spec has several cases, `further` has those after the first. `disturbed` names
    baselines that ran slower than when idle, and `earlier` those of discarded attempts. `accepted`
    is a person's approval of a time that the hardware's published figures exclude.
    """

    status: Status  # passed = timed; not_measured; or how the timed run failed
    reason: str = ""
    device: str = ""
    case: str = ""
    microseconds: float | None = None
    microseconds_low: float | None = None  # bounds, as a baseline's `low` and `high`
    microseconds_high: float | None = None
    bytes: _Integer | None = None  # that the case must move, by the spec's formula
    flops: float | None = None  # that it must compute, where the spec has a formula
    samples: _Integer = 0  # valid pairs
    voids: dict[str, _Integer] = field(default_factory=dict)  # void pairs by reason
    budget_ended: bool = False  # before every threshold was decided
    disturbed: str = ""
    earlier: tuple[str, ...] = ()  # why it was timed anew: noise, as evidence for a person
    accepted: bool = False
    machine: dict[str, str | float | _Integer] = field(default_factory=dict)  # the GPU's state
    kernels: tuple[str, ...] = ()  # kernels of an untimed call, as its worker reports them
    unlisted: str = ""  # why they couldn't be listed
    baselines: Annotated[
        tuple[Baseline, ...],
        pydantic.Field(validation_alias=pydantic.AliasChoices("baselines", "yardsticks")),
    ] = ()  # "yardsticks" in evidence of an earlier version
    further: tuple[PerformanceEvidence, ...] = ()

    @property
    def every(self) -> tuple[PerformanceEvidence, ...]:
        """The timings of each case of the spec, in order."""
        return (self, *self.further)

    @property
    def is_timed(self) -> bool:
        """Whether it has a time."""
        return self.status is Status.passed and bool(self.microseconds)

    @property
    def microseconds_at_best(self) -> float | None:
        """The shortest time that the measurement allows; None where nothing was timed."""
        return self.microseconds if self.microseconds_low is None else self.microseconds_low


@dataclass(frozen=True)
class Metric:
    """A measured number, under the key that bounds it in a spec.

    `counters` names its sources, in ncu's names where ncu has them.
    """

    name: str  # "useful_bytes_per_sector.load", "shared_bank_conflicts", "reads.weight"
    value: _Measured
    counters: str = ""


@dataclass(frozen=True)
class LineCounters:
    """The memory accesses of one source line of a kernel, in all launches of the entry.

    A request is one access of a warp; sectors have 32 bytes. `useful_bytes` are those that the
    lanes of a request asked for, each counted once. Wavefronts and conflicts are of shared memory;
    `ways` is the worst request's: 32 where all lanes use one bank. `masked` counts elements of
    Triton blocks that a mask left out.

    `rule` says how accesses of Triton blocks become requests: "compiled" by the instructions of the
    compiled kernel's warps, "elements" by 32 elements each, where those are unknown. It is empty
    for CUDA C++, and in evidence of an earlier version.
    """

    line: _Integer  # in the submission's file; 0 where none is known
    kernel: str
    space: Literal["global", "shared", "local", "constant"]
    access: Literal["load", "store", "atomic"]
    requests: _Integer
    sectors: _Integer = 0
    useful_bytes: _Integer = 0
    wavefronts: _Integer = 0
    conflicts: _Integer = 0
    ways: _Integer = 0
    masked: _Integer = 0
    rule: Literal["", "compiled", "elements"] = ""


@dataclass(frozen=True)
class MemoryEvidence:
    """How one variant used memory on the spec's case.

    `further` are runs with the same bounds, at sizes drawn near the spec's or with another
    configuration of a tuned kernel; `run` describes each of them.
    """

    status: Status  # passed = measured; not_measured; or how the run failed
    reason: str = ""
    case: str = ""
    metrics: tuple[Metric, ...] = ()
    lines: tuple[LineCounters, ...] = ()
    observed_by: Literal["grader", "worker"] = "worker"  # the emulator's runtime is in the worker
    run: str = ""  # how a further run differs from the one at the spec's case
    notes: tuple[str, ...] = ()  # sentences: kernels without effect, further measurements
    further: tuple[MemoryEvidence, ...] = ()
    failures: tuple[Failure, ...] = ()  # where the kernel is wrong at these sizes: why

    @property
    def every(self) -> tuple[MemoryEvidence, ...]:
        """This run and the further ones."""
        return (self, *self.further)


@dataclass(frozen=True)
class Prediction:
    """A student's answer to one question, and whether it is right."""

    question: str
    given: str
    expected: str
    is_right: bool


@dataclass(frozen=True)
class PredictionsEvidence:
    """A student's answers to an exercise's questions.

    `status` is passed where they were compared with what is right, which only a class's grade does;
    not_measured where their form is right; import_error where they can't be read, and wrong_values
    where a form is wrong, for a `reason`.
    """

    status: Status
    reason: str = ""
    student: str = ""  # the name in the file, from which the numbers were drawn
    answers: tuple[Prediction, ...] = ()


@dataclass(frozen=True)
class VariantEvidence:
    """All evidence on one variant of one exercise."""

    __pydantic_config__ = _CONFIG
    exercise: str
    variant: str
    file: str
    sha256: str = ""  # of the submission's file; "" where there is none
    not_attempted: str = ""  # the reason, or ""
    parts: tuple[PartEvidence, ...] = ()
    performance: PerformanceEvidence | None = None  # None where the spec asks for none
    rules_lifted: bool = False  # by the course staff: the source was not checked
    memory: MemoryEvidence | None = None  # None where the spec asks for none
    # Launches and accesses that are wrong at a size that is planned only; they cost no points.
    at_large_sizes: tuple[Failure, ...] = ()
    predictions: PredictionsEvidence | None = None  # of the answers to an exercise's questions

    @property
    def has_grader_error(self) -> bool:
        single = (self.performance, self.memory, self.predictions)
        every = (*self.parts, *single, *self.at_large_sizes)
        return any(part.status is Status.grader_error for part in every if part is not None)

    @property
    def correctness(self) -> Status:
        """The joint status of all parts."""
        if self.not_attempted:
            return Status.not_attempted
        if not self.parts:
            return Status.not_measured
        failing = [part.status for part in self.parts if part.status.is_failure]
        return worst(failing or [part.status for part in self.parts])


@dataclass(frozen=True)
class Evidence:
    """One grading of one submission."""

    __pydantic_config__ = _CONFIG
    submission: str
    seed: int
    variants: tuple[VariantEvidence, ...]
    environment: dict[str, Any] = field(default_factory=dict)  # gpu (or None), sandbox, versions
    seconds: float = 0.0
    complete: bool = True  # False where the run was interrupted
    schema: int = SCHEMA

    @property
    def by_name(self) -> dict[tuple[str, str], VariantEvidence]:
        """The variants by exercise and variant; the first one of a repeated name."""
        return {(each.exercise, each.variant): each for each in reversed(self.variants)}


_Read = TypeVar("_Read", Evidence, VariantEvidence)


@cache
def _adapter() -> pydantic.TypeAdapter[Evidence]:
    """Made when it is needed, since that takes longer than most imports."""
    return pydantic.TypeAdapter(Evidence)


@cache
def _adapter_of_variants() -> pydantic.TypeAdapter[VariantEvidence]:
    return pydantic.TypeAdapter(VariantEvidence)


def to_json(evidence: Evidence) -> str:
    """Evidence as indented JSON text."""
    return _adapter().dump_json(evidence, indent=1).decode()


def from_json(text: str, source: str = "evidence") -> Evidence:
    """Read what `to_json` wrote; `source` names the file in messages.

    Raises Mistake for the first wrong field.
    """
    evidence = _validated(_adapter(), text, source)
    if evidence.schema != SCHEMA:
        raise Mistake(
            f"{source}: schema: expected {SCHEMA}, got {evidence.schema}; "
            "it was written by another version of the grader, grade the submission again"
        )
    return evidence


def variant_to_json(evidence: VariantEvidence) -> str:
    """The evidence of one variant as one line of JSON."""
    return _adapter_of_variants().dump_json(evidence).decode()


def variant_from_json(text: str, source: str = "evidence") -> VariantEvidence:
    """Read what `variant_to_json` wrote. Raises Mistake as `from_json` does."""
    return _validated(_adapter_of_variants(), text, source)


def _validated(adapter: pydantic.TypeAdapter[_Read], text: str, source: str) -> _Read:
    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "top level"
        came = repr(first["input"])
        raise Mistake(f"{source}: {place}: {first['msg']}, got {came[:60]}") from None


def read(path: Path) -> Evidence:
    """Read an evidence file. Raises Mistake when it is missing or invalid."""
    data = given_files.content(path, MOST_BYTES)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Mistake(f"{path}: can't be read: not UTF-8 text") from None
    if sum(map(data.count, (b"[", b"{", b","))) > MOST_VALUES:
        raise Mistake(f"{path}: expected at most {MOST_VALUES:,} lists and fields")
    return from_json(text, str(path))

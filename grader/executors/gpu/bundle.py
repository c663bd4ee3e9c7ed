"""A file of plans: what a machine with a GPU needs to run and time a submission that isn't there.

    write(path, bundle)    on the machine that has the submission
    read(path)             on the one that has the GPU; the bytes may be anybody's

The file is a line that names format and version, then JSON of a Bundle, compressed. Documents are
plans for the executor on a GPU (gpu_encoding.py), with the cubins of their kernels; each is in the
file once, and cases name theirs by number. A document is as untrusted as the kernels in it: the
executor reads it, in a sandbox.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import pydantic
from pydantic import Field
from pydantic.dataclasses import dataclass

from grader import __version__, given_files
from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.gpu.gpu_runner import GpuRunner
from grader.executors.runner import CaseResult
from grader.mistakes import Mistake
from grader.sandbox import Sandbox, untrusted
from grader.spec import Exercise
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument

VERSION = 1
MAX_FILE_BYTES = 256 << 20
MAX_JSON_BYTES = 256 << 20
MAX_VALUES = 1_000_000  # in the JSON: once read, each takes hundreds of bytes
MAX_DOCUMENT_BYTES = 64 << 20
MAX_DOCUMENTS = 20_000
MAX_CASES = 256  # of a part, or of the clock
MOST_CONFIGURATIONS = 64  # of a tuned kernel
MAX_DETAIL = 4000  # characters
_MAGIC = b"warpgrade plans "

_CONFIG = pydantic.ConfigDict(
    strict=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
)
_Name = Annotated[str, Field(max_length=400)]
_Text = Annotated[str, Field(max_length=MAX_DETAIL)]
_Hash = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
_Document = Annotated[bytes, Field(max_length=MAX_DOCUMENT_BYTES)]


@dataclass(frozen=True, config=_CONFIG)
class PlannedCase:
    """A case by its text, and the numbers of its documents; without any, why there is none."""

    case: _Name
    documents: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...],
        Field(max_length=MOST_CONFIGURATIONS, fail_fast=True),
    ] = ()
    status: Status = Status.passed  # of the planning
    what: _Text = ""
    hint: _Text = ""
    detail: _Text = ""
    line: Annotated[int, Field(ge=1, lt=untrusted.MAX_LINE)] | None = None


_Cases = Annotated[tuple[PlannedCase, ...], Field(max_length=MAX_CASES, fail_fast=True)]


@dataclass(frozen=True, config=_CONFIG)
class PlannedPart:
    """The cases of one dtype and size class that are to be run on the GPU."""

    dtype: _Name
    size_class: _Name
    cases: _Cases


@dataclass(frozen=True, config=_CONFIG)
class PlannedVariant:
    """The cases of one variant to run and to time; none where it is `not_attempted`."""

    exercise: _Name
    variant: _Name
    file: _Name
    sha256: _Hash  # of the submission's file
    spec: _Hash  # of the exercise's block: see spec_hash
    not_attempted: _Text = ""
    parts: Annotated[tuple[PlannedPart, ...], Field(max_length=MAX_CASES, fail_fast=True)] = ()
    timed: _Cases = ()  # with a document for each configuration of a tuned kernel


@dataclass(frozen=True, config=_CONFIG)
class Bundle:
    """All that a file of plans holds."""

    submission: _Name
    seed: Annotated[int, Field(ge=0, le=2**63)]
    warpgrade: _Name
    capability: Annotated[int, Field(ge=10, lt=1000)]  # that kernels are compiled for: 90 for 9.0
    versions: Annotated[dict[_Name, _Name | None], Field(max_length=16)]  # of compilers
    variants: Annotated[tuple[PlannedVariant, ...], Field(max_length=1000, fail_fast=True)]
    documents: Annotated[tuple[_Document, ...], Field(max_length=MAX_DOCUMENTS, fail_fast=True)]

    def __post_init__(self) -> None:
        for variant in self.variants:
            name = f"{variant.exercise}/{variant.variant}"
            for each in [*(case for part in variant.parts for case in part.cases), *variant.timed]:
                if any(number >= len(self.documents) for number in each.documents):
                    raise ValueError(f"{name}: {each.case}: a document that isn't in the file")
                if bool(each.documents) is not (each.status is Status.passed):
                    expected = "expected documents or why there is none"
                    raise ValueError(f"{name}: {each.case}: {expected}")


_BUNDLE = pydantic.TypeAdapter(Bundle)


def spec_hash(exercise: Exercise) -> str:
    """A digest of an exercise's block in the specs."""
    return hashlib.sha256(exercise.model_dump_json(fallback=str).encode()).hexdigest()


def to_bytes(bundle: Bundle) -> bytes:
    """The bytes of a file of plans."""
    return _head() + zlib.compress(_BUNDLE.dump_json(bundle))


def write(path: Path, bundle: Bundle) -> None:
    """Write all of the file or nothing. Raises OSError."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(to_bytes(bundle))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read(path: Path) -> Bundle:
    """The bundle that a file holds. Raises Mistake for whatever else it is."""
    return from_bytes(given_files.content(path, MAX_FILE_BYTES), path)


def from_bytes(data: bytes, path: Path | str = "plans") -> Bundle:
    """The same of a file's bytes; `path` names them in messages."""
    if len(data) > MAX_FILE_BYTES:
        raise Mistake(f"{path}: expected at most {MAX_FILE_BYTES >> 20} MiB, got more")
    head = data[: data.find(b"\n", 0, 40) + 1]
    if not head.startswith(_MAGIC):
        raise Mistake(f"{path}: expected a file that `grader plan --out` wrote, got another")
    if head != _head():
        came = untrusted.brief(head[len(_MAGIC) :].decode("ascii", "replace"), 20)
        raise Mistake(f"{path}: version: expected {VERSION}, got {came}; plan it again here")
    text = _unpacked(data[len(head) :], path)
    if sum(map(text.count, (b"[", b"{", b","))) > MAX_VALUES:
        raise Mistake(f"{path}: expected at most {MAX_VALUES:,} lists and fields, got more")
    try:
        return _BUNDLE.validate_json(text)
    except pydantic.ValidationError as error:
        raise Mistake(f"{path}: {untrusted.brief(untrusted.mistake(error))}") from None


def _unpacked(data: bytes, path: Path | str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, MAX_JSON_BYTES)
    except zlib.error:
        raise Mistake(f"{path}: expected compressed data, got damaged data") from None
    if unpacking.unconsumed_tail:
        raise Mistake(f"{path}: expected at most {MAX_JSON_BYTES >> 20} MiB of plans, got more")
    if not unpacking.eof or unpacking.unused_data:
        got = "more behind it" if unpacking.eof else "a part of it"
        raise Mistake(f"{path}: expected a whole file, got {got}; copy it again")
    return text


def _head() -> bytes:
    return _MAGIC + f"{VERSION}\n".encode()


def expect_usable(
    bundle: Bundle, path: Path, exercises: Mapping[str, Exercise], capability: int
) -> None:
    """Raise Mistake where a bundle isn't for this grader, these specs or this GPU."""
    if bundle.warpgrade != __version__:
        came = untrusted.brief(bundle.warpgrade, 40)
        raise Mistake(
            f"{path}: warpgrade: expected version {__version__}, which runs here, got {came}; "
            "install the same on both machines and plan again"
        )
    if bundle.capability != capability:
        wanted, came = (f"{n // 10}.{n % 10}" for n in (capability, bundle.capability))
        raise Mistake(
            f"{path}: capability: expected kernels for {wanted}, which this GPU has, got {came}; "
            f"plan again with --gpu {capability}"
        )
    met: set[str] = set()
    for each in bundle.variants:
        name = untrusted.brief(f"{each.exercise}/{each.variant}", 80)
        if name in met:  # it would be timed again
            raise Mistake(f"{path}: {name}: expected one plan of it, got another")
        met.add(name)
        exercise = exercises.get(each.exercise)
        variant = exercise.variants.get(each.variant) if exercise else None
        known = (spec_hash(exercise), variant.file) if exercise and variant else None
        if (each.spec, each.file) != known:
            raise Mistake(
                f"{path}: {name}: expected the spec that it was planned for, got "
                f"{'another' if variant else 'none'}; have the same exercises/ on both "
                "machines and plan again"
            )


def refusal(planned: PlannedCase | None, case: Case) -> CaseResult:
    """Why a case has no documents, as the machine that planned it has written."""
    if planned is None:
        return CaseResult(case, Verdict(Status.not_measured, "the file has no plan of this case."))
    what, hint, detail = map(untrusted.clean, (planned.what, planned.hint, planned.detail))
    verdict = Verdict(planned.status, what)
    return CaseResult(case, verdict, planned.line, detail, observed_by="worker", hint=hint)


class BundleRunner(GpuRunner):
    """Runs the cases of one variant on a GPU by the documents of a file, and no others."""

    def __init__(
        self, sandbox: Sandbox, task: Task, bundle: Bundle, cases: Mapping[str, PlannedCase]
    ) -> None:
        """`cases` are those of the variant, by their texts."""
        super().__init__(sandbox, task, Path(task.variant.file), plans=None)
        self._bundle = bundle
        self._cases = cases

    def _document(self, case: Case, arguments: Sequence[Argument]) -> bytes | CaseResult:
        planned = self._cases.get(str(case))
        if planned is None or not planned.documents:
            return refusal(planned, case)
        return self._bundle.documents[planned.documents[0]]

"""The report of the executor of Triton kernels on their use of memory, read as untrusted bytes.

The counterpart of emulator/report.py for grader/worker/ttir/counters.py. `parse` takes the counters
only where every field has the type and range that the worker's code can have written and the
numbers agree with each other; all else is a ReportError.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import pydantic
from pydantic import Field
from pydantic.dataclasses import dataclass

from grader.emulator.report import (
    EACH_ONCE,
    SECTOR_BYTES,
    WARP_LANES,
    Count,
    Index3,
    ReportError,
    shown_line,
)
from grader.evidence import Picture, Touch
from grader.sandbox import untrusted

MAX_SITES = 300
MAX_FINDINGS = 16
MAX_WAVES = 32
MAX_SECTORS = WARP_LANES * 16  # of a request: a lane takes 16 bytes at most

_CONFIG = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_Line = Annotated[int, Field(ge=0, lt=10_000_000)]
_Kernel = Annotated[str, Field(max_length=100)]
_Width = Annotated[int, Field(ge=1, le=16)]  # of an element, or of what a lane takes at once
_Argument = Annotated[int, Field(ge=0, lt=64)]
_Access = Literal["load", "store", "atomic"]
_RaceAccess = Literal["load", "store", "atomic", "cta_atomic"]  # the last: of scope "cta"
_Kind = Literal[
    "out_of_bounds_read",
    "out_of_bounds_write",
    "modified_input",
    "misaligned",
    "misaligned_tensor",
    "data_race",
    "store_conflict",
    "uninitialised_read",
    "gathered_outside",
    "device_assert",
    "false_assumption",
]
_ABOUT_NO_MEMORY = ("device_assert", "false_assumption")


@dataclass(frozen=True, config=_CONFIG)
class Finding:
    """Accesses of one line that should not be: `count` of them, of which the first is described.

    The access was of `bytes` bytes, `offset` bytes behind the first one of the nearest memory: an
    `argument`, or what the entry `allocated` (bytes, line). Both are None where there is no
    address. A data race is one of two accesses: `access` by `program` at `line`, and `other_access`
    by `other_program` at `other_line`. What an undefined element reaches is at `other_line`.
    """

    kind: _Kind
    line: _Line
    kernel: _Kernel
    count: Count
    program: Index3
    argument: _Argument | None
    offset: Annotated[int, Field(ge=-(2**63), lt=2**64)]
    bytes: _Width
    other_line: _Line = 0  # 0 where there is no second access
    other_program: Index3 | None = None
    allocated: tuple[Count, _Line] | None = None
    access: _RaceAccess | None = None
    other_access: _RaceAccess | None = None

    def __post_init__(self) -> None:
        pair = (self.other_program, self.access, self.other_access)
        if self.kind == "data_race" and None in pair:
            raise ValueError("a data race of one access")
        if self.kind != "data_race" and pair != (None, None, None):
            raise ValueError("a second access where there is one")


@dataclass(frozen=True, config=_CONFIG)
class CompiledCounters:
    """Requests as the compiled kernel's warps make them: one is an instruction of a warp."""

    requests: Count
    sectors: Count
    useful_bytes: Count

    def __post_init__(self) -> None:
        if not self.requests <= self.sectors <= MAX_SECTORS * self.requests:
            raise ValueError("sectors that the requests can't have")
        if self.useful_bytes > SECTOR_BYTES * self.sectors:
            raise ValueError("more useful bytes than the sectors have")


@dataclass(frozen=True, config=_CONFIG)
class SiteCounters:
    """The accesses of one line, by kind and width; `bytes` are of one element.

    A request is 32 elements of a block; those under its mask are `lanes`, the others `masked`.
    `compiled` are the same accesses as the compiled kernel makes them; None where that isn't known.
    """

    kernel: _Kernel
    line: _Line
    kind: _Access
    bytes: _Width
    requests: Count
    lanes: Count
    sectors: Count
    useful_bytes: Count
    masked: Count
    compiled: CompiledCounters | None = None

    def __post_init__(self) -> None:
        if not self.requests <= self.lanes <= WARP_LANES * self.requests:
            raise ValueError("lanes that the requests can't have")
        if not self.requests <= self.sectors <= self.lanes:
            raise ValueError("sectors that the lanes can't have")
        if self.useful_bytes > min(SECTOR_BYTES * self.sectors, self.lanes * self.bytes):
            raise ValueError("more useful bytes than the sectors or the lanes have")


@dataclass(frozen=True, config=_CONFIG)
class ArgumentCounters:
    """Bytes loaded from and stored to one argument: every time they were, and each once."""

    argument: _Argument
    load_bytes: Count
    store_bytes: Count
    distinct_load_bytes: Count
    distinct_store_bytes: Count

    def __post_init__(self) -> None:
        # A load of one byte marks the whole element, of 8 bytes at most.
        if self.distinct_load_bytes > 8 * self.load_bytes:
            raise ValueError("more bytes loaded once than in all")
        if self.distinct_store_bytes > 8 * self.store_bytes:
            raise ValueError("more bytes stored once than in all")


@dataclass(frozen=True, config=_CONFIG)
class WaveCounters:
    """Distinct bytes loaded by waves of programs, added up over the waves of one launch.

    `bytes` in the order of the launch, `row_major_bytes` in that of the tiles they store. A wave
    consists of turns, as the tiles of persistent programs; most programs have one. `asked_bytes`
    counts each turn's distinct bytes, `distinct_bytes` those of all turns together.
    """

    turns: Count
    waves: Count
    bytes: Count
    row_major_bytes: Count
    asked_bytes: Count
    distinct_bytes: Count

    def __post_init__(self) -> None:
        if self.waves > self.turns or (self.turns and not self.waves):
            raise ValueError("waves that the turns can't make")
        if max(self.bytes, self.row_major_bytes, self.distinct_bytes) > self.asked_bytes:
            raise ValueError("more bytes in waves than the turns ask for")


@dataclass(frozen=True, config=_CONFIG)
class Report:
    """One call of the entry. `cut`: the report has no room for all that was observed.

    `largest_tile` counts elements; `scratch_bytes` are of memory that the entry brought, of which
    kernels store to `scratch_stored_bytes`, and `copied_bytes` of copies that PyTorch made for it.
    `largest_bytes` are those that one program moves, the most of each launch, and
    `largest_footprint` the distinct ones among those of one program; the largest launch has
    `programs`, and `storing_programs` of one launch store or change memory atomically. Kernels use
    `returned_bytes` that atomics found in memory.
    """

    sites: Annotated[tuple[SiteCounters, ...], Field(max_length=MAX_SITES, fail_fast=True)]
    buffers: Annotated[
        tuple[ArgumentCounters, ...], Field(max_length=64, fail_fast=True), EACH_ONCE
    ]
    findings: Annotated[tuple[Finding, ...], Field(max_length=MAX_FINDINGS, fail_fast=True)]
    waves: Annotated[tuple[WaveCounters, ...], Field(max_length=MAX_WAVES, fail_fast=True)]
    largest_tile: Count
    tile_line: _Line
    scratch_bytes: Count
    scratch_stored_bytes: Count
    largest_bytes: Count
    largest_footprint: Count
    programs: Count
    storing_programs: Count
    returned_bytes: Count
    copied_bytes: Count
    cut: bool

    def __post_init__(self) -> None:
        stores = sum(each.requests for each in self.sites if each.kind != "load")
        if self.storing_programs > min(self.programs, stores):
            raise ValueError("more programs that store than the grid or the stores have")
        touched = sum(each.distinct_load_bytes + each.distinct_store_bytes for each in self.buffers)
        # A load of one byte marks the whole element, of 8 bytes at most.
        if touched > 8 * self.largest_footprint * self.programs:
            raise ValueError("programs that touch less than all of them do")
        if self.scratch_stored_bytes > self.scratch_bytes:
            raise ValueError("more scratch memory stored to than there is")
        if self.largest_footprint > self.largest_bytes:
            raise ValueError("a program that touches more bytes than it moves")


_Read = TypeVar("_Read")
_Findings = Annotated[
    tuple[Finding, ...], Field(min_length=1, max_length=MAX_FINDINGS, fail_fast=True)
]
_REPORT = pydantic.TypeAdapter(Report)
_FINDINGS: pydantic.TypeAdapter[tuple[Finding, ...]] = pydantic.TypeAdapter(_Findings)


def parse(field: Any) -> Report:
    """The report that a reply's field holds. Raises ReportError for anything else."""
    return _parsed(_REPORT, field)


def parse_findings(field: Any) -> tuple[Finding, ...]:
    """The findings that a reply's field holds, one or more. Raises ReportError otherwise."""
    return _parsed(_FINDINGS, field)


def _parsed(adapter: pydantic.TypeAdapter[_Read], field: Any) -> _Read:
    try:
        return adapter.validate_json(json.dumps(field))  # strict, but a list is a tuple
    except pydantic.ValidationError as error:
        raise ReportError(f"the report: {untrusted.mistake(error)}") from None
    except (TypeError, ValueError, RecursionError):
        raise ReportError("the report is not JSON") from None


_SAYS = {
    "out_of_bounds_read": (
        "reads",
        "Does the mask bound every index that the pointers are made of? It has to keep all of the "
        "block inside, elements whose values aren't used too.",
    ),
    "out_of_bounds_write": (
        "writes",
        "A store's mask has to keep every pointer of the block inside its tensor, in each "
        "dimension. Where rows start follows from the strides of the tensor that is stored to.",
    ),
    "misaligned": (
        "accesses an address that is no multiple of the element's size:",
        "Was a pointer cast to another type, or moved by bytes instead of elements?",
    ),
    "misaligned_tensor": (
        "uses a tensor descriptor with a row that begins at no multiple of 16 bytes:",
        "A GPU's tensor memory accelerator takes no other tensors. Use pointers where the strides "
        "or the first element's address don't fit.",
    ),
    "modified_input": (
        "writes to an input, which is read-only:",
        "Does the store go to the output's pointer?",
    ),
    "device_assert": (
        "fails an assertion of tl.device_assert",
        "The condition is false for at least one of its elements.",
    ),
    "false_assumption": (
        "breaks what tl.assume promises the compiler",
        "The condition is false in this case. The compiler relies on it: on a GPU it may leave out "
        "a mask or a branch that only matters where it is false.",
    ),
    "uninitialised_read": (
        "uses what a mask kept from being loaded",
        "An element of tl.load that is masked off has no value where `other` gives none, nor has "
        "one of an atomic. Pass `other=`, or keep the element out of what is computed and stored.",
    ),
    "gathered_outside": (
        "uses what tl.gather took from outside its block",
        "Each index has to be from 0 to the axis's length, exclusive. Select another value where "
        "it isn't: such an element has no value on a GPU.",
    ),
    "store_conflict": (
        "stores different values of one block to the same",
        "Which of them stays is not defined. Each element of a block needs an index of its own.",
    ),
    "data_race": (
        "",
        "Programs of a launch run at the same time and in any order. Each element needs one "
        "program that writes it; what several add to takes an atomic, or a lock.",
    ),
}

_UNDEFINED = ("uninitialised_read", "gathered_outside")
_INSIDE = ("data_race", "store_conflict", *_UNDEFINED)  # of what a kernel may access
_FAR = 1 << 30  # bytes, beyond which their number says nothing
_DOES = {
    "load": "loads",
    "store": "stores",
    "atomic": "atomically updates",
    "cta_atomic": 'updates by an atomic of scope "cta"',
}
_OF_ONE_PROGRAM = (
    'An atomic with scope="cta" is atomic within one program only, and orders no others. Between '
    'programs use the default, scope="gpu".'
)
_OF_OWN_WARPS = (
    "The warps of a program run at their own pace, and each has other elements of a block. Put "
    "tl.debug_barrier() between the two accesses, or keep the values in a variable."
)
_IN_A_GAP = (
    "Rows can lie further apart than they are long. Does a row start at its index times the stride "
    "of the tensor, also in the `strides` of a descriptor? Does the mask end a row at its size?"
)


def message_of(
    finding: Finding, names: Sequence[tuple[str, int]], file: str, source: Sequence[str]
) -> tuple[str, str]:
    """(what, hint): 'Program (3, 0, 0) reads 4 bytes at offset 4000 of x, which has 4000 bytes, at
    transpose.py:12 (`...`).'

    `names` are (name, bytes) of the entry's arguments, 0 bytes for scalars; `file` is the name of
    the submission's file, `source` its lines.
    """
    words = _Words(finding, names, file, source)
    hint = _SAYS["misaligned" if words.crosses_the_end() else finding.kind][1]
    if words.is_in_a_gap():
        hint = _IN_A_GAP
    if finding.program == finding.other_program:
        hint = _OF_OWN_WARPS
    elif "cta_atomic" in (finding.access, finding.other_access):
        hint = _OF_ONE_PROGRAM
    return words.what(), hint


def marks_of(finding: Finding) -> tuple[tuple[int, str], ...]:
    """The lines that a race is about, and who does what there; the one line of anything else."""
    if finding.kind != "data_race":
        return ((finding.line, ""),) if finding.line else ()
    return tuple((each.line, f"{each.who} {each.does}") for each in _touches(finding) if each.line)


def picture_of(finding: Finding, names: Sequence[tuple[str, int]]) -> Picture | None:
    """Where in an argument the finding's accesses are; None where it is about another memory."""
    argument = finding.argument
    if argument is None or argument >= len(names) or finding.kind in _ABOUT_NO_MEMORY:
        return None
    tensor, size = names[argument]
    return Picture(tensor, touches=_touches(finding), offset=finding.offset, size=size)


def _touches(finding: Finding) -> tuple[Touch, ...]:
    """A finding's accesses to memory: the one, or both of a race."""
    who = f"program {finding.program}"
    if finding.kind != "data_race":
        writes = finding.kind in ("out_of_bounds_write", "modified_input")
        return (Touch(who, "writes" if writes else "reads", finding.line),)
    does, other = (_DOES[each or "store"] for each in (finding.access, finding.other_access))
    by_other = Touch(f"program {finding.other_program}", other, finding.other_line)
    return Touch(who, does, finding.line), by_other


class _Words(NamedTuple):
    """A finding in words; the fields are those of `message_of`."""

    finding: Finding
    names: Sequence[tuple[str, int]]
    file: str
    source: Sequence[str]

    def what(self) -> str:
        finding, verb = self.finding, _SAYS[self.finding.kind][0]
        if finding.kind == "data_race":
            return self._race()
        if finding.kind in _UNDEFINED:
            what = f"{verb}{self._at(finding.line)}: it reaches {self._reached()}"
        elif finding.kind in _ABOUT_NO_MEMORY:
            what = f"{verb}{self._at(finding.line)}"
        else:
            what = f"{verb} {self._place()}{self._at(finding.line, ', at ')}"
        if finding.count > 1 and finding.kind != "misaligned_tensor":
            what += f". {finding.count:,} elements did so there; this was the first"
        return f"Program {finding.program} {what}."

    def _reached(self) -> str:
        """The store or the condition that a value gets to: '4 bytes at offset 0 of out, which has
        64 bytes, at a.py:12 (`...`)'."""
        line = self.finding.other_line
        if self._nearest() is None and line:
            return self._at(line, "")
        return f"{self._place()}{self._at(line, ', at ')}"

    def _race(self) -> str:
        """'Program (1, 0, 0) stores 4 bytes at offset 0 of out, which has 64 bytes, at a.py:12
        (`...`), and program (0, 0, 0) loads the same at a.py:9 (`...`); nothing orders the two.'"""
        finding = self.finding
        if finding.program == finding.other_program:
            return self._own_race()
        does, other = (_DOES[x or "store"] for x in (finding.access, finding.other_access))
        both_store = finding.access == finding.other_access == "store"
        where = self._at(finding.other_line)
        if finding.other_line == finding.line:
            where = " at the same line"
        what = (
            f"Program {finding.program} {does} {self._place()}{self._at(finding.line, ', at ')}, "
            f"and program {finding.other_program} {other} "
            f"{'another value there' if both_store else 'the same'}{where}; nothing orders the two."
        )
        if finding.count > 1:
            what += f" {finding.count:,} elements are contended there; this was the first."
        return what

    def _own_race(self) -> str:
        """'Program (0, 0, 0) loads 4 bytes at offset 4 of out, which has 64 bytes, at a.py:12
        (`...`), where another place of its block stored at a.py:9 (`...`), with no barrier
        between.'"""
        finding = self.finding
        does = "loads" if finding.access == "load" else "stores"
        did = "loaded" if finding.other_access == "load" else "stored"
        if does == "stores" and did == "stored":
            did = "stored another value"
        sentence = (
            f"Program {finding.program} {does} {self._place()}{self._at(finding.line, ', at ')}, "
            f"where another place of its block {did}{self._at(finding.other_line)}, with no "
            "barrier between."
        )
        if finding.count > 1:
            was = "loaded" if finding.access == "load" else "stored"
            sentence += f" {finding.count:,} elements are {was} so; this was the first."
        return sentence

    def _at(self, line: int, words: str = " at ") -> str:
        return f"{words}{shown_line(self.file, self.source, line)}" if line else ""

    def _place(self) -> str:
        """'4 bytes at offset 4,000 of x, which has 4,000 bytes'."""
        finding, offset = self.finding, self.finding.offset
        size = f"{finding.bytes} byte{'s' * (finding.bytes > 1)}"
        near = self._nearest()
        if near is None:
            if finding.kind in _INSIDE:  # such memory is some buffer's
                return f"{size} of memory that the entry allocated"
            return f"{size} outside every tensor"
        name, length = near
        if abs(offset) >= _FAR:
            return f"{size} far {'before' if offset < 0 else 'behind'} {name}"
        if offset < 0:
            return f"{size}, {-offset:,} bytes before {name}"
        is_refused_inside = offset + finding.bytes <= length and self._is_outside()
        if finding.argument is not None:
            gap = ", in the gap between two rows" * self.is_in_a_gap()
            return f"{size} at offset {offset:,} of {name}, which has {length:,} bytes{gap}"
        if offset >= length:
            gap = f", {offset - length:,} bytes" if offset > length else " right"
            return f"{size}{gap} behind {name}"
        return f"{size} at offset {offset:,} of {name}" + (
            ", which are freed by then" * is_refused_inside
        )

    def crosses_the_end(self) -> bool:
        """Whether an access begins in memory and ends behind it, as of a wider type."""
        _, length = self._nearest() or ("", 0)
        offset = self.finding.offset
        return self._is_outside() and 0 <= offset < length < offset + self.finding.bytes

    def is_in_a_gap(self) -> bool:
        """Whether an access lies between two rows of an argument."""
        finding, (_, length) = self.finding, self._nearest() or ("", 0)
        is_inside = 0 <= finding.offset <= length - finding.bytes
        return finding.argument is not None and is_inside and self._is_outside()

    def _is_outside(self) -> bool:
        return self.finding.kind.startswith("out_of_bounds")

    def _nearest(self) -> tuple[str, int] | None:
        """(name, bytes) of the nearest memory; 'the 512 bytes that softmax.py:16 allocated'."""
        argument = self.finding.argument
        if argument is not None:
            return self.names[argument] if argument < len(self.names) else None
        if self.finding.allocated is None:
            return None
        length, line = self.finding.allocated
        who = f"{self.file}:{line}" if line else "the entry"
        return f"the {length:,} bytes that {who} allocated", length

"""Reads the report of a process that ran a CUDA submission, as untrusted bytes.

Student code ran in the process. `parse` accepts the text only if every field has a type, range and
size that the runtime can write, and the numbers agree with each other (32 bytes to a sector, 32
lanes to a request). Anything else is a ReportError.

    Report
      Finding           an error at one place: kind, place, threads, text
      LaunchCounters    one kernel at one configuration
        SiteCounters    one place that accesses memory
      BufferCounters    one argument of the entry
      Copies            cudaMemcpy and the like

`message_of` describes a finding for a student.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field
from pydantic.dataclasses import dataclass

from grader.emulator.findings import (
    ACROSS_BLOCKS,
    ACROSS_THE_END,
    EMPTY_GRID,
    EXCHANGED_LAUNCH,
    KINDS,
    OF_THE_HOST,
    PAST_A_VARIABLE,
    Parts,
    is_across_the_end,
    is_exchanged_launch,
    is_of_block_scope,
    is_past_a_variable,
    race_verbs,
)

MAX_BYTES = 64 * 1024  # of the text, as in the protocol
MAX_FINDINGS = 16
MAX_PRINTED = 2000  # characters of kernels' printf
SECTOR_BYTES = 32
WARP_LANES = 32
SHOWN_SOURCE = 100  # characters of a source line in a message

_CONFIG = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Count = Annotated[int, Field(ge=0, lt=2**63)]
Pc = Annotated[int, Field(ge=0, lt=2**48)]
Index = tuple[Annotated[int, Field(ge=0, lt=2**32)], ...]
Index3 = Annotated[Index, Field(min_length=3, max_length=3)]


class ReportError(ValueError):
    """The runtime can't have written the text; the message names the field."""


@dataclass(frozen=True, config=_CONFIG)
class Finding:
    """An error at one place, which occurred `count` times; the fields describe the first.

    `pc` and `other_pc` are addresses relative to the executable's load base, 0 for none; `block`
    and `thread` are None for host code.
    """

    kind: str
    pc: Pc = 0
    other_pc: Pc = 0
    count: Count = 1
    block: Index3 | None = None
    thread: Index3 | None = None
    other_block: Index3 | None = None
    other_thread: Index3 | None = None
    text: Annotated[str, Field(max_length=600)] = ""

    @pydantic.field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError("not a kind of finding")
        return kind


@dataclass(frozen=True, config=_CONFIG)
class SiteCounters:
    """One place in the code: all its accesses of one kind in the launch.

    `bytes` are of one lane's access. A request is one access of a warp; `lanes` are summed over the
    requests. `sectors` and `useful_bytes` (distinct bytes of a request) are of global memory;
    `wavefronts`, `conflicts` (wavefronts beyond what the access needs) and `ways` (of the worst
    request) of shared memory.
    """

    pc: Pc
    space: Literal["global", "shared", "local", "constant"]
    kind: Literal["load", "store", "atomic"]
    bytes: Annotated[int, Field(ge=1, le=256)]
    requests: Count
    lanes: Count
    sectors: Count
    useful_bytes: Count
    wavefronts: Count
    conflicts: Count
    ways: Annotated[int, Field(ge=0, le=WARP_LANES)]

    def __post_init__(self) -> None:
        if not self.requests <= self.lanes <= WARP_LANES * self.requests:
            raise ValueError("lanes that the requests can't have")
        if self.useful_bytes > min(SECTOR_BYTES * self.sectors, self.lanes * self.bytes):
            raise ValueError("more useful bytes than the sectors or the lanes have")
        if self.conflicts > self.wavefronts:
            raise ValueError("more conflicts than wavefronts")


@dataclass(frozen=True, config=_CONFIG)
class LaunchCounters:
    """A kernel launched `count` times at one configuration; counters are summed over them.

    `largest_bytes` are those that one thread moves in global memory, the most of each launch;
    `storing_blocks` store to it or change it atomically, the most of any launch.
    """

    kernel: Annotated[str, Field(max_length=1000)]
    grid: Index3
    block: Index3
    dynamic_shared: Count
    static_shared: Count
    count: Count
    simt_efficiency: Annotated[float, Field(ge=0, le=1)]
    sites: tuple[SiteCounters, ...]
    largest_bytes: Count
    storing_blocks: Count

    def __post_init__(self) -> None:
        stores = (each for each in self.sites if each.space == "global" and each.kind != "load")
        most = min(math.prod(self.grid), sum(each.requests for each in stores))
        if self.storing_blocks > most:
            raise ValueError("more blocks that store than the grid or the stores have")


@dataclass(frozen=True, config=_CONFIG)
class BufferCounters:
    """Loads and stores of one argument of the entry, by its place."""

    argument: Annotated[int, Field(ge=0, lt=64)]
    load_bytes: Count
    load_sectors: Count
    store_bytes: Count
    store_sectors: Count

    def __post_init__(self) -> None:
        if self.load_bytes > SECTOR_BYTES * self.load_sectors:
            raise ValueError("more bytes loaded than the sectors have")
        if self.store_bytes > SECTOR_BYTES * self.store_sectors:
            raise ValueError("more bytes stored than the sectors have")


@dataclass(frozen=True, config=_CONFIG)
class Copies:
    """The copies that the entry requested: their number, bytes, and number in each direction."""

    count: Count = 0
    bytes: Count = 0
    host_to_device: Count = 0
    device_to_host: Count = 0
    device_to_device: Count = 0

    def __post_init__(self) -> None:
        if self.host_to_device + self.device_to_host + self.device_to_device > self.count:
            raise ValueError("more copies by direction than in all")


def _each_once(buffers: tuple[Any, ...]) -> tuple[Any, ...]:
    if len({buffer.argument for buffer in buffers}) < len(buffers):
        raise ValueError("an argument twice")
    return buffers


EACH_ONCE = pydantic.AfterValidator(_each_once)  # counters of different arguments


@dataclass(frozen=True, config=_CONFIG)
class Report:
    """One call of the entry. `error` is the sticky CUDA error, 0 for none.

    `lost`: the process is useless. `cut`: some observations didn't fit. `launches` and `buffers`
    are only there where counters were requested. `atomic_pc`: an atomic of a launch in which
    several warps used atomics, 0 for none; the largest such launch had `atomic_blocks`. Without
    those, `clock_pc` is a kernel's reading of the clock. `printed` is what kernels printed, each
    line with its thread.
    """

    error: Annotated[int, Field(ge=0, lt=2**16)] = 0
    lost: bool = False
    findings: Annotated[tuple[Finding, ...], Field(max_length=MAX_FINDINGS)] = ()
    launches: tuple[LaunchCounters, ...] = ()
    buffers: Annotated[tuple[BufferCounters, ...], Field(max_length=64), EACH_ONCE] = ()
    copies: Copies = Copies()
    atomic_pc: Pc = 0
    atomic_blocks: Count = 0
    clock_pc: Pc = 0
    cut: bool = False
    printed: Annotated[str, Field(max_length=MAX_PRINTED)] = ""


_ADAPTER = pydantic.TypeAdapter(Report)


def parse(text: str | bytes) -> Report:
    """The report that `text` holds. Raises only ReportError, for any other text."""
    try:
        data = text.encode("utf-8") if isinstance(text, str) else bytes(text)
    except UnicodeEncodeError:
        raise ReportError("the report is not UTF-8 text") from None
    if len(data) > MAX_BYTES:
        raise ReportError(f"the report has {len(data)} bytes, more than {MAX_BYTES}")
    try:
        return _ADAPTER.validate_json(data)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:100] or "top level"
        raise ReportError(f"the report: {place}: {first['msg'][:200]}") from None


def to_json(report: Report) -> str:
    """The report as JSON, for `parse`."""
    return _ADAPTER.dump_json(report).decode()


def status_name_of(kind: str) -> str:
    """The name of the status of a kind of finding. Raises KeyError for an unknown kind."""
    return KINDS[kind].status


def _is_first(index: Sequence[int] | None) -> bool:
    """Whether an index of a thread or block is 0 in each dimension."""
    return index is not None and not any(index)


def _are_of_one_warp(finding: Finding) -> bool:
    """Whether both threads of a block, which differ along x alone from its first, share a warp."""
    one, other = finding.thread or (0, 1, 0), finding.other_thread or (0, 1, 0)
    return not any((*one[1:], *other[1:])) and one[0] // WARP_LANES == other[0] // WARP_LANES


def message_of(
    finding: Finding, file: str, source: Sequence[str], line: int = 0, other_line: int = 0
) -> tuple[str, str]:
    """(what, hint): the error with its place and thread, and what to try.

    `file` is the submission's file name, `source` its lines; `line` and `other_line` count from 1,
    0 where unknown.
    """
    parts = Parts(
        who=_who(finding.thread, finding.block),
        other=_who(finding.other_thread, finding.other_block),
        at=_place(file, source, line),
        other_at=_place(file, source, other_line),
        text=finding.text.strip().rstrip("."),
        same_block=finding.block == finding.other_block,
    )
    kind = KINDS[finding.kind]
    hint = kind.hint
    if finding.thread is None and kind.on_host:
        hint = kind.on_host
    elif finding.kind == "race" and is_of_block_scope(parts.text):
        hint = ACROSS_BLOCKS
    elif kind.between_blocks and not parts.same_block:
        hint = kind.between_blocks
    elif kind.in_warp and _are_of_one_warp(finding):
        hint = kind.in_warp
    elif finding.kind.startswith("out_of_bounds") and is_across_the_end(parts.text):
        hint = ACROSS_THE_END
    elif is_past_a_variable(parts.text):
        hint = PAST_A_VARIABLE
    elif kind.by_first_thread and _is_first(finding.thread) and not _is_first(finding.block):
        hint = kind.by_first_thread
    elif kind.status == "launch_error" and is_exchanged_launch(parts.text):
        hint = EXCHANGED_LAUNCH
    elif finding.kind == "host_pointer_on_device" and finding.thread and "global" in parts.text:
        hint = OF_THE_HOST
    elif "a grid needs at least one block" in parts.text:  # runtime/launch.cpp
        hint = EMPTY_GRID
    sentence = kind.sentence(parts)
    if finding.count > 1 and finding.thread is not None:  # host code is called twice
        sentence += f" The same happened {finding.count:,} times there; this was the first."
    return sentence, hint


def marks_of(finding: Finding, line: int, other_line: int) -> tuple[tuple[int, str], ...]:
    """The lines that a race is about, and who does what there; the one line of anything else."""
    touches = touches_of(finding, line, other_line)
    if not line or len(touches) == 1:
        return ((line, ""),) if line else ()
    return tuple((at, f"{who} {does}") for who, does, at in reversed(touches) if at)


_PLACE = re.compile(
    r"(\d+) bytes?(?: at offset (\d+) of|, (\d+) bytes before the start of) "
    r"([A-Za-z_]\w*), which has (\d+) bytes"
)


def place_of(finding: Finding) -> tuple[str, int, int] | None:
    """(name, its bytes, offset of the access in it) of the memory that a finding is about."""
    match = _PLACE.match(finding.text)
    if match is None:
        return None
    _, behind, before, name, length = match.groups()
    return name, int(length), int(behind) if behind else -int(before)


def touches_of(finding: Finding, line: int, other_line: int) -> tuple[tuple[str, str, int], ...]:
    """(who, does, line) of a finding's accesses to memory: the one, or both of a race."""
    later, earlier = race_verbs(finding.text)
    who = _who(finding.thread, finding.block)
    if finding.kind == "race" and later:
        other = _who(finding.other_thread, finding.other_block)
        return ((who, later, line), (other, earlier, other_line))
    does = "writes" if finding.kind.endswith(("write", "write_to_input")) else "reads"
    return ((who, does, line),)


def _who(thread: Sequence[int] | None, block: Sequence[int] | None) -> str:
    if thread is None or block is None:
        return "the host code"
    return f"thread {_tuple(thread)} of block {_tuple(block)}"


def _tuple(index: Sequence[int]) -> str:
    return f"({','.join(map(str, index))})"


def _place(file: str, source: Sequence[str], line: int) -> str:
    """' at transpose.cu:63 (`tile[y][x] = in[i];`)', or "" where no line is known."""
    return f" at {shown_line(file, source, line)}" if line else ""


def shown_line(file: str, source: Sequence[str], line: int) -> str:
    """'transpose.cu:63 (`tile[y][x] = in[i];`)', without the code where it isn't known."""
    code = " ".join(source[line - 1].split()) if 1 <= line <= len(source) else ""
    code = code.replace("`", "'")
    cut = code if len(code) <= SHOWN_SOURCE else f"{code[:SHOWN_SOURCE]} ..."
    return f"{file}:{line} (`{cut}`)" if cut else f"{file}:{line}"

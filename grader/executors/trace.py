"""The accesses of one run, one by one, as an executor records them: read as untrusted bytes.

    Trace
      Place       a tensor, an allocation or a __shared__ variable, by addresses
      Launch      a kernel on a grid
        Event     an access of a warp (CUDA) or a program (Triton), or a barrier

The code that counts accesses records them, so sums over a trace are the counters of the same run.
A trace is made only where one is asked for: for `grader visualize`, and of a failing case.
`parse` takes what emulator/runtime/records.cpp and worker/ttir/records.py can have written; all
else is a TraceError.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Annotated, Literal, NamedTuple

import pydantic
from pydantic import Field
from pydantic.dataclasses import dataclass

from grader.sandbox import untrusted

MAX_EVENTS = 20_000
MAX_OFFSETS = 12_500  # numbers of one event
MAX_LANES = 1 << 20  # of one event

_CONFIG = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_Count = Annotated[int, Field(ge=0, lt=2**53)]
_Size = Annotated[int, Field(ge=0, lt=2**32)]
_Index = tuple[_Size, _Size, _Size]


class TraceError(ValueError):
    """No executor can have written the text; the message names the field."""


class Kind(IntEnum):
    """What happens in an event."""

    load = 0
    store = 1
    atomic = 2
    warp_synchronisation = 3  # a shuffle, a vote or __syncwarp
    barrier = 4


class Space(IntEnum):
    """The memory of an access; a barrier has none."""

    none = 0
    global_ = 1
    shared = 2


@dataclass(frozen=True, config=_CONFIG)
class Place:
    """Memory with a name. `argument` is the place in the signature, -1 for what isn't in it."""

    space: Literal["global", "shared"]
    argument: Annotated[int, Field(ge=-1, lt=64)]
    start: _Count
    bytes: _Count
    name: Annotated[str, Field(max_length=200)]


class Event(NamedTuple):
    """An access or a barrier of a block's warp; of Triton `warp` is 0 and a block is a program.

    `line` is the source's, 0 where unknown. `bytes` are of one lane. `moved` are sectors of global
    memory or wavefronts of shared memory; `part` are the useful bytes or the conflicts among them.
    `offsets` are fives (first, lanes, step, times, stride) of consecutive lanes' byte addresses:
    lanes a step apart, and that so many times, a stride apart. Lanes whose first is -1 take no
    part. 32 lanes are one request.
    """

    kind: Annotated[int, Field(ge=0, le=4)]
    space: Annotated[int, Field(ge=0, le=2)]
    block: _Size
    warp: Annotated[int, Field(ge=0, lt=64)]
    line: _Count
    bytes: Annotated[int, Field(ge=0, le=256)]
    requests: _Count
    moved: _Count
    part: _Count
    offsets: Annotated[tuple[int, ...], Field(max_length=MAX_OFFSETS, fail_fast=True)]


@dataclass(frozen=True, config=_CONFIG)
class Launch:
    """A kernel on a grid; `block` has the threads of a block, of Triton the warps as threads."""

    kernel: Annotated[str, Field(max_length=1000)]
    grid: _Index
    block: _Index
    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        blocks = math.prod(self.grid)
        for event in self.events:
            lanes, times = event.offsets[1::5], event.offsets[3::5]
            is_access = event.kind < Kind.warp_synchronisation
            if event.block >= blocks or (event.space != Space.none) is not is_access:
                raise ValueError("an event that the launch can't have")
            counts = [*lanes, *times]
            every = sum(a * b for a, b in zip(lanes, times, strict=False))
            if len(event.offsets) % 5 or min(counts, default=1) < 1 or every > MAX_LANES:
                raise ValueError("offsets that aren't those of lanes")


@dataclass(frozen=True, config=_CONFIG)
class Trace:
    """The launches of a run, in order. `cut`: there were more events than are kept."""

    places: Annotated[tuple[Place, ...], Field(max_length=500, fail_fast=True)]
    launches: Annotated[tuple[Launch, ...], Field(max_length=500, fail_fast=True)]
    cut: bool

    @property
    def lanes(self) -> int:
        """The lanes of all accesses."""
        offsets = [event.offsets for launch in self.launches for event in launch.events]
        return sum(a * b for each in offsets for a, b in zip(each[1::5], each[3::5], strict=True))

    def __post_init__(self) -> None:
        if sum(len(launch.events) for launch in self.launches) > MAX_EVENTS:
            raise ValueError("more events than are recorded")


_ADAPTER = pydantic.TypeAdapter(Trace)


def parse(text: str, line_of: Callable[[int], int | None] | None = None) -> Trace:
    """The trace that `text` holds; `line_of` gives the line of what stands in its place.

    Raises only TraceError, for any other text.
    """
    try:
        trace = _ADAPTER.validate_json(text)
    except pydantic.ValidationError as error:
        raise TraceError(f"the trace: {untrusted.mistake(error)}") from None
    if line_of is None:
        return trace
    lines = {e.line: line_of(e.line) or 0 for launch in trace.launches for e in launch.events}
    launches = (
        replace(each, events=tuple(e._replace(line=lines[e.line]) for e in each.events))
        for each in trace.launches
    )
    return replace(trace, launches=tuple(launches))


def addresses(event: Event) -> list[int | None]:
    """The byte address of each lane, None for a lane that takes no part."""
    lanes: list[int | None] = []
    for first, count, step, times, stride in zip(*[iter(event.offsets)] * 5, strict=True):
        for start in range(first, first + times * stride, stride) if stride else [first] * times:
            lanes += [None] * count if first < 0 else [start + n * step for n in range(count)]
    return lanes

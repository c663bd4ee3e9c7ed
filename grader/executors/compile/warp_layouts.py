"""Layouts: how a compiled kernel's warps access memory, from the backend's untrusted process.

The fields are those of worker/compile/access_layouts.py; the executor counts by them
(worker/ttir/warp_requests.py). Without layouts a kernel is counted by elements, so no failure here
is a verdict.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field
from pydantic.dataclasses import dataclass

from grader.executors.compile.frontend import Budget, Compiler
from grader.executors.compile.kept_builds import KeptBuilds
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.worker.protocol import Code, Operation

LIMITS = Limits(cpu_seconds=20.0, memory_bytes=4 << 30)  # of one kernel
SECONDS = 60.0  # by the clock, of one variant
MAX_ACCESSES = 512
_LANES = 32
_KEPT = "layouts "  # before a key, of what is kept
_CONFIG = pydantic.ConfigDict(strict=True, extra="forbid")


def _power(number: int) -> int:
    if number & (number - 1):
        raise ValueError("no power of two")
    return number


_PowerOfTwo = Annotated[int, pydantic.AfterValidator(_power)]
_Extent = Annotated[_PowerOfTwo, Field(ge=1, le=1 << 22)]
_Size = Annotated[_PowerOfTwo, Field(ge=1, le=1 << 16)]
_Sizes = Annotated[tuple[_Size, ...], Field(min_length=1, max_length=8)]
_Bytes = Annotated[_PowerOfTwo, Field(ge=1, le=32)]
_Axis = Annotated[int, Field(ge=0, lt=8)]
_Warps = Annotated[int, Field(ge=1, le=64)]


@dataclass(frozen=True, config=_CONFIG)
class AccessLayout:
    """The accesses of one line to blocks of one shape; an instruction takes `bytes` of a lane.

    The encoding is Triton's `#ttg.blocked`: per dimension, elements of a thread, threads of a warp
    and warps of a block, and the dimensions, the fastest first. `copies` warps access the same.
    """

    line: Annotated[int, Field(ge=0, lt=10_000_000)]
    kind: Literal["load", "store", "atomic"]
    shape: Annotated[tuple[_Extent, ...], Field(min_length=1, max_length=8)]
    size_per_thread: _Sizes
    threads_per_warp: _Sizes
    warps: _Sizes
    order: Annotated[tuple[_Axis, ...], Field(min_length=1, max_length=8)]
    bytes: _Bytes
    copies: _Warps

    def __post_init__(self) -> None:
        parts = (self.size_per_thread, self.threads_per_warp, self.warps)
        if any(len(part) != len(self.shape) for part in parts):
            raise ValueError("parts of several ranks")
        if sorted(self.order) != list(range(len(self.shape))):
            raise ValueError("an order that isn't one of the dimensions")
        if math.prod(self.threads_per_warp) > _LANES:
            raise ValueError("more threads than a warp has")


@dataclass(frozen=True, config=_CONFIG)
class Layouts:
    """The layouts of one kernel, whose blocks have `warps` warps."""

    warps: _Warps
    accesses: Annotated[tuple[AccessLayout, ...], Field(max_length=MAX_ACCESSES)]

    def to_json(self) -> str:
        """The text that `parse` reads."""
        return _LAYOUTS.dump_json(self).decode()


_LAYOUTS = pydantic.TypeAdapter(Layouts)


def parse(text: str) -> Layouts | None:
    """The layouts that an answer holds; None where it holds anything else."""
    try:
        return _LAYOUTS.validate_json(text)
    except (ValueError, RecursionError):
        return None


class LayoutCompiler(Compiler):
    """Asks a backend's process for kernels' layouts, each once.

    Most kernels have been assembled before they are measured, and that answer has their layouts.
    """

    def __init__(self, spawn: Callable[[Limits], Worker], kept: KeptBuilds | None) -> None:
        super().__init__(spawn, LIMITS, kept)
        self._known: dict[str, Layouts | None] = {}
        self._budget = Budget(SECONDS)

    def learn(self, key: str, answer: Any) -> None:
        """Take what an assembler answered about a kernel; nothing where that makes no sense."""
        with contextlib.suppress(RecursionError):
            if (layouts := parse(json.dumps(answer))) is not None:
                self._keep(key, layouts)

    def of(self, key: str, ttir: str, options: Mapping[str, Any]) -> Layouts | None:
        """The layouts of a text compiled with options, None where there are none to be had.

        `key` is a digest of all that they follow from.
        """
        if key not in self._known:
            self._known[key] = parse(self._kept.get(_KEPT + key) or "")
            if self._known[key] is None:
                self._keep(key, self._ask(ttir, options))
        return self._known[key]

    def _keep(self, key: str, layouts: Layouts | None) -> None:
        self._known[key] = layouts
        if layouts is not None:
            self._kept.put(_KEPT + key, layouts.to_json())

    def _ask(self, ttir: str, options: Mapping[str, Any]) -> Layouts | None:
        if self._budget.seconds <= 0:
            return None
        with self._budget.spending():
            answer = self.ask(Operation.lay_out, {"ttir": ttir, "options": options})
        if isinstance(answer, Death):
            return None
        return parse(answer.text) if answer.code is Code.ok else None

"""The reader of plans: turns bytes from an untrusted process into a Plan, or raises PlanError.

Besides types, it checks all that an executor relies on: buffers exist, views stay inside them,
memory is copied and filled only while it is allocated, arguments' buffers are as the grader placed
them, and sums (of allocated bytes, of uploaded bytes, of programs) are within bounds. A kernel may
get any buffer: executors check its accesses.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pydantic

from grader.plan.model import (
    MAX_BUFFER_BYTES,
    MAX_PLAN_BYTES,
    SIZES,
    Alloc,
    Buffer,
    Copy,
    DescriptorArgument,
    Fill,
    Foreign,
    Free,
    HostOp,
    KernelName,
    Launch,
    Plan,
    PointerArgument,
    Specialisation,
    Step,
    Upload,
    View,
)
from grader.sandbox import untrusted


class PlanError(ValueError):
    """An invalid plan: the message names the place and what was expected."""


class PlanTooLarge(PlanError):
    """A plan of a call that asks for too much. Message and `instead` are for the student."""

    def __init__(self, message: str, instead: str) -> None:
        super().__init__(message)
        self.instead = instead


@dataclass(frozen=True)
class Limits:
    device_bytes: int = 2 << 30  # allocated at a time, without the arguments
    upload_bytes: int = 64 << 10  # including parameters and symbols
    launches: int = 4096
    programs: int = 1 << 32  # CUDA blocks or Triton programs of one launch

    def __post_init__(self) -> None:
        """Raises ValueError for a limit that the format can't express."""
        if self.device_bytes > MAX_BUFFER_BYTES:
            raise ValueError(f"device_bytes: at most {MAX_BUFFER_BYTES}")


MAX_VALUES = 500_000  # in the JSON: read, each takes hundreds of bytes
_PLAN = pydantic.TypeAdapter(Plan)


def read(data: bytes | str, arguments: Sequence[int | None], limits: Limits | None = None) -> Plan:
    """The plan that `data` holds as JSON.

    `arguments` are the bytes of each argument's memory in the order of the signature, None for a
    scalar. Raises PlanError for everything that isn't a plan for these arguments.
    """
    if len(data) > MAX_PLAN_BYTES:
        raise PlanError(f"a plan has at most {MAX_PLAN_BYTES:,} bytes, got {len(data):,}")
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if sum(map(text.count, "[{,")) > MAX_VALUES:
        raise PlanError(f"a plan has at most {MAX_VALUES:,} lists and fields, got more")
    try:
        plan = _PLAN.validate_json(data)  # the parser bounds the nesting
    except pydantic.ValidationError as error:
        raise PlanError(untrusted.mistake(error)) from None
    _Check(plan, limits or Limits()).run(arguments)
    return plan


def to_json(plan: Plan) -> str:
    """The plan as JSON, for `read`."""
    return json.dumps(_PLAN.dump_python(plan, mode="json", by_alias=True))


@dataclass
class _Check:
    """One pass over the steps, with the current allocations."""

    plan: Plan
    limits: Limits
    live: set[int] = field(default_factory=set)
    allocated: int = 0

    def run(self, arguments: Sequence[int | None]) -> None:
        self._arguments(arguments)
        self._specialisations()
        for number, buffer in enumerate(self.plan.buffers):
            if buffer.kind in ("argument", "symbol"):
                self.live.add(number)
        for index, call in enumerate(self.plan.calls):
            self._call(index, call)

    def _arguments(self, arguments: Sequence[int | None]) -> None:
        expected = [(index, size) for index, size in enumerate(arguments) if size is not None]
        placed = [
            (buffer.argument, buffer.bytes)
            for buffer in self.plan.buffers
            if buffer.kind == "argument"
        ]
        if placed != expected:
            raise PlanError(
                f"buffers: expected the arguments {expected} as (place, bytes), got {placed}"
            )
        given = len(expected)
        if any(buffer.kind == "argument" for buffer in self.plan.buffers[given:]):
            raise PlanError("buffers: those of arguments come first")

    def _specialisations(self) -> None:
        kind = Specialisation if self.plan.language == "triton" else KernelName
        for index, each in enumerate(self.plan.specialisations):
            if not isinstance(each, kind):
                raise PlanError(
                    f"specialisations.{index}: not a kernel of a {self.plan.language} plan"
                )

    def _call(self, index: int, call: Sequence[Step]) -> None:
        uploaded = launches = 0
        known: set[int] = set()  # specialisations whose constants are counted
        for number, step in enumerate(call):
            place = f"calls.{index}.{number}"
            if isinstance(step, Alloc):
                self._alloc(place, step.buffer)
            elif isinstance(step, Free):
                self._free(place, step.buffer)
            elif isinstance(step, Fill):
                self._view(place, step.to)
            elif isinstance(step, Copy):
                self._copy(place, step)
            elif isinstance(step, Upload):
                uploaded += self._upload(place, step)
            elif isinstance(step, HostOp | Foreign):
                for view in (*step.inputs, *step.outputs):
                    self._view(place, view)
            elif isinstance(step, Launch):
                launches += 1
                uploaded += self._launch(place, step)
                if step.specialisation not in known:
                    known.add(step.specialisation)
                    uploaded += _of_constants(self.plan.specialisations[step.specialisation])
        if uploaded > self.limits.upload_bytes:
            raise PlanTooLarge(
                f"{uploaded:,} bytes go from host code to the device in one call; "
                f"at most {self.limits.upload_bytes:,} may",
                "Compute them in a kernel.",
            )
        if launches > self.limits.launches:
            raise PlanTooLarge(
                f"the launcher makes {launches:,} launches in one call; "
                f"at most {self.limits.launches:,} are allowed",
                "Give the kernel a grid instead of looping over launches.",
            )

    def _alloc(self, place: str, number: int) -> None:
        buffer = self._buffer(place, number)
        if number in self.live or buffer.kind in ("argument", "symbol"):
            raise PlanError(f"{place}: buffer {number} is there already")
        self.live.add(number)
        self.allocated += buffer.bytes
        if self.allocated > self.limits.device_bytes:
            raise PlanError(
                f"{place}: {self.allocated:,} bytes are allocated at a time; "
                f"at most {self.limits.device_bytes:,} may be"
            )

    def _free(self, place: str, number: int) -> None:
        self._alive(place, number)
        if self.plan.buffers[number].kind in ("argument", "symbol"):
            raise PlanError(f"{place}: buffer {number} was not allocated by host code")
        self.live.discard(number)
        self.allocated -= self.plan.buffers[number].bytes

    def _copy(self, place: str, step: Copy) -> None:
        self._view(place, step.to)
        self._view(place, step.source)
        if step.to.elements != step.source.elements:
            raise PlanError(
                f"{place}: {step.source.elements:,} elements are copied to {step.to.elements:,}"
            )

    def _upload(self, place: str, step: Upload) -> int:
        self._view(place, step.to)
        data = _decoded(place, step.data)
        size = len(data)
        if size != step.to.elements * step.to.itemsize:
            raise PlanError(
                f"{place}: {size} bytes for a view of {step.to.elements * step.to.itemsize}"
            )
        self._relocations(place, step.pointers, size)
        return _informative(data)

    def _launch(self, place: str, step: Launch) -> int:
        if step.specialisation >= len(self.plan.specialisations):
            raise PlanError(f"{place}: there is no specialisation {step.specialisation}")
        of_cuda, of_triton = step.block or step.parameters, step.arguments
        if of_cuda if self.plan.language == "triton" else of_triton:
            raise PlanError(f"{place}: not a launch of a {self.plan.language} plan")
        programs = 1
        for extent in step.grid:
            programs *= max(extent, 0)
        if len(step.grid) != 3 or programs > self.limits.programs:
            raise PlanError(
                f"{place}: a grid of {step.grid}; expected three numbers whose product is at most "
                f"{self.limits.programs:,}"
            )
        named = self.plan.specialisations[step.specialisation]
        if isinstance(named, KernelName):
            sizes = step.block, step.cluster or step.block
            if any(len(each) != 3 or min(each) < 0 for each in (step.grid, *sizes)):
                got = f"blocks of {step.block} in clusters of {step.cluster}"
                raise PlanError(f"{place}: {got}; expected three numbers for each, from 0 on")
        if isinstance(named, Specialisation):
            wanted = sum(map(_values_of, named.signature.values()))
            if len(step.arguments) != wanted:
                raise PlanError(f"{place}: {len(step.arguments)} arguments for {wanted} parameters")
        scalars = 0
        for argument in step.arguments:
            if isinstance(argument, PointerArgument):
                self._buffer(place, argument.pointer[0])
            elif isinstance(argument, DescriptorArgument):
                self._buffer(place, argument.descriptor.buffer)
            elif SIZES.get(argument.type) != len(argument.scalar) // 2:
                raise PlanError(f"{place}: {argument.scalar!r} is no {argument.type}")
            else:
                scalars += len(argument.scalar) // 2
        parameters = len(_decoded(place, step.parameters))
        self._relocations(place, step.pointers, parameters)
        return scalars + max(0, parameters - 8 * len(step.pointers))

    def _relocations(self, place: str, pointers: Sequence[tuple[int, int, int]], size: int) -> None:
        for at, number, _ in pointers:
            if at + 8 > size:
                raise PlanError(f"{place}: a pointer at byte {at} of {size}")
            self._buffer(place, number)

    def _view(self, place: str, view: View) -> None:
        self._alive(place, view.buffer)
        if view.elements * view.itemsize > MAX_BUFFER_BYTES:
            raise PlanError(f"{place}: a view of {view.elements:,} elements")
        low, high = view.span
        size = self.plan.buffers[view.buffer].bytes
        if low < 0 or high > size:
            raise PlanError(
                f"{place}: a view from byte {low} to {high} of buffer {view.buffer}, "
                f"which has {size}"
            )

    def _alive(self, place: str, number: int) -> None:
        self._buffer(place, number)
        if number not in self.live:
            raise PlanError(f"{place}: buffer {number} is used before it is allocated, or after")

    def _buffer(self, place: str, number: int) -> Buffer:
        if number >= len(self.plan.buffers):
            raise PlanError(f"{place}: there is no buffer {number}")
        return self.plan.buffers[number]


def _values_of(kind: Any) -> int:
    """The number of a launch's arguments for one parameter of a signature."""
    if isinstance(kind, dict):
        items = kind.get("tuple")
        return sum(map(_values_of, items)) if isinstance(items, list) else 0
    return int(kind != "constexpr")


def _of_constants(named: Specialisation | KernelName) -> int:
    """The bytes of numbers in a kernel's constants, which host code may have computed."""
    waiting = [named.constants, named.bindings] if isinstance(named, Specialisation) else []
    size = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
        elif isinstance(value, int) and not isinstance(value, bool):
            size += max(4, value.bit_length() // 8)
        elif isinstance(value, float):
            size += 8
    return size


def _decoded(place: str, data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise PlanError(f"{place}: bytes that aren't base64") from None


def _informative(data: bytes) -> int:
    """The bytes that carry information: for one repeated element, as in a fill, only its own."""
    for size in (1, 2, 4, 8, 16):
        if data == data[:size] * (len(data) // size):
            return min(size, len(data))
    return len(data)

"""The format of a plan: buffers, steps and kernels, as frozen dataclasses with bounds.

    Plan            one entry's work on arguments of given shapes
      Buffer        an argument, or memory that host code allocated
      Specialisation  a Triton kernel with its constants and options (KernelName for CUDA C++)
      calls         the steps of the first call of the entry, and of a second one
        Alloc Free Fill Copy Upload Launch Record Wait Synchronise    run by an executor
        HostOp                                                        run where the spec allows it
        Foreign Readback Refused                                      never run; for messages

Every number has a range, so that a parsed plan is small enough to keep, to print and to run.
"""

from __future__ import annotations

import math
import struct
from dataclasses import fields
from functools import cached_property
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field
from pydantic.dataclasses import dataclass

from grader.spec.values import ITEMSIZE
from grader.worker.compile import tuned

MAX_PLAN_BYTES = 4 << 20  # as JSON
MAX_BUFFERS = 4096
MAX_STEPS = 20_000  # in each call
MAX_SPECIALISATIONS = 256
MAX_BUFFER_BYTES = 1 << 36
MAX_RANK = 8
MAX_UPLOAD_BYTES = 1 << 20
MAX_PARAMETER_BYTES = 32764  # CUDA's limit for a kernel's parameters
MAX_PRINTED = 16_384  # characters
MAX_RETURNED = 80  # characters

_CONFIG = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_BY_NAME: pydantic.ConfigDict = {**_CONFIG, "populate_by_name": True}
# Lists are `fail_fast`: of 4 MiB of wrong items, pydantic would keep a kilobyte for each.
_Line = Annotated[int, Field(ge=0, lt=10_000_000)]
_Number = Annotated[int, Field(ge=0, lt=MAX_BUFFERS)]
_Offset = Annotated[int, Field(ge=-MAX_BUFFER_BYTES, le=MAX_BUFFER_BYTES)]
_Integer = Annotated[int, Field(ge=-(2**63), lt=2**64)]
_Size = Annotated[int, Field(ge=0, le=MAX_BUFFER_BYTES)]
_Name = Annotated[str, Field(max_length=400)]
_Base64 = Annotated[str, Field(max_length=4 * (MAX_UPLOAD_BYTES // 3 + 1))]
_Stream = Annotated[int, Field(ge=0, lt=4096)]
_Grid = Annotated[
    tuple[Annotated[int, Field(ge=-(2**31), lt=2**32)], ...], Field(max_length=3, fail_fast=True)
]
_Shape = Annotated[tuple[_Size, ...], Field(max_length=MAX_RANK, fail_fast=True)]
_Strides = Annotated[tuple[_Offset, ...], Field(max_length=MAX_RANK, fail_fast=True)]
_Pointer = tuple[_Number, _Offset]
_Relocation = tuple[Annotated[int, Field(ge=0, le=MAX_UPLOAD_BYTES)], _Number, _Offset]
_Relocations = Annotated[tuple[_Relocation, ...], Field(max_length=4096, fail_fast=True)]

DType = Literal[
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
]


@dataclass(frozen=True, config=_CONFIG)
class Buffer:
    """Memory that steps refer to by number; `argument` is its place in the entry's signature."""

    bytes: _Size
    kind: Literal["argument", "device", "managed", "symbol", "pinned"]
    argument: Annotated[int, Field(ge=0, lt=64)] | None = None
    name: _Name = ""  # of a symbol
    line: _Line = 0  # of its allocation


@dataclass(frozen=True, config=_CONFIG)
class View:
    """A strided view of a buffer; strides and offset count elements."""

    buffer: _Number
    dtype: DType
    shape: _Shape
    strides: _Strides
    offset: _Offset = 0

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise ValueError("a view needs one stride for each dimension")

    @property
    def itemsize(self) -> int:
        return ITEMSIZE.get(self.dtype, 1)  # those that a spec lacks have one byte

    @property
    def span(self) -> tuple[int, int]:
        """The view's first byte in the buffer, and the one behind its last."""
        if 0 in self.shape:
            return (0, 0)
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(step for step in steps if step < 0)
        high = self.offset + sum(step for step in steps if step > 0)
        return (low * self.itemsize, (high + 1) * self.itemsize)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, config=_CONFIG)
class Alloc:
    """An allocation of an uninitialised buffer; `stream` is as in Free."""

    do: Literal["alloc"]
    buffer: _Number
    stream: _Stream | None = None
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Free:
    """A release of a buffer; `stream` None waits for all steps before it."""

    do: Literal["free"]
    buffer: _Number
    stream: _Stream | None = None
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Fill:
    """An assignment of one value to a view; `value` is text for numbers that JSON lacks.

    `stream` None is ordered after all steps before it, and before all after it.
    """

    do: Literal["fill"]
    to: View
    value: bool | _Integer | float | Literal["nan", "inf", "-inf"]
    stream: _Stream | None = None
    line: _Line = 0


@dataclass(frozen=True, config=_BY_NAME)
class Copy:
    """A copy of one view to another, converted where the dtypes differ. `stream` is as in Fill."""

    do: Literal["copy"]
    to: View
    source: Annotated[View, Field(alias="from")]
    stream: _Stream | None = None
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Upload:
    """A copy of host bytes to a view; `pointers` are (byte, buffer, offset) in them.

    `stream` is as in Fill.
    """

    do: Literal["upload"]
    to: View
    data: _Base64
    pointers: _Relocations = ()
    stream: _Stream | None = None
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Descriptor:
    """A tensor descriptor (TMA), which an executor encodes; strides count elements."""

    buffer: _Number
    offset: _Offset
    dtype: DType
    shape: _Shape
    strides: _Strides
    block: _Shape
    padding: Literal["zero", "nan"] = "zero"


@dataclass(frozen=True, config=_CONFIG)
class PointerArgument:
    """An address: a buffer and a byte offset in it."""

    pointer: _Pointer


@dataclass(frozen=True, config=_CONFIG)
class ScalarArgument:
    """A number by value: little-endian bytes in hexadecimal, and Triton's name of its type."""

    scalar: Annotated[str, Field(max_length=32, pattern="^(?:[0-9a-f]{2})*$")]
    type: Annotated[str, Field(max_length=16)]


@dataclass(frozen=True, config=_CONFIG)
class DescriptorArgument:
    """A tensor descriptor made on the host."""

    descriptor: Descriptor


Argument = PointerArgument | ScalarArgument | DescriptorArgument


@dataclass(frozen=True, config=_CONFIG)
class Launch:
    """A launch of a kernel on a grid.

    Triton's arguments are listed one by one; CUDA's are the parameter bytes and the places of the
    pointers in them. `trial` numbers the tuning that a launch belongs to; -1 is no trial. `refused`
    is the CUDA error that host code got instead, or "".
    """

    do: Literal["launch"]
    specialisation: Annotated[int, Field(ge=0, lt=MAX_SPECIALISATIONS)]
    grid: _Grid
    block: _Grid = ()
    shared: Annotated[int, Field(ge=0, lt=2**32)] = 0
    arguments: Annotated[tuple[Argument, ...], Field(max_length=256, fail_fast=True)] = ()
    parameters: Annotated[str, Field(max_length=4 * (MAX_PARAMETER_BYTES // 3 + 1))] = ""
    pointers: _Relocations = ()
    stream: _Stream = 0
    cooperative: bool = False
    cluster: _Grid = ()
    attributes: Annotated[dict[_Name, int | str | bool], Field(max_length=32)] = Field(
        default_factory=dict
    )
    scratch: _Size = 0
    trial: Annotated[int, Field(ge=-1, lt=4096)] = -1
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Record:
    """A recording of an event on a stream."""

    do: Literal["record"]
    event: _Stream
    stream: _Stream
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Wait:
    """A wait of a stream for an event."""

    do: Literal["wait"]
    event: _Stream
    stream: _Stream
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Synchronise:
    """A wait of the host for a stream or an event, or for the whole device."""

    do: Literal["synchronise"]
    stream: _Stream | None = None
    event: _Stream | None = None
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class HostOp:
    """A torch operation that the spec allows by name; an executor computes it."""

    do: Literal["host_op"]
    operation: _Name
    inputs: Annotated[tuple[View, ...], Field(max_length=16, fail_fast=True)]
    outputs: Annotated[tuple[View, ...], Field(max_length=16, fail_fast=True)]
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Foreign:
    """A torch operation that computes a kernel's work; it is never run."""

    do: Literal["foreign"]
    operation: _Name
    inputs: Annotated[tuple[View, ...], Field(max_length=64, fail_fast=True)]
    outputs: Annotated[tuple[View, ...], Field(max_length=64, fail_fast=True)]
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Readback:
    """A read of device bytes by host code, which got none."""

    do: Literal["readback"]
    bytes: _Size
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Refused:
    """A launch that CUDA refuses, with CUDA's name of the error and the reason."""

    do: Literal["refused"]
    kernel: _Name
    error: _Name
    why: Annotated[str, Field(max_length=1000)]
    line: _Line = 0


Step = Annotated[
    Alloc
    | Free
    | Fill
    | Copy
    | Upload
    | Launch
    | Record
    | Wait
    | Synchronise
    | HostOp
    | Foreign
    | Readback
    | Refused,
    Field(discriminator="do"),
]
Steps = Annotated[tuple[Step, ...], Field(max_length=MAX_STEPS, fail_fast=True)]


@dataclass(frozen=True, config=_CONFIG)
class Specialisation:
    """A Triton kernel, identified by its text, and its compile-time information.

    `hash` is the SHA-256 of the function's source lines. `signature` has each parameter's type
    ("*fp32", "i32", "constexpr"), `constants` the compile-time values, `attributes` facts about the
    other parameters (divisibility), `bindings` the meaning of the function's free names, `language`
    the kernel's kind. The frontend checks all of this.
    """

    file: _Name
    line: _Line
    function: _Name
    hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    signature: Annotated[dict[_Name, Any], Field(max_length=256)]
    constants: Annotated[dict[_Name, Any], Field(max_length=256)]
    attributes: Annotated[dict[_Name, Any], Field(max_length=256)]
    bindings: Annotated[dict[_Name, Any], Field(max_length=1024)]
    options: Annotated[dict[_Name, Any], Field(max_length=64)]
    language: Literal["triton", "gluon"] = "triton"

    @cached_property
    def key(self) -> str:
        """The name by which a tuner passes over it; kept, as one plan may try it very often."""
        return tuned.digest({each.name: getattr(self, each.name) for each in fields(self)})

    def __post_init__(self) -> None:
        waiting: list[Any] = [self.signature, self.constants, self.attributes, self.bindings]
        waiting.append(self.options)
        while waiting:
            value = waiting.pop()
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError('a number that JSON has no word for; expected {"float": "inf"}')
            waiting += value.values() if isinstance(value, dict) else ()
            waiting += value if isinstance(value, list) else ()


@dataclass(frozen=True, config=_CONFIG)
class KernelName:
    """A CUDA kernel, by its name in the executor's object."""

    kernel: Annotated[str, Field(max_length=4000)]
    line: _Line = 0


@dataclass(frozen=True, config=_CONFIG)
class Plan:
    """An entry's requests to the device, for arguments of given shapes and any values."""

    version: Literal[1]
    language: Literal["triton", "cuda"]
    buffers: Annotated[tuple[Buffer, ...], Field(max_length=MAX_BUFFERS, fail_fast=True)]
    specialisations: Annotated[
        tuple[Specialisation | KernelName, ...],
        Field(max_length=MAX_SPECIALISATIONS, fail_fast=True),
    ]
    calls: Annotated[tuple[Steps, ...], Field(min_length=1, max_length=2, fail_fast=True)]
    printed: Annotated[str, Field(max_length=MAX_PRINTED)] = ""
    # The first call's return value ("a tensor"); "" for None and for an argument.
    returned: Annotated[str, Field(max_length=MAX_RETURNED)] = ""

    @property
    def launches(self) -> list[Launch]:
        """The launches of the first call, without trials."""
        return [each for each in self.calls[0] if isinstance(each, Launch) and each.trial < 0]


# Numbers that launches take, by Triton's names of their types.
_FORMATS = {"fp16": "<e", "fp32": "<f", "fp64": "<d"}
SIZES = {"i1": 1, "u1": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8} | {
    f"{sign}{8 * size}": size for sign in "iu" for size in (1, 2, 4, 8)
}  # bytes


def value_of(argument: ScalarArgument) -> int | float:
    """The number that the bytes encode; 0 where they don't fit the type."""
    data = bytes.fromhex(argument.scalar)
    kind = argument.type
    try:
        if kind in _FORMATS:
            return float(struct.unpack(_FORMATS[kind], data)[0])
        if kind == "bf16":
            return float(struct.unpack("<f", b"\0\0" + data)[0])
    except struct.error:
        return 0
    return int.from_bytes(data, "little", signed=kind.startswith("i") and kind != "i1")

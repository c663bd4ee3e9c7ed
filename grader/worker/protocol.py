"""The protocol between grader and worker: one fixed little-endian struct per request.

Python processes (planner, compilers and executor of Triton, baselines) and the native host both
speak it, so requests contain no Python and no JSON. A request is `REQUEST` followed by exactly
`MAX_ARGS` times `ARGUMENT` (unused ones zero), in one SOCK_SEQPACKET message. A reply is `REPLY`
followed by at most `MAX_TEXT` bytes of text, which the grader reads as untrusted bytes. A worker's
first message is a reply `ok` to request 0, which nobody sent: it has its buffers and is ready. File
descriptors are sent from the grader to the worker only: with the spawn message (fork_server.py) and
with a document (a sealed memfd).

Standard library only: the worker loads this file by path.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

MAGIC = 0x50524757  # "WGRP" in memory
VERSION = 1
MAX_ARGS = 16
MAX_RANK = 8
MAX_TEXT = 64 * 1024
MAX_LONG_TEXT = 4 << 20  # of an answer in several parts
MAX_WORDS = 2000  # characters of an error's message

# magic, version, operation, sequence, number of arguments, repeat
REQUEST = struct.Struct("<IHHQII")
# kind, dtype, space, rank, buffer index, offset of the first element, offset and length of the
# allocation around it, scalar bits, shape, strides
ARGUMENT = struct.Struct(f"<BBBBiQQQQ{MAX_RANK}q{MAX_RANK}q")
# sequence, code, length of the text
REPLY = struct.Struct("<QII")

REQUEST_BYTES = REQUEST.size + MAX_ARGS * ARGUMENT.size
MAX_REPLY_BYTES = REPLY.size + MAX_TEXT


class Operation(IntEnum):
    """The operations of a worker."""

    load = 1  # import the submission, once, and look up the entry, or the one that a document names
    build = 8  # compile the source of a native program
    place = 9  # keep these arguments as buffer set number `repeat`, to be timed
    plan = 12  # call the entry twice without data, and answer with the plan
    more = 13  # the next part of a long answer, from byte `repeat` of its text
    execute = 14  # run the plan in the document, over the arguments
    translate = 15  # compile a kernel's text to TTIR, as the document says
    assemble = 16  # compile TTIR to a cubin, as the document says
    lay_out = 17  # report how the warps of compiled TTIR access memory
    adopt = 18  # take the plan in the document, to be timed on the placed buffer sets
    arrange = 19  # prepare calls; the document has their count and their buffer sets (uint32)
    replay = 20  # run the prepared calls (none if `repeat` is 0); answers with the time
    show_stages = 21  # compile TTIR to the text of each stage, as the document says
    disassemble = 22  # list the instructions of the cubin in the document


class Kind(IntEnum):
    """The kind of an argument."""

    tensor = 1
    float64 = 2  # scalar bits: IEEE double
    int64 = 3  # scalar bits: two's complement
    boolean = 4


class Space(IntEnum):
    """The memory of a tensor, from the kernel's point of view."""

    device = 1
    host = 2


class DType(IntEnum):
    """Element types of tensors; the names are torch's."""

    float64 = 1
    float32 = 2
    float16 = 3
    bfloat16 = 4
    int64 = 5
    int32 = 6
    int16 = 7
    int8 = 8
    uint8 = 9
    bool = 10
    uint16 = 11
    uint32 = 12
    uint64 = 13
    float8_e4m3fn = 14
    float8_e5m2 = 15


class Code(IntEnum):
    """The result of a request, as the worker reports it."""

    ok = 0
    bad_request = 1
    import_failed = 2  # the file could not be executed
    entry_missing = 3  # the function doesn't exist or takes other arguments
    raised = 4  # the entry raised, outside a kernel
    compile_failed = 6
    out_of_memory = 7
    not_modelled = 8  # a GPU would do what isn't possible here
    device_failed = 9  # the device context is lost, and the worker is useless
    findings = 10  # the run is over, and the emulator has findings


class ProtocolError(ValueError):
    """The bytes are not a message of this protocol."""


class Refusal(Exception):
    """A worker's result of a request that is another than `ok`; `text` is the answer, as JSON."""

    def __init__(self, code: Code, **text: Any) -> None:
        super().__init__(code.name)
        self.code = code
        self.text = text


def words_of(error: BaseException) -> str:
    """What an error says; "" where its `__str__`, which may be a submission's, raises."""
    try:
        text = str(error)
    except Exception:
        return ""
    return text if len(text) <= MAX_WORDS else text[:MAX_WORDS] + " …"


@dataclass(frozen=True)
class Argument:
    """One argument of the entry: a strided view of an allocation in a buffer, or a scalar.

    Offsets and lengths are in bytes from the start of the buffer, strides in elements.
    """

    kind: Kind
    dtype: DType | None = None
    space: Space = Space.device
    buffer: int = 0
    offset: int = 0
    allocation: tuple[int, int] = (0, 0)  # offset, length
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    scalar: float | int | bool = 0

    @property
    def dtype_name(self) -> str:
        """Torch's name of a tensor's element type. Raises ProtocolError for a scalar."""
        if self.dtype is None:
            raise ProtocolError(f"a {self.kind.name} argument has no element type")
        return self.dtype.name

    def pack(self) -> bytes:
        """The struct. Raises ProtocolError where a field doesn't fit."""
        if len(self.shape) > MAX_RANK or len(self.shape) != len(self.strides):
            raise ProtocolError(f"rank {len(self.shape)} with {len(self.strides)} strides")
        pad = (0,) * (MAX_RANK - len(self.shape))
        try:
            return ARGUMENT.pack(
                self.kind,
                self.dtype or 0,
                self.space,
                len(self.shape),
                self.buffer,
                self.offset,
                *self.allocation,
                _scalar_bits(self.kind, self.scalar),
                *self.shape,
                *pad,
                *self.strides,
                *pad,
            )
        except (struct.error, TypeError, OverflowError) as error:
            raise ProtocolError(f"{self.kind.name} argument: {error}") from None

    @classmethod
    def of_fields(cls, fields: tuple[int, ...]) -> Argument:
        """The argument of an unpacked struct. Raises ProtocolError for a wrong field."""
        kind, dtype, space, rank, buffer, offset, start, length, bits = fields[:9]
        if rank > MAX_RANK:
            raise ProtocolError(f"rank {rank}")
        try:
            # Looked up, not called: calling an enum is slower than unpacking the struct.
            known = _KINDS[kind]
            return cls(
                known,
                _DTYPES[dtype] if known is Kind.tensor else None,
                _SPACES[space],
                buffer,
                offset,
                (start, length),
                fields[9 : 9 + rank],
                fields[9 + MAX_RANK : 9 + MAX_RANK + rank],
                0 if known is Kind.tensor else _scalar_value(known, bits),
            )
        except KeyError as error:
            raise ProtocolError(f"kind {kind}, dtype {dtype}, space {space}: {error}") from None


@dataclass(frozen=True)
class Request:
    """One request of the grader."""

    operation: Operation
    sequence: int
    arguments: tuple[Argument, ...] = ()
    repeat: int = 0

    def pack(self) -> bytes:
        """The whole message. Raises ProtocolError for too many arguments or too large values."""
        if len(self.arguments) > MAX_ARGS:
            raise ProtocolError(f"{len(self.arguments)} arguments, at most {MAX_ARGS} fit")
        try:
            head = REQUEST.pack(
                MAGIC, VERSION, self.operation, self.sequence, len(self.arguments), self.repeat
            )
        except struct.error as error:
            raise ProtocolError(f"{self.operation.name} request: {error}") from None
        body = b"".join(argument.pack() for argument in self.arguments)
        return (head + body).ljust(REQUEST_BYTES, b"\0")

    @classmethod
    def unpack(cls, data: bytes) -> Request:
        """Read a message. Raises ProtocolError when it isn't one."""
        if len(data) != REQUEST_BYTES:
            raise ProtocolError(f"a request has {REQUEST_BYTES} bytes, got {len(data)}")
        magic, version, operation, sequence, count, repeat = REQUEST.unpack_from(data)
        if magic != MAGIC or version != VERSION or count > MAX_ARGS:
            raise ProtocolError("not a request of this version")
        packed = memoryview(data)[REQUEST.size : REQUEST.size + count * ARGUMENT.size]
        arguments = tuple(map(Argument.of_fields, ARGUMENT.iter_unpack(packed)))
        try:
            return cls(Operation(operation), sequence, arguments, repeat)
        except ValueError as error:
            raise ProtocolError(str(error)) from None


@dataclass(frozen=True)
class Reply:
    """One answer of the worker, which is untrusted."""

    sequence: int
    code: Code
    text: str = ""

    def pack(self) -> bytes:
        """The whole message; the text is cut to MAX_TEXT bytes."""
        text = self.text.encode("utf-8", "replace")[:MAX_TEXT]
        return REPLY.pack(self.sequence, self.code, len(text)) + text

    @classmethod
    def unpack(cls, data: bytes) -> Reply:
        """Read a message. Raises ProtocolError when it isn't exactly one."""
        if not REPLY.size <= len(data) <= MAX_REPLY_BYTES:
            raise ProtocolError(f"a reply of {len(data)} bytes")
        sequence, code, length = REPLY.unpack_from(data)
        if length != len(data) - REPLY.size:
            raise ProtocolError("a reply whose length field is wrong")
        try:
            return cls(sequence, Code(code), data[REPLY.size :].decode("utf-8", "replace"))
        except ValueError as error:
            raise ProtocolError(str(error)) from None


def _scalar_bits(kind: Kind, value: float | int | bool) -> int:
    if kind is Kind.float64:
        return int.from_bytes(struct.pack("<d", value), "little")
    return int.from_bytes(struct.pack("<q", value), "little")


def _scalar_value(kind: Kind, bits: int) -> float | int | bool:
    data = struct.pack("<Q", bits)
    if kind is Kind.float64:
        return float(struct.unpack("<d", data)[0])
    value = int.from_bytes(data, "little", signed=True)
    return bool(value) if kind is Kind.boolean else value


_KINDS = {int(each): each for each in Kind}
_DTYPES = {int(each): each for each in DType}
_SPACES = {int(each): each for each in Space}

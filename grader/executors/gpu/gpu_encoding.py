"""A plan as the executor on a GPU takes it: cubins and the steps of its calls, as bytes.

    header   magic, version
    modules  a cubin, and the variables in it: name, bytes
    buffers  argument (-1: none), kind, bytes, module, name
    kernels  module, name, the most shared memory of any launch
    calls    one or two lists of steps: what to do, its stream, then its fields

All numbers are little-endian; counts stand before lists, lengths before bytes. What the driver
can't do by itself (copies of strided views, conversions) becomes a launch of a kernel of the
grader's (strided_copies.py). worker/native/gpu_document.cpp reads it.
"""

from __future__ import annotations

import base64
import itertools
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.executors.encoding import (
    DeviceKernel,
    NotExecutable,
    listed,
    relocations,
    sized,
    sized_text,
)
from grader.executors.encoding import rows as packed_rows
from grader.executors.gpu import strided_copies
from grader.plan import Launch, Plan, Step, model
from grader.plan.model import View

_MAGIC, _VERSION = 0x50475457, 1
_ALLOCATION, _VIEW, _DEVICE, _SYMBOL = range(4)
_FILL, _COPY, _UPLOAD, _LAUNCH, _RECORD, _WAIT = range(1, 7)
_NO_STREAM = 0xFFFFFFFF
_COOPERATIVE, _PROGRAMMATIC = 1, 2
_PROGRAMMATICALLY = ("pdl", "programmatic_stream_serialization")  # Triton's word, and CUDA's
_WARP = 32
_MAP_BYTES = 128  # of a CUtensorMap
_MAP_ALIGNMENT = 64
_MAX_RANK = 5  # of a tensor descriptor
# Triton's numbers of element types in descriptors; CUDA's, where they differ.
_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}

Views = Callable[[str], DeviceKernel]  # compiles TTIR of the grader


def encode(
    plan: Plan,
    calls: Sequence[Sequence[Step]],
    kernels: Mapping[int, DeviceKernel],
    compile_view: Views | None = None,
    variables: Callable[[bytes], Sequence[tuple[str, int]]] = lambda cubin: (),
) -> bytes:
    """The steps of one call of a plan, or of its first call and the one that is timed.

    `kernels` has those that the steps launch by number, `compile_view` makes the grader's own,
    `variables` gives names and bytes of a cubin's global variables. Raises NotExecutable.
    """
    encoder = _Encoder(plan, kernels, compile_view)
    try:
        steps = [encoder.call(each) for each in calls]
    except struct.error:  # a negative grid, say: its bounds are wider than the document's
        raise NotExecutable("a launch with a number that no launch has") from None
    modules = [
        sized(cubin)
        + listed([sized_text(name) + struct.pack("<Q", size) for name, size in variables(cubin)])
        for cubin in encoder.modules
    ]
    launched = [
        _number(module) + sized_text(name) + _number(most_shared)
        for (module, name), most_shared in encoder.kernels.items()
    ]
    parts = (modules, encoder.buffers, launched, [listed(each) for each in steps])
    return struct.pack("<II", _MAGIC, _VERSION) + b"".join(map(listed, parts))


@dataclass
class _Parameters:
    """The bytes of a kernel's parameters, laid out as C does."""

    data: bytearray = field(default_factory=bytearray)
    pointers: list[tuple[int, int, int]] = field(default_factory=list)
    maps: list[bytes] = field(default_factory=list)

    def add(self, value: bytes, alignment: int | None = None) -> int:
        """Put a value behind the others; where it lies."""
        self.data += bytes(-len(self.data) % (alignment or len(value)))
        self.data += value
        return len(self.data) - len(value)

    def add_longs(self, numbers: Iterable[int]) -> None:
        for each in numbers:
            self.add(struct.pack("<q", each))

    def pointer(self, buffer: int, offset: int) -> None:
        self.pointers.append((self.add(bytes(8)), buffer, offset))


class _Encoder:
    """Writes calls; what they need of modules, buffers and kernels is collected meanwhile."""

    def __init__(
        self, plan: Plan, kernels: Mapping[int, DeviceKernel], compile_view: Views | None
    ) -> None:
        self.modules: list[bytes] = []
        self.kernels: dict[tuple[int, str], int] = {}  # module, name: most shared memory
        self._plan = plan
        self._compiled = kernels
        self._compile_view = compile_view
        self.buffers = [self._buffer(each) for each in plan.buffers]

    def call(self, steps: Sequence[Step]) -> list[bytes]:
        """The steps of a call."""
        written: list[bytes] = []
        self._overlappable: set[int | None] = set()  # streams whose last step is a launch
        for step in steps:
            written += self._step(step)
            self._note(step)
        return written

    def _note(self, step: Step) -> None:
        """Keep on which streams a launch may overlap the one before it, of the same call."""
        if isinstance(step, Launch):
            self._overlappable.add(step.stream)
        elif isinstance(step, model.Synchronise):
            self._overlappable.clear()
        elif isinstance(step, model.Fill | model.Copy | model.Upload | model.Wait):
            self._overlappable.discard(step.stream)
            if step.stream is None:
                self._overlappable.clear()  # it waits for every stream

    def _step(self, step: Step) -> list[bytes]:
        if isinstance(step, model.Fill):
            return self._fill(step)
        if isinstance(step, model.Copy):
            return self._copy(step.to, step.source, step.stream)
        if isinstance(step, model.Upload):
            if (rows := strided_copies.rows(step.to, step.to)) is None:
                raise NotExecutable("an upload to a strided view")
            to = packed_rows(step.to.buffer, *rows.to, rows.width, rows.height)
            data = sized(base64.b64decode(step.data))
            return [_head(_UPLOAD, step.stream) + to + data + relocations(step.pointers)]
        if isinstance(step, Launch):
            return [self._launch(step)]
        if isinstance(step, model.Record | model.Wait):
            kind = _RECORD if isinstance(step, model.Record) else _WAIT
            return [_head(kind, step.stream) + _number(step.event)]
        if isinstance(step, model.Synchronise):  # work of all streams ends before what follows
            return [_head(_RECORD, None) + _number(0)]
        if step.do in ("alloc", "free", "readback", "refused"):
            return []  # memory is there before the first call; nobody waits for a graph's parts
        raise NotExecutable(f"PyTorch's own {getattr(step, 'operation', step.do)}")

    # --- memory -----------------------------------------------------------------------------------

    def _buffer(self, buffer: model.Buffer) -> bytes:
        kind, module = _DEVICE, 0
        if buffer.kind == "argument":
            kind = _ALLOCATION if self._plan.language == "triton" else _VIEW
        elif buffer.kind == "symbol":
            if not self._compiled:
                raise NotExecutable(f"a variable ({buffer.name}) that belongs to no kernel")
            kind, module = _SYMBOL, self._module(next(iter(self._compiled.values())).cubin)
        argument = -1 if buffer.argument is None else buffer.argument
        return struct.pack("<iIQI", argument, kind, buffer.bytes, module) + sized_text(buffer.name)

    def _own_buffer(self, size: int) -> int:
        """Memory that host code hasn't asked for."""
        self.buffers.append(struct.pack("<iIQI", -1, _DEVICE, size, 0) + sized_text(""))
        return len(self.buffers) - 1

    def _fill(self, step: model.Fill) -> list[bytes]:
        if step.to.elements == 0:
            return []
        value = strided_copies.element(step.to, step.value)
        rows = strided_copies.rows(step.to, step.to)
        unit = next((n for n in (1, 2, 4) if value == value[:n] * (len(value) // n)), 0)
        if rows is None or not unit:  # one element, copied to all
            one = self._own_buffer(len(value))
            given = packed_rows(one, 0, len(value), len(value), 1) + sized(value) + listed([])
            source = View(one, step.to.dtype, step.to.shape, (0,) * len(step.to.shape))
            return [_head(_UPLOAD, step.stream) + given, *self._copy(step.to, source, step.stream)]
        to = packed_rows(step.to.buffer, *rows.to, rows.width, rows.height)
        number = int.from_bytes(value[:unit], "little")
        return [_head(_FILL, step.stream) + to + struct.pack("<II", unit, number)]

    def _copy(self, to: View, source: View, stream: int | None) -> list[bytes]:
        if to.elements == 0:
            return []
        if rows := strided_copies.rows(to, source):
            ends = [
                packed_rows(view.buffer, *place, rows.width, rows.height)
                for view, place in ((to, rows.to), (source, rows.source))
            ]
            return [_head(_COPY, stream) + ends[0] + ends[1]]
        dimensions = strided_copies.dimensions(to, source)
        if self._compile_view is None:
            raise NotExecutable("a copy of a strided view")
        made = self._compile_view(strided_copies.kernel(to.dtype, source.dtype, len(dimensions)))
        parameters = _Parameters()
        for view in (to, source):
            parameters.pointer(view.buffer, view.offset * view.itemsize)
        numbers = strided_copies.arguments(dimensions)
        parameters.add_longs(numbers)
        grid = (-(-numbers[0] // strided_copies.BLOCK), 1, 1)
        block = (made.warps * _WARP, 1, 1)
        return [self._launched(made, stream, grid, block, made.shared, parameters)]

    # --- launches ---------------------------------------------------------------------------------

    def _launch(self, step: Launch) -> bytes:
        made = self._compiled[step.specialisation]
        asked = any(step.attributes.get(each) for each in _PROGRAMMATICALLY)
        overlaps = asked and step.stream in self._overlappable
        flags = _COOPERATIVE * step.cooperative | _PROGRAMMATIC * overlaps
        grid = (*step.grid, 1, 1, 1)[:3]
        cluster = (*step.cluster, 1, 1, 1)[:3]
        if self._plan.language == "cuda":
            parameters = _Parameters(bytearray(base64.b64decode(step.parameters)))
            parameters.pointers += step.pointers
            block, shared = (*step.block, 1, 1, 1)[:3], step.shared
        else:
            parameters = self._of_triton(step, made)
            block, shared = (made.warps * _WARP, 1, 1), made.shared
            grid = (grid[0] * cluster[0], *grid[1:])
        return self._launched(made, step.stream, grid, block, shared, parameters, cluster, flags)

    def _launched(
        self,
        made: DeviceKernel,
        stream: int | None,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        parameters: _Parameters,
        cluster: Sequence[int] = (1, 1, 1),
        flags: int = 0,
    ) -> bytes:
        number = self._kernel(made, shared)
        shape = struct.pack("<9III", *grid, *block, *cluster, shared, flags)
        data = sized(bytes(parameters.data)) + relocations(parameters.pointers)
        return _head(_LAUNCH, stream) + _number(number) + shape + data + listed(parameters.maps)

    def _of_triton(self, step: Launch, made: DeviceKernel) -> _Parameters:
        parameters = _Parameters()
        descriptors = iter(made.descriptors)
        for each in step.arguments:
            if isinstance(each, model.PointerArgument):
                parameters.pointer(*each.pointer)
            elif isinstance(each, model.DescriptorArgument):
                _add_descriptor(parameters, each.descriptor, next(descriptors, None))
            elif each.scalar:
                parameters.add(bytes.fromhex(each.scalar))
        if made.scratch:
            programs = math.prod((*step.grid, *step.cluster))
            parameters.pointer(self._own_buffer(made.scratch * programs), 0)
        return parameters

    def _module(self, cubin: bytes) -> int:
        if cubin not in self.modules:
            self.modules.append(cubin)
        return self.modules.index(cubin)

    def _kernel(self, made: DeviceKernel, shared: int) -> int:
        key = self._module(made.cubin), made.name
        self.kernels[key] = max(self.kernels.get(key, 0), shared)
        return list(self.kernels).index(key)


def _add_descriptor(
    parameters: _Parameters, given: model.Descriptor, read: Mapping[str, Any] | None
) -> None:
    """A tensor descriptor, and behind it the sizes and strides of its tensor."""
    itemsize = View(0, given.dtype, (), ()).itemsize
    start = given.offset * itemsize
    try:
        if read is None:
            _add_taken_apart(parameters, given, start)
        else:
            _add_map(parameters, given, start, read)
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise NotExecutable(f"a tensor descriptor ({error})") from None
    for size in given.shape:
        parameters.add(struct.pack("<i", size))
    parameters.add_longs(given.strides)


def _add_taken_apart(parameters: _Parameters, given: model.Descriptor, start: int) -> None:
    """A descriptor for a kernel that reads it by ordinary loads."""
    parameters.pointer(given.buffer, start)
    parameters.add_longs((*given.shape, *given.strides))
    parameters.add(bytes([given.padding == "nan"]))
    parameters.add(b"\0")


def _add_map(
    parameters: _Parameters, given: model.Descriptor, start: int, read: Mapping[str, Any]
) -> None:
    """A descriptor for the tensor memory accelerator: dimensions in reverse, strides in bytes."""
    rank = len(given.shape)
    if not 1 <= rank <= _MAX_RANK:
        raise ValueError(f"rank {rank}")
    at = parameters.add(bytes(_MAP_BYTES), _MAP_ALIGNMENT)
    sizes = list(reversed(given.shape))
    sizes[0] *= 2 if read["fp4_padded"] else 1
    strides = [stride * read["elem_size"] for stride in reversed(given.strides[:-1])]
    strides.append(sizes[-1] * (strides[-1] if strides else read["elem_size"]))
    kind = _ELEMENT_TYPES.get(read["elem_type"], read["elem_type"])
    head = struct.pack("<IIqII", at, given.buffer, start, kind, rank)
    head += struct.pack("<II", read["swizzle"], given.padding == "nan")
    box = reversed(read["block_size"])
    five = [[*each, *([1] * (_MAX_RANK - len(each)))] for each in (sizes, strides, list(box))]
    parameters.maps.append(head + struct.pack("<10Q5I", *itertools.chain(*five)))


def _head(kind: int, stream: int | None) -> bytes:
    return struct.pack("<II", kind, _NO_STREAM if stream is None else stream)


def _number(value: int) -> bytes:
    return struct.pack("<I", value)

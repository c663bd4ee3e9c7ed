"""A plan of CUDA C++ encoded for the emulator's executor, in little-endian fields.

    header   magic, version, flags (1: count accesses, 2: variables of the device begin anew, 4:
             some blocks run alone, on buffers without data, 8: record accesses that are counted;
             bits 4 and 5: which value undefined results have)
    buffers  argument (-1: none), kind, bytes, name
    kernels  the source's name, the function's symbol ("": only the thunk knows it), the thunk's
    steps    what to do, then its fields. The step "order" has what draws the order of blocks from
             there on, and whether it is reversed. Before it, they run by their numbers.

A pointer into host memory, which no kernel may follow, names the buffer HOST. Counts stand before
lists, lengths before bytes. emulator/runtime/executor/ reads it. Streams and events are left out:
host code's own order is one that they allow, and plan/stream_order.py gives another.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from grader.emulator.report import Copies, Report
from grader.executors.encoding import NotExecutable, listed, relocations, rows, sized, sized_text
from grader.executors.executor import Manner
from grader.plan import Buffer, Launch, Plan, Step, model, reorder
from grader.plan.model import MAX_BUFFERS, Alloc, Copy, Fill, Readback, Upload, View

_MAGIC, _VERSION = 0x58454757, 3
_COUNTERS, _FRESH_VARIABLES, _SAMPLED, _RECORDS = 1, 2, 4, 8
_UNDEFINED_SHIFT = 4
UNDEFINED = 3  # values that undefined results may have: large, small, or no number
_KINDS = {"argument": 0, "device": 1, "managed": 1, "symbol": 2}
HOST = 0xFFFFFFFF  # as a buffer's number
_POISON = 0xA5
_OFFSET = re.compile(r"\b[0-9]{1,6}\b")
_ALLOC, _FREE, _FILL, _COPY, _UPLOAD, _LAUNCH, _ORDER = range(1, 8)


def document(
    plan: Plan,
    manner: Manner,
    outputs: Collection[int] = (),
    inputs: Collection[int] = (),
    fresh_variables: bool = True,
) -> bytes:
    """The steps of a plan's first call, or of both, as a manner has them. Raises NotExecutable.

    Between two calls the arguments at the places `outputs` are filled with bytes that no call
    left there; the first of two calls gets other values of those at `inputs`. The order of blocks
    holds for the last call alone: what an earlier one has left may end a wait too soon. Not with
    `fresh_variables`, `__device__` variables are as the last plan left them.
    """
    encoder = _Encoder(plan)
    order = manner.order
    ordered = [] if order is None else [struct.pack("<3I", _ORDER, order.seed, order.backwards)]
    poison = [
        Fill("fill", View(number, "uint8", (each.bytes,), (1,)), _POISON)
        for number, each in enumerate(plan.buffers)
        if each.argument in outputs and each.bytes
    ]
    others = _others(plan, inputs) if manner.call else {}
    steps = encoder.written(s for each in others for s in _shifted(plan, each, others[each]))
    encoder.renamed = others
    first = [s for place, s in enumerate(plan.calls[0]) if place not in manner.without]
    if manner.reordered:  # a kernel that comes too early mustn't find the last case's upload
        steps += encoder.written(
            Fill("fill", each.to, _POISON)
            for each in first
            if isinstance(each, Upload) and plan.buffers[each.to.buffer].kind == "symbol"
        )
    steps += () if manner.call else ordered
    steps += encoder.written(reorder(first) if manner.reordered else first)
    if manner.call:
        encoder.renamed = {}
        steps += ordered + encoder.written((*poison, *plan.calls[1]))
    memory = [*plan.buffers, *(Buffer(plan.buffers[each].bytes, "device") for each in others)]
    flags = _COUNTERS * manner.counts | _FRESH_VARIABLES * fresh_variables
    flags |= _SAMPLED * manner.sampled | _RECORDS * manner.records
    flags |= manner.undefined << _UNDEFINED_SHIFT
    header = struct.pack("<III", _MAGIC, _VERSION, flags)
    return header + b"".join(map(listed, (map(_packed, memory), encoder.kernels, steps)))


def _packed(buffer: Buffer) -> bytes:
    if buffer.kind not in _KINDS:
        raise NotExecutable(f"{buffer.kind} memory")
    argument = -1 if buffer.argument is None else buffer.argument
    numbers = struct.pack("<iIQ", argument, _KINDS[buffer.kind], buffer.bytes)
    return numbers + sized_text(buffer.name)


def _others(plan: Plan, inputs: Collection[int]) -> dict[int, int]:
    """By the number of an argument's buffer the number of another one, for its other values.

    Empty where host code has put arguments' addresses into memory: a second call may follow them.
    """
    uploads = [step for step in plan.calls[0] if isinstance(step, Upload)]
    named = {plan.buffers[to].argument for step in uploads for _, to, _ in step.pointers}
    if named != {None} and named:
        return {}
    numbers = [n for n, each in enumerate(plan.buffers) if each.argument in inputs and each.bytes]
    if len(plan.buffers) + len(numbers) > MAX_BUFFERS:
        raise NotExecutable(f"{len(plan.buffers):,} buffers")
    return {number: len(plan.buffers) + place for place, number in enumerate(numbers)}


def _shifted(plan: Plan, number: int, other: int) -> list[Step]:
    """Steps that give a buffer the two halves of another one, the second half first."""
    size = plan.buffers[number].bytes
    half = size // 16 * 8
    parts = [(0, half, size - half), (size - half, 0, half)]
    return [
        Alloc("alloc", other),
        *(
            Copy("copy", _bytes_of(other, to, length), _bytes_of(number, source, length))
            for to, source, length in parts
            if length
        ),
    ]


def _bytes_of(buffer: int, first: int, length: int) -> View:
    return View(buffer, "uint8", (length,), (1,), first)


def combined(planned: Report | None, executed: Report, copied: Copies) -> Report:
    """The findings in host code and in kernels as one report.

    A finding that memory is never freed is left out where anything worse is wrong.
    """
    findings = (*(planned.findings if planned else ()), *executed.findings)
    worse = tuple(each for each in findings if each.kind != "leak")
    return replace(executed, findings=worse or findings, copies=copied)


def copies(plan: Plan, host_arguments: Collection[int]) -> Copies:
    """The copies of a plan's first call; `host_arguments` are those in host memory, by place."""
    between = {"host_to_device": 0, "device_to_host": 0, "device_to_device": 0}
    moved = 0
    for step in plan.calls[0]:
        if isinstance(step, Upload):
            from_host, to_host, size = True, False, step.to.elements
        elif isinstance(step, Readback):
            from_host, to_host, size = False, True, step.bytes
        elif isinstance(step, Copy):
            from_host, to_host = (
                plan.buffers[view.buffer].argument in host_arguments
                for view in (step.source, step.to)
            )
            size = step.to.elements
        else:
            continue
        if from_host and to_host:
            continue  # stays on the host, and isn't counted
        ends = ("host" if on_host else "device" for on_host in (from_host, to_host))
        between["_to_".join(ends)] += 1
        moved += size if from_host or to_host else 0
    return Copies(count=sum(between.values()), bytes=moved, **between)


class _Encoder:
    """Writes steps; `kernels` have been launched so far, `renamed` buffers get other numbers."""

    def __init__(self, plan: Plan) -> None:
        self.kernels: list[bytes] = []
        self.renamed: dict[int, int] = {}
        self._names = [getattr(each, "kernel", "") for each in plan.specialisations]

    def written(self, steps: Iterable[Step]) -> list[bytes]:
        """The steps of these that the executor does."""
        return [written for step in steps if (written := self.step(step)) is not None]

    def step(self, step: Step) -> bytes | None:
        """A step; None for one that the executor doesn't do."""
        if isinstance(step, Alloc | model.Free):
            what = _ALLOC if isinstance(step, Alloc) else _FREE
            return struct.pack("<II", what, self._buffer(step.buffer))
        if isinstance(step, Fill):
            if not isinstance(step.value, int) or not 0 <= step.value < 256:
                raise NotExecutable(f"a fill with {step.value}")
            return struct.pack("<I", _FILL) + self._rows(step.to) + struct.pack("<I", step.value)
        if isinstance(step, Copy):
            return struct.pack("<I", _COPY) + self._rows(step.to) + self._rows(step.source)
        if isinstance(step, Upload):
            data = sized(base64.b64decode(step.data))
            pointers = self._relocations(step.pointers)
            return struct.pack("<I", _UPLOAD) + self._rows(step.to) + data + pointers
        if isinstance(step, Launch):
            return self._launch(step)
        if step.do in ("readback", "refused", "record", "wait", "synchronise"):
            return None
        raise NotExecutable(f"the step {step.do}")

    def _launch(self, step: Launch) -> bytes:
        if step.cluster:
            raise NotExecutable("a cluster of blocks")
        size = (*step.grid, *step.block, step.shared, step.cooperative)
        head = struct.pack("<II6IQI", _LAUNCH, self._kernel(step), *size)
        to_host = _OFFSET.findall(str(step.attributes.get("host_pointers", "")))  # untrusted
        pointers = [*step.pointers, *((int(at), HOST, 0) for at in to_host)]
        parameters = sized(base64.b64decode(step.parameters))
        return head + parameters + self._relocations(pointers)

    def _kernel(self, launch: Launch) -> int:
        function, thunk = (str(launch.attributes.get(key, "")) for key in ("function", "thunk"))
        kernel = b"".join(map(sized_text, (self._names[launch.specialisation], function, thunk)))
        if kernel not in self.kernels:
            self.kernels.append(kernel)
        return self.kernels.index(kernel)

    def _rows(self, view: View) -> bytes:
        """A view of bytes with one dimension, or rows of them."""
        if view.dtype != "uint8" or not 1 <= len(view.shape) <= 2 or view.strides[-1] != 1:
            raise NotExecutable("a view that is neither bytes nor rows of bytes")
        height, pitch = (view.shape[0], view.strides[0]) if len(view.shape) == 2 else (1, 0)
        if pitch < 0 or view.offset < 0:
            raise NotExecutable("rows in reverse order")
        return rows(self._buffer(view.buffer), view.offset, pitch, view.shape[-1], height)

    def _relocations(self, pointers: Sequence[tuple[int, int, int]]) -> bytes:
        return relocations([(at, self._buffer(n), offset) for at, n, offset in pointers])

    def _buffer(self, number: int) -> int:
        return self.renamed.get(number, number)

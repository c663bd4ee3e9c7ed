"""A plan of CUDA C++ as an executor takes it: a compact document of little-endian fields.

    header   magic, version, flags (1: count accesses, 2: variables of the device begin anew)
    buffers  argument (-1: none), kind, bytes, name
    kernels  the source's name, the function's symbol ("": only the thunk knows it), the thunk's
    steps    what to do, then its fields

A pointer into host memory, which no kernel may follow, names the buffer HOST. Counts stand before
lists, lengths before bytes. emulator/runtime/executor/ reads it. Streams and events are left out:
the order in which host code asked is one of those that they allow.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Collection, Sequence
from dataclasses import replace

from grader.emulator.report import Copies, Report
from grader.plan import Launch, Plan
from grader.plan.model import Alloc, Copy, Fill, Free, Readback, Refused, Step, Upload, View

_MAGIC, _VERSION = 0x58454757, 1
_COUNTERS, _FRESH_VARIABLES = 1, 2
_KINDS = {"argument": 0, "device": 1, "symbol": 2}
HOST = 0xFFFFFFFF  # as a buffer's number
_ALLOC, _FREE, _FILL, _COPY, _UPLOAD, _LAUNCH = range(1, 7)


class NotExecutable(ValueError):
    """A plan that asks for what the emulator's executor doesn't do; the message says what."""


def document(
    plan: Plan, calls: Sequence[int] = (0,), counters: bool = False, fresh_variables: bool = True
) -> bytes:
    """The steps of these calls of a plan, one after another.

    Not with `fresh_variables`, `__device__` variables are as the last plan left them.
    Raises NotExecutable. Where a plan's second call relies on what the first one left behind,
    `calls` has to be (0, 1).
    """
    kernels = _Kernels(plan)
    steps = [
        made
        for call in calls
        for step in plan.calls[call]
        if (made := _step(step, kernels)) is not None
    ]
    buffers = [
        struct.pack("<iIQ", -1 if each.argument is None else each.argument, kind, each.bytes)
        + _text(each.name)
        for each in plan.buffers
        if (kind := _kind(each.kind)) is not None
    ]
    header = struct.pack(
        "<III", _MAGIC, _VERSION, _COUNTERS * counters | _FRESH_VARIABLES * fresh_variables
    )
    return header + _listed(buffers) + _listed(kernels.rows) + _listed(steps)


def combined(planned: Report | None, executed: Report, copied: Copies | None = None) -> Report:
    """What a planner found in host code and an executor in kernels, as one report.

    That memory is never freed is told only where nothing worse is wrong.
    """
    findings = (*(planned.findings if planned else ()), *executed.findings)
    worse = tuple(each for each in findings if each.kind != "leak")
    return replace(executed, findings=worse or findings, copies=copied or executed.copies)


def copies(plan: Plan, call: int, host_arguments: Collection[int]) -> Copies:
    """The copies of one call of a plan; `host_arguments` are those in host memory, by place."""
    counts = {"bytes": 0, "host_to_device": 0, "device_to_host": 0, "device_to_device": 0}
    for step in plan.calls[call]:
        if isinstance(step, Upload):
            directions, size = (True, False), step.to.elements
        elif isinstance(step, Readback):
            directions, size = (False, True), step.bytes
        elif isinstance(step, Copy):
            ends = [plan.buffers[view.buffer].argument for view in (step.source, step.to)]
            directions = (ends[0] in host_arguments, ends[1] in host_arguments)
            size = step.to.elements
        else:
            continue
        from_host, to_host = directions
        if from_host and to_host:
            continue  # stays on the host, and isn't counted
        counts["bytes"] += size if from_host != to_host else 0
        counts["host_to_device"] += from_host
        counts["device_to_host"] += to_host
        counts["device_to_device"] += not from_host and not to_host
    made = sum(counts[key] for key in counts if key != "bytes")
    return Copies(count=made, **counts)


class _Kernels:
    """The kernels of the launches, numbered as they come."""

    def __init__(self, plan: Plan) -> None:
        self.rows: list[bytes] = []
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._names = [getattr(each, "kernel", "") for each in plan.specialisations]

    def number_of(self, launch: Launch) -> int:
        function, thunk = (str(launch.attributes.get(key, "")) for key in ("function", "thunk"))
        key = (self._names[launch.specialisation], function, thunk)
        if key not in self._numbers:
            self._numbers[key] = len(self.rows)
            self.rows.append(b"".join(map(_text, key)))
        return self._numbers[key]


def _kind(kind: str) -> int:
    if kind not in _KINDS:
        raise NotExecutable(f"{kind} memory")
    return _KINDS[kind]


def _step(step: Step, kernels: _Kernels) -> bytes | None:
    """One step; None for what an executor need not know of."""
    if isinstance(step, Alloc):
        return struct.pack("<II", _ALLOC, step.buffer)
    if isinstance(step, Free):
        return struct.pack("<II", _FREE, step.buffer)
    if isinstance(step, Fill):
        if not isinstance(step.value, int) or not 0 <= step.value < 256:
            raise NotExecutable(f"a fill with {step.value}")
        return struct.pack("<I", _FILL) + _rows(step.to) + struct.pack("<I", step.value)
    if isinstance(step, Copy):
        return struct.pack("<I", _COPY) + _rows(step.to) + _rows(step.source)
    if isinstance(step, Upload):
        data = base64.b64decode(step.data)
        return (
            struct.pack("<I", _UPLOAD) + _rows(step.to) + _bytes(data) + _relocations(step.pointers)
        )
    if isinstance(step, Launch):
        return _launch(step, kernels)
    if isinstance(step, Readback | Refused) or step.do in ("record", "wait", "synchronise"):
        return None
    raise NotExecutable(f"the step {step.do}")


def _launch(step: Launch, kernels: _Kernels) -> bytes:
    if step.cooperative or step.cluster:
        raise NotExecutable("a cooperative launch" if step.cooperative else "a cluster of blocks")
    head = struct.pack("<II", _LAUNCH, kernels.number_of(step))
    shape = struct.pack("<6IQ", *step.grid, *step.block, step.shared)
    to_host = str(step.attributes.get("host_pointers", "")).split()
    pointers = [*step.pointers, *((int(at), HOST, 0) for at in to_host)]
    parameters = _bytes(base64.b64decode(step.parameters))
    return head + shape + parameters + _relocations(pointers)


def _rows(view: View) -> bytes:
    """A view of bytes with one dimension, or rows of them."""
    if view.dtype != "uint8" or not 1 <= len(view.shape) <= 2 or view.strides[-1] != 1:
        raise NotExecutable("a view that is neither bytes nor rows of bytes")
    height, pitch = (view.shape[0], view.strides[0]) if len(view.shape) == 2 else (1, 0)
    if pitch < 0 or view.offset < 0:
        raise NotExecutable("rows in reverse order")
    return struct.pack("<IqQQQ", view.buffer, view.offset, pitch, view.shape[-1], height)


def _relocations(pointers: Sequence[tuple[int, int, int]]) -> bytes:
    return _listed([struct.pack("<IIq", *each) for each in pointers])


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _bytes(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _listed(parts: Sequence[bytes]) -> bytes:
    return struct.pack("<I", len(parts)) + b"".join(parts)

"""Runs a plan's steps on data, over the arena's buffers and those that host code allocated.

Kernels are TTIR, run by executor.py; copies, fills and allowed torch operations are run by torch.
The steps run in host code's order, which streams allow. Unwritten memory holds NaN in every
floating-point format, and either -1 or large numbers as integers.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .. import memory as arena
from ..protocol import Argument, Kind
from . import addresses, text, warp_requests, wrapping
from .accesses import LaneReader
from .bounds import Bounds
from .counters import Counters
from .errors import (
    LimitExceeded,
    MalformedIR,
    NeverEnds,
    NotModelled,
    WaitsForever,
    WrongArguments,
)
from .executor import Descriptor, Launch, execute
from .findings import Findings
from .ir import Module
from .memory import Buffer, Memory, Zeros
from .observer import Observer
from .orders import Atomics, Order, sampled
from .own_races import OwnRaces
from .races import Races
from .records import Records
from .regions import Region, Regions, of_argument, of_scratch
from .state import Finding, Limits

MAX_PRINTED = 4000  # characters of kernels' output
UNWRITTEN = (0xFFFF, 0x7FFF)  # of which a buffer has one, by its address
# Instead, where memory was used before: small, zero and large, finite in every format.
LEFT = (0x3A3A, 0, 0x7A7A)
# Of the work of a few programs: a long loop isn't run to its end.
SAMPLED_LIMITS = Limits(steps=4000, elements=1 << 25)
_FLOATS = {"fp16": "<e", "fp32": "<f", "fp64": "<d"}


class Refused(Exception):
    """A plan that can't be run to its end here; `kind` names the reason."""

    def __init__(self, kind: str, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.kind = kind  # "not_modelled", "limit", "endless", "waits", "impossible", "malformed"
        self.line = line


class PlanExecutor:
    """Executes the plans of one variant; it keeps their kernels."""

    def __init__(self, buffers: Sequence[arena.Buffer]) -> None:
        """`buffers` are the arena's."""
        self._buffers = buffers
        self._modules: dict[str, Module] = {}
        self._kept: list[_Placed] = []  # the last plan's buffers, after its first call
        self._wrapped: list[int] = []  # lines of int32 arithmetic that has wrapped, as it ran

    def execute(self, arguments: Sequence[Argument], document: Mapping[str, Any]) -> dict[str, Any]:
        """Run the steps of a call over the arguments; returns the observations as JSON.

        `document` has the plan's `buffers`, the `steps`, the names of its `kernels` by number, and
        the `ttir` of new ones. With `again` memory continues from the last execution; else `seed`
        draws the buffers' addresses. With `count` accesses are counted, for waves of `wave`
        programs, by the compiled kernels' `layouts` (by number), and with `record` recorded; with
        `races` data races between programs are found. By `order` the programs of some kernels run
        in another order; without it, atomics whose order may matter are reported. `sampled`: a few
        programs of each launch run, on buffers that have no memory. Raises Refused.
        """
        try:
            for name, given in document["ttir"].items():
                self._modules[name] = module = text.read(given)
                if document["sampled"]:
                    wrapping.watch(module, self._wrapped)
            self._wrapped.clear()
            kernels = document["kernels"].items()
            modules = {int(number): self._modules[name] for number, name in kernels}
            kept, self._kept = self._kept if document["again"] else [], []
            sizes = [each["bytes"] for each in document["buffers"]]
            # Memory from the last execution may contain pointers.
            where = [each.address for each in kept] or addresses.drawn(sizes, document["seed"])
            placed = self._placed(document, arguments, where)
            for each, before in zip(placed, kept, strict=False):
                if each.region is None:
                    each.bytes = before.bytes
            run = _Run(document, modules, placed, self._wrapped)
            run.all_steps()
            self._kept = placed
            return run.report()
        except NotModelled as lacking:
            line = lacking.line[1] if lacking.line else 0
            raise Refused("not_modelled", lacking.feature, line) from None
        except LimitExceeded as error:
            kind = {NeverEnds: "endless", WaitsForever: "waits"}.get(type(error), "limit")
            raise Refused(kind, str(error), error.line) from None
        except MalformedIR as error:
            kind = "impossible" if isinstance(error, WrongArguments) else "malformed"
            raise Refused(kind, str(error)) from None

    def _placed(
        self,
        document: Mapping[str, Any],
        arguments: Sequence[Argument],
        where: Sequence[int],
    ) -> list[_Placed]:
        """The buffers of a plan; those of arguments are in the arena, unless it is sampled."""
        buffers, left = document["buffers"], document["leftovers"]
        if document["sampled"]:
            return [
                _WithoutMemory.of(each, address)
                for each, address in zip(buffers, where, strict=True)
            ]
        tensors = {place: each for place, each in enumerate(arguments) if each.kind is Kind.tensor}
        return [
            self._of_argument(address, described, tensors[described["argument"]])
            if described["kind"] == "argument"
            else _Placed(address, described["bytes"], line=described["line"], leftovers=left)
            for address, described in zip(where, buffers, strict=True)
        ]

    def _of_argument(
        self, address: int, described: Mapping[str, Any], argument: Argument
    ) -> _Placed:
        """An argument's buffer: the whole allocation for copies, the view's extent for kernels."""
        shared = self._buffers[argument.buffer]
        start, length = argument.allocation
        dtype = getattr(torch, argument.dtype_name)
        region = of_argument(
            described["argument"],
            address + argument.offset - start,
            dtype.itemsize,
            argument.shape,
            argument.strides,
            writable=shared.writable,
        )
        whole = shared.bytes(start, length)
        return _Placed(address, length, whole, region, shared.writable)


def _is_read(buffer: Buffer | None) -> bool:
    return buffer is not None and buffer.was_read


@dataclass
class _Placed:
    """One buffer of a plan. `bytes` is None while it isn't allocated."""

    address: int
    size: int
    bytes: torch.Tensor | None = None  # uint8
    region: Region | None = None  # of an argument
    writable: bool = True
    line: int = 0  # of the host code that allocates it
    buffer: Buffer | None = field(default=None, repr=False)
    leftovers: bool = False
    was_read: bool = False  # by a load of a kernel, before it was released

    def allocate(self) -> None:
        """Give it unwritten memory."""
        fillings = LEFT if self.leftovers else UNWRITTEN
        holds = fillings[self.address // addresses.ALIGNMENT % len(fillings)]
        words = np.full(-(-self.size // 2), holds, "<u2")
        self.bytes = torch.from_numpy(words.view(np.uint8)[: self.size])
        self.buffer = None

    def release(self) -> None:
        """Release its memory."""
        self.was_read |= _is_read(self.buffer)
        self.bytes = self.buffer = None

    def for_kernels(self) -> Buffer | None:
        """The part that kernels may access; None while it isn't allocated."""
        if self.buffer is None and self.bytes is not None:
            start = self.region.start - self.address if self.region else 0
            end = self.region.end - self.address if self.region else self.size
            data = self.bytes[start:end].numpy()
            self.buffer = Buffer(data, self.address + start, self.writable)
        return self.buffer


class _WithoutMemory(_Placed):
    """A buffer of a sampled plan: addresses alone."""

    @classmethod
    def of(cls, described: Mapping[str, Any], address: int) -> _WithoutMemory:
        """The buffer that a plan describes; an argument is there from the start."""
        size = described["bytes"]
        made = cls(address, size, line=described["line"])
        if described["kind"] == "argument":
            made.region = Region(address, address + size, argument=described["argument"])
            made.allocate()
        return made

    def allocate(self) -> None:
        """Make its addresses accessible."""
        self.buffer = Zeros(self.size, self.address)

    def for_kernels(self) -> Buffer | None:
        """The buffer; None while it isn't allocated."""
        return self.buffer


class _Run:
    """One execution of a plan."""

    def __init__(
        self,
        document: Mapping[str, Any],
        modules: Mapping[int, Module],
        placed: Sequence[_Placed],
        wrapped: Sequence[int],
    ) -> None:
        self._document = document
        self._wrapped = wrapped
        self._modules = modules
        self._layouts = {
            int(number): warp_requests.of_json(each) for number, each in document["layouts"].items()
        }
        self._placed = placed
        self._printed = ""
        self._copied = 0
        self._do: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "alloc": lambda step: placed[step["buffer"]].allocate(),
            "free": lambda step: placed[step["buffer"]].release(),
            "fill": self._fill,
            "copy": self._copy,
            "upload": self._upload,
            "host_op": self._host_op,
        }
        self._is_sampled = document["sampled"]
        if self._is_sampled:  # there is no memory to move anything to
            self._do = {name: self._do[name] for name in ("alloc", "free")}
        # A plan also has the buffers of calls that aren't executed here.
        allocated = {step["buffer"] for step in document["steps"] if step["do"] == "alloc"}
        self._regions = Regions(
            [
                each.region
                or of_scratch(each.address, each.size, each.line, counted=document["count"])
                for number, each in enumerate(placed)
                if each.region or each.bytes is not None or number in allocated
            ]
        )
        self._findings = Findings(self._regions)
        self._counters: Counters | None = None
        self._records = Records() if document["record"] else None
        self._atomics: Atomics | None = None
        self._order = Order(**document["order"]) if document["order"] else None
        self._observers = self._observing()

    def _observing(self) -> list[Observer]:
        reader = LaneReader()
        observers: list[Observer] = []
        if self._document["count"]:
            wave = self._document["wave"]
            self._counters = Counters(
                self._regions, self._findings, wave=wave, reader=reader, records=self._records
            )
            observers.append(self._counters)
        elif not all(region.dense for region in self._regions):
            observers.append(Bounds(self._regions, self._findings))
        if self._document["races"]:
            observers.append(Races(self._findings, reader=reader))
            observers.append(OwnRaces(self._findings))
        if not (self._document["count"] or self._document["sampled"]) and self._order is None:
            self._atomics = Atomics()
            observers.append(self._atomics)
        return observers

    def all_steps(self) -> None:
        """Run every step."""
        for step in self._document["steps"]:
            self._step(step)

    def _step(self, step: Mapping[str, Any]) -> None:
        """Run one step. Raises Refused for one that our planners don't write."""
        if step["do"] == "launch":
            self._launch(step)
        try:
            if step["do"] in self._do:
                self._do[step["do"]](step)
        except (RuntimeError, TypeError, ValueError, OverflowError, struct.error) as error:
            message = f"torch refuses the {step['do']} that the plan asks for: {str(error)[:200]}"
            raise Refused("impossible", message, step["line"]) from None

    def report(self) -> dict[str, Any]:
        """The report of the execution, as JSON."""
        report: dict[str, Any] = {}
        findings = self._findings.report()
        if findings:
            report["findings"] = findings
        if self._printed:
            report["printed"] = self._printed
        if self._atomics is not None and (atomics := self._atomics.report()):
            report["atomics"] = atomics
        own = [each for each in self._placed if each.writable]
        report["reads_own"] = any(each.was_read or _is_read(each.buffer) for each in own)
        if self._counters is not None:
            counted = self._counters.report()
            cut = counted.pop("cut") or self._findings.cut
            copied = {"copied_bytes": self._copied, "cut": cut, "findings": findings}
            report["accesses"] = {**counted, **copied}
        if self._records is not None:
            report["trace"] = self._records.report(self._regions)
        return report

    # --- memory -----------------------------------------------------------------------------------

    def _tensor(self, view: Mapping[str, Any], line: int, writing: bool) -> torch.Tensor | None:
        """A view of a buffer; None where writing it is not allowed, which is a finding."""
        placed = self._placed[view["buffer"]]
        if placed.bytes is None:
            raise Refused("malformed", f"buffer {view['buffer']} isn't allocated", line)
        if writing and not placed.writable:
            self._findings.add("modified_input", line, "", (0, 0, 0), address=placed.address)
            return None
        dtype = getattr(torch, view["dtype"])
        whole: torch.Tensor = placed.bytes[: placed.size // dtype.itemsize * dtype.itemsize].view(
            dtype
        )
        first = whole.storage_offset() + view["offset"]
        return whole.as_strided(view["shape"], view["strides"], first)

    def _fill(self, step: Mapping[str, Any]) -> None:
        to = self._tensor(step["to"], step["line"], writing=True)
        if to is not None:
            value = step["value"]
            to.fill_(float(value) if isinstance(value, str) else value)

    def _copy(self, step: Mapping[str, Any]) -> None:
        source = self._tensor(step["from"], step["line"], writing=False)
        to = self._tensor(step["to"], step["line"], writing=True)
        if source is not None and to is not None:
            to.copy_(source.reshape(to.shape))
            self._copied += source.numel() * source.element_size()

    def _upload(self, step: Mapping[str, Any]) -> None:
        to = self._tensor(step["to"], step["line"], writing=True)
        if to is None:
            return
        data = bytearray(base64.b64decode(step["data"]))
        for at, number, offset in step["pointers"]:
            struct.pack_into("<q", data, at, self._placed[number].address + offset)
        given = torch.frombuffer(data, dtype=torch.uint8).view(to.dtype) if data else None
        if given is not None:
            to.copy_(given.reshape(to.shape))

    def _host_op(self, step: Mapping[str, Any]) -> None:
        """Run a torch operation that the spec allows, on its tensors alone.

        One with other operands can't be run, and leaves its results unchanged, which matters where
        they are arguments.
        """
        line = step["line"]
        writable = (self._tensor(each, line, writing=True) for each in step["outputs"])
        outputs = [each for each in writable if each is not None]
        if len(outputs) < len(step["outputs"]):
            return
        read = (self._tensor(each, line, writing=False) for each in step["inputs"])
        inputs = [each if each is None else _widened(each) for each in read]
        name = step["operation"].rpartition("::")[2].partition(".")[0]
        try:
            results = getattr(torch.ops.aten, name)(*inputs)
        except (AttributeError, RuntimeError):
            if any(self._placed[each["buffer"]].region for each in step["outputs"]):
                raise Refused("not_modelled", f"torch's {name} with numbers", line) from None
            return
        results = results if isinstance(results, tuple | list) else [results]
        for to, result in zip(outputs, results, strict=False):
            to.copy_(result)

    # --- launches ---------------------------------------------------------------------------------

    def _launch(self, step: Mapping[str, Any]) -> None:
        number = step["specialisation"]
        module = self._modules[number]
        arguments = [self._argument(each) for each in step["arguments"]]
        live = [buffer for each in self._placed if (buffer := each.for_kernels()) is not None]
        launch = Launch(
            module,
            tuple(step["grid"]),
            arguments,
            self._layouts.get(number),
            one_warp=number in self._document["one_warp"],
        )
        order = self._order if self._order and number in self._order.kernels else None
        limits = None if order is None else Limits(steps=order.steps)
        result = execute(
            launch,
            Memory(live),
            self._observers,
            limits=SAMPLED_LIMITS if self._is_sampled else limits,
            order=order,
            programs=sampled(math.prod(launch.grid)) if self._is_sampled else None,
        )
        self._printed = (self._printed + result.printed)[:MAX_PRINTED]
        if self._atomics is not None:
            self._atomics.launched(number, math.prod(launch.grid), result)
        for finding in result.findings:
            if self._wrapped and finding.kind.startswith("out_of_bounds"):
                finding.other_line = self._wrapped[0]
            self._add(finding)

    def _argument(self, given: Mapping[str, Any]) -> Any:
        if "pointer" in given:
            number, offset = given["pointer"]
            return self._placed[number].address + offset
        if "descriptor" in given:
            described = given["descriptor"]
            itemsize = getattr(torch, described["dtype"]).itemsize
            return Descriptor(
                self._placed[described["buffer"]].address + described["offset"] * itemsize,
                tuple(described["shape"]),
                tuple(described["strides"]),
                described["padding"] == "nan",
            )
        return _number(bytes.fromhex(given["scalar"]), given["type"])

    def _add(self, finding: Finding) -> None:
        """Add one of the executor's findings, unless an observer has it already."""
        kind = finding.kind
        buffer = finding.buffer
        if kind == "out_of_bounds_write" and buffer is not None and not buffer.writable:
            kind = "modified_input" if 0 <= finding.offset < buffer.data.size else kind
        known = {(each["kind"], each["line"]) for each in self._findings.report()}
        if (kind, finding.line) in known:
            return
        other = {"other_line": finding.other_line} if finding.other_line else None
        self._findings.add(
            kind,
            finding.line,
            finding.kernel,
            finding.program,
            count=finding.count,
            address=finding.address,
            width=max(1, finding.width),
            other=other,
        )


def _number(data: bytes, kind: str) -> Any:
    """A scalar argument from its little-endian bytes."""
    if kind in _FLOATS:
        return np.float64(struct.unpack(_FLOATS[kind], data)[0])
    if kind == "bf16":
        return np.float64(struct.unpack("<f", b"\0\0" + data)[0])
    return int.from_bytes(data, "little", signed=kind.startswith("i") and kind != "i1")


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of 16-bit floats as float32, in which torch computes with them on a GPU as well.

    On processors with AMX, torch's product of bfloat16 matrices reads what lies between padded
    rows: NaN there would reach the result.
    """
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor

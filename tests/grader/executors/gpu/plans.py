"""Plans by hand for the executor on a GPU, over tensors that are placed in an arena."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from grader.cases.arena import Slot
from grader.executors.encoding import DeviceKernel
from grader.executors.gpu import gpu_encoding
from grader.plan import Buffer, Plan
from grader.plan.model import Fill, Launch, PointerArgument, ScalarArgument, Step, View
from grader.sandbox.memfd import Memfds
from grader.worker.protocol import Argument
from tests.support.fake_gpu import GpuMemory, view_of
from tests.support.native import Placement

NAMES = (
    *("add", "scalars", "scratch", "describe", "taken_apart"),
    *("follow", "count", "globals", "breaks", "nothing"),
)
GLOBALS = (("counter", 4), ("factors", 12))
_FORMATS = {"i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "fp32": "<f", "fp64": "<d"}


@dataclass(frozen=True)
class Kernels:
    """Those of kernels.cpp, by their places in NAMES; `changed` ones say what is known of them."""

    cubin: bytes
    changed: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def numbered(self) -> dict[int, DeviceKernel]:
        """As a document takes them."""
        known = dict(self.changed)
        made = [DeviceKernel(self.cubin, name, 4) for name in NAMES]
        return {n: replace(each, **known.get(each.name, {})) for n, each in enumerate(made)}

    def but(self, name: str, **fields: Any) -> Kernels:
        """The same with other fields of one kernel."""
        return replace(self, changed=(*self.changed, (name, fields)))


class Tensors(Placement):
    """Placed tensors, and the buffers of a plan over them. A context manager."""

    def __init__(
        self,
        *slots: Slot,
        on_gpu: bool = True,
        language: str = "triton",
        writable: bool | None = None,
    ) -> None:
        # On a host, a GPU works on copies of inputs, as the grader places them there.
        copied = not on_gpu if writable is None else writable
        super().__init__(slots, copied, GpuMemory if on_gpu else Memfds)
        self.language: Any = language
        self.buffers = [self._buffer(n, each) for n, each in enumerate(self.arguments)]

    def own(self, size: int, kind: Literal["device", "managed"] = "device") -> int:
        """Memory that host code allocates: the buffer's number."""
        self.buffers.append(Buffer(size, kind))
        return len(self.buffers) - 1

    def symbol(self, name: str, size: int) -> int:
        """A variable of a module: the buffer's number."""
        self.buffers.append(Buffer(size, "symbol", name=name))
        return len(self.buffers) - 1

    def view(self, number: int, **changed: Any) -> View:
        """The whole tensor, but for these fields."""
        return replace(view_of(number, self.arguments[number]), **changed)

    def at(self, number: int, offset: int = 0) -> PointerArgument:
        """A pointer to a tensor's first element, and so many bytes on; or into other memory."""
        if self.buffers[number].kind == "argument" and self.language == "triton":
            offset += _start(self.arguments[number])
        return PointerArgument((number, offset))

    def plan(self, *calls: Sequence[Step]) -> Plan:
        """A plan of these calls."""
        return Plan(1, self.language, tuple(self.buffers), (), tuple(map(tuple, calls)))

    def document(
        self,
        kernels: Kernels | None,
        *steps: Step,
        then: Sequence[Step] | None = None,
        compile_view: Callable[[str], DeviceKernel] | None = None,
    ) -> bytes:
        """The steps of a call, and of the one behind it if any, as the executor has them."""
        calls = [steps] if then is None else [steps, then]
        numbered = kernels.numbered if kernels else {}
        variables = lambda cubin: GLOBALS  # noqa: E731
        return gpu_encoding.encode(self.plan(*calls), calls, numbered, compile_view, variables)

    def _buffer(self, number: int, argument: Argument) -> Buffer:
        size = argument.allocation[1]
        if self.language == "cuda":
            size -= argument.offset - argument.allocation[0]
        return Buffer(size, "argument", number)


def _start(argument: Argument) -> int:
    return argument.offset - argument.allocation[0]


def scalar(kind: str, value: float) -> ScalarArgument:
    """A number by value; `kind` is Triton's word for its type."""
    return ScalarArgument(struct.pack(_FORMATS[kind], value).hex(), kind)


def launch(name: str, *arguments: Any, grid: Sequence[int] = (1,), **more: Any) -> Launch:
    """A launch of one of NAMES."""
    return Launch("launch", NAMES.index(name), tuple(grid), arguments=tuple(arguments), **more)


def add(
    tensors: Tensors, source: int, to: int, value: float, count: int = 8, **more: Any
) -> Launch:
    """A launch that adds a number to so many float32 of a tensor."""
    given = tensors.at(source), tensors.at(to), scalar("i32", count), scalar("fp32", value)
    return launch("add", *given, **more)


def fill(to: View, value: Any, stream: int | None = None) -> Fill:
    """A fill of a whole view."""
    return Fill("fill", to, value, stream)


def output(name: str, *shape: int, dtype: str = "float32", **more: Any) -> Slot:
    """A slot that is written; contiguous where no strides are given."""
    strides = more.pop("strides", None) or torch.empty(shape, device="meta").stride()
    return Slot(name, dtype, shape, tuple(strides), role="output", **more)

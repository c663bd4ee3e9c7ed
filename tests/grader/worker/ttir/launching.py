"""Runs Triton kernels on CPU tensors by Triton's frontend and our executor.

    with launching() as launches: silu(x, out)

Within the context `kernel[grid](...)` compiles the kernel to TTIR and executes it at once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from grader.worker.ttir.executor import Descriptor, Launch, execute
from grader.worker.ttir.ir import Module
from grader.worker.ttir.memory import Buffer, Memory
from grader.worker.ttir.state import Result
from grader.worker.ttir.text import read

from .frontend import ttir

TYPES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.bool: "i1",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
}


@dataclass
class Launches:
    """What was launched within a context."""

    results: list[Result] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    observers: list[Any] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)  # of `execute`
    readonly: set[int] = field(default_factory=set)  # data_ptr of storages not to be written
    seconds: float = 0.0
    _modules: dict[str, Module] = field(default_factory=dict)
    _texts: dict[Any, str] = field(default_factory=dict)

    @property
    def findings(self) -> list[Any]:
        """The findings of all launches."""
        return [each for result in self.results for each in result.findings]

    def run(self, kernel: JITFunction, grid: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Compile and execute."""
        names = [parameter.name for parameter in kernel.params]
        bound = dict(zip(names, args, strict=False))
        bound.update({key: value for key, value in kwargs.items() if key in names})
        for parameter in kernel.params:
            if parameter.name not in bound:
                bound[parameter.name] = parameter.default
        options = {key: value for key, value in kwargs.items() if key not in names}
        options.pop("maxnreg", None)
        if callable(grid):
            grid = grid(bound)
        grid = (*grid, 1, 1)[:3]
        signature, constants, attributes, values = _specialise(kernel, bound)
        key = (kernel, tuple(signature.items()), repr(constants), tuple(attributes.items()))
        if key not in self._texts:
            self._texts[key] = ttir(kernel, signature, constants, attributes, **options)
        text = self._texts[key]
        self.texts.append(text)
        if text not in self._modules:
            self._modules[text] = read(text)
        memory, arguments = self._memory(values)
        launch = Launch(self._modules[text], grid, arguments)
        began = time.perf_counter()
        self.results.append(execute(launch, memory, self.observers, **self.options))
        self.seconds += time.perf_counter() - began

    def _memory(self, values: list[Any]) -> tuple[Memory, list[Any]]:
        buffers: dict[int, Buffer] = {}

        def address(tensor: torch.Tensor) -> int:
            storage = tensor.untyped_storage()
            pointer = storage.data_ptr()
            if pointer not in buffers:
                data = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
                writable = pointer not in self.readonly
                buffers[pointer] = Buffer(data, (len(buffers) + 1) << 40, writable)
            offset = int(tensor.storage_offset()) * tensor.element_size()
            return buffers[pointer].address + offset

        arguments: list[Any] = []
        for value in values:
            if isinstance(value, torch.Tensor):
                arguments.append(address(value))
            elif hasattr(value, "block_shape"):
                base = value.base
                nan = getattr(value, "padding", "zero") == "nan"
                shape, strides = tuple(value.shape), tuple(value.strides)
                arguments.append(Descriptor(address(base), shape, strides, nan))
            else:
                arguments.append(value)
        return Memory(buffers.values()), arguments


def _specialise(kernel: JITFunction, bound: dict[str, Any]) -> tuple[dict, dict, dict, list]:
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[str, int] = {}
    values: list[Any] = []
    for parameter in kernel.params:
        name, value = parameter.name, bound[parameter.name]
        if isinstance(value, torch.Tensor):
            signature[name] = "*" + TYPES[value.dtype]
            if value.storage_offset() * value.element_size() % 16 == 0:
                attributes[name] = 16
        elif parameter.is_constexpr or value is None or (type(value) is int and value == 1):
            signature[name] = "constexpr"
            constants[name] = value
            continue
        elif hasattr(value, "block_shape"):
            block = ",".join(map(str, value.block_shape))
            signature[name] = f"tensordesc<{TYPES[value.base.dtype]}[{block}]>"
        elif isinstance(value, bool):
            signature[name] = "i1"
        elif isinstance(value, int):
            signature[name] = "i32" if -(2**31) <= value < 2**31 else "i64"
            if value % 16 == 0:
                attributes[name] = 16
        else:
            signature[name] = "fp32"
        values.append(value)
    return signature, constants, attributes, values


@contextlib.contextmanager
def launching(observers: list[Any] | None = None, **options: Any) -> Iterator[Launches]:
    """Have kernels executed where they are launched."""
    launches = Launches(observers=observers or [], options=options)

    def run(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        launches.run(self, grid, args, kwargs)

    def do_bench(self: Autotuner, call: Callable[[], None], quantiles: Any) -> list[float]:
        call()
        return [1.0] * len(quantiles)

    with (
        mock.patch.object(JITFunction, "run", run),
        mock.patch.object(Autotuner, "do_bench", do_bench),
    ):
        yield launches


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of a tensor's storage."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()

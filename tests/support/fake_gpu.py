"""Runs the GPU executor without a GPU, on the tests' own CUDA driver (fake_cuda/).

built(folder)          the executor's program with that driver beside it
built(folder).cubin()  kernels in C++, as the driver loads them
Executor               a process of the program
GpuMemory              memfds in the place of GPU memory

sandbox(...)           a sandbox whose workers have that GPU, for the clock
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from grader.executors import executor
from grader.executors.gpu import executor_program
from grader.gpu import locks
from grader.plan.model import DType, View
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.sandbox.memfd import Memfds
from grader.timing import contenders
from grader.worker.protocol import Argument, Operation, Reply
from tests.support.native import NativeWorker, Placement

SOURCES = Path(__file__).parent / "fake_cuda"
LIBRARY = "libcuda.so.1"
NEEDS_COMPILER = pytest.mark.skipif(
    not shutil.which("g++") or bool(executor_program.why_not()),
    reason=f"needs g++ and Triton's cuda.h: {executor_program.why_not()}",
)


@dataclass(frozen=True)
class FakeGpu:
    """The executor's program, and the folder with the driver that it finds."""

    program: Path
    folder: Path

    def cubin(self, source: Path | str) -> bytes:
        """A file or text of C++ as a module: see fake_cuda/modules.cpp for what kernels are."""
        made = self.folder / "module.so"
        given = str(source) if isinstance(source, Path) else "-"
        text = None if isinstance(source, Path) else source
        command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{SOURCES}", "-o", str(made)]
        subprocess.run([*command, "-x", "c++", given], input=text, text=True, check=True)
        data = made.read_bytes()
        head = b"FAKECUBI" + struct.pack("<QQ", len(data), _sum(data))
        return head + struct.pack("<Q", _sum(head)) + data


def built(folder: Path) -> FakeGpu:
    """The driver, built in a folder, and the executor's program beside it."""
    header = executor_program._cuda_header()
    assert header is not None
    include = header.parent
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    sources = map(str, sorted(SOURCES.glob("*.cpp")))
    command = ["g++", *flags, f"-I{include}", *sources, "-o", str(folder / LIBRARY)]
    subprocess.run(command, check=True)
    program = folder / "gpu_executor"
    program.write_bytes(executor_program.program())
    program.chmod(0o500)
    return FakeGpu(program, folder)


class GpuMemory(Memfds):
    """Memory of a fake GPU: workers import it as such."""

    on_gpu = True

    def __enter__(self) -> GpuMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Executor(NativeWorker):
    """A process of the executor. A context manager.

    `settings` are those of the driver, without FAKE_CUDA_.
    """

    def __init__(self, gpu: FakeGpu, placement: Placement, **settings: str | int) -> None:
        environment = {**os.environ, "LD_LIBRARY_PATH": str(gpu.folder)}
        environment |= {f"FAKE_CUDA_{name.upper()}": str(value) for name, value in settings.items()}
        arena = placement.arena
        options = ["--on-gpu"] if arena.on_gpu else []
        super().__init__(gpu.program, "", arena.buffers, options, environment=environment)
        self._arguments = placement.arguments
        ready = self.receive()
        assert ready is not None and not ready.code

    def execute(self, document: bytes) -> Reply:
        """Carry out the first call of a plan on the placed tensors."""
        return self.ask(Operation.execute, self._arguments, document=document)

    def adopt(self, document: bytes) -> Reply:
        """Take a plan that is to be timed."""
        return self.ask(Operation.adopt, document=document)

    def arrange(self, *order: int) -> Reply:
        """Make a call of each of these sets ready."""
        document = struct.pack(f"<{1 + len(order)}I", len(order), *order)
        return self.ask(Operation.arrange, document=document)

    def replay(self, with_calls: bool = True) -> Reply:
        """Do what was arranged, or that without its calls."""
        return self.ask(Operation.replay, repeat=int(with_calls))


def view_of(number: int, argument: Argument) -> View:
    """A placed tensor as a plan of Triton's has it: in buffer `number`, which is its allocation."""
    assert argument.dtype is not None
    dtype = cast(DType, argument.dtype.name)
    first = (argument.offset - argument.allocation[0]) // View(0, dtype, (), ()).itemsize
    return View(number, dtype, argument.shape, argument.strides, first)


def _sum(data: Sequence[int]) -> int:
    """FNV-1a, as the driver adds the bytes of a module up."""
    found = 14695981039346656037
    for byte in data:
        found = (found ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return found


@contextlib.contextmanager
def sandbox(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, room: int = 8 << 20
) -> Iterator[Sandbox]:
    """A sandbox of a GPU, whose executors find the fake one: for contenders.py, GpuRunner and all
    above them.

    Memfds replace GPU memory; a timed worker's sets may have so many bytes.
    """
    monkeypatch.setenv("LD_LIBRARY_PATH", str(gpu.folder))
    for module in (contenders, executor):
        monkeypatch.setattr(module, "GpuMemory", GpuMemory)
    monkeypatch.setattr(contenders, "_room", lambda on_gpu: room)
    monkeypatch.setattr(locks, "is_exclusive_on", lambda device: True)
    with Sandbox("cuda", Level.limits, kind="native") as opened:
        yield opened

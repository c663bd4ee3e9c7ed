"""A compiled CUDA C++ program's processes in its sandbox: a planner with host code, an executor."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from grader.cases.arena import Buffers
from grader.emulator.glue import Entry
from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import Backend, Program
from grader.sandbox import Sandbox
from grader.sandbox.seccomp import FilterError, compile_emulator_filter
from grader.sandbox.worker_process import Death, Limits, SandboxError, Worker
from grader.spec import Tensor
from grader.spec.task import Task
from grader.worker.protocol import Argument, Code, DType, Kind, Operation

_KIND_OF_SCALAR = {"int": Kind.int64, "float": Kind.float64, "bool": Kind.boolean}


@dataclass(frozen=True)
class NativeProcesses:
    """Starts them. `program` is what was made of the variant's file."""

    sandbox: Sandbox
    task: Task
    program: Program
    limits: Limits

    def planner(self, buffers: Buffers) -> Worker:
        """A process of the program that has host code; it may read these buffers."""
        return self._of(self.program.path, buffers)

    def executor(self, buffers: Buffers) -> Worker:
        """A process of the program that has the kernels, and the data in these buffers."""
        return self._of(self.program.executor, buffers)

    def serves_nobody(self) -> bool:
        """Whether even a program whose entry does nothing can't be had, or refuses to be called."""
        kinds = cuda_build.signature(self.task.exercise, self.task.variant)
        try:
            path = _idle_program(self.sandbox, self.task.variant.entry, kinds, self.program.backend)
            worker = self._of(path, ())
        except SandboxError:
            return True
        try:
            empty = [_empty_argument(kind) for kind in kinds]
            answers = (worker.ask(each, empty) for each in (Operation.load, Operation.plan))
            return any(isinstance(a, Death) or a.code is not Code.ok for a in answers)
        finally:
            worker.close()

    def _of(self, path: Path | None, buffers: Buffers) -> Worker:
        assert path is not None  # who asks has seen that the program was built
        entry = self.task.variant.entry
        return self.sandbox.worker(path, entry, buffers, self.limits, self._options)

    @cached_property
    def _options(self) -> list[str]:
        return _options(self.task, self.program.backend)


def _options(task: Task, backend: Backend) -> list[str]:
    """What a program is to know: its arguments' names, and the system calls it may make."""
    arguments = [
        f"{each.name}:{each.role if isinstance(each, Tensor) else 'input'}"
        for each in task.signature
    ]
    options = [f"--arguments={','.join(arguments)}"]
    if backend != "gpu":
        with contextlib.suppress(FilterError):  # then the sandbox has none either, and says so
            options.insert(0, f"--filter={compile_emulator_filter().hex()}")
    return options


def _idle_program(sandbox: Sandbox, entry: str, kinds: Sequence[str], backend: Backend) -> Path:
    """A program whose entry does nothing. Raises SandboxError where there can't be one."""
    types = ", ".join(Entry(entry, tuple(kinds)).types())
    headers = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n"
    source = f'{headers}extern "C" void {entry}({types}) {{}}\n'
    made = cuda_build.build(sandbox, "idle.cu", source.encode(), [(entry, kinds)], backend)
    if made.path is None:
        raise SandboxError("a program that does nothing can't be compiled")
    return made.path


def _empty_argument(kind: str) -> Argument:
    """A tensor without elements, or zero."""
    if kind.startswith("pointer"):
        return Argument(Kind.tensor, DType.float32, shape=(0,), strides=(1,))
    return Argument(_KIND_OF_SCALAR[kind], scalar=0)

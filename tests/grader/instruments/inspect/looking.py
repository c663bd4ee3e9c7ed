"""Kernels of small submissions, compiled and looked into."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from grader.cases import parse
from grader.grading.session import Options, Session, selected
from grader.instruments.inspect import device_code
from grader.instruments.inspect.compiling import Compilers, DeviceCode
from grader.instruments.inspect.findings import Finding, findings
from grader.instruments.inspect.kernels import Inspected, Kernel, inspect, open_compilers
from grader.instruments.inspect.statements import Files
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.worker.compile.cubin import usage
from tests.support.small_exercise import ROOT

Look = Callable[..., tuple[Inspected, list[Finding]]]

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
CASES = {"silu": "n=4096 dtype=float32 seed=1", "gemm": "M=128 N=128 K=128 dtype=float32 seed=1"}


@functools.cache
def exercises():
    return load_all()


def look(
    sandbox: Sandbox,
    name: str,
    folder: Path = ROOT / "reference",
    case: str = "",
    configuration: int | None = None,
) -> tuple[Inspected, list[Finding]]:
    """A variant's kernels for a case, and what the first of them shows."""
    (task,) = selected(exercises(), [name])
    text = case or CASES[task.exercise.name]
    chosen = parse(text, task, 1, is_run=False)
    with session_of(folder, sandbox) as session, open_compilers(session, task) as compilers:
        made = inspect(session, compilers, task, chosen, configuration)
        return made, findings(made.kernels[0], compilers)


class CudaFile:
    """A file of CUDA C++, compiled once, whose kernels are looked into one by one."""

    def __init__(self, plans: Sandbox, native: Sandbox, text: str) -> None:
        made = device_code.compile_file(native, native.hold("silu.cu", text.encode()))
        self.compilers = Compilers(plans, plans.hold("silu.cu", text.encode()))
        self.cubin = made.cubin
        self._texts = {"ptx": made.ptx, **self.compilers.disassembled(made.cubin)}
        self._no_sass = self._texts.pop("no_sass")
        self._made = made

    def kernel(self, name: str, block: tuple[int, ...] = (256, 1, 1)) -> Kernel:
        """One of them, launched with such blocks."""
        (symbol,) = self._made.symbols_of(name)
        used = usage(self.cubin)[symbol]
        code = DeviceCode(symbol, self._texts, used, no_sass=self._no_sass, cubin=self.cubin)
        files = Files({"silu.cu"})
        return Kernel(1, name, "cuda", 1, (1, 1, 1), block, 0, code, files)

    def look(self, name: str, block: tuple[int, ...] = (256, 1, 1)) -> tuple[Kernel, list[Finding]]:
        """One of them, and what its code shows."""
        kernel = self.kernel(name, block)
        return kernel, findings(kernel, self.compilers)


@contextlib.contextmanager
def session_of(folder: Path, sandbox: Sandbox) -> Iterator[Session]:
    """A submission opened in a sandbox that others share; nothing is kept for later runs."""
    with Session(
        folder, exercises(), Options(device="cpu", keeps_builds=False), sandbox=sandbox
    ) as session:
        yield session


def silu(folder: Path, kernel: str, launch: str) -> Path:
    """A folder whose silu.py has a kernel and a launch of it."""
    (folder / "silu.py").write_text(f"{HEAD}\n{kernel}\n\ndef silu(x, out):\n    {launch}\n")
    return folder


def at(found: list[Finding], line: int, kind: str = "") -> list[Finding]:
    """The findings of a line, of one kind where one is given."""
    return [
        each
        for each in found
        if each.place is not None and each.place.line == line and kind in ("", each.kind)
    ]


def kinds(found: list[Finding]) -> set[str]:
    """All kinds of findings."""
    return {each.kind for each in found}

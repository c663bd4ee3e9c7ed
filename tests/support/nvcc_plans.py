"""Plans of one .cu by both compilers: with host code from g++, for the emulator, and from nvcc."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from grader import plan
from grader.emulator import report, toolchain
from grader.emulator.elf import Elf
from grader.executors.cuda import cuda_build
from grader.plan import Plan
from grader.plan.model import KernelName, Launch, Readback, Step
from grader.spec import ITEMSIZE
from grader.worker import builder
from grader.worker.gpu_build import Made
from grader.worker.protocol import Argument, Code
from tests.support.emulated import PlanWorker

NEEDS_NVCC = pytest.mark.skipif(
    not shutil.which("g++") or toolchain.find_nvcc() is None, reason="needs g++ and nvcc"
)
Entries = Mapping[str, Sequence[str]]  # name -> kinds of arguments, as native.signature has them


@dataclass(frozen=True)
class Planned:
    """A planner's answer: the plan if there is one, the reply's text, and its findings."""

    code: Code | None
    plan: Plan | None
    text: str
    report: report.Report | None = None


def build(backend: cuda_build.Backend, source: Path, entries: Entries, folder: Path) -> Made:
    """Compile a file as the sandbox would, but here."""
    builder.load_emulator()
    folder.mkdir(parents=True, exist_ok=True)
    listed = tuple({"name": name, "arguments": list(kinds)} for name, kinds in entries.items())
    ours = cuda_build.prepare_planner() if backend == "gpu" else None
    wanted = builder.Wanted(backend, listed, toolchain=cuda_build.prepare(), gpu_planner=ours)
    return builder.build(source, wanted, folder)


def planned(
    made: Made, entry: str, arguments: Sequence[Argument], options: Sequence[str] = ()
) -> Planned:
    """What a fresh planner makes of an entry."""
    assert made.executable is not None
    with PlanWorker(made.executable, entry, (), options) as worker:
        ready = worker.receive()
        if ready is None:
            return Planned(None, None, str(worker.ends_with()))
        assert worker.load(len(arguments)).code is Code.ok
        reply, text = worker.plan(arguments)
        if reply is None:
            return Planned(None, None, str(worker.ends_with()))
    seen = report.parse(reply.text) if reply.code is Code.findings else None
    made_plan = plan.read(text, [bytes_of(each) for each in arguments]) if text else None
    return Planned(reply.code, made_plan, reply.text, seen)


def bytes_of(argument: Argument) -> int | None:
    """The bytes of a tensor from its first element to its last; None for a scalar."""
    if argument.dtype is None:
        return None
    if 0 in argument.shape:
        return 0
    spans = zip(argument.shape, argument.strides, strict=True)
    itemsize = ITEMSIZE.get(argument.dtype.name, 1)
    return (sum((n - 1) * s for n, s in spans) + 1) * itemsize


@dataclass
class Both:
    """A file built for both; `emulated` and `by_nvcc` are what came of it."""

    emulated: Made
    by_nvcc: Made

    @classmethod
    def of(cls, source: Path, entries: Entries, folder: Path) -> Both:
        """Build a file twice."""
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(build, backend, source, entries, folder / backend)
                for backend in ("emulator", "gpu")
            ]
            return cls(*(job.result() for job in jobs))

    def plans(
        self, entry: str, arguments: Sequence[Argument], options: Sequence[str] = ()
    ) -> tuple[Planned, Planned]:
        """The emulator's first."""
        return (
            planned(self.emulated, entry, arguments, options),
            planned(self.by_nvcc, entry, arguments, options),
        )

    def line_of(self, pc: int) -> int | None:
        """The line that a report of nvcc's planner is about."""
        site = self.by_nvcc.sites.get(str(pc))
        return site[0] if site else None


def comparable(planned_as: Plan) -> dict[str, Any]:
    """The fields of a plan about which both compilers agree.

    Their names of kernels and variables differ. A call over several lines has one of these lines.
    Only one of them knows the bytes of a read of managed memory. A launch's parameters may contain
    the address of a variable, which differs in every process.
    """
    return {
        "buffers": [replace(each, name="", line=0) for each in planned_as.buffers],
        "kernels": len(planned_as.specialisations),
        "calls": [[_without_names(step) for step in call] for call in planned_as.calls],
        "printed": planned_as.printed,
    }


def lines(planned_as: Plan) -> list[int]:
    """Those of buffers and steps, in their order."""
    steps = [step for call in planned_as.calls for step in call]
    return [each.line for each in (*planned_as.buffers, *steps)]


def _without_names(step: Step) -> Step:
    if isinstance(step, Launch):
        data = bytearray(base64.b64decode(step.parameters))
        for place, _, _ in step.pointers:
            data[place : place + 8] = bytes(8)
        step = replace(step, attributes={}, parameters=base64.b64encode(data).decode())
    if isinstance(step, Readback):
        step = replace(step, bytes=0)
    return replace(step, line=0)


@lru_cache(maxsize=8)
def symbols_of(cubin: Path) -> frozenset[str]:
    """What a cubin has under names: kernels and variables."""
    return frozenset(each.name for each in Elf(cubin).symbols if each.is_defined)


def names_are_the_cubins(made: Made, planned_as: Plan) -> bool:
    """Whether every kernel and variable of a plan is one of the cubin's."""
    names = {each.kernel for each in planned_as.specialisations if isinstance(each, KernelName)}
    names |= {each.name for each in planned_as.buffers if each.kind == "symbol"}
    return names <= symbols_of(made.executor)


def entries_of(text: str) -> dict[str, list[str]]:
    """The parameters of each `ENTRY name(parameters)` of a file."""
    found = re.findall(r"(?m)^ENTRY (\w+)\((.*?)\)", text)
    return {name: [each for each in listed.split(", ") if each] for name, listed in found}

"""Runs entries of a .cu in the emulator, by a planner and an executor, and returns the report."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from grader import plan
from grader.cases.arena import Slot
from grader.emulator import report, toolchain
from grader.emulator.build import Build, Entry, build
from grader.executors.cuda import emulator_encoding
from grader.executors.executor import Manner
from grader.plan import Plan
from grader.spec import ITEMSIZE
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply
from tests.support.native import NativeWorker, Placement, vector

SOURCES = Path(__file__).parents[1] / "grader" / "emulator"
NEEDS_COMPILER = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
ELEMENTS = 256  # of every tensor

_KINDS = {
    "const float* in": "pointer:float32",
    "float* out": "pointer:float32",
    "float* h": "pointer:float32",
    "int n": "int",
}


@dataclass(frozen=True)
class Outcome:
    """One run of one entry. `report` is None where the process died or refused.

    `out` is what the tensor of that name holds at the end, where the entry has one.
    """

    code: Code | None
    report: report.Report | None
    printed: str = ""
    out: torch.Tensor | None = None


class PlanWorker(NativeWorker):
    """A planner or an executor."""

    def plan(self, arguments: Sequence[Argument]) -> tuple[Reply | None, str]:
        """The answer to `plan`, and the plan's whole text where there is one."""
        self.post(Operation.plan, arguments)
        reply = self.receive()
        if reply is None or reply.code not in (Code.ok, Code.findings):
            return reply, ""
        if reply.code is Code.findings and report.parse(reply.text).lost:
            return reply, ""
        part = reply if reply.code is Code.ok else self.ask(Operation.more, repeat=0)
        length, _, text = part.text.partition("\n")
        while len(text) < int(length, 16):
            text += self.ask(Operation.more, repeat=len(text)).text
        return reply, text

    def execute(self, arguments: Sequence[Argument], document: bytes) -> Reply | None:
        """The answer of an executor to a document; None where it dies."""
        self.post(Operation.execute, arguments, document=document)
        return self.receive()


@dataclass
class Call:
    """A call of an entry: a planner makes a plan of it, an executor runs that on the buffers."""

    built: Build
    entry: str
    arguments: Sequence[Argument]
    buffers: Sequence[tuple[int, int, bool]]
    options: Sequence[str] = ()
    plan: Plan | None = None
    printed: str = ""  # by host code, then by kernels

    def run(self, measure: bool = False, times: int = 1) -> Outcome:
        """The findings of the planner and the executor, the planner's first."""
        planned = self._planned()
        if self.plan is None:
            return planned
        document = emulator_encoding.document(self.plan, Manner(counts=measure))
        assert self.built.executor is not None
        with PlanWorker(self.built.executor, "execute", self.buffers, self.options) as worker:
            assert worker.answer().code is Code.ok
            for _ in range(times):
                reply = worker.execute(self.arguments, document)
            ended = worker.ends_with()
        self.printed = self.plan.printed + ended[1]
        if reply is None:
            return Outcome(None, None, str(ended))
        if reply.code not in (Code.ok, Code.findings):
            return Outcome(reply.code, None, reply.text)
        copies = emulator_encoding.copies(self.plan, ())
        seen = emulator_encoding.combined(planned.report, report.parse(reply.text), copies)
        code = Code.findings if seen.findings else reply.code
        return Outcome(code, seen, reply.text if measure else report.to_json(seen))

    def _planned(self) -> Outcome:
        assert self.built.executable is not None
        with PlanWorker(self.built.executable, self.entry, (), self.options) as worker:
            assert worker.answer().code is Code.ok
            assert worker.load(len(self.arguments)).code is Code.ok
            reply, text = worker.plan(self.arguments)
            if reply is None:
                return Outcome(None, None, str(worker.ends_with()))
        if text:
            self.plan = plan.read(text, [_bytes_of(each) for each in self.arguments])
        seen = report.parse(reply.text) if reply.code is Code.findings else None
        return Outcome(reply.code, seen, reply.text)


def _bytes_of(argument: Argument) -> int | None:
    if argument.dtype is None:
        return None
    spans = zip(argument.shape, argument.strides, strict=True)
    itemsize = ITEMSIZE.get(argument.dtype.name, 1)
    return (sum((n - 1) * s for n, s in spans) + 1) * itemsize


class Program:
    """A .cu of tests/grader/emulator whose entries are declared `ENTRY name(parameters)`.

    Parameters: `const float* in` and `float* out` are tensors on the device of ELEMENTS elements,
    `float* h` is one in host memory, `int n` is ELEMENTS.
    """

    def __init__(self, source: Path, folder: Path) -> None:
        self.plans: dict[str, Plan | None] = {}  # the last of each entry
        self.lines = source.read_text().splitlines()
        self.parameters = {
            found[1]: [part for part in found[2].split(", ") if part]
            for line in self.lines
            if (found := re.match(r"(?:ENTRY|extern \"C\" void) (\w+)\((.*?)\)", line))
        }
        entries = [Entry(n, tuple(_KINDS[p] for p in each)) for n, each in self.parameters.items()]
        self.built = build(source, entries, folder, toolchain.prepare())
        assert not self.built.problems, self.built.problems

    def run(self, entry: str, measure: bool = False, times: int = 1) -> Outcome:
        """Plans the entry once and executes the plan `times` times: the last outcome."""
        slots = [_slot(p) for p in self.parameters[entry] if p != "int n"]
        with Placement([*slots, vector("spare", 1)]) as placement:
            arguments = self._arguments(entry, iter(placement.arguments))
            described = ",".join(_described(p) for p in self.parameters[entry])
            options = [f"--arguments={described}"] if described else []
            call = Call(self.built, entry, arguments, placement.arena.buffers, options)
            outcome = call.run(measure, times)
            self.plans[entry] = call.plan
            has_out = "float* out" in self.parameters[entry]
            return replace(outcome, out=placement.values("out").clone()) if has_out else outcome

    def _arguments(self, entry: str, tensors: Iterator[Argument]) -> Sequence[Argument]:
        return [
            Argument(Kind.int64, scalar=ELEMENTS) if p == "int n" else next(tensors)
            for p in self.parameters[entry]
        ]

    def lines_marked(self, mark: str) -> list[int]:
        """The lines, from 1, that end in a comment `// [other] -> a, b` which names `mark`."""
        other, _, name = mark.rpartition("-> ")
        pattern = re.compile(rf"// {re.escape(other)}-> (?:.*, )?{name}(?:,|$)")
        return [i for i, line in enumerate(self.lines, 1) if pattern.search(line)]

    def line_of(self, pc: int) -> int | None:
        """The line of a return address of a report."""
        site = self.built.sites.get(pc)
        return site.line if site else None


def _described(parameter: str) -> str:
    name = parameter.split()[-1]
    return f"{name}:{ {'out': 'output', 'h': 'inout'}.get(name, 'input') }"


def _slot(parameter: str) -> Slot:
    name = parameter.split()[-1]
    values: Any = torch.arange(float(ELEMENTS))
    if name == "out":
        return vector(name, ELEMENTS)
    if name == "h":
        return vector(name, values, role="inout", space="host")
    return vector(name, values)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The report's text, for comparing two of them."""
    return json.loads(outcome.printed)

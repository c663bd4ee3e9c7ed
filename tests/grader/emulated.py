"""Runs entries of a .cu in the emulator and says what it reports."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.arena import Slot
from grader.emulator import report, toolchain
from grader.emulator.build import Build, Entry, build
from grader.worker.protocol import Argument, Code, Kind, Operation
from tests.grader.native import NativeWorker, Placement, vector

SOURCES = Path(__file__).parent / "emulator"
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


class Program:
    """A .cu of tests/grader/emulator whose entries are declared `ENTRY name(parameters)`.

    Parameters: `const float* in` and `float* out` are tensors on the device of ELEMENTS elements,
    `float* h` is one in host memory, `int n` is ELEMENTS.
    """

    def __init__(self, source: Path, folder: Path) -> None:
        self.lines = source.read_text().splitlines()
        self.parameters = {
            found[1]: [part for part in found[2].split(", ") if part]
            for line in self.lines
            if (found := re.match(r"(?:ENTRY|extern \"C\" void) (\w+)\((.*?)\)", line))
        }
        entries = [Entry(n, tuple(_KINDS[p] for p in each)) for n, each in self.parameters.items()]
        self.built = self._build(source, entries, folder)
        assert not self.built.problems, self.built.problems

    def _build(self, source: Path, entries: Sequence[Entry], folder: Path) -> Build:
        return build(source, entries, folder, toolchain.prepare())

    def run(self, entry: str, measure: bool = False, times: int = 1) -> Outcome:
        """Calls the entry in a process of its own; the outcome of the last call."""
        slots = [_slot(p) for p in self.parameters[entry] if p != "int n"]
        with Placement([*slots, vector("spare", 1)]) as placement:
            arguments = self._arguments(entry, iter(placement.arguments))
            described = ",".join(_described(p) for p in self.parameters[entry])
            options = [f"--arguments={described}"] if described else []
            buffers = placement.arena.buffers
            with NativeWorker(self.built.executable, entry, buffers, options) as worker:
                assert worker.receive().code is Code.ok
                assert worker.load(len(arguments)).code is Code.ok
                operation = Operation.measure if measure else Operation.run
                for _ in range(times):
                    reply = worker.ask(operation, arguments)
                if reply is None:
                    return Outcome(None, None, str(worker.ends_with()))
            has_out = "float* out" in self.parameters[entry]
            out = placement.values("out").clone() if has_out else None
        is_report = reply.code in (Code.ok, Code.found) and reply.text
        seen = report.parse(reply.text) if is_report else None
        return Outcome(reply.code, seen, reply.text, out)

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

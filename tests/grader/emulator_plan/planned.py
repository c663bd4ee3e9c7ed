"""Runs entries of a .cu as plans: host code in a planner, kernels in an executor."""

from __future__ import annotations

import array
import json
import socket
from collections.abc import Sequence
from pathlib import Path

from grader import memfds, native_plan, plan
from grader.emulator import report, toolchain
from grader.emulator.build import Entry, build
from grader.plan import Plan
from grader.worker.protocol import Argument, Code, Operation, Reply, Request
from tests.grader import emulated
from tests.grader.emulated import Outcome
from tests.grader.native import NativeWorker, Placement, vector


class PlanWorker(NativeWorker):
    """A planner or an executor."""

    def plan(self, arguments: Sequence[Argument]) -> tuple[Reply | None, str]:
        """The answer to `plan`, and the plan's whole text where there is one."""
        reply = self.ask(Operation.plan, arguments)
        if reply is None or reply.code not in (Code.ok, Code.found):
            return reply, ""
        if reply.code is Code.found and report.parse(reply.text).lost:
            return reply, ""
        part = reply if reply.code is Code.ok else self.ask(Operation.more, repeat=0)
        length, _, text = part.text.partition("\n")
        while len(text) < int(length, 16):
            text += self.ask(Operation.more, repeat=len(text)).text
        return reply, text

    def execute(self, arguments: Sequence[Argument], document: bytes) -> Reply | None:
        """The answer of an executor to a document."""
        self._sequence += 1
        request = Request(Operation.execute, self._sequence, tuple(arguments)).pack()
        with memfds.sealed(document) as descriptor:
            socket.send_fds(self.socket, [request], array.array("i", [descriptor]))
        return self.receive()


class PlannedProgram(emulated.Program):
    """As emulated.Program, by way of a plan. `plans` holds the last plan of each entry."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.plans: dict[str, Plan] = {}
        super().__init__(source, folder)

    def _build(self, source: Path, entries: Sequence[Entry], folder: Path):
        return build(source, entries, folder, toolchain.prepare(), planned=True)

    def run(self, entry: str, measure: bool = False, times: int = 1) -> Outcome:
        """Plans the entry once and executes the plan `times` times: the last outcome."""
        slots = [emulated._slot(p) for p in self.parameters[entry] if p != "int n"]
        with Placement([*slots, vector("spare", 1)]) as placement:
            arguments = self._arguments(entry, iter(placement.arguments))
            described = ",".join(emulated._described(p) for p in self.parameters[entry])
            options = [f"--arguments={described}"] if described else []
            outcome = self._plan(entry, arguments, options)
            if entry not in self.plans:
                return outcome
            document = native_plan.document(self.plans[entry], counters=measure)
            buffers = placement.arena.buffers
            with PlanWorker(self.built.executor, "execute", buffers, options) as worker:
                assert worker.receive().code is Code.ok
                for _ in range(times):
                    reply = worker.execute(arguments, document)
                if reply is None:
                    return Outcome(None, None, str(worker.ends_with()))
            out = placement.values("out").clone() if self._has_out(entry) else None
        return _merged(outcome, reply, out)

    def _has_out(self, entry: str) -> bool:
        return "float* out" in self.parameters[entry]

    def _plan(self, entry: str, arguments: Sequence[Argument], options: list[str]) -> Outcome:
        self.plans.pop(entry, None)
        with PlanWorker(self.built.executable, entry, (), options) as worker:
            assert worker.receive().code is Code.ok
            assert worker.load(len(arguments)).code is Code.ok
            reply, text = worker.plan(arguments)
            if reply is None:
                return Outcome(None, None, str(worker.ends_with()))
        if text:
            self.plans[entry] = plan.read(text, _bytes_of(arguments))
        seen = report.parse(reply.text) if reply.code is Code.found else None
        return Outcome(reply.code, seen, reply.text)


def _bytes_of(arguments: Sequence[Argument]) -> list[int | None]:
    return [_extent(each) if each.dtype is not None else None for each in arguments]


def _extent(argument: Argument) -> int:
    spans = zip(argument.shape, argument.strides, strict=True)
    itemsize = plan.ITEM_BYTES.get(argument.dtype.name, 1)
    return (sum((n - 1) * s for n, s in spans) + 1) * itemsize


def _merged(planned: Outcome, reply: Reply, out) -> Outcome:
    """What the planner and the executor found, the planner's first."""
    if reply.code not in (Code.ok, Code.found):
        return Outcome(reply.code, None, reply.text, out)
    seen = native_plan.combined(planned.report, report.parse(reply.text))
    code = Code.found if seen.findings else reply.code
    return Outcome(code, seen, json.dumps(json.loads(reply.text)), out)

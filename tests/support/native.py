"""Builds and drives the native host as the sandbox would: over a socket pair, with an arena."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from grader.cases.arena import Arena, Placed, Slot, required_bytes
from grader.sandbox import memfd
from grader.worker import protocol
from grader.worker.protocol import Argument, Kind, Operation, Reply, Request

NATIVE = Path(protocol.__file__).parent / "native"
COMMON = ("text", "arguments", "mapping", "lockdown", "host")
SECONDS = 60.0

_Worker = TypeVar("_Worker", bound="NativeWorker")
_Placement = TypeVar("_Placement", bound="Placement")


def compile_plain_host(folder: Path, more: Sequence[Path] = ()) -> Path:
    """The host with the backend of the tests, which needs no device."""
    program = folder / "plain_host"
    sources = [NATIVE / f"{name}.cpp" for name in COMMON]
    sources += [Path(__file__).parent / "plain_backend.cpp", *more]
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}"]
    subprocess.run([*command, *map(str, sources), "-o", str(program)], check=True)
    return program


class NativeWorker:
    """A process of the native host. A context manager."""

    def __init__(
        self,
        program: Path,
        entry: str,
        buffers: Sequence[tuple[int, int, bool]] = (),
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(SECONDS)
        described = [f"{fd}:{length}:{writable:d}" for fd, length, writable in buffers]
        with theirs:
            self.process = subprocess.Popen(
                [str(program), *options, str(theirs.fileno()), entry, *described],
                pass_fds=[theirs.fileno(), *(fd for fd, _, _ in buffers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=environment,
            )
        assert self.process.stdout is not None
        self._printed = self.process.stdout
        self._sequence = 0

    def __enter__(self: _Worker) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self._printed.close()

    def receive(self) -> Reply | None:
        """The next reply; None when the process has closed its socket."""
        try:
            data = self.socket.recv(protocol.MAX_REPLY_BYTES + 1)
        except ConnectionError:
            return None
        return Reply.unpack(data) if data else None

    def answer(self) -> Reply:
        """The next reply, which must come."""
        reply = self.receive()
        assert reply is not None, "the process has closed its socket"
        return reply

    def send_bytes(self, data: bytes) -> Reply:
        """Send a message of any bytes, and what comes back."""
        self.socket.send(data)
        return self.answer()

    def ask(
        self,
        operation: Operation,
        arguments: Sequence[Argument] = (),
        repeat: int = 0,
        document: bytes | None = None,
    ) -> Reply:
        """One request, with its document where it has one, and its answer, which must come."""
        self.post(operation, arguments, repeat, document)
        reply = self.answer()
        assert reply.sequence == self._sequence
        return reply

    def post(
        self,
        operation: Operation,
        arguments: Sequence[Argument] = (),
        repeat: int = 0,
        document: bytes | None = None,
    ) -> None:
        """One request, whose answer comes later."""
        self._sequence += 1
        message = Request(operation, self._sequence, tuple(arguments), repeat).pack()
        if document is None:
            self.socket.send(message)
            return
        with memfd.sealed(document) as descriptor:
            socket.send_fds(self.socket, [message], [descriptor])

    def load(self, count: int) -> Reply:
        """Load with so many blanks for arguments."""
        return self.ask(Operation.load, [Argument(Kind.int64)] * count)

    def ends_with(self) -> tuple[int, str]:
        """Exit status (negative: a signal) and what it printed; closes the socket."""
        self.socket.close()
        printed = self._printed.read().decode()
        return self.process.wait(SECONDS), printed


def fields(reply: Reply) -> dict[str, Any]:
    """The JSON object of a reply's text."""
    answered: dict[str, Any] = json.loads(reply.text)
    return answered


class Placement:
    """Tensors placed in an arena of their own. A context manager."""

    def __init__(
        self,
        slots: Sequence[Slot],
        inputs_writable: bool = False,
        memory: Callable[[int, int], memfd.SharedBuffers] = memfd.Memfds,
    ) -> None:
        size = required_bytes(slots)
        self.arena = Arena(size, size, memory)
        self.placed: list[Placed] = self.arena.place(slots, inputs_writable)

    def __enter__(self: _Placement) -> _Placement:
        return self

    def __exit__(self, *_: object) -> None:
        self.arena.close()

    @property
    def arguments(self) -> list[Argument]:
        """The tensors' arguments, in the order of the slots."""
        return [item.argument for item in self.placed]

    def values(self, name: str) -> torch.Tensor:
        """What an output holds, after checking that nothing around it changed."""
        for outcome in self.arena.collect(self.placed):
            if outcome.slot.name == name:
                assert outcome.outside_count == 0
                return outcome.values
        raise KeyError(name)


def vector(name: str, values: torch.Tensor | int, **fields: Any) -> Slot:
    """A contiguous slot: an input with these values, or a float32 output of so many elements."""
    if isinstance(values, int):
        return Slot(name, "float32", (values,), (1,), role="output", **fields)
    dtype = str(values.dtype).removeprefix("torch.")
    return Slot(name, dtype, tuple(values.shape), values.stride(), values=values, **fields)


def needed_calls() -> list[str]:
    """The system calls that lockdown.cpp says the emulated process needs."""
    lines = (NATIVE / "lockdown.cpp").read_text().splitlines()
    listed = [line.split("   ")[1] for line in lines if line.startswith("//     ")]
    return " ".join(listed).split()


def only_needed_calls(otherwise: str) -> str:
    """The option for a filter of those alone; `otherwise` is "kill" or "refuse"."""
    seccomp = pytest.importorskip("pyseccomp")
    action = seccomp.KILL_PROCESS if otherwise == "kill" else seccomp.ERRNO(1)
    program = seccomp.SyscallFilter(action)
    for name in needed_calls():
        if name == "openat":
            writing = os.O_ACCMODE | os.O_CREAT
            reads = seccomp.Arg(2, seccomp.MASKED_EQ, writing, os.O_RDONLY)
            program.add_rule(seccomp.ALLOW, name, reads)
        else:
            program.add_rule(seccomp.ALLOW, name)
    descriptor = os.memfd_create("filter")
    with os.fdopen(descriptor, "rb") as file:
        program.export_bpf(file)
        file.seek(0)
        return f"--filter={file.read().hex()}"

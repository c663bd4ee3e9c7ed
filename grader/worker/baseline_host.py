"""The host of a baseline: runs the grader's own Python, which is timed beside a submission.

It loads a file, keeps the arguments of buffer sets, and replays calls on them. A reply's text is a
JSON object: `nanoseconds` of a replay, or `type` and `message` of an exception.
"""

from __future__ import annotations

import socket
import struct
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import memory, serving
from .protocol import Code, Kind, Operation, Refusal, Request, words_of
from .replays import Replayed, on

MODULE_NAME = "baseline"


def serve(
    requests: socket.socket,
    buffers: Sequence[memory.TensorSource],
    path: str,
    entry: str,
    device: str,
) -> None:
    """Answer requests until the grader closes the socket."""
    host = _Host(Path(path), entry, on(device), buffers)
    serving.serve(requests, host.operations)


class _Host:
    """The state between requests: the entry and the buffer sets."""

    def __init__(
        self, path: Path, entry: str, replayed: Replayed, buffers: Sequence[memory.TensorSource]
    ) -> None:
        self._path, self._name = path, entry
        self._replayed = replayed
        self._buffers = buffers
        self._entry: Callable[..., Any] | None = None
        self._buffer_sets: list[list[Any]] = []  # of arguments

    @property
    def operations(self) -> Mapping[Operation, serving.Handler]:
        """The handlers of its operations."""
        asked = {
            Operation.load: self._load,
            Operation.place: self._place,
            Operation.arrange: self._arrange,
            Operation.replay: self._replay,
        }
        return {name: _with_refusals(handler) for name, handler in asked.items()}

    def _load(self, request: Request, document: bytes) -> dict[str, Any]:
        module = types.ModuleType(MODULE_NAME)
        code = compile(self._path.read_bytes(), str(self._path), "exec", dont_inherit=True)
        exec(code, vars(module))
        self._entry = getattr(module, self._name)
        return {}

    def _place(self, request: Request, document: bytes) -> dict[str, Any]:
        """Keep the arguments as buffer set number `repeat`: the last one placed, or the next."""
        values = [
            memory.view(each, memory.allocation(each, self._buffers))
            if each.kind is Kind.tensor
            else each.scalar
            for each in request.arguments
        ]
        self._buffer_sets[request.repeat :] = [values]
        return {}

    def _arrange(self, request: Request, document: bytes) -> dict[str, Any]:
        count, *order = struct.unpack(f"<{len(document) // 4}I", document)
        calls = [self._buffer_sets[number] for number in order[:count]]
        assert self._entry is not None  # loaded before
        self._replayed.arrange(self._entry, calls)
        return {}

    def _replay(self, request: Request, document: bytes) -> dict[str, Any]:
        return {"nanoseconds": self._replayed.replay() if request.repeat else 0}


def _with_refusals(handler: serving.Handler) -> serving.Handler:
    """The handler, with exceptions turned into refusals that a timing expects."""

    def serve(request: Request, document: bytes) -> Any:
        try:
            return handler(request, document)
        except (MemoryError, torch.OutOfMemoryError) as error:
            raise Refusal(Code.out_of_memory, type=type(error).__name__) from None
        except Exception as error:
            said = words_of(error)
            raise Refusal(Code.raised, type=type(error).__name__, message=said) from None

    return serve

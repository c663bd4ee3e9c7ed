"""The Python host: loads one submission file and answers requests about its entry.

It holds no expected values, no seeds, no thresholds and no verdict. Everything it answers is the
submission's word, since both share a process; the grader judges by the buffers.

The text of a reply is a JSON object with some of: `type` and `message` of an exception, `line` in
the submission's file, `detail` (a traceback cut down to the student's own frames), `returned`,
`computed` (pairs of an operation of PyTorch's and a line: see library_calls.py), `kernels` (names
of what the device ran) or `unlisted` (why they can't be told).
"""

from __future__ import annotations

import contextlib
import inspect
import json
import linecache
import socket
import sys
import traceback
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import memory, quick_build, stand_by
from .devices import Device, DeviceLost, causes, make_device, text_of
from .library_calls import LibraryCalls
from .protocol import (
    MAX_TEXT,
    REQUEST_BYTES,
    Code,
    Operation,
    ProtocolError,
    Reply,
    Request,
)

MODULE_NAME = "submission"
MOST_KERNELS = 128  # names told of one call
MOST_LETTERS = 300  # of each: of C++ they have thousands, and what tells them apart comes first


@dataclass
class Session:
    """What the host keeps between requests."""

    path: str
    entry_name: str
    device: Device
    buffers: list[memory.Buffer]
    entry: Any = None
    page: memory.Buffer | None = None
    sets: list[list[Any]] = field(default_factory=list)  # of arguments, for `stand_by`

    def __post_init__(self) -> None:
        self.library_calls = LibraryCalls(self.path)


class Refusal(Exception):
    """A request that ends in something other than `ok`."""

    def __init__(self, code: Code, **text: Any) -> None:
        super().__init__(code.name)
        self.code = code
        self.text = text


def serve(
    requests: socket.socket,
    buffers: list[memory.Buffer],
    path: str,
    entry: str,
    device: str,
    page: memory.Buffer | None = None,
) -> None:
    """Answer requests until the grader closes the socket or the device is lost."""
    session = Session(path, entry, make_device(device, path), buffers, page=page)
    if device == "cuda" and page is None:
        quick_build.install()
    requests.send(Reply(0, Code.ok).pack())  # ready
    while True:
        try:
            data = requests.recv(REQUEST_BYTES)
        except ConnectionError:
            return
        if not data:
            return
        try:
            request = Request.unpack(data)
        except ProtocolError as error:
            requests.send(Reply(0, Code.bad_request, str(error)).pack())
            continue
        code, text = _answer(session, request)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        requests.send(Reply(request.sequence, code, _to_text(text)).pack())
        if code is Code.device_failed:
            return


def _answer(session: Session, request: Request) -> tuple[Code, dict]:
    try:
        return Code.ok, _OPERATIONS[request.operation](session, request) or {}
    except Refusal as refusal:
        return refusal.code, refusal.text
    except DeviceLost as lost:
        return Code.device_failed, {"type": "DeviceLost", "message": str(lost)}
    except BaseException as error:  # the host's own trouble with a request: say it, don't die
        full = session.device.classify(error) is Code.out_of_memory
        code = Code.out_of_memory if full else Code.bad_request
        return code, {"type": type(error).__name__, "message": _words(error)}


# --- loading -----------------------------------------------------------------------------------


def _load(session: Session, request: Request) -> dict:
    """Import the submission file and find its entry; check that it takes the arguments."""
    try:
        source = Path(session.path).read_bytes()
        module = types.ModuleType(MODULE_NAME)
        module.__file__ = session.path
        sys.modules[MODULE_NAME] = module
        linecache.checkcache(session.path)
        code = compile(source, session.path, "exec", dont_inherit=True)
        exec(code, vars(module))
    except BaseException as error:
        raise Refusal(Code.import_failed, **_describe(session, error)) from None
    entry = getattr(module, session.entry_name, None)
    if not callable(entry):
        have = sorted(
            name
            for name, value in vars(module).items()
            if isinstance(value, types.FunctionType) and value.__module__ == MODULE_NAME
        )
        raise Refusal(Code.entry_missing, message="missing", functions=have)
    session.device.loaded(module)
    session.entry = entry
    _check_signature(entry, len(request.arguments))
    return {}


def _check_signature(entry: Any, count: int) -> None:
    try:
        signature = inspect.signature(entry)
    except (TypeError, ValueError):
        return  # a callable that doesn't tell; calling it will
    try:
        signature.bind(*[None] * count)
    except TypeError:
        line = getattr(getattr(entry, "__code__", None), "co_firstlineno", None)
        raise Refusal(
            Code.entry_missing, message="signature", signature=str(signature), line=line
        ) from None


# --- running -----------------------------------------------------------------------------------


def _run(session: Session, request: Request) -> dict:
    """Call the entry once over the arena."""
    memory.expose(request.arguments, session.buffers)
    call = session.device.bring(request.arguments, session.buffers)
    with session.library_calls:
        returned = _call(session, call.values)
    call.take_back()
    told = {} if returned is None else {"returned": _describe_value(returned)}
    computed = session.library_calls.take()
    return told | {"computed": computed} if computed else told


def _call(session: Session, values: list[Any]) -> Any:
    """The entry's return value, once the device has finished. Raises Refusal."""
    try:
        returned = session.entry(*values)
        session.device.synchronise()
    except DeviceLost:
        raise
    except BaseException as error:
        session.device.raise_if_lost(error)
        code = session.device.classify(error)
        raise Refusal(code, **_describe(session, error)) from None
    return returned


def _place(session: Session, request: Request) -> dict:
    """Keep the arguments as set number `repeat`: the last one placed, or the next."""
    if request.repeat > len(session.sets):
        raise Refusal(Code.bad_request, message=f"set {request.repeat} of {len(session.sets)}")
    call = session.device.bring(request.arguments, session.buffers)
    session.sets[request.repeat :] = [call.values]
    return {}


def _stand_by(session: Session, request: Request) -> dict:
    """Serve the shared page; the grader has the clock."""
    if session.page is None:
        raise Refusal(Code.bad_request, message="there is no page to stand by for")
    try:
        stand_by.serve(session.page, session.entry, session.sets, session.device)
    except BaseException as error:
        session.device.raise_if_lost(error)
        raise Refusal(session.device.classify(error), **_describe(session, error)) from None
    return {}


def _profile(session: Session, request: Request) -> dict:
    """Call the entry, which may compile and tune; then again, and tell what the device ran."""
    call = session.device.bring(request.arguments, session.buffers)
    _call(session, call.values)
    session.library_calls.take()
    told: dict[str, Any] = {}
    try:
        with session.library_calls:
            ran = session.device.kernels(lambda: _call(session, call.values))
        names = dict.fromkeys(name[:MOST_LETTERS] for name in ran)
        told["kernels"] = list(names)[:MOST_KERNELS]
    except (Refusal, DeviceLost):
        raise
    except Exception as error:  # the profiler's own trouble, which is nobody's fault here
        told["unlisted"] = _words(error, MOST_LETTERS)
    call.take_back()
    computed = session.library_calls.take()
    return told | {"computed": computed} if computed else told


# --- describing --------------------------------------------------------------------------------


def _describe(session: Session, error: BaseException) -> dict:
    line, root = session.device.locate(error)
    if isinstance(root, SyntaxError) and root.filename == session.path:
        line = root.lineno
    return {
        "type": type(root).__name__,
        "message": _words(root),
        "line": line,
        "detail": _own_frames(session.path, error, root),
    }


def _own_frames(path: str, error: BaseException, root: BaseException) -> str:
    """The traceback with only the frames of the student's file."""
    lines = []
    for seen in causes(error):
        for frame in traceback.extract_tb(seen.__traceback__):
            if frame.filename == path:
                text = f"  {Path(path).name}:{frame.lineno} in {frame.name}: {frame.line or ''}"
                if text not in lines:
                    lines.append(text)
    lines.append(f"{type(root).__name__}: {_words(root)}")
    return "\n".join(lines)


def _words(error: BaseException, limit: int = 2000) -> str:
    text = text_of(error)
    return text if len(text) <= limit else text[:limit] + " …"


def _describe_value(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}, {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}"


def _to_text(text: dict) -> str:
    dumped = json.dumps(text) if text else ""
    if len(dumped.encode()) > MAX_TEXT:
        text = {key: value for key, value in text.items() if key != "detail"}
        dumped = json.dumps(text)
    return dumped


_OPERATIONS = {
    Operation.load: _load,
    Operation.run: _run,
    Operation.place: _place,
    Operation.stand_by: _stand_by,
    Operation.profile: _profile,
}

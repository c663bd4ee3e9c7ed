"""The serving loop of a process that takes documents and gives long answers.

A document is a sealed memfd that is sent with a request. An answer of the code `ok` is the length
of its text as 16 hexadecimal digits, a line feed and the text. The rest of a long one is fetched by
`Operation.more`, whose `repeat` is the byte to continue from.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .protocol import (
    MAX_LONG_TEXT,
    MAX_TEXT,
    REQUEST_BYTES,
    Code,
    Operation,
    ProtocolError,
    Refusal,
    Reply,
    Request,
    words_of,
)

_HEAD_BYTES = 17
_PART_BYTES = MAX_TEXT - _HEAD_BYTES - 3  # characters stay whole


Handler = Callable[[Request, bytes], Any]  # the answer, as JSON can hold it


def serve(requests: socket.socket, handlers: Mapping[Operation, Handler]) -> None:
    """Answer requests until the socket is closed, or is none any more: a submission may do that.

    A handler gets the request and its document. Its result is the answer, as JSON; a Refusal gives
    another code; any other exception is this process's own error and gives `bad_request`.
    """
    with contextlib.suppress(OSError):
        _serve(requests, handlers)


def _serve(requests: socket.socket, handlers: Mapping[Operation, Handler]) -> None:
    requests.send(Reply(0, Code.ok).pack())  # ready
    text = b""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 1)
        if not data:
            return
        document = _document(descriptors)
        try:
            request = Request.unpack(data)
        except ProtocolError as error:
            requests.send(Reply(0, Code.bad_request, str(error)).pack())
            continue
        if request.operation is Operation.more:
            part, code = _part(text, request.repeat), Code.ok
        else:
            code, text = _answer(handlers, request, document)
            part = text
            if code is Code.ok:
                part = f"{len(text):016x}\n".encode() + _part(text, 0)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        requests.send(Reply(request.sequence, code, part.decode("utf-8", "replace")).pack())


def _answer(
    handlers: Mapping[Operation, Handler], request: Request, document: bytes
) -> tuple[Code, bytes]:
    try:
        handler = handlers.get(request.operation)
        if handler is None:
            return Code.bad_request, b'{"message": "not an operation of this process"}'
        text = json.dumps(handler(request, document)).encode()
        if len(text) > MAX_LONG_TEXT:
            message = f"the answer has {len(text):,} bytes; at most {MAX_LONG_TEXT:,} are taken"
            return Code.raised, json.dumps({"type": "PlanLimit", "message": message}).encode()
        return Code.ok, text
    except Refusal as refusal:
        return refusal.code, _cut(refusal.text)
    except MemoryError:
        return Code.out_of_memory, b'{"type": "MemoryError"}'
    except BaseException as error:  # this process's own error: report it and go on
        described = {"type": type(error).__name__, "message": words_of(error)}
        return Code.bad_request, _cut(described)


def _cut(text: Mapping[str, Any]) -> bytes:
    dumped = json.dumps(text).encode()
    if len(dumped) > MAX_TEXT:
        dumped = json.dumps({k: v for k, v in text.items() if k != "detail"}).encode()
    return dumped


def _part(text: bytes, start: int) -> bytes:
    """The text from a byte on, as much as fits, in whole characters."""
    end = min(len(text), start + _PART_BYTES)
    while end < len(text) and text[end] & 0xC0 == 0x80:
        end -= 1
    return text[start:end]


def _document(descriptors: list[int]) -> bytes:
    parts = []
    for descriptor in descriptors:
        with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, no path)
            parts.append(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))
    return b"".join(parts)

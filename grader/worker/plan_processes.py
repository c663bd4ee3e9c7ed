"""The processes that a plan goes through without a GPU, each a fork of one server.

    planner    runs a submission's host code without data and records the plan
    compiler   compiles a kernel's text to TTIR (frontend) or TTIR to a cubin (backend), or reports
               how the compiled kernel's warps access memory
    executor   runs a plan's kernels over the arena, without the submission's Python

The server imports and warms up what they need before any submission is there. A planner plans one
case after another; a plan that depends on an earlier one is refused, and made again by a fresh
planner.
"""

from __future__ import annotations

import base64
import faulthandler
import gc
import json
import signal
import socket
import zlib
from pathlib import Path
from typing import Any

from . import memory, serving
from .protocol import MAX_LONG_TEXT, Code, Operation, Refusal, Request
from .serving import Handler


def prepare() -> None:
    """Import and warm up what the three need; called once, in the fork server."""
    from .compile import backend, frontend  # noqa: F401
    from .planner import host
    from .ttir import plans  # noqa: F401

    host.install()


def open_buffers(descriptors: list[int], described: list[list[Any]]) -> list[memory.Buffer]:
    """The arena's buffers, mapped; (length, writable) of each is in `described`."""
    return [
        memory.map_buffer(fd, length, writable)
        for fd, (length, writable) in zip(descriptors, described, strict=True)
    ]


def serve(requests: socket.socket, message: dict[str, Any], buffers: list[memory.Buffer]) -> None:
    """Become the process of the spawn message's `role`, until the grader has gone."""
    faulthandler.enable()  # logs the place of a fault, for the student
    faulthandler.register(signal.SIGUSR1, all_threads=False)  # and of a loop that doesn't end
    roles = {"planner": _planner, "compiler": _compiler, "executor": _executor}
    serving.serve(requests, roles[message["role"]](message, buffers))


# --- planner --------------------------------------------------------------------------------------


def _planner(message: dict[str, Any], _: list[memory.Buffer]) -> dict[Operation, Handler]:
    from .planner import autotuning, host

    for given in message["options"]:
        host.see(json.loads(given))
    path = Path(message["path"])
    planner = host.Planner(str(path), message["entry"], str(path.parent))

    def load(request: Request, entry: bytes) -> dict[str, Any]:
        planner.load(len(request.arguments), entry.decode())
        gc.freeze()
        return {}

    def plan(request: Request, document: bytes) -> Any:
        autotuning.pass_over(json.loads(document)["passed_over"] if document else ())
        return planner.plan(request.arguments)

    return {Operation.load: load, Operation.plan: plan}


# --- compilers ------------------------------------------------------------------------------------


def _compiler(message: dict[str, Any], _: list[memory.Buffer]) -> dict[Operation, Handler]:
    from .compile import disassembly
    from .compile.backend import compile_backend, compile_layouts, compile_stages
    from .compile.frontend import compile_frontend

    folder = str(Path(message["path"]).parent)

    def translate(_: Request, document: bytes) -> dict[str, Any]:
        return compile_frontend(folder, json.loads(document))

    def assemble(_: Request, document: bytes) -> dict[str, Any]:
        answers = []
        for kernel in json.loads(document)["kernels"]:
            kept = (*_KEPT, *(("cubin",) if kernel.get("cubin") else ()))
            on = (kernel["capability"],) if "capability" in kernel else ()
            made = compile_backend(kernel["ttir"], kernel["options"], *on)
            answers.append({name: value for name, value in made.items() if name in kept})
        _cut_layouts(answers)
        return {"kernels": answers}

    def lay_out(_: Request, document: bytes) -> dict[str, Any]:
        kernel = json.loads(document)
        return compile_layouts(kernel["ttir"], kernel["options"])

    def show_stages(_: Request, document: bytes) -> dict[str, Any]:
        kernel = json.loads(document)
        return _packed(compile_stages(kernel["ttir"], kernel["options"], kernel["capability"]))

    def disassemble(_: Request, document: bytes) -> dict[str, Any]:
        return _packed(disassembly.disassembled(base64.b64decode(json.loads(document)["cubin"])))

    return {
        Operation.translate: translate,
        Operation.assemble: assemble,
        Operation.lay_out: lay_out,
        Operation.show_stages: show_stages,
        Operation.disassemble: disassemble,
    }


def _packed(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with long texts, compressed so that it fits the longest message."""
    data = zlib.compress(json.dumps(answer).encode())
    return {"packed": base64.b64encode(data).decode()}


# Fields of the backend's answer; the cubin itself only on request.
_KEPT = (
    *("name", "shared", "num_warps", "registers", "spills", "global_scratch_size"),
    *("descriptors", "layouts", "error"),
)
_LAYOUTS_ROOM = MAX_LONG_TEXT // 2  # characters of an answer


def _cut_layouts(kernels: list[dict[str, Any]]) -> None:
    """Drop layouts that don't fit into an answer; they can be requested one by one."""
    room = _LAYOUTS_ROOM
    for each in kernels:
        room -= len(json.dumps(each.get("layouts")))
        if room < 0:
            each["layouts"] = None


# --- executor -------------------------------------------------------------------------------------


def _executor(message: dict[str, Any], buffers: list[memory.Buffer]) -> dict[Operation, Handler]:
    from .ttir import whereabouts
    from .ttir.plans import PlanExecutor, Refused

    executor = PlanExecutor(buffers)
    signal.signal(signal.SIGUSR1, whereabouts.answer)

    def execute(request: Request, document: bytes) -> dict[str, Any]:
        memory.expose(request.arguments, buffers)
        try:
            return executor.execute(request.arguments, json.loads(document))
        except Refused as refused:
            described = {"kind": refused.kind, "line": refused.line or None}
            raise Refusal(_CODES[refused.kind], message=str(refused), **described) from None

    return {Operation.execute: execute}


# An unreadable text is our frontend's fault, not the submission's.
_CODES = {
    "not_modelled": Code.not_modelled,
    "malformed": Code.not_modelled,
    "limit": Code.raised,
    "endless": Code.raised,
    "waits": Code.raised,
    "impossible": Code.raised,
}

"""Compiles a variant's kernels for `grader inspect`, as a grade compiles them.

Frontend, backend and disassembler run in a process of the submission's sandbox.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.emulator import toolchain
from grader.executors.compile.cubins import LIMITS, MAX_CUBIN_BYTES
from grader.executors.compile.frontend import Budget, Compiler, Failure, Frontend
from grader.gpu import machine
from grader.mistakes import Mistake
from grader.plan import Specialisation
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.allowed_paths import package_folders
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.worker.compile.cubin import Usage, usage
from grader.worker.protocol import Code, Operation, Reply

SECONDS = 600.0  # of all kernels that are compiled to explain one
MAX_TEXT_BYTES = 48 << 20  # of all stages of a kernel
_NOTHING = "the compiler gave no answer that can be used"


class NotCompiled(Mistake, RuntimeError):
    """A kernel that can't be had: the message says where, and why."""


@dataclass(frozen=True)
class DeviceCode:
    """What the compilers made of a kernel: the text of each stage, by its name.

    `shared` are the bytes of each block's shared memory that aren't in the cubin, `no_sass` says
    why there is no text of the last stage.
    """

    name: str
    texts: Mapping[str, str]
    usage: Usage
    shared: int = 0
    warps: int = 0
    no_sass: str = ""
    cubin: bytes = b""


@dataclass(frozen=True)
class Text:
    """A kernel as the frontend has translated it."""

    ttir: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Compilers(contextlib.AbstractContextManager["Compilers"]):
    """The compilers of one file in a sandbox for plans. A context manager."""

    def __init__(self, sandbox: Sandbox, path: Path) -> None:
        """`path` is where the sandbox holds the file."""

        def spawn(limits: Limits) -> Worker:
            return sandbox.worker(path, "", (), limits, role="compiler")

        self._file = path.name
        self._frontend = Frontend(spawn, path.parent, None, Budget(SECONDS))
        self._process = Compiler(spawn, LIMITS, None)

    def __exit__(self, *_: object) -> None:
        self._frontend.close()
        self._process.close()

    def text(self, wanted: Specialisation) -> Text:
        """The TTIR of a kernel, with what is known of its arguments. Raises NotCompiled."""
        made = self._frontend.translate_aligned(wanted)
        if isinstance(made, Failure):
            raise _refused(wanted, made)
        return Text(made.ttir, wanted.options)

    def code(self, wanted: Specialisation, text: Text) -> DeviceCode:
        """What the backend makes of a text; where it can't, NotCompiled names `wanted`."""
        kernel = {"ttir": text.ttir, "options": dict(text.options)}
        answer = self._asked(Operation.show_stages, {**kernel, "capability": machine.capability()})
        if isinstance(error := answer.get("error"), dict):
            message = untrusted.brief(untrusted.text(error, "message"))
            raise _refused(wanted, Failure(None, message, error))
        name, shared, warps = (answer.get(each) for each in ("name", "shared", "num_warps"))
        cubin = _bytes(answer.get("cubin"))
        if not isinstance(name, str) or type(shared) is not int or type(warps) is not int:
            raise NotCompiled(f"{self._file}: {_NOTHING}")
        texts = {"ttir": untrusted.clean(text.ttir), **_texts(answer)}
        used = usage(cubin).get(name, Usage())
        return DeviceCode(name, texts, used, shared, warps, _why_no_sass(answer), cubin)

    def disassembled(self, cubin: bytes) -> dict[str, str]:
        """{"sass": the text of a cubin's instructions}, or {"no_sass": why there is none}."""
        if len(cubin) > MAX_CUBIN_BYTES:
            return {"no_sass": f"its cubin has {len(cubin) >> 20} MiB, too many to disassemble"}
        encoded = base64.b64encode(cubin).decode()
        answer = self._asked(Operation.disassemble, {"cubin": encoded})
        return {**_texts(answer), "no_sass": _why_no_sass(answer)}

    def _asked(self, operation: Operation, request: dict[str, Any]) -> dict[str, Any]:
        answer = self._process.ask(operation, request, LIMITS)
        if isinstance(answer, Death):
            reason = f"compiling ended the compiler's process ({answer.description})"
            raise NotCompiled(f"{self._file}: {reason}")
        if answer.code is not Code.ok:
            words = untrusted.brief(untrusted.text(untrusted.fields(answer), "message"))
            raise NotCompiled(f"{self._file}: {_NOTHING}: {words}")
        return unpacked(untrusted.fields(answer).get("packed"))


def unpacked(packed: object) -> dict[str, Any]:
    """The fields of an answer that was compressed; {} where it makes no sense or is too long."""
    data = _bytes(packed)
    opened = zlib.decompressobj()
    try:
        text = opened.decompress(data, MAX_TEXT_BYTES)
    except zlib.error:
        return {}
    if not opened.eof:
        return {}
    return untrusted.fields(Reply(0, Code.ok, text.decode("utf-8", "replace")))


def _bytes(encoded: object) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        return b""


def _texts(answer: Mapping[str, Any]) -> dict[str, str]:
    named = {stage: answer.get(stage) for stage in ("ttgir", "llir", "ptx", "sass")}
    return {s: untrusted.clean(text) for s, text in named.items() if isinstance(text, str)}


def _why_no_sass(answer: Mapping[str, Any]) -> str:
    if isinstance(answer.get("sass"), str):
        return ""
    said = answer.get("no_sass")
    return untrusted.brief(said if isinstance(said, str) and said else _NOTHING)


def _refused(wanted: Specialisation, failure: Failure) -> NotCompiled:
    """'gelu.py:31: gelu_kernel can't be compiled: ...', with the line and the caret below it."""
    line = untrusted.line(failure.fields) or wanted.line
    file = untrusted.text(failure.fields, "file") or wanted.file
    why = failure.message or "the compiler refuses it"
    if isinstance(failure.answer, Death):
        why = f"compiling ended the compiler's process ({failure.answer.description})"
    excerpt = untrusted.text(failure.fields, "excerpt").rstrip()
    message = f"{untrusted.brief(file)}:{line}: {wanted.function} can't be compiled: {why}"
    return NotCompiled(f"{message}\n{excerpt}" if excerpt else message)


OF_TRITON = ("ptxas", "nvdisasm", "cuobjdump")
NO_NVCC = (
    "nvcc isn't installed, which compiles CUDA C++: `pip install 'warpgrade[cuda]'` brings it "
    "(in a checkout `pip install -e '.[cuda]'`), and so does NVIDIA's CUDA toolkit"
)


def nvcc() -> str | None:
    """The path of nvcc: the CUDA toolkit's, else that of the extra `cuda`; None without one."""
    return toolchain.find_nvcc() or _of_packages()


def of_triton() -> dict[str, Path]:
    """The tools in Triton's package, by name."""
    folders = [place / "backends" / "nvidia" / "bin" for place in package_folders("triton")]
    paths = {name: folder / name for folder in folders for name in OF_TRITON}
    return {name: path for name, path in paths.items() if path.exists()}


def _of_packages() -> str | None:
    """nvcc as the package nvidia-cuda-nvcc installs it."""
    paths = (
        path for place in package_folders("nvidia") for path in sorted(place.glob("cu*/bin/nvcc"))
    )
    return next((str(path) for path in paths), None)

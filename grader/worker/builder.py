"""Compiles a CUDA submission inside the sandbox, when asked to (`Operation.build`).

The compiler reads the student's text, so it runs where their code runs. It writes to the grader's
descriptor: the executable (the planner, except for the backend "gpu"), directly followed by the
emulator's executor or the GPU's cubin, then the site table as JSON. For the backend "device code"
it writes a cubin and PTX, which nothing runs. The answer (serving.py) is:

    {"ok": whether there is an executable, "executable_bytes": ..., "executor_bytes": ...,
     "sites_bytes": ...,
     "entries": [names that are present],
     "conditions": [{"line": ..., "macro": ...}: code that nvcc may see differently],
     "problems": [{"kind": ..., "message": ..., "line": ... or null, "entry": ..., "detail": ...}]}

The spawn message has the order (`Wanted`). The grader trusts none of the results: the executable is
started in a sandbox, and the table only names lines.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import gpu_build, gpu_entries, nvcc, serving
from .compile.cubin import kernels
from .gpu_build import Made
from .protocol import Operation
from .start import make_package

EMULATOR_FOLDER = Path(__file__).resolve().parent.parent / "emulator"
MAX_PROBLEMS = 20
_MAX_KERNELS = 64
_MAX_MESSAGE = 1000  # characters of a problem's text in an answer


@dataclass(frozen=True)
class Wanted:
    """The grader's order: the JSON object `build` of the spawn message."""

    # "emulator" or "gpu"; "device code", of which nothing is run; "nvcc": whether it takes the file
    backend: str
    entries: tuple[dict[str, Any], ...]  # {"name": ..., "arguments": ["pointer:float32", ...]}
    # emulator and gpu: the prepared one's compiler, version and folder
    toolchain: tuple[str, str, str] = ("", "", "")
    architecture: str = nvcc.DEFAULT_ARCHITECTURE  # gpu and device code
    guarded: bool = True  # emulator only: False in tests of other layers of defence
    gpu_planner: str | None = None  # gpu only: the folder of our part of it
    nvcc: str = "nvcc"  # device code only
    flags: Sequence[str] = ()  # further options of nvcc's, from a spec


def serve(requests: socket.socket, output: int, path: str, wanted: dict[str, Any]) -> None:
    """Answer build requests for the source at `path` until the grader closes the socket.

    Raises TypeError when `wanted` isn't what `Wanted` holds.
    """
    described = Wanted(**{**wanted, "entries": tuple(wanted["entries"])})
    load_emulator()

    def answer(*_: object) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(prefix="build-"))
        try:
            return _deliver(build(Path(path), described, folder), output)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    serving.serve(requests, {Operation.build: answer})


def build(source: Path, wanted: Wanted, folder: Path) -> Made:
    """Compile one file, writing to `folder` only.

    Raises OSError when no compiler can be started.
    """
    if wanted.backend == "device code":
        return _build_device_code(source, wanted, folder)
    if wanted.backend == "gpu":
        return _build_for_gpu(source, wanted, folder)
    if wanted.backend == "nvcc":
        return _check_with_nvcc(source, wanted, folder)
    return _build_for_emulator(source, wanted, folder)


def prepare() -> None:
    """Import what a build for the emulator needs."""
    load_emulator()
    importlib.import_module("warpgrade_emulator.build")


def load_emulator() -> None:
    """Make the folder of the emulator the package `warpgrade_emulator`, outside of sys.path."""
    if "warpgrade_emulator" not in sys.modules:
        make_package("warpgrade_emulator", EMULATOR_FOLDER)


def _deliver(made: Made, output: int) -> dict[str, Any]:
    """Write the results to the grader's descriptor and describe them. Raises ValueError."""
    program = made.executable.read_bytes() if made.executable else b""
    executor = made.executor.read_bytes() if program and made.executor else b""
    sites = json.dumps(made.sites, separators=(",", ":")).encode() if program else b""
    room = os.fstat(output).st_size
    size = len(program) + len(executor) + len(sites)
    if size > room:
        raise ValueError(f"the program has {size} bytes, {room} fit")
    for problem in made.problems:
        for key in ("message", "detail"):
            problem[key] = _shortened(problem[key])
    offset = 0
    for part in (program, executor, sites):
        done = 0
        while done < len(part):
            done += os.pwrite(output, memoryview(part)[done:], offset + done)
        offset += len(part)
    return {
        "ok": bool(program) or made.accepted,
        "executable_bytes": len(program),
        "executor_bytes": len(executor),
        "sites_bytes": len(sites),
        "entries": list(made.entries),
        "problems": made.problems[:MAX_PROBLEMS],
        "conditions": made.conditions[:MAX_PROBLEMS],
    }


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE] + " ..."


# --- the emulator ------------------------------------------------------------------------------


def _build_for_emulator(source: Path, wanted: Wanted, folder: Path) -> Made:
    from warpgrade_emulator import build as emulator

    entries = [emulator.Entry(each["name"], tuple(each["arguments"])) for each in wanted.entries]
    made = emulator.build(source, entries, folder, _toolchain(wanted), wanted.guarded)
    return Made(
        made.executable,
        [dataclasses.asdict(problem) for problem in made.problems],
        {str(pc): dataclasses.astuple(site) for pc, site in made.sites.items()},
        made.entries,
        made.executor,
        [dataclasses.asdict(each) for each in made.conditions],
    )


def _toolchain(wanted: Wanted) -> Any:
    """The toolchain that the grader has prepared."""
    from warpgrade_emulator import toolchain

    compiler, version, folder = wanted.toolchain
    return toolchain.Toolchain(compiler, version, Path(folder))


def _check_with_nvcc(source: Path, wanted: Wanted, folder: Path) -> Made:
    """nvcc's errors in the file. Neither errors nor `accepted` where nvcc doesn't work here."""
    from warpgrade_emulator import toolchain

    copy = Path(
        shutil.copyfile(source, folder / source.name)
    )  # without its mode: chmod is filtered
    try:
        program = toolchain.find_nvcc() or "nvcc"
        refused = nvcc.check(program, copy, folder, wanted.architecture, wanted.flags)
    except (OSError, nvcc.NvccError):
        return Made(None, [])
    return Made(None, [each.as_problem("nvcc") for each in refused], accepted=not refused)


def _build_for_gpu(source: Path, wanted: Wanted, folder: Path) -> Made:
    from warpgrade_emulator import nvcc_runtime

    runtime = nvcc_runtime.Runtime(Path(wanted.gpu_planner or ""))
    needed = (source, wanted.entries, _toolchain(wanted), runtime, wanted.architecture, folder)
    return gpu_build.build(*needed, wanted.flags)


# --- device code, to be read ---------------------------------------------------------------------


def _build_device_code(source: Path, wanted: Wanted, folder: Path) -> Made:
    """The cubin of a file's kernels (in the executable's place) and their PTX (the executor's)."""
    copy, options = gpu_entries.laid_out(source, folder)
    made = (copy, folder / "student.o", wanted.architecture, (*options, *wanted.flags))
    refused = nvcc.compile_object(wanted.nvcc, *made)
    if refused:
        return Made(None, [each.as_problem("compile") for each in refused])
    cubin, ptx = (next((folder / "kept").glob(pattern), None) for pattern in ("*.cubin", "*.ptx"))
    if cubin is None or ptx is None:
        raise nvcc.NvccError("nvcc left no cubin and no PTX")
    return Made(cubin, [], entries=_kernel_names(cubin), executor=ptx)


def _kernel_names(cubin: Path) -> list[str]:
    """The names of a cubin's kernels, each with what it is called in the source behind it."""
    names = [each.name for each in kernels(cubin.read_bytes())][:_MAX_KERNELS]
    shown = nvcc.demangled(names, cubin.parent)
    return [f"{name} {called}" for name, called in zip(names, shown, strict=True)]

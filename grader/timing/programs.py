"""CUDA C++ of our own, compiled to be timed: a file of the staff's as a program in a sandbox.

A submission's program is made, and kept, where its correctness was checked (runners.py).
"""

from __future__ import annotations

import contextlib
from functools import lru_cache
from pathlib import Path

from grader import native
from grader.allowed_paths import DeviceName
from grader.confinement import Level
from grader.native import Backend
from grader.sandbox import Sandbox
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.timing.worker import TimingFailed

_DEVICE_OF: dict[Backend, DeviceName] = {"emulator": "emulator", "gpu": "cuda"}


def backend_on(device: DeviceName) -> Backend:
    """Where CUDA C++ runs beside what runs on `device`."""
    return "gpu" if device == "cuda" else "emulator"


def start(
    exercise: Exercise,
    variant: Variant,
    source: bytes,
    backend: Backend,
    opened: contextlib.ExitStack,
    level: Level | None = None,
) -> tuple[Sandbox, Path]:
    """A sandbox of its own with the program made of `source`, until `opened` ends.

    Raises TimingFailed where the file can't be compiled, `not_measured` since no student is to
    blame, and what native.build raises.
    """
    program = _compiled(
        variant.file, source, variant.entry, tuple(native.signature(exercise, variant)), backend
    )
    sandbox = opened.enter_context(Sandbox(_DEVICE_OF[backend], level, native=True))
    return sandbox, sandbox.hold(f"{Path(variant.file).stem}-{backend}", program, program=True)


@lru_cache(maxsize=8)
def _compiled(
    name: str, source: bytes, entry: str, kinds: tuple[str, ...], backend: Backend
) -> bytes:
    """The program: made once, since nvcc takes seconds and a variant has several cases."""
    if reason := native.why_not(backend):
        raise TimingFailed(reason, Status.not_measured)
    native.prepare(backend)  # before the sandbox, which is to see it
    with Sandbox(_DEVICE_OF[backend], Level.limits, native=True) as sandbox:
        made = native.build(sandbox, name, source, [(entry, kinds)], backend)
        problem = made.problem_of(entry)
        if made.path is None or problem is not None:
            what = problem.message if problem else "the compiler made no program"
            raise TimingFailed(f"{name}: {what}", Status.not_measured)
        return made.path.read_bytes()

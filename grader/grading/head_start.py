"""What a command begins before this process imports torch, so that both go on in parallel.

    head_start.begin_plans()          the sandbox of Triton's plans
    head_start.begin_build(...)       a CUDA C++ file's way through the compilers
    head_start.begin_baselines()      the sandbox of baselines, which imports torch.compile
    head_start.take_plans()           for the next session, which owns it from then on; or None
    head_start.take_build()           the same
    head_start.baselines()            for the commands that time; or None

The first two wait for processes at their start, each in a thread of its own. Without a GPU nothing
of it imports torch. A failure is ignored: the session meets and reports it.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from grader.gpu.devices import has_driver
from grader.mistakes import Mistake
from grader.sandbox.background import InThread
from grader.sandbox.confinement import ConfinementError, Level
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.worker_process import SandboxError

if TYPE_CHECKING:
    from grader.executors.cuda.cuda_build import Begun

_plans: InThread[Sandbox | None] | None = None
_build: InThread[Begun | None] | None = None
_baselines: Sandbox | None = None


def begin_plans() -> None:
    """Begin the next session's sandbox of Triton's plans."""
    global _plans
    if _plans is None:
        _plans = InThread(_begun_plans)
        atexit.register(_close_what_nobody_took)


def _begun_plans() -> Sandbox | None:
    with contextlib.suppress(ConfinementError, SandboxError):
        sandbox = Sandbox("cpu", kind="plans")
        sandbox.begin()
        return sandbox
    return None


def begin_baselines() -> None:
    """Begin a sandbox of baselines, torch.compile among them; not where there is no GPU."""
    global _baselines
    if _baselines is None and has_driver():
        from grader.executors.compile import kept_builds  # begin_plans must not wait for it

        with contextlib.suppress(SandboxError):
            kernels = kept_builds.kernels_of_baselines()
            sandbox = Sandbox("cuda", Level.limits, kind="inductor", kernels=kernels)
            sandbox.begin()
            _baselines = sandbox
            atexit.register(_close_what_nobody_took)


@contextlib.contextmanager
def baselines() -> Iterator[Sandbox | None]:
    """The sandbox of baselines that was begun, which is closed at the end; None where none was."""
    try:
        yield _baselines
    finally:
        _close_baselines()


def begin_build(task: str, folders: Iterable[Path], course: Path | None = None) -> None:
    """Have a variant's CUDA C++ compiled in the first folder that has its file.

    `task` is its name, such as silu/cuda. Nothing is begun where it or the course is wrong, where
    the file breaks a rule, or where this machine can't compile it yet.
    """
    global _build
    # Imported here, since begin_plans must not wait for the import of specs; and not in the thread,
    # since this one imports as well.
    from grader.emulator import toolchain
    from grader.executors.cuda import cuda_build, joining
    from grader.gpu import machine
    from grader.grading.source_rules import Enforcement
    from grader.grading.submitted import Files
    from grader.spec import SpecError
    from grader.spec import course as courses
    from grader.spec.task import Task

    def begun() -> Begun | None:
        with contextlib.suppress(ConfinementError, SandboxError, SpecError, Mistake, OSError):
            exercises = courses.find(course).exercises
            exercise, _, name = task.partition("/")
            variant = exercises[exercise].variants.get(name) if exercise in exercises else None
            if variant is None or variant.language != "cuda":
                return None
            file = variant.file
            folder = next((each for each in folders if (each / file).is_file()), None)
            if folder is None or cuda_build.why_not("emulator") or not toolchain.is_prepared():
                return None  # the session makes the toolchain, and shows that
            machine.work_for(exercises[exercise].gpu)
            files = Files(folder, None, joining.labs_of(exercises))
            data = files.read(file)
            rules = Enforcement(files, (), is_on=True)
            if not isinstance(data, bytes) or rules.violations(Task(exercises[exercise], variant)):
                return None
            sandbox = Sandbox("emulator", kind="native")
            kept = cuda_build.kept_programs()
            given = exercises, lambda _: data, lambda: sandbox, True, True, lambda _: kept
            programs = cuda_build.Programs(*given)
            programs.begin(file)
            kept.close()
            return cuda_build.Begun(sandbox, programs)
        return None

    if _build is None:
        _build = InThread(begun)
        atexit.register(_close_what_nobody_took)


def take_plans() -> Sandbox | None:
    """The sandbox that was begun, once; None where there is none."""
    global _plans
    taken, _plans = _plans, None
    return taken.take() if taken is not None else None


def take_build() -> Begun | None:
    """What was begun of CUDA C++, once; None where there is nothing."""
    global _build
    taken, _build = _build, None
    return taken.take() if taken is not None else None


def _close_baselines() -> None:
    global _baselines
    if _baselines is not None:
        _baselines.close()
        _baselines = None


def _close_what_nobody_took() -> None:
    _close_baselines()
    for left in (take_plans(), take_build()):
        if left is not None:
            left.close()

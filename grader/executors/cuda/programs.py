"""The CUDA C++ files of a submission as programs: each is compiled once for each backend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import Backend, Building, Program
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import SandboxError
from grader.spec import Exercise


class Programs:
    """Compiles files for all the entries that the variants in them have."""

    def __init__(
        self,
        exercises: Mapping[str, Exercise],
        file: Callable[[str], bytes],
        sandbox: Callable[[], Sandbox],
        check_with_nvcc: bool,
        guarded: bool,
    ) -> None:
        """`file` reads a file of the submission, `sandbox` is where it is compiled and held; for
        the others see cuda_build.begin."""
        self._exercises = exercises
        self._file = file
        self._sandbox = sandbox
        self._check_with_nvcc = check_with_nvcc
        self._guarded = guarded
        self._made: dict[tuple[str, Backend], Program] = {}
        self._building: dict[tuple[str, Backend], Building] = {}

    def begin(self, file: str) -> None:
        """Have a file compiled for the emulator while something else is done.

        Whatever is in the way of that is met again by whoever needs the program.
        """
        key: tuple[str, Backend] = (file, "emulator")
        if cuda_build.why_not("emulator") or key in self._made or key in self._building:
            return
        with contextlib.suppress(SandboxError, cuda_build.BuildError):
            self._building[key] = self._begun(*key)

    def of(self, file: str, backend: Backend) -> Program:
        """What was made of a file. Raises SandboxError, BuildError or ToolchainError."""
        key = (file, backend)
        if key not in self._made:
            building = self._building.pop(key, None) or self._begun(file, backend)
            self._made[key] = building.finish()
        return self._made[key]

    def close(self) -> None:
        """End the compilers."""
        for building in self._building.values():
            building.close()
        self._building.clear()

    def _begun(self, file: str, backend: Backend) -> Building:
        """The file's way through the compiler, begun."""
        cuda_build.prepare()  # before the sandbox, which is to see it
        if backend == "gpu":
            cuda_build.prepare_planner()
        sandbox = self._sandbox()
        entries = [
            (variant.entry, cuda_build.signature(exercise, variant))
            for exercise in self._exercises.values()
            for variant in exercise.variants.values()
            if variant.file == file
        ]
        data = self._file(file)
        return cuda_build.begin(
            sandbox, file, data, entries, backend, self._check_with_nvcc, self._guarded
        )

"""The runners of one submission's variants, with the sandboxes and programs they need.

A variant has a runner by plan, which needs no GPU, and one on the GPU where there is one. The one
by plan is asked first: it sees faults that a GPU lets pass, and a verdict doesn't depend on the
machine. What is opened stays open until `close`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from grader.emulator.toolchain import cache_root
from grader.executors import cuda_build, gpu_program
from grader.executors.cubins import NoCubin
from grader.executors.cuda import PlannedNativeRunner
from grader.executors.cuda_build import Backend, Program
from grader.executors.gpu import GpuRunner, Plans
from grader.executors.gpu_document import DeviceKernel
from grader.executors.kept import KeptBuilds
from grader.executors.native_plans import NativePlans
from grader.executors.native_runner import NativeRunner
from grader.executors.runner import Runner, Times
from grader.executors.triton import PlannedTritonRunner
from grader.gpu.devices import DeviceName
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.sandbox.worker_process import SandboxError
from grader.spec import Exercise, Variant
from grader.spec.task import Task


class Runners:
    """What the variants of one submission run in."""

    def __init__(
        self,
        exercises: Mapping[str, Exercise],
        sandbox: Sandbox,
        device: DeviceName,
        file: Callable[[str], bytes | str],
        watched: Callable[[Task], bool],
        *,
        modules: Callable[[], Mapping[str, bytes]] = dict,
        level: Level | None = None,
        required: bool = False,
        check_with_nvcc: bool = True,
        backends: tuple[Backend, ...] | None = None,
        guarded: bool = True,
        keeps_builds: bool = True,
    ) -> None:
        """`sandbox` is the one of Triton's plans, not yet started; on the `device` "cuda" there are
        runners on a GPU, too; `file` reads a file of the submission, `modules` its Python files;
        `watched` says whether the rules on plans are kept; for `check_with_nvcc` and `guarded` see
        cuda_build.build; `backends` are where CUDA C++ runs, None for all that there are; for
        `keeps_builds` see Session."""
        self.times: dict[str, Times] = {}
        self._exercises = exercises
        self._sandbox = sandbox
        self._has_gpu = device == "cuda"
        self._file = file
        self._watched = watched
        self._modules = modules
        self._level = level
        self._required = required
        self._check_with_nvcc = check_with_nvcc
        self._backends = backends
        self._guarded = guarded
        self._kept = KeptBuilds(cache_root() / "kernels.sqlite") if keeps_builds else None
        self._made: dict[str, DeviceKernel | NoCubin] = {}  # cubins, by what they follow from
        self._native: dict[DeviceName, Sandbox] = {}
        self._programs: dict[tuple[str, Backend], Program] = {}
        self._building: dict[tuple[str, Backend], cuda_build.Building] = {}
        self._opened: dict[tuple[str, str, str], Runner] = {}
        self.not_shared = ""  # why one that is closed copied its cases to a GPU and back, or ""

    def begin(self) -> None:
        """Have on its way what the first case on a GPU needs; nothing where there is no GPU.

        A sandbox ends with the thread that begins it, so this one has to stay.
        """
        if self._has_gpu:
            self._sandbox.begin()
            self.sandbox_of("cuda")
            gpu_program.begin()

    def close(self) -> None:
        """End every worker and give the memory back; the Triton sandbox is its owner's."""
        for opened in (*self._opened.values(), *self._building.values()):
            opened.close()
        self._opened.clear()
        self._building.clear()
        for sandbox in self._native.values():
            sandbox.close()
        self._native.clear()
        if self._kept is not None:
            self._kept.close()

    def close_variant(self, task: Task) -> None:
        """End the workers of one variant."""
        for key in [key for key in self._opened if key[:2] == _key(task)]:
            closed = self._opened.pop(key)
            self.not_shared = self.not_shared or closed.not_shared
            closed.close()

    def why_none(self, variant: Variant) -> str:
        """Why this machine can't run a variant's kernels, with what to do; "" where it can."""
        if variant.language == "triton" or any(
            not cuda_build.why_not(each) for each in self.backends
        ):
            return ""
        return cuda_build.why_not("emulator")

    @property
    def backends(self) -> tuple[Backend, ...]:
        """Where CUDA C++ may run on this kind of machine, in the order in which it is asked."""
        if self._backends is not None:
            return self._backends
        return ("emulator", "gpu") if self._has_gpu else ("emulator",)

    def of(self, task: Task) -> list[Runner]:
        """A variant's runners, in the order in which they are asked; at least one.

        Raises SandboxError, BuildError or ToolchainError where one that should work doesn't.
        """
        if task.variant.language == "triton":
            planned = self.planned(task)
            return [planned, self.triton(task)] if self._has_gpu else [planned]
        return [
            self.native(task, backend)
            for backend in self.backends
            if not cuda_build.why_not(backend)
        ]

    def opened(self, task: Task) -> PlannedTritonRunner | None:
        """The runner by plan of a Triton variant, if it was asked for already."""
        return self._opened.get((*_key(task), "plans"))

    def planned(self, task: Task) -> PlannedTritonRunner:
        """The runner of a Triton variant by plan, on whatever machine. Raises SandboxError."""
        sandbox = self._sandbox
        return self._open(
            (*_key(task), "plans"),
            lambda: PlannedTritonRunner(
                sandbox,
                task,
                self._held(sandbox, task.variant),
                self._watched(task),
                self._kept,
                self._made,
            ),
        )

    def triton(self, task: Task) -> Runner:
        """The runner of a Triton variant where it is asked last. Raises SandboxError."""
        return self._on_gpu(task) if self._has_gpu else self.planned(task)

    def plans_of(self, task: Task) -> Plans:
        """Where the plans and compiled kernels of a variant come from. Raises as `of` does."""
        if task.variant.language == "triton":
            return self.planned(task)
        return self._native_runner(NativePlans, task, "gpu")

    def native(self, task: Task, backend: Backend) -> Runner:
        """A runner of a CUDA C++ variant. Raises as `of` does."""
        return self.planned_native(task) if backend == "emulator" else self._on_gpu(task)

    def planned_native(self, task: Task) -> PlannedNativeRunner:
        """The runner of a CUDA C++ variant by plan, in the emulator. Raises as `of` does."""
        return self._native_runner(PlannedNativeRunner, task, "emulator")

    def _on_gpu(self, task: Task) -> GpuRunner:
        """The runner of a variant on a GPU."""
        plans = self.plans_of(task)
        sandbox = self.sandbox_of("cuda")
        return self._open((*_key(task), "gpu"), lambda: GpuRunner(sandbox, task, plans.path, plans))

    def _native_runner(
        self, kind: type[NativeRunner], task: Task, backend: Backend
    ) -> NativeRunner:
        program = self._program(task.variant.file, backend)
        sandbox = self.sandbox_of("emulator")
        return self._open(
            (*_key(task), f"{backend} plans" if backend == "gpu" else backend),
            lambda: kind(
                sandbox,
                task,
                self._held(sandbox, task.variant),
                program,
                self._watched(task),
            ),
        )

    def _open(self, key: tuple[str, str, str], make: Callable[[], Runner]):
        if key not in self._opened:
            self._opened[key] = make()
            name = "/".join(key)
            self.times[name] = self._opened[key].times
        return self._opened[key]

    def _held(self, sandbox: Sandbox, variant: Variant) -> Path:
        """The file as it is run: a copy that a worker can only read.

        By plan its sibling modules lie beside it; elsewhere no rule has read them.
        """
        if sandbox.plans:
            for name, data in self._modules().items():
                sandbox.hold(name, data)
        return sandbox.hold(variant.file, self._file(variant.file))

    def begin_building(self, file: str) -> None:
        """Have a file of CUDA C++ compiled for the emulator while something else is done.

        Whatever is in the way of that is met again, and told, by whoever needs the program.
        """
        key: tuple[str, Backend] = (file, "emulator")
        if cuda_build.why_not("emulator") or key in self._programs or key in self._building:
            return
        with contextlib.suppress(SandboxError, cuda_build.BuildError):
            self._building[key] = self._begun(*key)

    def _program(self, file: str, backend: Backend) -> Program:
        """What was made of a file, once, with the entries of all variants that lie in it."""
        key = (file, backend)
        if key not in self._programs:
            building = self._building.pop(key, None) or self._begun(file, backend)
            self._programs[key] = building.finish()
        return self._programs[key]

    def _begun(self, file: str, backend: Backend) -> cuda_build.Building:
        """The file's way through the compiler, begun."""
        cuda_build.prepare()  # before the sandbox, which is to see it
        if backend == "gpu":
            cuda_build.prepare_planner()
        sandbox = self.sandbox_of("emulator")
        entries = [
            (variant.entry, cuda_build.signature(exercise, variant))
            for exercise in self._exercises.values()
            for variant in exercise.variants.values()
            if variant.file == file
        ]
        return cuda_build.begin(
            sandbox,
            file,
            self._file(file),
            entries,
            backend,
            self._check_with_nvcc,
            self._guarded,
        )

    def sandbox_of(self, device: DeviceName) -> Sandbox:
        """Where programs run: in the "emulator", planners too; or executors on the GPU ("cuda")."""
        if device not in self._native:
            sandbox = Sandbox(device, self._level, self._required, native=True)
            sandbox.begin()  # who asks for a worker waits for it
            self._native[device] = sandbox
        return self._native[device]


def _key(task: Task) -> tuple[str, str]:
    return task.exercise.name, task.variant.name

"""The runners of one submission's variants, with the sandboxes and programs they need.

A variant has a runner by plan, which needs no GPU, and one on the GPU where there is one. The one
by plan is asked first: it sees faults that a GPU lets pass, and a verdict doesn't depend on the
machine. All that is opened stays open until `close`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from grader.executors.compile import kept_builds
from grader.executors.compile.frontend import Failure
from grader.executors.compile.kept_builds import KeptBuilds, KeptForSource, Store
from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import Backend, Begun, Programs
from grader.executors.cuda.native_planner import NativePlanner
from grader.executors.cuda.native_runner import PlannedNativeRunner
from grader.executors.encoding import DeviceKernel
from grader.executors.gpu import executor_program
from grader.executors.gpu.gpu_runner import GpuRunner
from grader.executors.planning import Plans
from grader.executors.runner import Runner, Times
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.gpu import machine
from grader.gpu.devices import DeviceName
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec import Exercise, Variant
from grader.spec.task import Task


class _Opened(Protocol):
    times: Times

    def close(self) -> None: ...


_O = TypeVar("_O", bound=_Opened)
_N = TypeVar("_N", PlannedNativeRunner, NativePlanner)


@dataclass(frozen=True)
class Ways:
    """How the variants of a submission are run: the caller's choices."""

    require_sandbox: bool = False
    # Whether what compilers made is kept in the user's cache for the next run. Not where a sandbox
    # is required: one submission's compiled kernels serve no other.
    keeps_builds: bool = True
    # Whether a Triton file may import those beside it in the submission's folder. Not where a
    # result is kept under the file's own hash, which those don't change.
    has_modules: bool = True

    # For tests.
    level: Level | None = None  # of confinement; None: the best available
    check_with_nvcc: bool = True  # see cuda_build.Programs
    backends: tuple[Backend, ...] | None = None  # where CUDA C++ runs; None: all
    guarded: bool = True  # whether the CUDA C++ object file is inspected, and watched

    @property
    def uses_cache(self) -> bool:
        """Whether the user's cache is read and written."""
        return self.keeps_builds and not self.require_sandbox


@dataclass(frozen=True)
class RunnerOptions:
    """What the runners of a submission are given."""

    ways: Ways = field(default_factory=Ways)
    modules: Callable[[], Mapping[str, bytes]] = dict  # reads the submission's Python files
    store: Store | None = None  # where plans and builds are kept, not in the user's cache
    native: Mapping[DeviceName, Sandbox] = field(default_factory=dict)  # their owner closes them
    begun: Begun | None = None  # which the runners close


@dataclass(frozen=True)
class _Sources:
    """The submission's files: `file` reads one, `modules` those of Python."""

    file: Callable[[str], bytes | str]
    modules: Callable[[], Mapping[str, bytes]]

    def read(self, name: str) -> bytes:
        """The content of a file that is to be run, which is there."""
        data = self.file(name)
        assert isinstance(data, bytes), data
        return data

    def hold(self, sandbox: Sandbox, variant: Variant) -> Path:
        """Copy a variant's file to where a worker can only read it; by plan its modules too."""
        if sandbox.kind == "plans":  # elsewhere no rule has read them
            for name, data in self.modules().items():
                sandbox.hold(name, data)
        return sandbox.hold(variant.file, self.read(variant.file))


class _KeptForFiles:
    """What a store keeps for the submission's files, each with its modules, spec and GPU."""

    def __init__(
        self, exercises: Mapping[str, Exercise], sources: _Sources, store: Store | None
    ) -> None:
        self._exercises, self._sources, self._store = exercises, sources, store
        self._kept: dict[str, KeptForSource] = {}

    def of(self, file: str) -> KeptForSource | None:
        """That of a variant's file; None without a store."""
        if self._store is None:
            return None
        if file not in self._kept:
            modules = sorted(self._sources.modules().items())
            every = self._exercises.values()
            used = [e for e in every if file in (each.file for each in e.variants.values())]
            gpu = machine.capability(), machine.seen_by_host_code()
            parts = (file, self._sources.read(file), modules, used, gpu)
            key = hashlib.sha256(repr(parts).encode()).hexdigest()
            self._kept[file] = self._store.of(key)
        return self._kept[file]


class Runners:
    """Opens the runners of one submission's variants, and closes them."""

    def __init__(
        self,
        exercises: Mapping[str, Exercise],
        sandbox: Sandbox,
        device: DeviceName,
        file: Callable[[str], bytes | str],
        watched: Callable[[Task], bool],
        options: RunnerOptions | None = None,
    ) -> None:
        """`sandbox` is the one of Triton's plans, not yet started; on the `device` "cuda" there are
        runners on a GPU, too; `file` reads a file of the submission (text says why it can't be
        read: such a file is not to be run); `watched` says whether the rules on plans are kept."""
        self.times: dict[str, Times] = {}
        self.not_shared = ""  # why one that is closed copied its cases to a GPU and back, or ""
        self._sandbox = sandbox
        self._has_gpu = device == "cuda"
        self._watched = watched
        self._options = options = options or RunnerOptions()
        self._ways = ways = options.ways
        self._sources = _Sources(file, options.modules)
        # Where CUDA C++ may run on this kind of machine, in the order in which it is asked.
        ordinary: tuple[Backend, ...] = ("emulator", "gpu") if self._has_gpu else ("emulator",)
        self.backends = ordinary if ways.backends is None else ways.backends
        is_kept = ways.uses_cache
        self._kept = KeptBuilds(kept_builds.folder() / "kernels.sqlite" if is_kept else None)
        self._kept_programs = cuda_build.kept_programs() if is_kept else KeptBuilds(None)
        self._kept_for = _KeptForFiles(exercises, self._sources, options.store).of
        self._made: dict[str, DeviceKernel | Failure] = {}  # cubins, by what they follow from
        self._native: dict[DeviceName, Sandbox] = dict(options.native)
        if options.begun:
            self._native["emulator"] = options.begun.sandbox
        self.programs = Programs(
            exercises,
            self._sources.read,
            lambda: self.sandbox_of("emulator"),
            ways.check_with_nvcc,
            ways.guarded,
            lambda file: self._kept_for(file) or self._kept_programs,
            options.begun.programs if options.begun else None,
        )
        self._opened: dict[tuple[str, str, str], _Opened] = {}

    def begin(self) -> None:
        """Start what the first case on a GPU needs; nothing where there is no GPU.

        A sandbox ends with the thread that begins it: the caller's has to go on.
        """
        if self._has_gpu:
            self._sandbox.begin()
            self.sandbox_of("cuda")
            executor_program.begin()

    def is_refused_by_nvcc(self, task: Task) -> bool:
        """Whether nvcc alone refuses the file of a variant that has run in the emulator.

        It waits for nvcc. The variant's next runner then has no program.
        """
        if not self.programs.is_refused(task.variant.file):
            return False
        self.close_variant(task)
        return True

    def close(self) -> None:
        """End every worker and give the memory back; the Triton sandbox is its owner's."""
        for opened in self._opened.values():
            opened.close()
        self._opened.clear()
        self.programs.close()
        for device in self._native.keys() - self._options.native.keys():
            self._native[device].close()
        self._native.clear()
        self.programs.end_threads()
        self._kept.close()
        self._kept_programs.close()

    def close_variant(self, task: Task) -> None:
        """End the workers of one variant."""
        for key in [key for key in self._opened if key[:2] == _key(task)]:
            closed = self._opened.pop(key)
            if isinstance(closed, GpuRunner):
                self.not_shared = self.not_shared or closed.not_shared
            closed.close()

    def why_none(self, variant: Variant) -> str:
        """Why this machine can't run a variant's kernels, with what to do; "" where it can."""
        can_run = any(not cuda_build.why_not(each) for each in self.backends)
        return "" if variant.language == "triton" or can_run else cuda_build.why_not("emulator")

    def of(self, task: Task) -> list[Runner]:
        """A variant's runners, in the order in which they are asked; at least one.

        Raises SandboxError, BuildError or ToolchainError where one that should work doesn't.
        """
        if task.variant.language == "triton":
            planned = self.planned(task)
            return [planned, self.on_gpu(task)] if self._has_gpu else [planned]
        return [
            self.planned(task) if backend == "emulator" else self.on_gpu(task)
            for backend in self.backends
            if not cuda_build.why_not(backend)
        ]

    def opened(self, task: Task) -> PlannedTritonRunner | None:
        """The runner by plan of a Triton variant, if it was asked for already."""
        opened = self._opened.get((*_key(task), "plans"))
        return opened if isinstance(opened, PlannedTritonRunner) else None

    def planned(self, task: Task) -> PlannedTritonRunner | PlannedNativeRunner:
        """The runner of a variant by plan, on whatever machine. Raises as `of` does."""
        if task.variant.language == "cuda":
            runner = self._of_program(PlannedNativeRunner, task, "emulator", "emulator")
            runner.refused = partial(self.programs.will_be_refused, task.variant.file)
            return runner

        def make() -> PlannedTritonRunner:
            given = self._sandbox, task, self._sources.hold(self._sandbox, task.variant)
            kept = self._kept_for(task.variant.file) or self._kept
            return PlannedTritonRunner(*given, self._watched(task), kept, self._made)

        return self._open(PlannedTritonRunner, (*_key(task), "plans"), make)

    def plans_of(self, task: Task) -> Plans:
        """Where the plans and compiled kernels of a variant come from. Raises as `of` does."""
        if task.variant.language == "triton":
            return self.planned(task).plans
        return self._of_program(NativePlanner, task, "gpu", "gpu plans")

    def on_gpu(self, task: Task) -> GpuRunner:
        """The runner of a variant on a GPU. Raises as `of` does."""
        plans, sandbox = self.plans_of(task), self.sandbox_of("cuda")
        key = (*_key(task), "gpu")
        return self._open(GpuRunner, key, lambda: GpuRunner(sandbox, task, plans.path, plans))

    def _of_program(self, kind: type[_N], task: Task, backend: Backend, use: str) -> _N:
        """A runner or planner on the program of a CUDA C++ variant."""
        program = self.programs.of(task.variant.file, backend)
        sandbox = self.sandbox_of("emulator")

        def make() -> _N:
            path = self._sources.hold(sandbox, task.variant)
            kept = self._kept_for(task.variant.file)
            return kind(sandbox, task, path, program, self._watched(task), kept)

        return self._open(kind, (*_key(task), use), make)

    def sandbox_of(self, device: DeviceName) -> Sandbox:
        """Where programs run: in the "emulator", planners too; or executors on the GPU ("cuda")."""
        if device not in self._native:
            level, required = self._ways.level, self._ways.require_sandbox
            sandbox = Sandbox(device, level, required, kind="native")
            sandbox.begin()  # who asks for a worker waits for it
            self._native[device] = sandbox
        return self._native[device]

    def _open(self, kind: type[_O], key: tuple[str, str, str], make: Callable[[], _O]) -> _O:
        if key not in self._opened:
            self._opened[key] = make()
            self.times["/".join(key)] = self._opened[key].times
        opened = self._opened[key]
        assert isinstance(opened, kind)
        return opened


def _key(task: Task) -> tuple[str, str]:
    return task.exercise.name, task.variant.name

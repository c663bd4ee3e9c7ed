"""A submission's CUDA C++ file, compiled in its sandbox and held there as a program.

The compiler reads an untrusted file, so it runs where the kernels will (worker/builder.py). It
hands back two things on one descriptor: a program, and the line of the file for each place in it
that the emulator may report. Both are the submission's word: they explain, and decide nothing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pydantic

from grader.emulator import nvcc_runtime, objects, toolchain
from grader.executors.compile import kept_builds
from grader.executors.compile.kept_builds import KeptBuilds
from grader.gpu import machine
from grader.mistakes import Mistake
from grader.sandbox import Sandbox
from grader.sandbox.background import InThread
from grader.sandbox.worker_process import Death, Limits, SandboxError, Worker
from grader.spec import Exercise, Scalar, Tensor, Variant
from grader.worker.protocol import Code, Operation

Backend = Literal["emulator", "gpu"]
# "nvcc": only whether it accepts the file; "device code": only what it makes of the kernels.
Asked = Literal["emulator", "gpu", "nvcc", "device code"]

NVCC_NICENESS = 10  # of its check, which what is waited for goes before
MAX_PROGRAM_BYTES = 64 << 20
MAX_SITES_BYTES = 8 << 20
_OUTPUT_BYTES = 2 * MAX_PROGRAM_BYTES + MAX_SITES_BYTES
MAX_PROBLEMS = 32
MAX_KEPT_PROGRAMS = 150  # of about 0.7 MB each
COMPILE_LIMITS = Limits(cpu_seconds=60.0, memory_bytes=3 << 30)

Kind = Literal[objects.Kind, "unsupported", "nvcc"]
_Line = Annotated[int, pydantic.Field(ge=1, le=10_000_000)]


class _Answered(pydantic.BaseModel):
    """A part of the builder's answer: untrusted until it is read as this."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Problem(_Answered):
    """Something about the file that is wrong, or that the emulator can't do.

    `line` is one of the file; `entry` names the one entry it is about, "" means all of them.
    """

    kind: Kind
    message: Annotated[str, pydantic.Field(max_length=4000)]
    line: _Line | None = None
    entry: Annotated[str, pydantic.Field(max_length=200)] = ""
    detail: Annotated[str, pydantic.Field(max_length=20_000)] = ""


class Site(NamedTuple):
    """Where in the file an instruction comes from: the line and its function."""

    line: _Line
    function: Annotated[str, pydantic.Field(max_length=1000)]


class Condition(_Answered):
    """A macro that the file tests, and that nvcc may define otherwise than the emulator does."""

    line: _Line
    macro: Annotated[str, pydantic.Field(max_length=1000)]


class Checked(NamedTuple):
    """What nvcc says of a file: nothing at all where it doesn't work here."""

    accepted: bool = False
    refusals: tuple[Problem, ...] = ()


def _limit_of_ours(problem: Problem) -> Problem:
    """A problem of a file that nvcc accepts: an error of the emulator's compiler is its limit."""
    if problem.kind != "compile":
        return problem
    message = f"nvcc accepts this, the emulator doesn't: {problem.message}"
    return problem.model_copy(update={"kind": "unsupported", "message": message})


@dataclass(frozen=True)
class Program:
    """The result of compiling a file.

    `path` is the planner, None where there is nothing to run. `executor` is another program for the
    emulator, whose `sites` are of both; for "gpu" it is the cubin of the kernels.
    """

    path: Path | None
    backend: Backend
    entries: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    sites: dict[int, Site] | None = None
    died: Death | None = None  # the compiler, instead of an answer
    executor: Path | None = None
    conditions: tuple[Condition, ...] = ()

    def reconciled(self, checked: Checked) -> Program:
        """The emulator's program corrected by nvcc, whose word decides: a GPU runs what it makes.

        An error of the emulator's compiler alone is `unsupported`: a limit of the emulator, not a
        mistake in the file.
        """
        ours = [each for each in self.problems if each.kind == "compile"]
        if checked.refusals and not ours:
            return replace(self, path=None, problems=(*checked.refusals, *self.problems))
        if not checked.accepted:
            return self
        return replace(self, problems=tuple(map(_limit_of_ours, self.problems)))

    def problem_of(self, entry: str) -> Problem | None:
        """The problem that keeps an entry from being run: its own first, then the file's."""
        own = sorted(self.problems, key=lambda each: not each.entry)
        return next((each for each in own if each.entry in (entry, "")), None)

    def line_of(self, pc: int) -> int | None:
        """The line of the file that the instruction before `pc` comes from."""
        site = (self.sites or {}).get(pc)
        return site.line if site else None


class Answer(_Answered):
    """What a compiler says of a file: how many bytes it has written, and what it refuses."""

    ok: bool
    executable_bytes: Annotated[int, pydantic.Field(ge=0, le=MAX_PROGRAM_BYTES)] = 0
    executor_bytes: Annotated[int, pydantic.Field(ge=0, le=MAX_PROGRAM_BYTES)] = 0
    sites_bytes: Annotated[int, pydantic.Field(ge=0, le=MAX_SITES_BYTES)] = 0
    problems: Annotated[tuple[Problem, ...], pydantic.Field(max_length=MAX_PROBLEMS)] = ()
    entries: Annotated[tuple[str, ...], pydantic.Field(max_length=256)] = ()
    conditions: Annotated[tuple[Condition, ...], pydantic.Field(max_length=MAX_PROBLEMS)] = ()

    @property
    def lengths(self) -> tuple[int, int, int]:
        """The bytes of the program, the executor and the sites, which come in this order."""
        return self.executable_bytes, self.executor_bytes, self.sites_bytes


_SITES = pydantic.TypeAdapter(dict[int, Site])


class BuildError(RuntimeError):
    """The compiler lived and gave no answer that can be used, which is the grader's own trouble."""


def signature(exercise: Exercise, variant: Variant) -> list[str]:
    """The types of an entry's arguments: `pointer:float32`, `int`, `float`, `bool`."""
    kinds = []
    for each in exercise.signature(variant):
        if isinstance(each, Tensor):
            dtype = variant.dtypes[0] if each.dtype == "$dtype" else each.dtype
            kinds.append(f"pointer:{dtype}")
        elif isinstance(each, Scalar):
            kinds.append(each.scalar)
        else:
            kinds.append("int")
    return kinds


def called(used: Sequence[tuple[Exercise, Variant]]) -> list[tuple[str, list[str]]]:
    """The entries of these variants with their signatures: one, or one for each dtype."""
    return [
        (each.entry, signature(exercise, each))
        for exercise, variant in used
        for each in (variant.of_dtype(dtype) for dtype in variant.entries or ("",))
    ]


def build(
    sandbox: Sandbox,
    name: str,
    data: bytes,
    entries: Sequence[tuple[str, Sequence[str]]],
    backend: Backend = "emulator",
    guarded: bool = True,
) -> Program:
    """Compile a file and wait for it: see Order. Raises what `begin` and `finish` do."""
    return program(sandbox, begin(sandbox, Order(name, data, entries, backend, guarded)))


def program(sandbox: Sandbox, building: Building) -> Program:
    """What a compiler makes of a file, which is waited for. Raises what `finish` does."""
    name, backend = building.order.name, building.order.backend
    assert backend in ("emulator", "gpu")
    return _program(sandbox, name, backend, building.finish())


class Order(NamedTuple):
    """What is to be compiled: the file `name` of content `data`.

    `entries` pairs each entry that it should have with its `signature`. `guarded`: see
    emulator/build.py. `flags` are further options of nvcc's, for which the emulator has no use.
    """

    name: str
    data: bytes
    entries: Sequence[tuple[str, Sequence[str]]]
    backend: Asked = "emulator"
    guarded: bool = True
    flags: Sequence[str] = ()


def begin(sandbox: Sandbox, order: Order) -> Building:
    """Have a file compiled.

    Raises SandboxError where no worker can be had, BuildError where the grader's own sources don't
    build.
    """
    return ask(sandbox, order, sandbox.hold(order.name, order.data), _wanted(order))


def _wanted(order: Order) -> dict[str, Any]:
    """The order to worker/builder.py. Raises BuildError where the grader's sources don't build."""
    wanted: dict[str, Any] = {
        "backend": order.backend,
        "entries": [{"name": entry, "arguments": list(kinds)} for entry, kinds in order.entries],
        "toolchain": prepare(),
        "guarded": order.guarded,
        "gpu_planner": prepare_planner() if order.backend == "gpu" else None,
        "flags": list(order.flags),
    }
    if order.backend != "emulator":  # which needs none, and asking for it may import torch
        wanted["architecture"] = f"sm_{machine.capability()}"
    return wanted


def _key(order: Order) -> str:
    """A digest of what a compiler's answer follows from. Raises as `_wanted` does."""
    nvcc = toolchain.find_nvcc()
    of_nvcc = Path(nvcc).stat() if nvcc else None
    compilers = (
        kept_builds.code_of("worker", "emulator"),
        (nvcc, of_nvcc.st_size, of_nvcc.st_mtime_ns) if of_nvcc else None,
    )
    return hashlib.sha256(repr((order, _wanted(order), compilers)).encode()).hexdigest()


def ask(sandbox: Sandbox, order: Order, source: Path, wanted: dict[str, Any]) -> Building:
    """Have a file compiled that the sandbox holds, by the order `wanted` of worker/builder.py.

    Raises SandboxError where no worker can be had.
    """
    output = os.memfd_create("program", os.MFD_CLOEXEC)
    try:
        os.ftruncate(output, _OUTPUT_BYTES)
        worker = sandbox.builder(source, wanted, output, _OUTPUT_BYTES, COMPILE_LIMITS)
        if order.backend == "nvcc":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, worker.pid, NVCC_NICENESS)
    except BaseException:
        os.close(output)
        raise
    return Building(order, worker, output, worker.post(Operation.build))


class Built(NamedTuple):
    """A compiler's answer, and the files that it has written: untrusted."""

    text: str
    data: bytes

    def to_text(self) -> str:
        """Both, to be kept."""
        return json.dumps([self.text, base64.b64encode(self.data).decode()])

    @classmethod
    def of_text(cls, text: str) -> Built | None:
        """What `to_text` made a text of; None where it made none of it."""
        with contextlib.suppress(ValueError, TypeError, BuildError):
            answer, encoded = json.loads(text)
            data = base64.b64decode(encoded)
            return cls(answer, data) if len(data) == sum(read_answer(answer).lengths) else None
        return None


@dataclass
class Building:
    """A file on its way through the compiler, in a process of the sandbox."""

    order: Order
    worker: Worker
    output: int  # descriptor of the memory that the compiler's files are written to
    died: Death | None  # before the compiler could be asked

    def close(self) -> None:
        """End the compiler; what it has made is lost."""
        self.worker.close()
        os.close(self.output)

    def finish(self) -> Built | Death:
        """Wait for the compiler. Raises BuildError where its answer makes no sense."""
        try:
            reply = self.died or self.worker.wait_at_length()
            if isinstance(reply, Death):
                return reply
            if reply.code is not Code.ok:
                answer = f"{reply.code.name} {reply.text}"
                raise BuildError(f"the compiler could not be asked: {answer}")
            length = sum(read_answer(reply.text).lengths)
            return Built(reply.text, os.pread(self.output, length, 0))
        finally:
            self.close()


def _program(sandbox: Sandbox, name: str, backend: Backend, built: Built | Death) -> Program:
    """What was built of a file, held in a sandbox. Raises BuildError where it makes no sense."""
    if isinstance(built, Death):
        return Program(None, backend, died=built)
    answer = read_answer(built.text)
    program_end, executor_end, sites_end = itertools.accumulate(answer.lengths)
    program, executor = built.data[:program_end], built.data[program_end:executor_end]
    stem = f"{Path(name).stem}-{backend}"
    is_emulated = backend == "emulator"
    return Program(
        _held(sandbox, stem, program, True) if answer.ok else None,
        backend,
        frozenset(answer.entries),
        answer.problems,
        _read_sites(built.data[executor_end:sites_end]),
        executor=_held(sandbox, f"{stem}-executor", executor, is_emulated) if answer.ok else None,
        conditions=answer.conditions,
    )


def _held(sandbox: Sandbox, name: str, program: bytes, runs: bool) -> Path | None:
    """Where the sandbox can read a file, and start it where it `runs`; None without bytes."""
    if not program:
        return None
    digest = hashlib.sha256(program).hexdigest()[:16]
    return sandbox.hold(f"{name}-{digest}", program, program=runs)


def _word_of(built: Built | Death) -> Checked:
    """nvcc's word on a file."""
    if isinstance(built, Death):
        return Checked()
    answer = read_answer(built.text)
    return Checked(answer.ok, answer.problems)


def kept_programs() -> KeptBuilds:
    """The programs that the user's cache has of earlier runs."""
    return KeptBuilds(kept_builds.folder() / "programs.sqlite", MAX_KEPT_PROGRAMS)


@dataclass
class Programs:
    """The files of a submission, each compiled once for each backend, with all its entries."""

    exercises: Mapping[str, Exercise]
    file: Callable[[str], bytes]  # reads a file of the submission
    sandbox: Callable[[], Sandbox]  # where it is compiled and held
    check_with_nvcc: bool  # NVIDIA's compiler, where there is one, has to accept a file too
    guarded: bool
    kept: Callable[[str], KeptBuilds] = lambda file: KeptBuilds(None)  # of a file's content
    earlier: Programs | None = None  # whose compilers it takes over: see grading/head_start.py
    _made: dict[tuple[str, Backend], Program] = field(default_factory=dict)
    _checked: dict[str, Checked] = field(default_factory=dict)
    _reconciled: set[str] = field(default_factory=set)  # files whose programs know nvcc's word
    _building: dict[tuple[str, Asked], Building] = field(default_factory=dict)
    _threads: list[InThread[None]] = field(default_factory=list)  # which begin files

    def begin_all(self, files: Sequence[str], backend: Backend) -> None:
        """Begin files in the background, where their sandbox is started as well."""
        before = tuple(self._threads)

        def begin() -> None:
            for each in before:
                each.wait()
            for file in files:
                self.begin(file, backend)

        self._threads.append(InThread(begin))

    def wait(self) -> None:
        """Wait until all files are begun that were to be."""
        for each in self._threads:
            each.wait()

    def end_threads(self) -> None:
        """Let go of the background; a sandbox that was started there ends."""
        for each in self._threads:
            each.end()

    def begin(self, file: str, backend: Backend = "emulator") -> None:
        """Have a file compiled meanwhile; `of` meets what hinders it."""
        key = (file, backend)
        if why_not(backend) or key in self._made or key in self._building:
            return
        with contextlib.suppress(SandboxError, BuildError):
            if self._kept(*key) is None:
                self._building[key] = self._begun(*key)
            else:
                self.sandbox().begin()  # where the program runs
            if backend == "emulator":
                self._begin_check(file)

    def of(self, file: str, backend: Backend) -> Program:
        """The program of a file. Raises SandboxError, BuildError or ToolchainError.

        nvcc may still be at work on a file that the emulator's compiler has accepted.
        """
        self.wait()
        key = (file, backend)
        if key not in self._made:
            built: Built | Death | None = self._kept(file, backend)
            building = None if built else self._building.pop(key, None) or self._begun(*key)
            if backend == "emulator":
                self._begin_check(file)
            if building is not None:
                built = self._finished(file, building)
            assert built is not None
            self._made[key] = _program(self.sandbox(), file, backend, built)
            if backend == "emulator" and any(p.kind == "compile" for p in self._made[key].problems):
                self.is_refused(file)
        return self._made[key]

    def will_be_refused(self, file: str) -> bool:
        """Whether only nvcc refuses a file that is still a program. Waits for it."""
        program = self._made.get((file, "emulator"))
        runs = program is not None and program.path is not None
        return runs and bool(self._word_of_nvcc(file).refusals)

    def is_refused(self, file: str) -> bool:
        """As `will_be_refused`; the file is no program afterwards."""
        word, is_refused = self._word_of_nvcc(file), self.will_be_refused(file)
        if file not in self._reconciled:
            self._reconciled.add(file)
            program = self._made.get((file, "emulator"))
            if program is not None and program.died is None:
                self._made[file, "emulator"] = program.reconciled(word)
        return is_refused

    def _word_of_nvcc(self, file: str) -> Checked:
        """nvcc's word on a file, which is asked for once."""
        if file not in self._checked:
            self._checked[file] = self._awaited(file)
        return self._checked[file]

    def _awaited(self, file: str) -> Checked:
        self.wait()
        building = self._building.pop((file, "nvcc"), None)
        with contextlib.suppress(BuildError):
            if built := self._kept(file, "nvcc"):
                return _word_of(built)
            if building is not None:
                return _word_of(self._finished(file, building))
        return Checked()

    def _kept(self, file: str, backend: Asked) -> Built | None:
        text = self.kept(file).get(_key(_order_of(self, file, backend)))
        return Built.of_text(text) if text else None

    def _finished(self, file: str, building: Building) -> Built | Death:
        """What was built. Only a success is kept: a failure may be the machine's."""
        built = building.finish()
        if isinstance(built, Built) and read_answer(built.text).ok:
            self.kept(file).put(_key(building.order), built.to_text())
        return built

    def close(self) -> None:
        """End the compilers."""
        self.wait()
        if self.earlier is not None:
            self.earlier.close()
        for building in self._building.values():
            building.close()
        self._building.clear()

    def _begin_check(self, file: str) -> None:
        """Have nvcc check the file meanwhile, if it is to."""
        if not self.check_with_nvcc or toolchain.find_nvcc() is None:
            return
        is_begun = file in self._checked or (file, "nvcc") in self._building
        if not is_begun and self._kept(file, "nvcc") is None:
            with contextlib.suppress(SandboxError, BuildError):
                self._building[file, "nvcc"] = self._begun(file, "nvcc")

    def _begun(self, file: str, backend: Asked) -> Building:
        """The file's way through the compiler, begun."""
        prepare()  # before the sandbox, which is to see it
        if backend == "gpu":
            prepare_planner()
        sandbox = self.sandbox()
        order = _order_of(self, file, backend)
        begun = self.earlier.handed_over(order) if self.earlier is not None else None
        return begun or begin(sandbox, order)

    def handed_over(self, order: Order) -> Building | None:
        """The compiler that is at work on exactly this order; None without one."""
        key = order.name, order.backend
        is_same = key in self._building and self._building[key].order == order
        return self._building.pop(key) if is_same else None


def _order_of(programs: Programs, file: str, backend: Asked) -> Order:
    """The order for a file of a submission, with all entries that its variants ask for."""
    used = [
        (exercise, variant)
        for exercise in programs.exercises.values()
        for variant in exercise.variants.values()
        if variant.file == file
    ]
    flags = used[0][1].compile.options if used else ()
    return Order(file, programs.file(file), called(used), backend, programs.guarded, flags)


@dataclass(frozen=True)
class Begun:
    """The sandbox of CUDA C++ without a GPU, and the files that are compiled there already."""

    sandbox: Sandbox
    programs: Programs

    def close(self) -> None:
        """End all of its processes."""
        self.programs.close()
        self.sandbox.close()


@lru_cache(maxsize=4)
def why_not(backend: Backend) -> str:
    """Why CUDA C++ can't be compiled on this machine, with what to do; "" where it can."""
    if backend != "emulator" and toolchain.find_nvcc() is None:
        return "nvcc isn't installed: it comes with NVIDIA's CUDA toolkit"
    try:
        if not toolchain.is_prepared():  # else nothing is written
            toolchain.cache_root().mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=toolchain.cache_root()).close()
    except toolchain.ToolchainMissing as error:
        return str(error)
    except OSError as error:
        root = toolchain.cache_root()
        return f"{root} can't be written ({error.strerror}): let XDG_CACHE_HOME name another folder"
    return ""


@lru_cache(maxsize=1)
def prepare() -> tuple[str, str, str]:
    """Compile the grader's own sources, once for all submissions: some seconds the first time.

    Returns the compiler, its version and the folder that holds what it made. It is done here,
    since a sandbox may only read the cache. Raises BuildError where they don't build.
    """
    with _own_trouble():
        ready = toolchain.prepare()
    return ready.compiler, ready.version, str(ready.folder)


@lru_cache(maxsize=1)
def prepare_planner() -> str:
    """Compile the grader's part of the planners of "gpu"; returns its folder. See `prepare`."""
    with _own_trouble():
        ready = toolchain.prepare()
        return str(nvcc_runtime.prepare(ready, toolchain.find_nvcc() or "nvcc").folder)


@contextlib.contextmanager
def _own_trouble() -> Iterator[None]:
    try:
        yield
    except (toolchain.ToolchainMissing, toolchain.ToolchainError) as error:
        raise BuildError(str(error)) from None
    except OSError as error:  # shutil's has no words for a full disk
        why = error.strerror or "is the disk full?"
        raise Mistake(f"{toolchain.cache_root()} can't be written: {why}") from None


def read_answer(text: str) -> Answer:
    """A compiler's answer. Raises BuildError where it makes no sense."""
    try:
        return Answer.model_validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise BuildError(f"the compiler's answer makes no sense: {where}") from None


def _read_sites(data: bytes) -> dict[int, Site]:
    """Sites by their addresses, as the builder writes them: {address: [line, function]}."""
    try:
        return _SITES.validate_json(data or b"{}")
    except ValueError:
        raise BuildError("the compiler's table of lines makes no sense") from None

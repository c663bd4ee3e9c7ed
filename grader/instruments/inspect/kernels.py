"""The kernels that a variant launches for a case, each compiled for the GPU.

A planner without data says what is launched, as `grader plan` shows it; compilers do the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from grader.cases import Case
from grader.evidence import Failure
from grader.executors.triton import configurations
from grader.grading import plan_files
from grader.grading.session import Session
from grader.instruments.inspect import device_code, ptx, statements
from grader.instruments.inspect import sass as machine_code
from grader.instruments.inspect.compiling import Compilers, DeviceCode, NotCompiled, Text
from grader.instruments.inspect.statements import Files, Statement
from grader.mistakes import Mistake
from grader.plan import KernelName, Launch, Plan, Specialisation
from grader.sandbox import untrusted
from grader.spec.task import Task
from grader.worker.compile.cubin import usage

WARP = 32
STAGES = 3  # of Triton's num_stages, where a launch says nothing
MAX_ARGUMENT = 60  # characters


class NothingToInspect(Mistake, ValueError):
    """There is no kernel to look at: the message says why."""


@dataclass(frozen=True)
class Kernel:
    """A launched kernel with its code; it has a number among those of the case, from 1.

    `arguments` and `options` are in words; `shared` are the bytes that the launch adds to the
    cubin's. `wanted` and `text` are of Triton's.
    """

    number: int
    name: str
    language: str
    line: int  # of the launch, or of a Triton kernel's text
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    code: DeviceCode
    files: Files
    arguments: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    wanted: Specialisation | None = None
    text: Text | None = None

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of each block, without what CUDA reserves."""
        return self.shared + self.code.usage.shared - self.code.usage.reserved

    @cached_property
    def ptx(self) -> ptx.Program:
        """Its PTX; of CUDA C++ with the file's other kernels."""
        return ptx.read(self.code.texts.get("ptx", ""), self.files)

    @cached_property
    def sass(self) -> list[machine_code.Instruction]:
        """Its instructions."""
        return self.instructions(self.code)

    @cached_property
    def ttgir(self) -> list[Statement]:
        """Its TTGIR; nothing of CUDA C++."""
        return statements.read_mlir(self.code.texts.get("ttgir", ""), self.files)

    def instructions(self, code: DeviceCode) -> list[machine_code.Instruction]:
        """The instructions of this kernel in code that was made of another text of it."""
        program = self.ptx if code is self.code else ptx.read(code.texts["ptx"], self.files)
        return machine_code.read(code.texts.get("sass", ""), code.name, self.files, program)

    def stage(self, name: str) -> Sequence[Statement]:
        """The statements of a stage; none of one that it hasn't."""
        if name == "ptx":
            return self.ptx.of(self.code.name)
        if name == "sass":
            return self.sass
        if name == "ttgir":
            return self.ttgir
        reader = {"ttir": statements.read_mlir, "llir": statements.read_llvm}[name]
        return reader(self.code.texts.get(name, ""), self.files)

    @property
    def stages(self) -> list[str]:
        """The stages that it has a text of, from the source on."""
        order = ("ttir", "ttgir", "llir", "ptx", "sass")
        return [name for name in order if self.code.texts.get(name)]


@dataclass(frozen=True)
class Inspected:
    """What a variant launches for a case. `sources` are the texts of its files, by name.

    `tuned` names the configurations of an autotuned kernel, `chosen` is the number of the one that
    is shown, from 0.
    """

    task: Task
    case: Case
    kernels: tuple[Kernel, ...]
    sources: Mapping[str, str]
    tuned: tuple[str, ...] = ()
    chosen: int = 0


def inspect(
    session: Session,
    compilers: Compilers,
    task: Task,
    case: Case,
    configuration: int | None = None,
    only: int | None = None,
) -> Inspected:
    """The kernels of a case: of a tuned one in the `configuration` of this number, from 0.

    `only` is the number of the one kernel that is wanted, from 1; for `compilers` see
    `open_compilers`. Raises NothingToInspect, NotCompiled and SandboxError.
    """
    planned = _planned(session, task, case)
    names = [] if planned.language == "cuda" else configurations.names_of(planned)
    if configuration is not None and not 0 <= configuration < max(len(names), 1):
        there_are = f"1 to {len(names)}" if names else "none: nothing is tuned"
        got = configuration + 1
        raise NothingToInspect(f"{task}: --config: expected {there_are}, got {got}")
    chosen = configuration if names else None
    launches = _launches(planned, chosen)
    if not launches:
        raise NothingToInspect(f"{task}: {task.variant.entry} launches no kernel for {case}")
    if only is not None and not 1 <= only <= len(launches):
        there_are = f"1 to {len(launches)}" if len(launches) > 1 else "1"
        raise NothingToInspect(f"{task}: --kernel: expected {there_are}, got {only}")
    wanted = [(n, each) for n, each in enumerate(launches, 1) if only in (None, n)]
    sources = _sources(session, task)
    files = Files(sources, session.files.lab(task.variant))
    if planned.language == "triton":
        kernels = _of_triton(compilers, planned, wanted, files)
    else:
        kernels = _of_cuda(session, compilers, task, planned, wanted, files)
    shown = chosen if chosen is not None else _number_of(planned, len(names))
    return Inspected(task, case, tuple(kernels), sources, tuple(names), shown)


def open_compilers(session: Session, task: Task) -> Compilers:
    """The compilers of a variant's file. Raises SandboxError."""
    data = session.files.read(task.variant.file)
    assert isinstance(data, bytes)
    for name, module in session.files.modules().items():
        session.sandbox.hold(name, module)
    return Compilers(session.sandbox, session.sandbox.hold(task.variant.file, data))


def _planned(session: Session, task: Task, case: Case) -> Plan:
    """What the entry asks for. Raises NothingToInspect where there is no plan."""
    if reason := session.not_attempted(task):
        raise NothingToInspect(f"{task}: not attempted: {reason}")
    planned = plan_files.plan_case(session, task, case)
    if isinstance(planned, Failure):
        where = planned.where or str(task)
        raise NothingToInspect(f"{where}: {planned.status.headline}: {planned.what}")
    return planned


def _launches(planned: Plan, configuration: int | None) -> list[Launch]:
    """The launches of the first call, each kernel once."""
    in_cuda = planned.language == "cuda"
    steps = planned.calls[0] if in_cuda else configurations.steps(planned, 0, configuration)
    launches = [each for each in steps if isinstance(each, Launch)]
    return list({each.specialisation: each for each in reversed(launches)}.values())[::-1]


def _number_of(planned: Plan, count: int) -> int:
    """The number of the configuration that the planner chose."""
    chosen = [each.specialisation for each in _launches(planned, None)]
    numbers = (
        number
        for number in range(count)
        if [each.specialisation for each in _launches(planned, number)] == chosen
    )
    return next(numbers, 0)


def _sources(session: Session, task: Task) -> dict[str, str]:
    """The texts of a variant's files, by name."""
    if (lab := session.files.lab(task.variant)) is not None:
        return {name: untrusted.clean(text) for name, text in lab.texts.items()}
    files: dict[str, bytes | str] = {}
    if task.variant.language == "triton":
        files |= session.files.modules()
    files[task.variant.file] = session.files.read(task.variant.file)
    return {
        name: untrusted.clean(data.decode("utf-8", "replace"))
        for name, data in files.items()
        if isinstance(data, bytes)
    }


# --- Triton ---------------------------------------------------------------------------------------


def _of_triton(
    compilers: Compilers, planned: Plan, wanted: Sequence[tuple[int, Launch]], files: Files
) -> Iterator[Kernel]:
    for number, launch in wanted:
        made = planned.specialisations[launch.specialisation]
        assert isinstance(made, Specialisation)  # a plan of Triton has no others
        text = compilers.text(made)
        code = compilers.code(made, text)
        yield Kernel(
            number,
            untrusted.brief(made.function),
            "triton",
            made.line,
            launch.grid,
            (code.warps * WARP, 1, 1),
            code.shared,
            code,
            files,
            tuple(_arguments(made)),
            {"num_stages": STAGES, **made.options},
            made,
            text,
        )


def _arguments(kernel: Specialisation) -> Iterator[str]:
    """'x_ptr: *bf16, a multiple of 16 bytes'; 'BLOCK = 2048'."""
    for name, kind in kernel.signature.items():
        if name in kernel.constants:
            yield untrusted.brief(f"{name} = {_literal(kernel.constants[name])}", MAX_ARGUMENT)
            continue
        by_16 = kernel.attributes.get(name) == {"divisibility": 16}
        unit = " bytes" if isinstance(kind, str) and kind.startswith("*") else ""
        known = f", a multiple of 16{unit}" if by_16 else ""
        yield untrusted.brief(f"{name}: {kind}", MAX_ARGUMENT) + known


def _literal(value: object) -> object:
    """A constant as Python writes it: {"float": "inf"} is inf."""
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return value


# --- CUDA C++ -------------------------------------------------------------------------------------


def _of_cuda(
    session: Session,
    compilers: Compilers,
    task: Task,
    planned: Plan,
    wanted: Sequence[tuple[int, Launch]],
    files: Files,
) -> Iterator[Kernel]:
    sandbox = session.runners.sandbox_of("emulator")
    data = session.files.read(task.variant.file)
    assert isinstance(data, bytes)
    path = sandbox.hold(task.variant.file, data)
    try:
        made = device_code.compile_file(sandbox, path, task.variant.compile.options)
    except NotCompiled as refused:
        raise NotCompiled(session.files.placed(task.variant, str(refused))) from None
    texts = {"ptx": made.ptx, **compilers.disassembled(made.cubin)}
    no_sass = texts.pop("no_sass")
    used = usage(made.cubin)
    for number, launch in wanted:
        kernel = planned.specialisations[launch.specialisation]
        assert isinstance(kernel, KernelName)
        symbols = made.symbols_of(kernel.kernel)
        if not symbols or symbols[0] not in used:
            words = f"nvcc made no kernel called {untrusted.brief(kernel.kernel)}"
            where = session.files.placed(task.variant, f"{task.variant.file}:{kernel.line}")
            raise NotCompiled(f"{where}: {words}")
        for symbol in symbols:
            name = untrusted.brief(made.names[symbol])
            code = DeviceCode(symbol, texts, used[symbol], no_sass=no_sass, cubin=made.cubin)
            size = (launch.grid, launch.block, launch.shared)
            yield Kernel(number, name, "cuda", kernel.line, *size, code, files)

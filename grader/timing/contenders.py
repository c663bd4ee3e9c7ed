"""Workers that are timed: the candidate, and the baselines that it is timed against.

    copy        a kernel of the grader's that copies as many bytes as the case must move
    torch       torch's own operator, as reference/oracles.py names it
    compile     the same, compiled by torch.compile
    reference   the staff's solution, where there is one

Each has a process and buffer sets of its own. The candidate and the reference are plans that the
executor replays on a GPU. The others are Python of ours, in a sandbox that no submission can reach.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from grader.cases import Case, oracle
from grader.cases.arena import Slot
from grader.cases.gpu_memory import GpuMemory
from grader.cases.inputs import Inputs, blank_argument
from grader.executors import gpu
from grader.executors.gpu.bundle import MOST_CONFIGURATIONS
from grader.executors.runner import CaseResult
from grader.sandbox import Sandbox
from grader.sandbox.allowed_paths import WORKER_FOLDER
from grader.sandbox.memfd import Memfds, SharedBuffers
from grader.sandbox.worker_process import Worker
from grader.spec import ITEMSIZE, Tensor, Variant
from grader.spec.task import Task
from grader.status import Status
from grader.timing.buffer_sets import BufferSets, GradedBufferSets, Layout, buffer_sets_that_fit
from grader.timing.failures import TimingFailed, TooLittleMemory, expect_ok
from grader.timing.graph_replays import FIRST_LIMITS, Replays
from grader.worker.gpu_mapping import GpuMemoryError
from grader.worker.protocol import Argument, Operation

BASELINES = WORKER_FOLDER / "baselines.py"  # our own Python, timed beside a submission
MOST_BUFFER_SETS, FEWEST_BUFFER_SETS = 256, 6  # for each worker
ENOUGH_BYTES = 1 << 30  # of one worker's buffer sets, where they fit
MEMORY_SHARE = 0.25  # of the device's free memory, for one worker's buffer sets
TRIALS = 3  # replays of each configuration of a tuned kernel; the fastest counts


class Documents(Protocol):
    """A source of a variant's plans, as the GPU executor's documents."""

    def documents(self, case: Case, arguments: Sequence[Argument]) -> Sequence[bytes]:
        """One document per configuration of a tuned kernel; one where nothing is tuned.

        Raises TimingFailed where there is no plan.
        """


@dataclass(frozen=True)
class FromPlans:
    """Plans made on request, once for each case, by a runner without a GPU."""

    plans: gpu.Plans
    made: dict[Case, Sequence[bytes]] = field(default_factory=dict)

    def documents(self, case: Case, arguments: Sequence[Argument]) -> Sequence[bytes]:
        """As Documents says. Configurations that don't compile are left out."""
        if case not in self.made:
            self.made[case] = self._documents(case, arguments)
        return self.made[case]

    def _documents(self, case: Case, arguments: Sequence[Argument]) -> Sequence[bytes]:
        planned = self.plans.planned(case, arguments)
        if isinstance(planned, CaseResult):
            raise TimingFailed(planned.verdict.what, planned.status)
        numbers: Sequence[int | None]
        numbers = self.plans.configurations_of(planned)[:MOST_CONFIGURATIONS] or [None]
        made = [gpu.document(self.plans, case, planned, True, number) for number in numbers]
        documents = [each for each in made if isinstance(each, bytes)]
        if not documents:
            first = next(each for each in made if isinstance(each, CaseResult))
            raise TimingFailed(first.verdict.what, first.status)
        return list(dict.fromkeys(documents))


class SharedExecutor(contextlib.ExitStack):
    """One executor for several cases of a variant: it starts with the first case that needs it.

    So one CUDA context serves them all. A kernel could keep there what an earlier case showed, so
    this is for times without points. The executor ends when this is closed.
    """

    def __init__(self, task: Task, cases: Sequence[Case]) -> None:
        super().__init__()
        self._task, self._cases = task, cases
        self._standing: Standing | None = None

    def serving(self, sandbox: Sandbox, layout: Layout) -> Standing:
        """An executor that can serve the layout of one of the cases. Raises as `start` does."""
        if self._standing is None or not self._standing.can_serve([layout]):
            self.close()
            try:
                layouts = [Layout.of(self._task, case) for case in self._cases]
                self._standing = executor(sandbox, layouts, self)
            except (TooLittleMemory, ValueError):  # because of another case
                self._standing = executor(sandbox, [layout], self)
        return self._standing


@dataclass(frozen=True)
class Planned:
    """A variant that is timed by plan, and the sandbox of its executors.

    Each case has an executor of its own, or `shared` serves them all.
    """

    sandbox: Sandbox
    task: Task
    plans: Documents
    shared: SharedExecutor | None = None

    def prepare(self, case: Case) -> None:
        """Make the plan of a case and compile its kernels, before a GPU is needed.

        Raises TimingFailed where there is no plan, and ValueError where an argument can't be timed.
        """
        layout = Layout.of(self.task, case)
        self.plans.documents(case, layout.arguments(0))

    def executor(self, case: Case, opened: contextlib.ExitStack) -> Standing:
        """An executor with buffers for a case, and without the case's plan.

        It ends with `opened` unless it is shared. Raises as `start` does, and ValueError where an
        argument can't be timed.
        """
        layout = Layout.of(self.task, case)
        if self.shared is not None:
            return self.shared.serving(self.sandbox, layout)
        return executor(self.sandbox, [layout], opened)

    def begin(
        self,
        case: Case,
        opened: contextlib.ExitStack,
        graded: bool = True,
        executor: Standing | None = None,
    ) -> Replays:
        """Replays by a worker that has the plan of a case and has tuned its kernels.

        The worker is `executor`, or a new one. Every output is judged if `graded`. Raises
        TimingFailed where there is no plan or it doesn't run, TooLittleMemory, and ValueError where
        an argument can't be timed.
        """
        layout = Layout.of(self.task, case)
        documents = self.plans.documents(case, layout.arguments(0))

        def make_sets(memory: SharedBuffers, count: int) -> BufferSets:
            if graded:
                return GradedBufferSets(memory, self.task, case, count)
            return BufferSets(memory, layout, count)

        replays = (executor or self.executor(case, opened)).serve(layout, make_sets)
        tune(replays, documents)
        return replays


def tune(replays: Replays, documents: Sequence[bytes]) -> None:
    """Make an executor adopt its fastest configuration. Raises TimingFailed."""
    if len(documents) > 1:
        times = []
        for each in documents:
            replays.adopt(each)
            replays.seconds()
            times.append(min(replays.seconds() for _ in range(TRIALS)))
        documents = [documents[times.index(min(times))]]
    replays.adopt(documents[0])


def executor(sandbox: Sandbox, layouts: Sequence[Layout], opened: contextlib.ExitStack) -> Standing:
    """A GPU executor with buffers for these layouts, and no plan. Raises as `start` does."""
    return start(sandbox, gpu.held_program(sandbox), "", layouts, opened)


def copy(executor: Standing, layout: Layout) -> Replays:
    """Replays of the grader's copy of the layout's first tensor. Raises TimingFailed."""
    replays = executor.ungraded(layout)
    try:
        document = gpu.copy_document(*layout.arguments(0))
    except (GpuMemoryError, ImportError) as error:
        raise TimingFailed(str(error), Status.not_measured) from None
    replays.adopt(document)
    return replays


def baseline(
    sandbox: Sandbox,
    name: str,
    task: Task,
    layouts: Sequence[Layout],
    opened: contextlib.ExitStack,
) -> Standing:
    """The worker of a baseline, by name: `torch` or `compile`; `copy` without a GPU.

    It serves one of `layouts` at a time. Raises as `start` does, and KeyError for another name.
    """
    if name == "copy":
        return start(sandbox, BASELINES, "copy", layouts, opened)
    source = source_of(name, task)
    path = sandbox.hold(f"{name}_{task.exercise.name}.py", source.encode())
    return start(sandbox, path, "baseline", layouts, opened)


def layout_of(name: str, task: Task, case: Case, moved_bytes: int) -> Layout:
    """A baseline's buffer layout; `copy` reads half of the bytes that it moves and writes half.

    Raises ValueError where an argument can't be timed.
    """
    if name == "copy":
        return Layout.of_inputs(copied(moved_bytes // 2))
    return Layout.of(task, case)


def moved_bytes(variant: Variant, case: Case) -> int:
    """Bytes that a performance case must move, by the spec's formula."""
    return int(variant.timed.bytes.evaluate(_sizes(case)))


def computed_flops(variant: Variant, case: Case) -> float | None:
    """Operations that a case must compute; None where the spec has no formula."""
    flops = variant.timed.flops
    return None if flops is None else float(flops.evaluate(_sizes(case)))


def _sizes(case: Case) -> dict[str, int]:
    return {**dict(case.sizes), "itemsize": ITEMSIZE[case.dtype]}


def has_reference(task: Task) -> bool:
    """Whether the staff's solution is available: students have none."""
    return (task.exercise.reference / task.variant.file).is_file()


class Standing:
    """A worker that loads its code or creates its CUDA context, and the memory that it shares."""

    def __init__(
        self, worker: Worker, memory: SharedBuffers, room: tuple[int, int], is_python: bool
    ) -> None:
        """`room` is the bytes of the two buffers. The worker's first request was sent.

        One that `is_python` has a baseline of ours, and keeps its graph of calls: capturing one
        from Python takes several times as long as a replay.
        """
        self.worker, self.memory, self.room = worker, memory, room
        self._is_python = is_python
        self._is_ready = False
        self._served: Replays | None = None

    def wait(self) -> None:
        """Wait for the answer to the first request. Raises TimingFailed where that failed."""
        if not self._is_ready:
            expect_ok(self.worker.wait())
            self._is_ready = True

    def can_serve(self, layouts: Sequence[Layout]) -> bool:
        """Whether it is alive, and enough buffer sets of each layout fit."""
        needed = [layout.bytes(FEWEST_BUFFER_SETS) for layout in layouts]
        fit = all(inputs <= self.room[0] and outputs <= self.room[1] for inputs, outputs in needed)
        return fit and self.worker.alive

    def serve(
        self, layout: Layout, make_sets: Callable[[SharedBuffers, int], BufferSets]
    ) -> Replays:
        """Replays over enough buffer sets of a layout, or over as many as there is room for.

        The sets served before become invalid. Raises as `wait` does.
        """
        self.wait()
        if self._served is not None:
            self._served.abandon()
        fits = (room // length for room, length in zip(self.room, layout.lengths, strict=True))
        sets = make_sets(self.memory, min(*fits, _enough(layout)))
        self._served = Replays(self.worker, sets, keeps_order=self._is_python)
        return self._served

    def ungraded(self, layout: Layout) -> Replays:
        """Replays whose outputs nobody judges."""
        return self.serve(layout, lambda memory, count: BufferSets(memory, layout, count))


def start(
    sandbox: Sandbox,
    path: Path,
    entry: str,
    layouts: Sequence[Layout],
    opened: contextlib.ExitStack,
) -> Standing:
    """A worker that can serve each of these layouts; it ends with `opened`.

    `entry` is a function of the Python file at `path`, which the worker loads; "" makes the
    executor's program the entry, which creates its CUDA context. Neither is waited for: see
    Standing.wait. Raises TimingFailed and TooLittleMemory.
    """
    on_gpu = sandbox.device == "cuda"
    free = _room(on_gpu)
    lengths = [layout.bytes(_count(layout, free)) for layout in layouts]
    room = max(inputs for inputs, _ in lengths), max(outputs for _, outputs in lengths)
    memory = GpuMemory(*room) if on_gpu else Memfds(*room)
    opened.callback(memory.close)
    worker = sandbox.worker(path, entry, memory.buffers, FIRST_LIMITS, on_gpu=on_gpu)
    opened.callback(worker.close)
    if entry:
        blanks = [blank_argument()] * len(layouts[0].inputs.order)
        died = worker.post(Operation.load, blanks)
    else:
        died = worker.post(Operation.place, layouts[0].arguments(0))
    if died is not None:
        expect_ok(died)
    return Standing(worker, memory, room, is_python=bool(entry))


def _count(layout: Layout, free: int) -> int:
    """The number of buffer sets of a layout. Raises TooLittleMemory."""
    enough = _enough(layout)
    wanted = [number for number in (enough, 64, 32, 16, 8, FEWEST_BUFFER_SETS) if number <= enough]
    count = buffer_sets_that_fit(layout, free, wanted)
    if not count:
        needed = sum(layout.bytes(FEWEST_BUFFER_SETS))
        raise TooLittleMemory(
            f"{FEWEST_BUFFER_SETS} sets of buffers have {needed >> 20} MiB, "
            f"and {free >> 20} MiB may be used"
        )
    return count


def _enough(layout: Layout) -> int:
    """The number of buffer sets with which calls find nothing in a cache."""
    return min(MOST_BUFFER_SETS, max(FEWEST_BUFFER_SETS, ENOUGH_BYTES // sum(layout.lengths)))


def _room(on_gpu: bool) -> int:
    """Bytes that one worker's buffer sets may take."""
    if on_gpu:
        return int(torch.cuda.mem_get_info()[0] * MEMORY_SHARE)
    return 1 << 30


def copied(half: int) -> Inputs:
    """An input and an output of `half` bytes each, as float32, which is drawn fast."""
    dtype, count = ("float32", half // 4) if half >= 4 else ("uint8", half)
    source = Slot("source", dtype, (count,), (1,))
    return Inputs((source, Slot("destination", dtype, (count,), (1,), role="output")), {}, {})


# At its default limit, torch would stop compiling and run uncompiled.
_WITH_COMPILER = "import torch._dynamo\ntorch._dynamo.config.recompile_limit = 64\n\n"
# What a baseline's file has before its function, and the function.
_FUNCTIONS = {
    "torch": ("", "own"),
    "compile": (_WITH_COMPILER, "torch.compile(own, dynamic=False)"),  # for each case anew
}


def source_of(baseline: str, task: Task) -> str:
    """The source of a file whose entry calls torch's own operator on the variant's arguments.

    Raises KeyError for a baseline that isn't `torch` or `compile`.
    """
    more, function = _FUNCTIONS[baseline]
    arguments, name = task.signature, task.exercise.oracle
    tensors = [each for each in arguments if isinstance(each, Tensor)]
    numbers = {each.name: each.name for each in arguments if not isinstance(each, Tensor)}
    for each in tensors:  # sizes that aren't passed: where a tensor has one as a dimension
        for place, dimension in enumerate(each.shape):
            if dimension.text in task.exercise.numbers_names:
                numbers.setdefault(dimension.text, f"{each.name}.shape[{place}]")
    own = f"{name}_torch"
    names = oracle.of(task.exercise).names_of(numbers)
    passed = {each.name: each.name for each in tensors if each.is_input}
    passed |= {each: numbers[each] for each in names}
    # What follows the last parameter that is used differs between languages.
    used = {value.partition(".")[0] for value in passed.values()}
    last = max((at for at, each in enumerate(arguments) if each.name in used), default=-1)
    parameters = ", ".join([*(each.name for each in arguments[: last + 1]), "*_"])
    written = ", ".join(f"{keyword}={value}" for keyword, value in passed.items())
    # The source includes the oracles: a sandbox doesn't show their file.
    text = oracle.file_of(task.exercise).read_text(encoding="utf-8")
    return (
        f"{text}\n\n{more}"
        f"own = globals().get({own!r}, {name})\n"
        f"function = {function}\n\n"
        f"def baseline({parameters}):\n"
        f"    return function({written})\n"
    )

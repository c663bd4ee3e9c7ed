"""Workers that stand by for the clock: the candidate, and what it is timed against.

    copy        as many bytes moved as the case must move, by the device's own copy
    torch       torch's own operator, as reference/oracles.py names it
    compile     the same, given to torch.compile
    reference   the staff's solution, where there is one

Each has a worker and sets of buffers of its own. Yardsticks run in a sandbox where no submission
can reach them; that they run like one has both pay the same for the way there and back. A worker
loads a Python file, or is the program that was made of CUDA C++.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from grader import native_runner, oracle
from grader.arena import Arena, Slot
from grader.cases import Case
from grader.confinement import Level
from grader.gpu_memory import GpuMemory
from grader.inputs import Inputs, blank_argument
from grader.runner import YARDSTICKS
from grader.sandbox import Sandbox
from grader.spec import ITEMSIZE, Exercise, Scalar, Tensor, Variant
from grader.supervision import Limits, Worker
from grader.timing import programs
from grader.timing.graded_sets import GradedSets
from grader.timing.pairs import TimedPairs
from grader.timing.request_page import RequestPage
from grader.timing.sets import Layout, Memory, Sets, sets_that_fit
from grader.timing.worker import TimedWorker, expect_ok
from grader.worker.protocol import Operation

REFERENCE = oracle.ORACLES.parent
SETS = (32, 16, 8, 4)  # of buffers, for each worker: the first number that fits
MEMORY_SHARE = 0.2  # of what is free on the device, for one worker's sets
LIMITS = Limits(cpu_seconds=600.0, memory_bytes=16 << 30)  # it spins, and compiles


class TooLittleMemory(Exception):
    """The device can't hold the sets that a case needs."""


@dataclass(frozen=True)
class _Entry:
    """What a worker is started for: a function of a file or of a program, in its sandbox."""

    sandbox: Sandbox
    path: Path
    name: str
    options: Sequence[str] = ()

    @classmethod
    def of(cls, sandbox: Sandbox, exercise: Exercise, variant: Variant, path: Path) -> _Entry:
        """A variant's."""
        options: Sequence[str] = ()
        if variant.language == "cuda":
            backend = programs.backend_on(sandbox.device)
            options = native_runner.options(exercise, variant, backend)
        return cls(sandbox, path, variant.entry, options)


@dataclass(frozen=True)
class Starting:
    """A worker that loads its code: on a GPU that takes a second, which several may share.

    Or one that has, and is to serve other sets.
    """

    _worker: Worker
    _page: RequestPage
    _memory: Memory
    _sets: Sets
    _opened: contextlib.ExitStack
    _has_loaded: bool = False

    def ready(self) -> TimedPairs:
        """The worker, once it stands by. Raises TimingFailed where it doesn't load."""
        if not self._has_loaded:
            expect_ok(self._worker.wait())
        placed = [self._sets.arguments(number) for number in range(self._sets.count)]
        standing_by = TimedWorker(self._worker, self._page, placed)
        return TimedPairs(self._opened.enter_context(standing_by), self._sets)

    def again(self, layout: Layout) -> Starting:
        """The worker of our own for other sets, which takes no more pairs of those it had.

        Raises TimingFailed where it has ended, TooLittleMemory where its buffers hold too few.
        """
        self._page.stop()
        expect_ok(self._worker.wait())
        self._page.begin_anew()
        inputs, outputs = len(self._memory.inputs), len(self._memory.outputs)
        lengths = {n: layout.bytes(n) for n in SETS}
        fits = (n for n, (a, b) in lengths.items() if a <= inputs and b <= outputs)
        count = next(fits, 0)
        if not count:
            raise TooLittleMemory(
                f"{SETS[-1]} sets of buffers have {sum(lengths[SETS[-1]]) >> 20} MiB, "
                f"and there are {(inputs + outputs) >> 20}"
            )
        return replace(self, _sets=Sets(self._memory, layout, count), _has_loaded=True)


def candidate(
    sandbox: Sandbox,
    exercise: Exercise,
    variant: Variant,
    case: Case,
    path: Path,
    opened: contextlib.ExitStack,
    most_sets: int | None = None,
) -> TimedPairs:
    """A stranger's entry, every output of which will be judged.

    `path` is the file, or of CUDA C++ the program made of it, in a sandbox that is native. For
    what isn't timed `most_sets` of buffers may be enough.

    Raises TimingFailed where it doesn't load, TooLittleMemory, and ValueError where an argument
    can't be timed.
    """
    layout = Layout.of(exercise, variant, case)
    return _lane(
        _Entry.of(sandbox, exercise, variant, path),
        [layout],
        lambda memory, count: GradedSets(memory, exercise, variant, case, count),
        opened,
        SETS if most_sets is None else (most_sets,),
    ).ready()


def yardstick(
    sandbox: Sandbox,
    name: str,
    exercise: Exercise,
    variant: Variant,
    case: Case,
    moved_bytes: int,
    opened: contextlib.ExitStack,
    others: Sequence[tuple[Case, int]] = (),
) -> Starting:
    """What a candidate is timed against, by name. Raises as `candidate` does; KeyError for a name.

    `moved_bytes` is what the case must move: half of it is read, half written, by `copy`. The
    buffers hold `others` too, cases with what they must move, which it will serve afterwards.
    """
    layouts = [layout_of(name, exercise, variant, *each) for each in ((case, moved_bytes), *others)]
    if name == "copy":
        entry = _Entry(sandbox, YARDSTICKS, "copy")
    elif name == "reference":
        entry = _reference(sandbox, exercise, variant, opened)
    else:
        source = _SOURCES[name](exercise, variant)
        path = sandbox.hold(f"{name}_{exercise.name}.py", source.encode())
        entry = _Entry(sandbox, path, "yardstick")
    return _ours(entry, layouts, opened)


def layout_of(
    name: str, exercise: Exercise, variant: Variant, case: Case, moved_bytes: int
) -> Layout:
    """What a set of a yardstick's holds. Raises ValueError where an argument can't be timed."""
    if name == "copy":
        return Layout.of_inputs(_copied(moved_bytes // 2))
    return Layout.of(exercise, variant, case)


def trusted(
    sandbox: Sandbox, path: Path, entry: str, layout: Layout, opened: contextlib.ExitStack
) -> TimedPairs:
    """Python code of our own, whose outputs nobody judges. Raises as `candidate` does."""
    return _ours(_Entry(sandbox, path, entry), [layout], opened).ready()


def _ours(entry: _Entry, layouts: Sequence[Layout], opened: contextlib.ExitStack) -> Starting:
    return _lane(
        entry,
        layouts,
        lambda memory, count: Sets(memory, layouts[0], count),
        opened,
        SETS,
    )


def moved_bytes(variant: Variant, case: Case) -> int:
    """What a performance case must move, by the spec's formula."""
    return int(variant.performance.bytes.evaluate(_sizes(case)))


def computed_flops(variant: Variant, case: Case) -> float | None:
    """What it must compute, where the spec has a formula."""
    flops = variant.performance.flops
    return None if flops is None else float(flops.evaluate(_sizes(case)))


def _sizes(case: Case) -> dict[str, int]:
    return {**dict(case.sizes), "itemsize": ITEMSIZE[case.dtype]}


def has_reference(variant: Variant) -> bool:
    """Whether the staff's solution is here: students have none."""
    return (REFERENCE / variant.file).is_file()


def _reference(
    sandbox: Sandbox, exercise: Exercise, variant: Variant, opened: contextlib.ExitStack
) -> _Entry:
    """The staff's solution; of CUDA C++ in a sandbox of its own on the same device."""
    source = (REFERENCE / variant.file).read_bytes()
    if variant.language == "cuda":
        backend = programs.backend_on(sandbox.device)
        started = programs.start(exercise, variant, source, backend, opened, Level.limits)
    else:
        started = sandbox, sandbox.hold(f"reference_{variant.file}", source)
    return _Entry.of(started[0], exercise, variant, started[1])


def _lane(
    entry: _Entry,
    layouts: Sequence[Layout],
    make_sets: Callable[[Memory, int], Sets],
    opened: contextlib.ExitStack,
    wanted: Sequence[int],
) -> Starting:
    """A worker for sets of the first layout, whose buffers hold sets of the others as well."""
    on_gpu = entry.sandbox.device == "cuda"
    layout, room = layouts[0], _room(on_gpu)
    count = sets_that_fit(layout, room, wanted)
    if not count:
        raise TooLittleMemory(
            f"{wanted[-1]} sets of buffers have {sum(layout.bytes(wanted[-1])) >> 20} MiB, "
            f"and {room >> 20} MiB may be used"
        )
    lengths = [each.bytes(sets_that_fit(each, room, wanted)) for each in layouts]
    largest = max(inputs for inputs, _ in lengths), max(outputs for _, outputs in lengths)
    memory = opened.enter_context((GpuMemory if on_gpu else Arena)(*largest))
    page = opened.enter_context(RequestPage())
    sets = make_sets(memory, count)
    worker = entry.sandbox.worker(
        entry.path,
        entry.name,
        memory.buffers,
        LIMITS,
        entry.options,
        page=page.descriptor,
        on_gpu=on_gpu,
    )
    opened.callback(worker.close)
    if died := worker.post(Operation.load, [blank_argument()] * len(layout.inputs.order)):
        expect_ok(died)
    return Starting(worker, page, memory, sets, opened)


def _room(on_gpu: bool) -> int:
    """Bytes that the sets of one worker may have."""
    if on_gpu:
        return int(torch.cuda.mem_get_info()[0] * MEMORY_SHARE)
    return 1 << 30


def _copied(half: int) -> Inputs:
    """So many bytes and as many again: as float32, of which random ones are drawn in their size."""
    dtype, count = ("float32", half // 4) if half >= 4 else ("uint8", half)
    source = Slot("source", dtype, (count,), (1,))
    return Inputs((source, Slot("destination", dtype, (count,), (1,), role="output")), {}, {})


def _torch_source(exercise: Exercise, variant: Variant) -> str:
    """A file whose entry takes the variant's arguments and calls torch's own operator."""
    return _source(exercise, variant, "own")


def _compile_source(exercise: Exercise, variant: Variant) -> str:
    """The same, given to torch.compile: the first call of all compiles it."""
    return _source(exercise, variant, "torch.compile(own)")


def _source(exercise: Exercise, variant: Variant, function: str) -> str:
    arguments = exercise.signature(variant)
    parameters = ", ".join(argument.name for argument in arguments)
    passed = ", ".join(
        f"{argument.name}={argument.name}"
        for argument in arguments
        if isinstance(argument, Scalar) or (isinstance(argument, Tensor) and argument.is_input)
    )
    own = f"{exercise.oracle}_torch"
    # With the oracles in it: a sandbox doesn't show the file that they are in.
    text = oracle.ORACLES.read_text(encoding="utf-8")
    return (
        f"{text}\n\n"
        f"own = globals().get({own!r}, {exercise.oracle})\n"
        f"function = {function}\n\n"
        f"def yardstick({parameters}):\n"
        f"    function({passed})\n"
    )


_SOURCES = {"torch": _torch_source, "compile": _compile_source}

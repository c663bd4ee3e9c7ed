"""One submission's variants in processes side by side: checked, and on several GPUs timed.

What a process finds comes back to the one that grades. A process that is lost costs the variant it
worked on, not the others.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from grader.evidence import MemoryEvidence, PartEvidence, PerformanceEvidence, VariantEvidence
from grader.gpu import locks
from grader.grading import process_pool
from grader.grading.check import check, check_memory, check_parts
from grader.grading.measure import compile_ahead, is_timed, measure
from grader.grading.session import Options, Progress, Session, Step
from grader.spec import Exercise
from grader.spec.task import Task
from grader.status import Status

LOST = "the grader's own process was killed, twice: for want of memory?"
LOST_TIMING = "the grader's own process was killed while it timed"


def checked_side_by_side(
    session: Session,
    options: Options,
    tasks: Sequence[Task],
    jobs: int,
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """What `check` shows of each task, by its place in `tasks`, as they come.

    Exercises worth most, which take longest, come first, so that none of them is left for last.
    """
    shares = _shares(tasks, options.device)
    with process_pool.Pool(min(jobs, len(shares))) as processes:
        checking = _Checking(session, options, tasks, processes, on_step)
        for share in shares:
            checking.submit(share)
        while checking.waiting:
            for future in as_completed(list(checking.waiting)):
                yield from checking.take(future)


@contextlib.contextmanager
def compiling_ahead(
    session: Session, tasks: Sequence[Task], checked: Mapping[int, VariantEvidence]
) -> Iterator[None]:
    """Compile what will be timed, on a GPU, while nothing else is to do in this process.

    What is `checked` by then and wrong will not be timed.
    """
    if session.device != locks.ON_GPU:
        yield
        return
    over = threading.Event()

    def compile_each() -> None:
        for index in _by_worth(tasks):
            evidence = checked.get(index)
            if evidence is None or evidence.correctness is Status.passed:
                with contextlib.suppress(Exception):  # it will be met again, and told, in time
                    compile_ahead(session, tasks[index], over.is_set)

    compiling = threading.Thread(target=compile_each, daemon=True)
    compiling.start()
    try:
        yield
    except BaseException:  # nobody waits: with its sandbox ends what it waits for
        over.set()
        raise
    over.set()
    compiling.join()


def _by_worth(tasks: Sequence[Task]) -> list[int]:
    """Their places: exercises worth most first, and in each the variants worth most."""
    worth = [(task.exercise.max_points, task.variant.max_points) for task in tasks]
    return sorted(range(len(tasks)), key=worth.__getitem__, reverse=True)


@dataclass(frozen=True)
class _Share:
    """Some of the work: all there is on the variants at `indices`, one after the other; or, of a
    single one, a few of its parts, or counting its accesses to memory."""

    indices: tuple[int, ...]
    keys: tuple[tuple[str, str], ...] = ()
    counts: bool = False
    is_again: bool = False  # the process that had it before was lost

    @property
    def is_all(self) -> bool:
        """Whether there is no more to do on the variants than this."""
        return not self.keys and not self.counts

    def again(self) -> list[_Share]:
        """What is left to do where the process is lost: each variant alone, for one did it."""
        return [replace(self, indices=(index,), is_again=True) for index in self.indices]


def _shares(tasks: Sequence[Task], device: str | None) -> list[_Share]:
    """How the work on the variants is shared out, in the order in which it is to begin.

    Without a GPU each variant is one process's work. On one, where checking is compiling, the
    dtypes of a Triton variant are checked side by side, each in all size classes: these have most
    of their compiled kernels in common. Its accesses are counted by plan meanwhile: that takes an
    idle core, and of a variant that turns out to be wrong they are forgotten. The variants in one
    file of CUDA C++ are one process's work: whoever gets one of them compiles it for all.
    """
    by_worth = _by_worth(tasks)
    if device != locks.ON_GPU:
        return [_Share((index,)) for index in by_worth]
    shares: dict[object, list[_Share]] = {}
    for index in by_worth:
        variant = tasks[index].variant
        if variant.language == "cuda":
            [before] = shares.get(variant.file, [_Share(())])
            shares[variant.file] = [replace(before, indices=(*before.indices, index))]
        else:
            shares[index] = _shares_of_triton(index, tasks[index])
    # Counting comes when there is nothing else to begin with.
    return sorted(chain.from_iterable(shares.values()), key=lambda share: share.counts)


def _shares_of_triton(index: int, task: Task) -> list[_Share]:
    variant = task.variant
    by_dtype = (tuple(key for key in task.parts if key[0] == each) for each in variant.dtypes)
    counting = [_Share((index,), counts=True)] if variant.memory is not None else []
    return [*(_Share((index,), keys) for keys in by_dtype), *counting]


class _Checking:
    """The variants of one grading being checked in processes, and what came of them so far."""

    def __init__(
        self,
        session: Session,
        options: Options,
        tasks: Sequence[Task],
        processes: process_pool.Pool,
        on_step: Progress,
    ) -> None:
        self.waiting: dict[Future[Any], _Share] = {}
        self._session, self._tasks, self._processes = session, tasks, processes
        self._on_step = on_step
        self._grading = _Grading.of(session, options)
        self._parts: dict[int, dict[tuple[str, str], PartEvidence]] = {}
        self._memory: dict[int, MemoryEvidence | None] = {}

    def submit(self, share: _Share) -> None:
        """Have a share done."""
        tasks = [self._tasks[index] for index in share.indices]
        if share.is_all:
            work = (_check_all, self._grading, tasks)
        elif share.counts:
            work = (_check_memory, self._grading, *tasks)
        else:
            work = (_check_parts, self._grading, *tasks, share.keys)
        self.waiting[self._processes.submit(*work, told=self._on_step)] = share

    def take(self, future: Future[Any]) -> Iterator[tuple[int, VariantEvidence]]:
        """Take in what a process found; a variant's evidence, where that was the last of it."""
        share = self.waiting.pop(future)
        try:
            found = future.result()
        except process_pool.Lost:
            if not share.is_again:
                for each in share.again():
                    self.submit(each)
                return
            found = self._lost(share)
        if share.is_all:
            yield from zip(share.indices, found, strict=True)
            return
        [index] = share.indices
        if share.counts:
            self._memory[index] = found
        else:  # none where there is no file
            parts = self._parts.setdefault(index, {})
            parts.update(((part.dtype, part.size_class), part) for part in found)
        if all(index not in each.indices for each in self.waiting.values()):
            yield index, self._put_together(index)

    def _put_together(self, index: int) -> VariantEvidence:
        """A variant's evidence from that of its shares."""
        task = self._tasks[index]
        parts = self._parts.get(index, {})
        ordered = tuple(parts[key] for key in task.parts if key in parts)
        evidence = replace(self._session.blank_evidence(task), parts=ordered)
        if evidence.correctness is not Status.passed:
            return evidence
        return replace(evidence, memory=self._memory.get(index))

    def _lost(self, share: _Share) -> MemoryEvidence | list[PartEvidence] | list[VariantEvidence]:
        """In place of what a process would have found that was lost twice."""
        if share.counts:
            return MemoryEvidence(Status.grader_error, LOST)
        [index] = share.indices
        task = self._tasks[index]
        keys = share.keys or task.parts
        parts = [PartEvidence(*key, Status.grader_error, reason=LOST) for key in keys]
        if not share.is_all:
            return parts
        return [replace(self._session.blank_evidence(task), parts=tuple(parts))]


@dataclass(frozen=True)
class _Grading:
    """A grading that a process of a pool works for."""

    submission: Path
    files: Mapping[str, bytes | str]
    exercises: Mapping[str, Exercise]
    options: Options

    @classmethod
    def of(cls, session: Session, options: Options) -> _Grading:
        """The grading of a session in another process."""
        files = session.files.of(session.exercises.values())
        return cls(session.submission, files, session.exercises, options)

    def session(self, owned: bool = False) -> Session:
        """This process's session, opened once; on a GPU of its own where it is to be `owned`."""
        if self.options.device == locks.ON_GPU:  # before anything here uses CUDA
            _settle(owned)
        if not _opened:
            session = Session(self.submission, self.exercises, self.options, files=self.files)
            process_pool.at_end(session.close)
            _opened.append(session)
        return _opened[0]


_opened: list[Session] = []  # in a process of a pool, which works for one grading: its session


def _settle(owned: bool) -> None:
    """Choose this process's GPU; where other commands own them all, one in turns with them."""
    try:
        locks.settle(owned)
    except locks.GpuError:
        if not owned:
            raise
        locks.settle(owned=False)


def _check_parts(
    grading: _Grading, task: Task, keys: Sequence[tuple[str, str]]
) -> tuple[PartEvidence, ...]:
    """Some parts of a task."""
    session = grading.session()
    process_pool.tell(Step.at(task))
    return check_parts(session, task, keys, process_pool.tell)


def _check_all(grading: _Grading, tasks: Sequence[Task]) -> list[VariantEvidence]:
    """All of each task but what needs a GPU for itself."""
    return [check(grading.session(), task, process_pool.tell) for task in tasks]


def _check_memory(grading: _Grading, task: Task) -> MemoryEvidence | None:
    """What a task does to memory, whether or not it is right; None where it has no file."""
    session = grading.session()
    if session.not_attempted(task):
        return None
    return check_memory(session, task, process_pool.tell)


def _measure(grading: _Grading, task: Task, checked: VariantEvidence) -> VariantEvidence:
    """One task on a GPU of this process's own."""
    return measure(grading.session(owned=True), task, checked, process_pool.tell)


# --- on each GPU ----------------------------------------------------------------------------------


def timed_on_each_gpu(
    session: Session,
    options: Options,
    tasks: Sequence[Task],
    checked: Mapping[int, VariantEvidence],
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """What `measure` adds, where several GPUs can time; by place in `tasks`, as they come.

    Nothing where there is one GPU, or one variant to be timed.
    """
    timed = sorted(i for i, evidence in checked.items() if is_timed(tasks[i], evidence))
    gpus = len(locks.visible()) if session.device == locks.ON_GPU else 1
    if gpus > 1 and len(timed) > 1:
        yield from _timed_in_pool(session, options, tasks, checked, timed, gpus, on_step)


def _timed_in_pool(
    session: Session,
    options: Options,
    tasks: Sequence[Task],
    checked: Mapping[int, VariantEvidence],
    timed: Sequence[int],
    width: int,
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """One process for each of `width` GPUs. What kills one of them costs its own variant."""
    grading = _Grading.of(session, options)
    with process_pool.Pool(min(width, len(timed))) as processes:
        waiting = {}
        for index in timed:
            work = (_measure, grading, tasks[index], checked[index])
            waiting[processes.submit(*work, told=on_step)] = index
        for future in as_completed(waiting):
            index = waiting[future]
            try:
                yield index, future.result()
            except process_pool.Lost:
                lost = PerformanceEvidence(Status.grader_error, LOST_TIMING)
                yield index, replace(checked[index], performance=lost)

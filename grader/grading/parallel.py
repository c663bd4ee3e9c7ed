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
from uuid import uuid4

from grader.evidence import MemoryEvidence, PartEvidence, PerformanceEvidence, VariantEvidence
from grader.gpu import locks
from grader.gpu.devices import DeviceName
from grader.grading import process_pool
from grader.grading.search import Effort
from grader.grading.session import Progress, Session, Step, keys_of
from grader.spec import Exercise, Variant
from grader.status import Status

LOST = "the grader's own process was killed, twice: for want of memory?"
LOST_TIMING = "the grader's own process was killed while it timed"

Pair = tuple[Exercise, Variant]


@dataclass(frozen=True)
class Options:
    """What every session of one grading has in common."""

    exercises: Mapping[str, Exercise]
    seed: int
    device: DeviceName | None
    effort: Effort | None
    require_sandbox: bool
    lifted: tuple[str, ...]

    def session(self, submission: Path, files: Mapping[str, bytes | str] | None = None) -> Session:
        return Session(
            submission,
            self.exercises,
            seed=self.seed,
            device=self.device,
            effort=self.effort,
            require_sandbox=self.require_sandbox,
            lifted=self.lifted,
            files=files,
        )


def checked_side_by_side(
    session: Session,
    options: Options,
    pairs: Sequence[Pair],
    jobs: int,
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """What `Session.beside` shows of each variant, by its place in `pairs`, as they come.

    Exercises worth most, which take longest, come first, so that none of them is left for last.
    """
    shares = _shares(pairs, options.device)
    with process_pool.Pool(min(jobs, len(shares))) as processes:
        checking = _Checking(session, options, pairs, processes, on_step)
        for share in shares:
            checking.submit(share)
        while checking.waiting:
            for future in as_completed(list(checking.waiting)):
                yield from checking.take(future)


@contextlib.contextmanager
def compiling_ahead(
    session: Session, pairs: Sequence[Pair], checked: Mapping[int, VariantEvidence]
) -> Iterator[None]:
    """Compile what will be timed, on a GPU, while nothing else is to do in this process.

    What is `checked` by then and wrong will not be timed.
    """
    if session.device != locks.ON_GPU:
        yield
        return
    over = threading.Event()

    def compile_each() -> None:
        for index in _by_worth(pairs):
            seen = checked.get(index)
            if seen is None or seen.correctness is Status.passed:
                with contextlib.suppress(Exception):  # it will be met again, and told, in time
                    session.compile_ahead(*pairs[index], over.is_set)

    compiling = threading.Thread(target=compile_each, daemon=True)
    compiling.start()
    try:
        yield
    except BaseException:  # nobody waits: with its sandbox ends what it waits for
        over.set()
        raise
    over.set()
    compiling.join()


def _by_worth(pairs: Sequence[Pair]) -> list[int]:
    """Their places: exercises worth most first, and in each the variants worth most."""
    worth = [(exercise.max_points, variant.max_points) for exercise, variant in pairs]
    return sorted(range(len(pairs)), key=worth.__getitem__, reverse=True)


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


def _shares(pairs: Sequence[Pair], device: str | None) -> list[_Share]:
    """How the work on the variants is shared out, in the order in which it is to begin.

    Without a GPU each variant is one process's work. On one, where checking is compiling, the
    dtypes of a Triton variant are checked side by side, each in all size classes: these have most
    of their compiled kernels in common. Its accesses are counted by plan meanwhile: that takes an
    idle core, and of a variant that turns out to be wrong they are forgotten. The variants in one
    file of CUDA C++ are one process's work: whoever gets one of them compiles it for all.
    """
    by_worth = _by_worth(pairs)
    if device != locks.ON_GPU:
        return [_Share((index,)) for index in by_worth]
    shares: dict[object, list[_Share]] = {}
    for index in by_worth:
        variant = pairs[index][1]
        if variant.language == "cuda":
            [before] = shares.get(variant.file, [_Share(())])
            shares[variant.file] = [replace(before, indices=(*before.indices, index))]
        else:
            shares[index] = _shares_of_triton(index, variant)
    # Counting comes when there is nothing else to begin with.
    return sorted(chain.from_iterable(shares.values()), key=lambda share: share.counts)


def _shares_of_triton(index: int, variant: Variant) -> list[_Share]:
    keys = keys_of(variant)
    parts = [_Share((index,), tuple(k for k in keys if k[0] == each)) for each in variant.dtypes]
    return parts + [_Share((index,), counts=True)] * (variant.memory is not None)


class _Checking:
    """The variants of one grading being checked in processes, and what came of them so far."""

    def __init__(
        self,
        session: Session,
        options: Options,
        pairs: Sequence[Pair],
        processes: process_pool.Pool,
        on_step: Progress,
    ) -> None:
        self.waiting: dict[Future[Any], _Share] = {}
        self._session, self._pairs, self._processes = session, pairs, processes
        self._on_step = on_step
        self._given = (uuid4().hex, session.submission, session.files, options)
        self._parts: dict[int, dict[tuple[str, str], PartEvidence]] = {}
        self._memory: dict[int, MemoryEvidence | None] = {}

    def submit(self, share: _Share) -> None:
        """Have a share done."""
        pairs = [self._pairs[index] for index in share.indices]
        tasks = [_Task(*self._given, exercise.name, variant.name) for exercise, variant in pairs]
        if share.is_all:
            work = (_check_all, tasks)
        else:
            work = (_count, *tasks) if share.counts else (_check, *tasks, share.keys)
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
        exercise, variant = self._pairs[index]
        parts = self._parts.get(index, {})
        ordered = tuple(parts[key] for key in keys_of(variant) if key in parts)
        evidence = replace(self._session.unseen(exercise, variant), parts=ordered)
        if evidence.correctness is not Status.passed:
            return evidence
        return replace(evidence, memory=self._memory.get(index))

    def _lost(self, share: _Share) -> MemoryEvidence | list[PartEvidence] | list[VariantEvidence]:
        """In place of what a process would have found that was lost twice."""
        if share.counts:
            return MemoryEvidence(Status.grader_error, LOST)
        [index] = share.indices
        exercise, variant = self._pairs[index]
        keys = share.keys or keys_of(variant)
        parts = [PartEvidence(*key, Status.grader_error, reason=LOST) for key in keys]
        if not share.is_all:
            return parts
        return [replace(self._session.unseen(exercise, variant), parts=tuple(parts))]


_kept: dict[str, Session] = {}  # in a process of the pool: the session of the grading it works for


@dataclass(frozen=True)
class _Task:
    """A variant to work on in a process of a pool."""

    kept_as: str  # of one grading: the session that it leaves in its processes
    submission: Path
    files: Mapping[str, bytes | str]
    options: Options
    exercise: str
    variant: str

    def pair(self) -> Pair:
        """What the names stand for."""
        exercise = self.options.exercises[self.exercise]
        return exercise, exercise.variants[self.variant]

    def session(self, alone: bool = False) -> Session:
        """This process's session, opened once; on a GPU of its own where it is to be `alone`."""
        if self.options.device == locks.ON_GPU:  # before anything here uses CUDA
            _settle(alone)
        if not _kept:
            _kept[self.kept_as] = self.options.session(self.submission, self.files)
            process_pool.at_end(_kept[self.kept_as].__exit__)
        return _kept[self.kept_as]


def _settle(alone: bool) -> None:
    """Choose this process's GPU; where other commands own them all, one in turns with them."""
    try:
        locks.settle(alone)
    except locks.GpuError:
        if not alone:
            raise
        locks.settle(owned=False)


def _check(task: _Task, keys: Sequence[tuple[str, str]]) -> tuple[PartEvidence, ...]:
    """Some parts of a variant."""
    session = task.session()
    process_pool.tell(Step(task.exercise, task.variant))
    return session.parts(*task.pair(), keys, process_pool.tell)


def _check_all(tasks: Sequence[_Task]) -> list[VariantEvidence]:
    """All of each variant but what needs a GPU for itself."""
    return [task.session().beside(*task.pair(), process_pool.tell) for task in tasks]


def _count(task: _Task) -> MemoryEvidence | None:
    """What a variant does to memory, whether or not it is right; None where it has no file."""
    session, pair = task.session(), task.pair()
    return None if session.not_attempted(pair[1]) else session.count(*pair, process_pool.tell)


def _alone(task: _Task, checked: VariantEvidence) -> VariantEvidence:
    """One variant on a GPU of this process's own."""
    return task.session(alone=True).alone(*task.pair(), checked, process_pool.tell)


# --- on each GPU ----------------------------------------------------------------------------------


def timed_on_each_gpu(
    session: Session,
    options: Options,
    pairs: Sequence[Pair],
    checked: Mapping[int, VariantEvidence],
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """What `Session.alone` adds, where several GPUs can time; by place in `pairs`, as they come.

    Nothing where there is one GPU, or one variant to be timed.
    """
    right = [index for index, seen in checked.items() if seen.correctness is Status.passed]
    timed = sorted(index for index in right if pairs[index][1].performance is not None)
    gpus = len(locks.visible()) if session.device == locks.ON_GPU else 1
    if gpus > 1 and len(timed) > 1:
        yield from _timed_in_pool(session, options, pairs, checked, timed, gpus, on_step)


def _timed_in_pool(
    session: Session,
    options: Options,
    pairs: Sequence[Pair],
    checked: Mapping[int, VariantEvidence],
    timed: Sequence[int],
    width: int,
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """One process for each of `width` GPUs. What kills one of them costs its own variant."""
    given = (uuid4().hex, session.submission, session.files, options)
    with process_pool.Pool(min(width, len(timed))) as processes:
        waiting = {}
        for index in timed:
            task = _Task(*given, pairs[index][0].name, pairs[index][1].name)
            waiting[processes.submit(_alone, task, checked[index], told=on_step)] = index
        for future in as_completed(waiting):
            index = waiting[future]
            try:
                yield index, future.result()
            except process_pool.Lost:
                lost = PerformanceEvidence(Status.grader_error, LOST_TIMING)
                yield index, replace(checked[index], performance=lost)

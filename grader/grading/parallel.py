"""One submission's tasks checked in processes side by side, while what will be timed is compiled.

What a process observes comes back to the one that grades. A process that is lost costs the task it
worked on, not the others.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from grader.evidence import MemoryEvidence, PartEvidence, VariantEvidence
from grader.gpu import locks
from grader.grading import process_pool, schedule
from grader.grading.check import check, check_memory, check_parts
from grader.grading.measure import compile_ahead
from grader.grading.schedule import Executor, InPool, Queue
from grader.grading.session import Options, Progress, Session, Step
from grader.spec import Exercise
from grader.spec.task import Task
from grader.status import Status

LOST = "the grader's own process was killed, twice: for want of memory?"


@dataclass(frozen=True)
class Share:
    """Some of the work: all there is to check of the tasks at `indices`, one after the other.

    Or, of a single one, a few of its parts, or its use of memory.
    """

    indices: tuple[int, ...]
    parts: tuple[tuple[str, str], ...] = ()
    counts: bool = False  # accesses to memory

    @property
    def is_all(self) -> bool:
        """Whether there is no more to check of the tasks than this."""
        return not self.parts and not self.counts

    def pieces(self) -> Iterator[Share]:
        """What is to be done where the process is lost: each task alone, for one did it."""
        return (replace(self, indices=(index,)) for index in self.indices)


@dataclass(frozen=True)
class Work:
    """What a process of a pool is given: tasks of a submission, and what to observe of them."""

    submission: Path
    files: Mapping[str, bytes | str]
    exercises: Mapping[str, Exercise]
    options: Options
    tasks: Sequence[Task]
    share: Share = Share(())

    def session(self) -> Session:
        """This process's session, opened once."""
        if self.options.device == locks.ON_GPU:  # before anything here uses CUDA
            locks.settle(False)
        if not _opened:
            session = Session(self.submission, self.exercises, self.options, files=self.files)
            process_pool.at_end(session.close)
            _opened.append(session)
        return _opened[0]


_opened: list[Session] = []  # in a process of a pool, which works for one grading: its session


# --- checked --------------------------------------------------------------------------------------


def checked_side_by_side(
    session: Session, tasks: Sequence[Task], jobs: int, on_step: Progress
) -> Iterator[tuple[int, VariantEvidence]]:
    """What `check` observes of each task, by its place in `tasks`, as they come.

    Exercises worth most, which take longest, come first, so that none of them is left for last.
    """
    shares = shared_out(tasks, session.device)
    with process_pool.Pool(min(jobs, len(shares))) as processes:
        executor = InPool(processes, len(shares), check_share, on_step)
        yield from checked_by(executor, session, tasks, shares)


def checked_by(
    executor: Executor[Work, list[VariantEvidence]],
    session: Session,
    tasks: Sequence[Task],
    shares: Sequence[Share],
) -> Iterator[tuple[int, VariantEvidence]]:
    """The evidence of each task, once an executor has done all the shares of it."""
    work = _work(session)
    left = Counter(index for share in shares for index in share.indices)
    observed: dict[int, list[VariantEvidence]] = defaultdict(list)

    def work_of(share: Share) -> Work:
        return replace(work, tasks=[tasks[index] for index in share.indices], share=share)

    queue = Queue(executor, work_of, Share.pieces)
    queue.add(shares)
    for ended in schedule.run([queue]):
        share = ended.job
        if ended.is_lost:
            evidence = [_lost(session, tasks[share.indices[0]], share)]
        else:
            evidence = ended.future.result()
        for index, each in zip(share.indices, evidence, strict=True):
            left[index] -= 1
            observed[index].append(each)
            if not left[index]:
                yield index, _joined(tasks[index], observed.pop(index))


def check_share(work: Work) -> list[VariantEvidence]:
    """In a process of a pool: what a share shows of each of its tasks."""
    session = work.session()
    if work.share.is_all:
        return [check(session, task, process_pool.tell) for task in work.tasks]
    [task] = work.tasks
    evidence = session.blank_evidence(task)
    if evidence.not_attempted:
        return [evidence]
    process_pool.tell(Step.at(task))
    if work.share.counts:  # whether or not it is right, which another process finds out
        return [replace(evidence, memory=check_memory(session, task, process_pool.tell))]
    parts = check_parts(session, task, work.share.parts, process_pool.tell)
    return [replace(evidence, parts=parts)]


def _work(session: Session) -> Work:
    """What all work on a session's submission has in common, in other processes."""
    files = session.files.of(session.exercises.values())
    return Work(session.submission, files, session.exercises, session.options, ())


def _joined(task: Task, observed: Sequence[VariantEvidence]) -> VariantEvidence:
    """A task's evidence from that of its shares; of one that is wrong, memory is forgotten."""
    parts = {(part.dtype, part.size_class): part for each in observed for part in each.parts}
    ordered = tuple(parts[name] for name in task.parts if name in parts)
    joined = replace(observed[0], parts=ordered, memory=None)
    if joined.correctness is not Status.passed:
        return joined
    return replace(joined, memory=next((e.memory for e in observed if e.memory is not None), None))


def _lost(session: Session, task: Task, share: Share) -> VariantEvidence:
    """In place of what a process would have observed that was lost twice."""
    evidence = session.blank_evidence(task)
    if share.counts:
        return replace(evidence, memory=MemoryEvidence(Status.grader_error, LOST))
    names = share.parts or task.parts
    parts = (PartEvidence(*name, Status.grader_error, reason=LOST) for name in names)
    return replace(evidence, parts=tuple(parts))


def shared_out(tasks: Sequence[Task], device: str | None) -> list[Share]:
    """How the work on the tasks is shared out, in the order in which it is to begin.

    Without a GPU each task is one process's work. On one, where checking is compiling, the dtypes
    of a task in Triton are checked side by side, each in all size classes: these have most of their
    compiled kernels in common. Its accesses are counted by plan meanwhile: that takes an idle core,
    and of a task that turns out to be wrong they are forgotten. The tasks in one file of CUDA C++
    are one process's work: whoever gets one of them compiles it for all.
    """
    by_worth = _by_worth(tasks)
    if device != locks.ON_GPU:
        return [Share((index,)) for index in by_worth]
    shares: dict[object, list[Share]] = {}
    for index in by_worth:
        variant = tasks[index].variant
        if variant.language == "cuda":
            [before] = shares.get(variant.file, [Share(())])
            shares[variant.file] = [replace(before, indices=(*before.indices, index))]
        else:
            shares[index] = _shares_of_triton(index, tasks[index])
    # Counting comes when there is nothing else to begin with.
    return sorted(chain.from_iterable(shares.values()), key=lambda share: share.counts)


def _shares_of_triton(index: int, task: Task) -> list[Share]:
    by_dtype = (tuple(n for n in task.parts if n[0] == dtype) for dtype in task.variant.dtypes)
    counting = [Share((index,), counts=True)] if task.variant.memory is not None else []
    return [*(Share((index,), names) for names in by_dtype), *counting]


# --- compiled ahead -------------------------------------------------------------------------------


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

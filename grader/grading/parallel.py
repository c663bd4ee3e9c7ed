"""One submission's tasks in parallel processes: checked, and timed on several GPUs.

Evidence is returned to the grading process. A lost process costs only the task it worked on.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from grader.evidence import MemoryEvidence, PartEvidence, PerformanceEvidence, VariantEvidence
from grader.gpu import locks
from grader.grading import process_pool, schedule
from grader.grading.check import check, check_memory, check_parts
from grader.grading.measure import compile_ahead, is_timed, measure
from grader.grading.schedule import Executor, InPool, Queue
from grader.grading.session import Options, Progress, Session, Step
from grader.spec import Exercise
from grader.spec.task import Task
from grader.status import Status

LOST = "the grader's own process was killed, twice: for want of memory?"
LOST_TIMING = "the grader's own process was killed while it timed"


@dataclass(frozen=True)
class Share:
    """Some of the checks: all of the tasks at `indices`, one after the other.

    Or, for a single task, some of its parts, or its use of memory.
    """

    indices: tuple[int, ...]
    parts: tuple[tuple[str, str], ...] = ()
    counts: bool = False  # accesses to memory

    @property
    def is_all(self) -> bool:
        """Whether the share has all checks of its tasks."""
        return not self.parts and not self.counts

    def pieces(self) -> Iterator[Share]:
        """The shares to retry after a lost process: each task alone, as one of them caused it."""
        return (replace(self, indices=(index,)) for index in self.indices)


@dataclass(frozen=True)
class Work:
    """A pool process's assignment: tasks of a submission, and what to observe of them."""

    submission: Path
    files: Mapping[str, bytes | str]
    exercises: Mapping[str, Exercise]
    options: Options
    tasks: Sequence[Task]
    share: Share = Share(())
    checked: VariantEvidence | None = None  # of a task to be timed

    def session(self, owned: bool = False) -> Session:
        """This process's session, opened once; `owned` gives it a GPU of its own."""
        if self.options.device == locks.ON_GPU:  # before anything here uses CUDA
            _settle(owned)
        if not _opened:
            session = Session(self.submission, self.exercises, self.options, files=self.files)
            process_pool.at_end(session.close)
            _opened.append(session)
        return _opened[0]


_opened: list[Session] = []  # a pool process's session; the process serves one grading


def _settle(owned: bool) -> None:
    """Choose this process's GPU; take turns with other commands where they hold all GPUs."""
    try:
        locks.settle(owned)
    except locks.GpuError:
        if not owned:
            raise
        locks.settle(False)


# --- checked --------------------------------------------------------------------------------------


def checked_side_by_side(
    session: Session, tasks: Sequence[Task], jobs: int, on_step: Progress
) -> Iterator[tuple[int, VariantEvidence]]:
    """The evidence of `check` on each task, by its place in `tasks`, as it arrives.

    Exercises worth most take longest, so they come first.
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
    """The evidence of each task, once an executor has finished all its shares."""
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
    """Check a share of the tasks; runs in a pool process."""
    session = work.session()
    if work.share.is_all:
        return [check(session, task, process_pool.tell) for task in work.tasks]
    [task] = work.tasks
    evidence = session.blank_evidence(task)
    if evidence.not_attempted:
        return [evidence]
    process_pool.tell(Step.at(task))
    if work.share.counts:  # another process checks whether the task is right
        return [replace(evidence, memory=check_memory(session, task, process_pool.tell))]
    parts = check_parts(session, task, work.share.parts, process_pool.tell)
    return [replace(evidence, parts=parts)]


def _work(session: Session) -> Work:
    """The common part of all work on a session's submission."""
    files = session.files.of(session.exercises.values())
    return Work(session.submission, files, session.exercises, session.options, ())


def _joined(task: Task, observed: Sequence[VariantEvidence]) -> VariantEvidence:
    """A task's evidence from that of its shares; a wrong task has no evidence on memory."""
    parts = {(part.dtype, part.size_class): part for each in observed for part in each.parts}
    ordered = tuple(parts[name] for name in task.parts if name in parts)
    joined = replace(observed[0], parts=ordered, memory=None)
    if joined.correctness is not Status.passed:
        return joined
    return replace(joined, memory=next((e.memory for e in observed if e.memory is not None), None))


def _lost(session: Session, task: Task, share: Share) -> VariantEvidence:
    """The evidence in place of a share whose process was lost twice."""
    evidence = session.blank_evidence(task)
    if share.counts:
        return replace(evidence, memory=MemoryEvidence(Status.grader_error, LOST))
    names = share.parts or task.parts
    parts = (PartEvidence(*name, Status.grader_error, reason=LOST) for name in names)
    return replace(evidence, parts=tuple(parts))


def shared_out(tasks: Sequence[Task], device: str | None) -> list[Share]:
    """The shares of the tasks' checks, in the order in which they are to begin.

    Without a GPU, each task is one share. On a GPU, compiling takes most of the time. So each dtype
    of a Triton task is a share, since its size classes have most compiled kernels in common, and
    counting accesses, which needs no GPU, is another. Counts of a wrong task are dropped. All tasks
    in one CUDA C++ file are one share, so that it is compiled once.
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
    # Counting comes last, when no other share is waiting.
    return sorted(chain.from_iterable(shares.values()), key=lambda share: share.counts)


def _shares_of_triton(index: int, task: Task) -> list[Share]:
    by_dtype = (tuple(n for n in task.parts if n[0] == dtype) for dtype in task.variant.dtypes)
    counting = [Share((index,), counts=True)] if task.variant.memory is not None else []
    return [*(Share((index,), names) for names in by_dtype), *counting]


# --- timed ----------------------------------------------------------------------------------------


def timed_on_each_gpu(
    session: Session,
    tasks: Sequence[Task],
    checked: Mapping[int, VariantEvidence],
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """The evidence of `measure`, by place in `tasks`, as it arrives; for several GPUs.

    Each GPU has a process; a killed one costs its own task. Yields nothing if there is one GPU, or
    one task to time.
    """
    timed = sorted(i for i, evidence in checked.items() if is_timed(tasks[i], evidence))
    gpus = len(locks.visible()) if session.device == locks.ON_GPU else 1
    if gpus < 2 or len(timed) < 2:
        return
    width = min(gpus, len(timed))
    with process_pool.Pool(width) as processes:
        executor = InPool(processes, width, measure_task, on_step)
        yield from timed_by(executor, session, tasks, {i: checked[i] for i in timed})


def timed_by(
    executor: Executor[Work, VariantEvidence],
    session: Session,
    tasks: Sequence[Task],
    checked: Mapping[int, VariantEvidence],
) -> Iterator[tuple[int, VariantEvidence]]:
    """The times of the tasks that are `checked`, by their places, from an executor's processes."""
    work = _work(session)

    def work_of(index: int) -> Work:
        return replace(work, tasks=[tasks[index]], checked=checked[index])

    queue = Queue(executor, work_of, tries=1)
    queue.add(checked)
    for ended in schedule.run([queue]):
        if ended.is_lost:
            lost = PerformanceEvidence(Status.grader_error, LOST_TIMING)
            yield ended.job, replace(checked[ended.job], performance=lost)
        else:
            yield ended.job, ended.future.result()


def measure_task(work: Work) -> VariantEvidence:
    """Time one task on a GPU of the process's own; runs in a pool process."""
    [task] = work.tasks
    assert work.checked is not None
    return measure(work.session(owned=True), task, work.checked, process_pool.tell)


@contextlib.contextmanager
def compiling_ahead(
    session: Session, tasks: Sequence[Task], checked: Mapping[int, VariantEvidence]
) -> Iterator[None]:
    """Compile kernels for the later timing on a GPU, while this process would be idle.

    Tasks that are `checked` as wrong by then are left out.
    """
    if session.device != locks.ON_GPU:
        yield
        return
    over = threading.Event()

    def compile_each() -> None:
        for index in _by_worth(tasks):
            evidence = checked.get(index)
            if evidence is None or evidence.correctness is Status.passed:
                with contextlib.suppress(Exception):  # the timing raises and reports it again
                    compile_ahead(session, tasks[index], over.is_set)

    compiling = threading.Thread(target=compile_each, daemon=True)
    compiling.start()
    try:
        yield
    except BaseException:  # ends what the thread waits for: the session's sandbox closes
        over.set()
        raise
    over.set()
    compiling.join()


def _by_worth(tasks: Sequence[Task]) -> list[int]:
    """The tasks' places, by the worth of the exercise and then of the variant, highest first."""
    worth = [(task.exercise.max_points, task.variant.max_points) for task in tasks]
    return sorted(range(len(tasks)), key=worth.__getitem__, reverse=True)

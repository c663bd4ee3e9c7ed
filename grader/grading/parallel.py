"""One submission's tasks checked in parallel processes, which also plan what will be timed.

Evidence is returned to the grading process. A lost process costs only the task it worked on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from grader.evidence import MemoryEvidence, PartEvidence, VariantEvidence
from grader.gpu import locks
from grader.grading import plan_files, process_pool, schedule
from grader.grading.check import check, check_large_sizes, check_memory, check_parts
from grader.grading.measure import is_timed
from grader.grading.schedule import Executor, InPool, Queue
from grader.grading.session import Options, Progress, Session, Step
from grader.spec import Exercise
from grader.spec.task import Task
from grader.status import Status

LOST = "the grader's own process was killed, twice: for want of memory?"


@dataclass(frozen=True)
class Share:
    """Some of the checks: all of the tasks at `indices`, one after the other.

    Or, for a single task, some of its parts, its use of memory, or its plans for the clock.
    """

    indices: tuple[int, ...]
    parts: tuple[tuple[str, str], ...] = ()
    counts: bool = False  # accesses to memory
    plans: bool = False  # what will be timed

    @property
    def is_all(self) -> bool:
        """Whether the share has all checks of its tasks."""
        return not (self.parts or self.counts or self.plans)

    def pieces(self) -> Iterator[Share]:
        """The shares to retry after a lost process: each task alone, as one of them caused it."""
        return (replace(self, indices=(index,)) for index in self.indices)


@dataclass(frozen=True)
class Checked:
    """The evidence on a task, and its plans for the clock: see plan_files.plans_to_time."""

    evidence: VariantEvidence
    plans: bytes = b""


@dataclass(frozen=True)
class Work:
    """A pool process's assignment: tasks of a submission, and what to observe of them."""

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
            _opened.append(Session(self.submission, self.exercises, self.options, files=self.files))
        return _opened[0]


_opened: list[Session] = []  # a pool process's session; the process serves one grading


# --- checked --------------------------------------------------------------------------------------


def checked_side_by_side(
    session: Session, tasks: Sequence[Task], jobs: int, on_step: Progress
) -> Generator[tuple[int, Checked], None, None]:
    """The evidence of `check` on each task, by its place in `tasks`, as it arrives.

    Those to be timed come first. Variants worth most take longest, so these begin before others.
    """
    shares = shared_out(tasks, session.device)
    process_pool.expect()
    with process_pool.Pool(min(jobs, len(shares))) as processes:
        executor = InPool(processes, len(shares), check_share, on_step)
        yield from checked_by(executor, session, tasks, shares)


def checked_by(
    executor: Executor[Work, list[Checked]],
    session: Session,
    tasks: Sequence[Task],
    shares: Sequence[Share],
) -> Iterator[tuple[int, Checked]]:
    """The evidence of each task, once an executor has finished all its shares."""
    work = _work(session)
    left = Counter(index for share in shares for index in share.indices)
    observed: dict[int, list[Checked]] = defaultdict(list)

    def work_of(share: Share) -> Work:
        return replace(work, tasks=[tasks[index] for index in share.indices], share=share)

    queue = Queue(executor, work_of, Share.pieces)
    queue.add(shares)
    for ended in schedule.run([queue]):
        share = ended.job
        if ended.is_lost:
            results = [Checked(_lost(session, tasks[share.indices[0]], share))]
        else:
            results = ended.future.result()
        for index, each in zip(share.indices, results, strict=True):
            left[index] -= 1
            observed[index].append(each)
            if not left[index]:
                yield index, _joined(tasks[index], observed.pop(index))


def check_share(work: Work) -> list[Checked]:
    """Check a share of the tasks; runs in a pool process."""
    session = work.session()
    if work.share.is_all:
        return [_checked(session, task) for task in work.tasks]
    [task] = work.tasks
    evidence = session.blank_evidence(task)
    if evidence.not_attempted:
        return [Checked(evidence)]
    process_pool.tell(Step.at(task))
    # Another process checks whether the task is right.
    if work.share.plans:
        return [Checked(evidence, plan_files.plans_to_time(session, task, process_pool.tell))]
    if work.share.counts:
        memory = check_memory(session, task, process_pool.tell)
        return [Checked(replace(evidence, memory=memory))]
    parts = check_parts(session, task, work.share.parts, process_pool.tell)
    evidence = replace(evidence, parts=parts)
    if work.share.parts[0] == task.parts[0] and evidence.correctness is Status.passed:
        failures = check_large_sizes(session, task, process_pool.tell)
        session.runners.close_variant(task)
        evidence = replace(evidence, at_large_sizes=failures)
    return [Checked(evidence)]


def _checked(session: Session, task: Task) -> Checked:
    """All checks of a task, and on a GPU its plans for the clock where it is right."""
    evidence = check(session, task, process_pool.tell)
    if session.device == locks.ON_GPU and is_timed(task, evidence):
        return Checked(evidence, plan_files.plans_to_time(session, task, process_pool.tell))
    return Checked(evidence)


def _work(session: Session) -> Work:
    """The common part of all work on a session's submission."""
    files = session.files.of(session.exercises.values())
    return Work(session.submission, files, session.exercises, session.options, ())


def _joined(task: Task, observed: Sequence[Checked]) -> Checked:
    """A task's evidence from that of its shares; of a wrong task, memory and plans are dropped."""
    every = [each.evidence for each in observed]
    parts = {(part.dtype, part.size_class): part for each in every for part in each.parts}
    ordered = tuple(parts[name] for name in task.parts if name in parts)
    joined = replace(every[0], parts=ordered, memory=None, at_large_sizes=())
    if joined.correctness is not Status.passed:
        return Checked(joined)
    memory = next((each.memory for each in every if each.memory is not None), None)
    plans = next((each.plans for each in observed if each.plans), b"")
    large = next((each.at_large_sizes for each in every if each.at_large_sizes), ())
    return Checked(replace(joined, memory=memory, at_large_sizes=large), plans)


def _lost(session: Session, task: Task, share: Share) -> VariantEvidence:
    """The evidence in place of a share whose process was lost twice."""
    evidence = session.blank_evidence(task)
    if share.plans:  # the task is planned again before it is timed
        return evidence
    if share.counts:
        return replace(evidence, memory=MemoryEvidence(Status.grader_error, LOST))
    names = share.parts or task.parts
    parts = (PartEvidence(*name, Status.grader_error, reason=LOST) for name in names)
    return replace(evidence, parts=tuple(parts))


def shared_out(tasks: Sequence[Task], device: str | None) -> list[Share]:
    """The shares of the tasks' checks, in the order in which they are to begin.

    Without a GPU, each task is one share. On a GPU, compiling takes most of the time. So each dtype
    of a Triton task is a share, since its size classes have most compiled kernels in common.
    Planning what will be timed is another, and so is counting accesses, which needs no GPU. All
    tasks in one CUDA C++ file are one share, so that it is compiled once.
    """
    worth = [(task.variant.max_points, task.exercise.max_points) for task in tasks]
    by_worth = sorted(range(len(tasks)), key=worth.__getitem__, reverse=True)
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

    def order(share: Share) -> tuple[bool, bool]:
        """What will be timed goes first; of that, and of the rest, counting comes last."""
        timed = any(tasks[index].variant.is_graded_on_speed for index in share.indices)
        return not timed, share.counts

    return sorted(chain.from_iterable(shares.values()), key=order)


def _shares_of_triton(index: int, task: Task) -> list[Share]:
    by_dtype = (tuple(n for n in task.parts if n[0] == dtype) for dtype in task.variant.dtypes)
    timed = [Share((index,), plans=True)] if task.variant.is_graded_on_speed else []
    counting = [Share((index,), counts=True)] if task.variant.memory is not None else []
    return [*timed, *(Share((index,), names) for names in by_dtype), *counting]

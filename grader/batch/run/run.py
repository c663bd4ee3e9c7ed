"""Grades a class: runs the missing results and stores each as soon as it exists.

    collect -> store -> what is missing -> processes -> store -> views

Whatever ends it, the same command goes on from what is stored. One command at a time works on a
class; its folder is locked meanwhile.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grader import evidence as evidence_files
from grader.batch.classes import CourseClass
from grader.batch.missing_results import Job, Plan
from grader.batch.run.finished import Finished, finished
from grader.batch.run.progress import Watcher
from grader.batch.store.handins import StoredHandin
from grader.batch.store.results import NewResult
from grader.batch.store.store import NAME, Store
from grader.batch.tasks import Graded, HandinTask, Result, grade_in_pool
from grader.gpu import locks, machine
from grader.grading import process_pool, schedule
from grader.grading.schedule import Executor, InPool, Queue, Stopped
from grader.grading.search import Effort
from grader.mistakes import Mistake
from grader.spec.course_file import CPU

MOST_SEEDS = 1 << 32
LOCK = "class.lock"
SECONDS_PER_TIMING = 15.0  # until some are stored
# On a GPU, a class with fewer hand-ins for each process is shared out by exercises: else most
# processes would be idle at the end. In a larger class a process keeps a hand-in's session.
HANDINS_EACH = 4
INTERRUPTED = 130


@dataclass(frozen=True)
class Options:
    """How a class is graded; `anew`: whatever is stored."""

    only: tuple[str, ...] = ()
    require_sandbox: bool = True
    anew: bool = False


@dataclass
class Outcome:
    """The outcome of a run."""

    handins: int = 0
    graded: int = 0  # results of this run
    shared: int = 0  # results that another hand-in with the same file gave
    complete: bool = True
    failed: list[str] = field(default_factory=list)  # ids of hand-ins that the grader failed on
    trouble: str = ""  # the first failure of the grader's, in full


@dataclass(frozen=True)
class Machines:
    """Where tasks run: `check` many at a time, `measure` one at a time on each GPU."""

    device: str
    check: Executor[HandinTask, Graded]
    measure: Executor[HandinTask, Graded] | None = None


def device_here() -> str:
    """This machine, as results name it: the GPU's name, or "cpu"."""
    return machine.gpu_name() or CPU


def environment() -> dict[str, Any]:
    """What is known of this machine, for the record."""
    return machine.environment(machine.device(), "")


@contextmanager
def this_machine(watcher: Watcher, jobs: int | None = None) -> Iterator[Machines]:
    """Processes of this machine: `jobs`, or by default; and one to time on each GPU."""
    device = device_here()
    gpus = 0 if device == CPU else len(locks.visible())
    with ExitStack() as opened:

        def executor(width: int) -> InPool[HandinTask, Graded]:
            process_pool.expect()
            processes = opened.enter_context(process_pool.Pool(width))
            return InPool(processes, width, grade_in_pool, watcher.step)

        check = executor(jobs or process_pool.default_jobs(machine.gpu_bytes(), gpus))
        yield Machines(device, check, executor(gpus) if gpus else None)


def grade(
    course_class: CourseClass,
    handins: Sequence[StoredHandin],
    machines: Machines,
    run: int,
    options: Options,
    watcher: Watcher | None = None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Run what is missing of the hand-ins. Setting `stop` ends it, with what is stored so far.

    Raises Mistake where a result can't be stored, TaskError and ConfinementError where nothing
    can be graded.
    """
    plan = course_class.plans(machines.device).make(
        handins, only=options.only, require_sandbox=options.require_sandbox, anew=options.anew
    )
    work = _Work(course_class, plan, machines, run, options, watcher or Watcher(), len(handins))
    work.go(stop or threading.Event())
    return work.outcome


@dataclass
class _Work:
    """One run over one plan."""

    course_class: CourseClass
    plan: Plan
    machines: Machines
    run: int
    options: Options
    watcher: Watcher
    total: int

    def __post_init__(self) -> None:
        self._store, seed = self.course_class.store, self.course_class.store.seed
        assert seed is not None  # see seed_of, which comes first
        self._seed = seed
        self._waits = {number: set(keys) for number, keys in self.plan.open.items()}
        check, measure = self.machines.check, self.machines.measure
        self._check = Queue(check, self._task, _one_by_one)
        self._measure = Queue(measure or check, self._task, _one_by_one)
        self.outcome = Outcome(self.total, shared=self.plan.shared)

    def go(self, stop: threading.Event) -> None:
        width = self.machines.check.width
        on_gpu = self.machines.measure is not None
        few = on_gpu and width > 1 and len(self.plan.jobs) < HANDINS_EACH * width
        for job in self.plan.jobs:
            for queue, is_checked in ((self._check, False), (self._measure, True)):
                mine = tuple(each for each in job.wanted if bool(each.checked) is is_checked)
                whole = replace(job, wanted=mine)
                queue.add((_by_exercise(whole) if few else [whole]) if mine else [])
        self.watcher.begin(self.total - len(self._waits), self.total)
        self._tell_outdated()
        self._tell_estimate()
        gpu = None if self.machines.device == CPU else self.machines.device
        here = {**environment(), "gpu": gpu}  # of tasks that nobody has graded
        try:
            for ended in schedule.run([self._check, self._measure], stop):
                self._keep(finished(ended, here))
        except Stopped:
            self.outcome.complete = False

    def _keep(self, done: Finished) -> None:
        is_measured = all(wanted.checked for wanted in done.job.wanted)
        observed = {
            each.key: evidence_files.variant_from_json(each.evidence) for each in done.results
        }
        results = [
            NewResult(
                each.key,
                each.evidence,
                self.machines.device,
                to_measure=each.to_measure,
                grader_failed=observed[each.key].has_grader_error,
                seconds=each.seconds,
                gpu_seconds=each.seconds if is_measured else 0.0,
            )
            for each in done.results
        ]
        self._store.results.keep(results, self._seed, done.environment, self.run)
        self.outcome.graded += len(results)
        if any(each.grader_failed for each in results):
            self.outcome.failed.append(done.job.handin.handin.id)
            self.outcome.trouble = self.outcome.trouble or done.trouble
        self._measure_later(done.job, done.results)
        self._is_done({each.key for each in done.results if not each.to_measure})
        if is_measured:
            self.watcher.measured(done, len(self._measure.waiting))
        else:
            left = len(self._waits)
            self.watcher.finished(done, list(observed.values()), self.total - left)

    def _measure_later(self, job: Job, results: Sequence[Result]) -> None:
        wanted = {each.key: each for each in job.wanted}
        right = tuple(
            replace(wanted[each.key], checked=each.evidence, planned=each.planned)
            for each in results
            if each.to_measure
        )
        self._measure.add([replace(job, wanted=right)] if right else [])

    def _is_done(self, keys: set[str]) -> None:
        for number in list(self._waits):
            self._waits[number] -= keys
            if not self._waits[number]:
                del self._waits[number]

    def _task(self, job: Job) -> HandinTask:
        return HandinTask(
            self._store.handins.files(job.handin.number),
            job.wanted,
            self.course_class.exercises,
            self._seed,
            self.machines.device,
            self.course_class.effort or Effort(),
            self.options.require_sandbox,
        )

    def _tell_outdated(self) -> None:
        """Print which results are run again although their files haven't changed."""
        outdated = self.plan.outdated
        if outdated:
            names = ", ".join(f"{count} of {name}" for name, count in outdated.items())
            self.watcher.say(
                f"Graded anew, since the grader or the specs have changed: {names}. "
                "The old results stay in the store"
            )

    def _tell_estimate(self) -> None:
        """Print how long timing will hold the GPU at most; only right variants are timed."""
        if self.machines.measure is None:
            return
        exercises = self.course_class.exercises
        wanted = (each.task(exercises) for job in self.plan.jobs for each in job.wanted)
        count = sum(task.variant.is_graded_on_speed for task in wanted)
        if count:
            seconds = self._store.results.seconds_per_timing(self.machines.device)
            origin = "as measured so far" if seconds else "a guess before the first one"
            hours = count * (seconds or SECONDS_PER_TIMING) / 3600
            self.watcher.say(
                f"Timing: at most {count} variants, some {hours:.2g} GPU hours ({origin})"
            )


def _by_exercise(job: Job) -> Iterator[Job]:
    """A job's exercises each by themselves."""
    for _, wanted in itertools.groupby(job.wanted, key=lambda each: each.exercise):
        yield replace(job, wanted=tuple(wanted))


def _one_by_one(job: Job) -> Iterator[Job]:
    """A job's variants each on its own, so that one alone can be given up."""
    return (replace(job, wanted=(wanted,)) for wanted in job.wanted)


# --- what a command holds meanwhile ---------------------------------------------------------------


def seed_of(store: Store, wanted: int | None, course: int | None = None) -> int:
    """The class's seed: as wanted, the course's, or drawn, at the first run.

    Raises Mistake for another one than the class has.
    """
    known = store.seed
    if known is None:
        given = course if wanted is None else wanted
        return store.set_seed(secrets.randbelow(MOST_SEEDS) if given is None else given)
    for seed, origin in ((wanted, f"--seed {wanted}"), (course, f"course.yaml: seed: {course}")):
        if seed is not None and seed != known:
            raise Mistake(
                f"{origin}: expected {known}, with which {store.path.parent} is graded: a class "
                "has one seed. Leave it out, or give another --out"
            )
    return known


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a class's folder against a second command. Raises Mistake where one is at work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise Mistake(f"{error.filename}: can't be written: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Mistake(
                f"{folder}: another command is at work on this class: wait for it, or stop it"
            ) from None
        yield


@contextmanager
def begun(folder: Path) -> Iterator[Store]:
    """A class's store, made where there is none yet. A command at a time: see `alone`.

    Where it ends before anything has run (a mistake in course.yaml, no sandbox), what is new is
    removed: a seed that nobody was graded with, and folders.
    """
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    is_new = not (folder / NAME).exists()
    is_empty = False
    try:
        with alone(folder), Store(folder, create=True) as store:
            try:
                yield store
            finally:
                is_empty = not store.has_run
    except BaseException:
        if is_new and is_empty:
            _remove(folder, new)
        raise


def _remove(folder: Path, new: Sequence[Path]) -> None:
    """Remove a class's files, and those folders, the innermost first, that are empty then."""
    with suppress(OSError):
        for name in (NAME, f"{NAME}-wal", f"{NAME}-shm", LOCK):
            (folder / name).unlink(missing_ok=True)
        for each in new:
            each.rmdir()


@contextmanager
def stopped_by_signals(say: Callable[[str], None]) -> Iterator[threading.Event]:
    """An event that the first Ctrl-C (or SIGTERM) sets; the second one ends this process."""
    stop = threading.Event()

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)  # what is stored is safe, and the pool's processes notice
        stop.set()
        say("Stopping; what is graded is stored. Once more to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

"""Grading one hand-in in another process: plain data in, plain data out.

`grade_in_pool` is the one function that processes of a pool and a cluster's workers call. It works
out the keys of its results itself. Where the grader, the oracles or the device are not those of the
process that asked, it raises an error instead of giving a result under a wrong name.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader import evidence as evidence_files
from grader.batch.store.keys import NO_FILE, Conditions, Keys
from grader.evidence import MemoryEvidence, PartEvidence, PerformanceEvidence
from grader.gpu import locks, machine
from grader.gpu.devices import DeviceName
from grader.grading import kept_sandboxes, plan_files, predictions, process_pool
from grader.grading.check import check
from grader.grading.grade import grade_task
from grader.grading.measure import is_timed, measure
from grader.grading.search import Effort
from grader.grading.session import Lent, Options, Progress, Session, Step, unwatched
from grader.grading.submitted import MAX_FILE_BYTES
from grader.mistakes import Mistake
from grader.sandbox import Sandbox
from grader.sandbox.sandbox import end_this_process
from grader.spec import Exercise
from grader.spec.compiling import digest
from grader.spec.course_file import CPU
from grader.spec.predictions import PREDICTIONS
from grader.spec.task import Task
from grader.status import Status

STUCK_SECONDS = 3600.0  # without a case done: far beyond what limits of CPU time allow one
STUCK_EXIT = 75
MOST_PLANNED_BYTES = 16 << 20  # of one result: they are kept until a GPU is free


class TaskError(Mistake, RuntimeError):
    """The task can't be done here; the message says why and what to do."""


@dataclass(frozen=True)
class Wanted:
    """One result: of `exercise`/`variant`, to be stored under `key`.

    `checked` is the evidence of a task that is only to be timed, as JSON. `planned` are the plans
    for that, as plan_files.plans_to_time gives them; where there are none, they are made while the
    GPU waits.
    """

    exercise: str
    variant: str
    key: str
    lifted: bool = False
    checked: str = ""
    planned: bytes = b""

    @property
    def name(self) -> str:
        return f"{self.exercise}/{self.variant}"

    def task(self, exercises: Mapping[str, Exercise]) -> Task:
        """The exercise and the variant that are named."""
        exercise = exercises[self.exercise]
        return Task(exercise, exercise.graded[self.variant])


@dataclass(frozen=True)
class HandinTask:
    """What is wanted of the files of one hand-in. `device` is "cpu" or a GPU's name."""

    files: Mapping[str, bytes]
    wanted: tuple[Wanted, ...]
    exercises: Mapping[str, Exercise]
    seed: int
    device: str = CPU
    effort: Effort | None = None
    require_sandbox: bool = True

    @property
    def needs_exclusive_gpu(self) -> bool:
        """Whether all that is left to be done is timing."""
        return all(wanted.checked for wanted in self.wanted)


@dataclass(frozen=True)
class Result:
    """Evidence of one variant as JSON; `to_measure` where it is to be timed, too.

    For that it has been `planned` already, see Wanted.
    """

    key: str
    evidence: str
    to_measure: bool = False
    seconds: float = 0.0
    planned: bytes = b""


@dataclass(frozen=True)
class Graded:
    """The results of a task, and the machine that they are from."""

    results: tuple[Result, ...]
    environment: dict[str, Any]


def grade_files(
    task: HandinTask,
    on_step: Progress = unwatched,
    sandbox: Sandbox | None = None,
    lent: Lent | None = None,
) -> Graded:
    """Grade the wanted variants of a hand-in's files.

    For `sandbox` and `lent` see Session.

    Raises TaskError where this machine's results would not be those that were asked for, and
    ConfinementError where a sandbox is required and there is none.
    """
    _check_is_the_same_grader(task)
    options = Options(
        seed=task.seed,
        device=_kind_of(task.device),
        effort=task.effort or Effort(),
        require_sandbox=task.require_sandbox,
        lifted=tuple(wanted.name for wanted in task.wanted if wanted.lifted),
        keeps_builds=False,
        has_modules=False,
        checks_answers=True,
    )
    # The folder is as a student repeats a failure, and never read: all files are given.
    files = _files(task)
    where = Path("assignment")
    with Session(
        where, task.exercises, options, sandbox=sandbox, files=files, lent=lent
    ) as session:
        results = tuple(_result(session, wanted, on_step) for wanted in task.wanted)
        environment = {**session.environment(), "host": platform.node()}
    return Graded(results, environment)


def grade_in_pool(task: HandinTask) -> Graded:
    """`grade_files` in a process that does nothing else.

    It tells each step to the pool's owner, keeps to one GPU, and ends itself where nothing has
    moved for STUCK_SECONDS. Raises as `grade_files` does, and GpuError.
    """
    watch = _Watch(STUCK_SECONDS)
    with contextlib.ExitStack() as held:
        held.callback(watch.end)  # ends a process that was stuck: what it observed is no evidence
        if task.device != CPU:
            locks.settle(task.needs_exclusive_gpu)

        def on_step(step: Step) -> None:
            watch.moved()
            process_pool.tell(step)

        sandbox, native = held.enter_context(
            kept_sandboxes.of_a_submission(_kind_of(task.device), task.require_sandbox)
        )
        trusted = kept_sandboxes.baselines() if task.needs_exclusive_gpu else None
        return grade_files(task, on_step, sandbox, Lent(native, trusted))


def given_up(task: HandinTask, reason: str) -> list[Result]:
    """The results of a task whose process was lost: the grader failed, which costs no points."""
    failed = Status.grader_error
    results = []
    options = Options(device="cpu")
    with Session(Path("assignment"), task.exercises, options, files=_files(task)) as session:
        for wanted in task.wanted:
            of = wanted.task(task.exercises)
            if wanted.checked:
                evidence = evidence_files.variant_from_json(wanted.checked)
            else:
                evidence = replace(
                    session.blank_evidence(of),
                    rules_lifted=wanted.lifted,
                    parts=tuple(PartEvidence(*part, failed, reason=reason) for part in of.parts),
                    memory=MemoryEvidence(failed, reason) if of.variant.memory else None,
                )
            timed = PerformanceEvidence(failed, reason) if of.variant.is_graded_on_speed else None
            evidence = replace(evidence, performance=timed)
            results.append(Result(wanted.key, evidence_files.variant_to_json(evidence)))
    return results


def _result(session: Session, wanted: Wanted, on_step: Progress) -> Result:
    started = _seconds_of_its_own()
    task = wanted.task(session.exercises)
    to_measure = False
    planned = b""
    if wanted.variant == PREDICTIONS:
        evidence = predictions.check(session, task.exercise)
    elif wanted.checked:
        evidence = evidence_files.variant_from_json(wanted.checked, wanted.name)
        documents = plan_files.documents_of(wanted.planned) if wanted.planned else None
        evidence = measure(session, task, evidence, on_step, documents)
    elif session.device == "cuda":
        evidence = check(session, task, on_step)
        to_measure = is_timed(task, evidence)
        if to_measure:
            planned = plan_files.plans_to_time(session, task, on_step)
            planned = planned if len(planned) <= MOST_PLANNED_BYTES else b""
    else:
        evidence = grade_task(session, task, on_step)
    seconds = round(_seconds_of_its_own() - started, 3)
    text = evidence_files.variant_to_json(evidence)
    return Result(wanted.key, text, to_measure, seconds, planned)


def _kind_of(device: str) -> DeviceName:
    """The kind of a device that results name."""
    return "cpu" if device == CPU else "cuda"


def _files(task: HandinTask) -> dict[str, bytes | str]:
    """Every file that a variant names; or, as text, why there is none to read."""
    variants = (v for each in task.exercises.values() for v in each.graded.values())
    names = {name for each in variants for name in each.files}
    files: dict[str, bytes | str] = {}
    for name in sorted(names):
        data = task.files.get(name, f"there is no {name}")
        too_large = len(data) > MAX_FILE_BYTES
        files[name] = f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB" if too_large else data
    return files


def _check_is_the_same_grader(task: HandinTask) -> None:
    here = task.device if task.device == CPU else machine.gpu_name()
    if here != task.device:
        raise TaskError(
            f"{platform.node()}: expected a machine with the GPU of the class's results, "
            f"{task.device}; it has {here or 'none'}"
        )
    conditions = Conditions(task.seed, task.device, task.effort or Effort())
    keys = Keys(task.exercises, conditions)
    hashes = {name: hash_of(data) for name, data in task.files.items()}
    for wanted in task.wanted:
        files = wanted.task(task.exercises).variant.files
        sha256 = digest([hashes.get(name, NO_FILE) for name in files])
        key = keys.of(wanted.exercise, wanted.variant, sha256, lifted=wanted.lifted)
        if key != wanted.key:
            raise TaskError(
                f"{platform.node()}: expected the grader and the oracles that the class is graded "
                f"with (warpgrade {conditions.version} here): install the same on every worker"
            )


def hash_of(data: bytes) -> str:
    """The SHA-256 of a file, as evidence has it."""
    return hashlib.sha256(data).hexdigest()


class _Watch:
    """A watchdog: ends this process, and all that it started, where nothing moves for too long.

    The time that this process waits for others on the GPU doesn't count.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_stuck = False
        self._ended = threading.Event()
        self.moved()
        threading.Thread(target=self._poll, daemon=True).start()

    def moved(self) -> None:
        self._last = _seconds_of_its_own()

    def end(self) -> None:
        if self._is_stuck:
            end_this_process(STUCK_EXIT)
        self._ended.set()

    def _poll(self) -> None:
        while not self._ended.wait(min(self._seconds / 4, 30.0)):
            if _seconds_of_its_own() - self._last > self._seconds:
                self._is_stuck = True
                end_this_process(STUCK_EXIT)
                return


def _seconds_of_its_own() -> float:
    """A clock that stops while this process waits for others on the GPU."""
    return time.monotonic() - locks.seconds_waited()

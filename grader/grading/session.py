"""A submission opened for grading: its files, its sandbox, and what both phases share.

    with Session(folder, exercises, Options(seed=7)) as session:
        evidence = check(session, task)              # check.py: many tasks at a time
        evidence = measure(session, task, evidence)  # measure.py: one task on each GPU

Each file is read once, so that the hashed file is the one that runs.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from grader.evidence import PartEvidence, VariantEvidence
from grader.executors.compile.kept_builds import Store
from grader.executors.cuda import joining
from grader.executors.cuda.cuda_build import Backend, Begun
from grader.executors.registry import RunnerOptions, Runners, Ways
from grader.gpu import machine
from grader.gpu.devices import DeviceName
from grader.grading import head_start
from grader.grading.causes import Causes
from grader.grading.search import Effort
from grader.grading.source_rules import Enforcement
from grader.grading.submitted import Files, expect_folder
from grader.sandbox import Sandbox
from grader.spec import Exercise
from grader.spec.compiling import digest
from grader.spec.task import Task

if TYPE_CHECKING:
    from grader.timing.submission import Stopwatch

PUBLIC_SEED = 2026  # of students' own runs; a class is graded with another one


@dataclass(frozen=True)
class Step:
    """A step of grading, reported before each part and after each case."""

    exercise: str
    variant: str
    part: str = ""
    cases: int = 0
    failed: PartEvidence | None = None  # the task's first part that fails, once it is explained

    @classmethod
    def at(cls, task: Task, part: str = "") -> Step:
        """The step at the start of a part of a task."""
        return cls(task.exercise.name, task.variant.name, part)


Progress = Callable[[Step], None]


def unwatched(step: Step) -> None:
    """Ignore a step of progress."""


@dataclass(frozen=True)
class Options(Ways):
    """How a submission is graded: the caller's choices."""

    seed: int = PUBLIC_SEED
    device: DeviceName | None = None  # None: the GPU, where there is one
    effort: Effort = field(default_factory=Effort)
    lifted: tuple[str, ...] = ()  # exercises and variants that may break the rules
    # Whether answers to a spec's questions are compared with what is right: by a class's grade. A
    # student's own run would give the right ones away.
    checks_answers: bool = False
    policy: bool = True  # whether the rules are checked; for tests


@dataclass(frozen=True)
class Lent:
    """What outlives a session: its owner has it for the next one, and closes it."""

    native: Mapping[DeviceName, Sandbox] = field(default_factory=dict)  # see Runners.sandbox_of
    trusted: Sandbox | None = None  # for baselines
    store: Store | None = None  # of plans and builds, each for the same source only


def selected(exercises: Mapping[str, Exercise], only: Sequence[str] = ()) -> list[Task]:
    """The tasks that `only` names, or all of them where it is empty; in the order of the specs."""
    tasks = [Task(e, v) for e in exercises.values() for v in e.variants.values()]
    return [each for each in tasks if not only or {each.exercise.name, str(each)} & {*only}]


def _plan_sandbox(options: Options) -> Sandbox:
    """The sandbox of a session's Triton plans. Raises ConfinementError."""
    level, required = options.level, options.require_sandbox
    begun = None if level or required else head_start.take_plans()
    return begun or Sandbox("cpu", level, required, kind="plans")


def _begun_build(options: Options, lent: Lent) -> Begun | None:
    is_usual = options.level is None and not options.require_sandbox and not lent.native
    return head_start.take_build() if is_usual else None


class Session(contextlib.AbstractContextManager["Session"]):
    """One submission being graded. A context manager."""

    def __init__(
        self,
        submission: Path,
        exercises: Mapping[str, Exercise],
        options: Options | None = None,
        *,
        sandbox: Sandbox | None = None,
        files: Mapping[str, bytes | str] | None = None,
        lent: Lent | None = None,
    ) -> None:
        """`sandbox` is for Triton plans; its owner closes it. `files` are the submission's where
        they are known already: the folder isn't read then. `lent` is what else outlives the
        session.

        Raises Mistake when the folder doesn't exist, ConfinementError where a sandbox is
        required and none is available.
        """
        if files is None:
            expect_folder(submission)
        torch.set_num_threads(1)  # the tensors are small: threads would only wait for each other
        options, lent = options or Options(), lent or Lent()
        self.submission, self.exercises = submission, exercises
        machine.work_for(next((each.gpu for each in exercises.values()), ""))
        self.seed = options.seed
        self.device: DeviceName = options.device or machine.device()
        self.effort = options.effort
        self.options = replace(options, device=self.device)
        self.sandbox = sandbox or _plan_sandbox(options)
        self._owns_sandbox = sandbox is None
        begun = _begun_build(options, lent)
        # The evidence describes one sandbox. Where a build was begun, only CUDA C++ is graded, and
        # the sandbox of Triton's plans stays unused.
        self._described = begun.sandbox if begun else self.sandbox
        self.files = Files(submission, files, joining.labs_of(exercises))
        self.rules = Enforcement(self.files, options.lifted, is_on=options.policy)
        modules = self.files.modules if options.has_modules else dict
        self.runners = Runners(
            exercises,
            self.sandbox,
            self.device,
            self.files.read,
            self.rules.apply_to,
            RunnerOptions(options, modules, lent.store, lent.native, begun),
        )
        self._trusted, self._uses_cache = lent.trusted, options.uses_cache
        self.runners.begin()
        self.timed_out_parts: Counter[str] = Counter()  # by task
        self.causes: defaultdict[str, Causes] = defaultdict(Causes)  # of failures, by task

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process that the session started. May be called twice."""
        if "stopwatch" in vars(self):
            self.stopwatch.close()
        for causes in self.causes.values():
            causes.close()
        self.runners.close()
        if self._owns_sandbox:
            self.sandbox.close()

    @cached_property
    def stopwatch(self) -> Stopwatch:
        """What times the submission's variants."""
        from grader.timing.submission import Stopwatch  # only where something is timed

        given = self.device, self.seed, self.exercises, self.runners
        return Stopwatch(*given, self._trusted, self._uses_cache)

    def not_attempted(self, task: Task) -> str:
        """Why a task has nothing to run, or "". Runs nothing."""
        return self.files.not_attempted(task.variant)

    def can_run(self, task: Task) -> bool:
        """Whether a task has something to run that breaks no rule. Runs nothing."""
        return not self.not_attempted(task) and not self.rules.violations(task)

    def blank_evidence(self, task: Task) -> VariantEvidence:
        """The evidence on a task before it runs."""
        files = [self.files.handed_in(name) for name in task.variant.files]
        hashes = [hashlib.sha256(e).hexdigest() if isinstance(e, bytes) else "" for e in files]
        return VariantEvidence(
            task.exercise.name,
            task.variant.name,
            task.variant.file,
            sha256=digest(hashes),
            not_attempted=self.not_attempted(task),
            rules_lifted=self.rules.are_lifted(task),
        )

    def environment(self) -> dict[str, Any]:
        """The evidence's description of the machine and the sandbox."""
        confinement = self._described.confinement
        environment = machine.environment(self.device, confinement.level.value)
        return {**environment, "confinement": confinement.as_evidence}

    def begin_building(self, tasks: Iterable[Task], backend: Backend = "emulator") -> None:
        """Start compiling the CUDA C++ of these tasks in the background."""
        in_cuda = [each for each in tasks if each.variant.language == "cuda"]
        files = dict.fromkeys(each.variant.file for each in in_cuda if self.can_run(each))
        if files:
            self.runners.programs.begin_all([*files], backend)

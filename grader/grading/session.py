"""A submission opened for grading: its files, its sandbox, and what both phases share.

    with Session(folder, exercises, Options(seed=7)) as session:
        evidence = check(session, task)              # check.py: many tasks at a time
        evidence = measure(session, task, evidence)  # measure.py: one task on each GPU

Each file is read once, so that what was hashed is what ran.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from grader.evidence import VariantEvidence
from grader.executors.cuda import cuda_build
from grader.executors.registry import RunnerOptions, Runners
from grader.gpu import locks, machine
from grader.gpu.devices import DeviceName
from grader.grading.rules import Enforcement
from grader.grading.search import Effort
from grader.grading.submitted import Files
from grader.mistakes import Mistake
from grader.sandbox import Sandbox, head_start
from grader.sandbox.confinement import Level
from grader.spec import Exercise
from grader.spec.task import Task
from grader.timing.submission import Stopwatch

PUBLIC_SEED = 2026  # of every student's own run; a class is graded with another one


class SubmissionError(Mistake, ValueError):
    """There is no such folder to grade."""


@dataclass(frozen=True)
class Step:
    """Where grading is: told before each part, and after each case with `cases` raised."""

    exercise: str
    variant: str
    part: str = ""
    cases: int = 0

    @classmethod
    def at(cls, task: Task, part: str = "") -> Step:
        """The step before a part of a task."""
        return cls(task.exercise.name, task.variant.name, part)


Progress = Callable[[Step], None]


def unwatched(step: Step) -> None:
    """The progress that nobody follows."""


@dataclass(frozen=True)
class Options:
    """How a submission is graded: what a caller may choose."""

    seed: int = PUBLIC_SEED
    device: DeviceName | None = None  # None: the GPU, where there is one
    effort: Effort = field(default_factory=Effort)
    require_sandbox: bool = False
    lifted: tuple[str, ...] = ()  # exercises and variants that may break the rules
    # Whether what Triton's compilers made is kept in the user's cache, for the next run. Not so
    # where a sandbox is required: what one submission has compiled serves no other.
    keeps_builds: bool = True

    # For tests.
    level: Level | None = None  # of confinement; None: the best that there is
    policy: bool = True  # whether rules are checked at all
    check_with_nvcc: bool = True
    backends: tuple[cuda_build.Backend, ...] | None = None  # where CUDA C++ runs; None: all
    guarded: bool = True  # whether the object made of CUDA C++ is inspected, and watched


def selected(exercises: Mapping[str, Exercise], only: Sequence[str] = ()) -> list[Task]:
    """The tasks that `only` names, all of them where it is empty; in the order of the specs."""
    tasks = [Task(e, v) for e in exercises.values() for v in e.variants.values()]
    return [each for each in tasks if not only or {each.exercise.name, str(each)} & {*only}]


def _plan_sandbox(options: Options) -> Sandbox:
    """The sandbox of a session's plans of Triton. Raises ConfinementError."""
    level, required = options.level, options.require_sandbox
    begun = None if level or required else head_start.take()
    return begun or Sandbox("interpreter", level, required, plans=True)


class Session:
    """One submission being graded. A context manager."""

    def __init__(
        self,
        submission: Path,
        exercises: Mapping[str, Exercise],
        options: Options | None = None,
        *,
        sandbox: Sandbox | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> None:
        """`sandbox` is for plans of Triton; its owner starts and closes it. `files` are the
        submission's where they are known already: the folder is not looked for then.

        Raises SubmissionError when there is no such folder, ConfinementError where a sandbox is
        required and there is none.
        """
        if files is None and not submission.is_dir():
            raise SubmissionError(f"{submission}: expected a folder like assignment/, found none")
        torch.set_num_threads(1)  # the tensors are small; threads would only wait for each other
        options = options or Options()
        self.submission = submission
        self.exercises = exercises
        self.seed = options.seed
        self.device: DeviceName = options.device or machine.device()
        self.effort = options.effort
        self.options = replace(options, device=self.device)
        self.sandbox = sandbox or _plan_sandbox(options)
        self._owns_sandbox = sandbox is None
        self.files = Files(submission, files)
        self.rules = Enforcement(self.files, options.lifted, is_on=options.policy)
        self.runners = Runners(
            exercises,
            self.sandbox,
            self.device,
            self.files.read,
            self.rules.apply_to,
            RunnerOptions(
                modules=self.files.modules,
                level=options.level,
                required=options.require_sandbox,
                check_with_nvcc=options.check_with_nvcc,
                backends=options.backends,
                guarded=options.guarded,
                keeps_builds=options.keeps_builds and not options.require_sandbox,
            ),
        )
        self.stopwatch = Stopwatch(self.device, self.seed, exercises, self.runners)
        self.runners.begin()
        self.timed_out_parts: Counter[str] = Counter()  # by task

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process that the session started. May be called twice."""
        self.stopwatch.close()
        self.runners.close()
        if self._owns_sandbox:
            self.sandbox.close()

    def not_attempted(self, task: Task) -> str:
        """Why there is nothing to run for a task, or "". Runs nothing."""
        return self.files.not_attempted(task.variant)

    def can_run(self, task: Task) -> bool:
        """Whether there is something to run that breaks no rule. Runs nothing."""
        return not self.not_attempted(task) and not self.rules.violations(task)

    def blank_evidence(self, task: Task) -> VariantEvidence:
        """The evidence on a task before anything of it has run."""
        data = self.files.read(task.variant.file)
        return VariantEvidence(
            task.exercise.name,
            task.variant.name,
            task.variant.file,
            sha256=hashlib.sha256(data).hexdigest() if isinstance(data, bytes) else "",
            not_attempted=self.not_attempted(task),
            rules_lifted=self.rules.are_lifted(task),
        )

    def environment(self) -> dict[str, Any]:
        """What evidence says of the machine and of the sandbox."""
        environment = machine.environment(self.device, self.sandbox.description)
        return {**environment, "confinement": self.sandbox.confinement.told}

    def begin_building(self, tasks: Iterable[Task]) -> None:
        """Have the CUDA C++ of these compiled while others of them are checked."""
        for task in tasks:
            if task.variant.language == "cuda" and self.can_run(task):
                self.runners.begin_building(task.variant.file)

    @contextmanager
    def share_gpu(self, on_step: Progress = unwatched) -> Iterator[Progress]:
        """Hold the GPU's lock shared; at each step, who wants it exclusively is let in between.

        Yields what to call at a step, which then calls `on_step`.
        """
        with locks.shared_on(self.device) as make_way:

            def stepped(step: Step) -> None:
                make_way()
                on_step(step)

            yield stepped

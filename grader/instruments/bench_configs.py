"""A kernel with each of several values of its constants, timed on one case.

Each configuration is the file with other values in its text (constants.py), opened as a submission
of its own: planned anew, held to the rules, its outputs judged. One that fails has its reason, and
the others go on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.cases import Case, fixed_case
from grader.evidence import PerformanceEvidence
from grader.gpu.roofline import Roofs
from grader.grading.session import Lent, Session
from grader.instruments.bench import AROUND, BESIDE_OTHERS, Step, time_alike, why_not
from grader.instruments.constants import Constants, Unreadable, constants_of
from grader.mistakes import Mistake
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import SandboxError
from grader.spec.task import Task
from grader.status import Status
from grader.timing import sequential
from grader.timing.attempt import Options
from grader.timing.baselines import Baselines
from grader.timing.failures import TimingFailed

MOST = 64  # configurations of one run
_NAME = re.compile(r"[A-Za-z_]\w*")
_VALUE = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?|True|False")

Values = Mapping[str, Sequence[str]]  # by the constant's name, in the order given


@dataclass(frozen=True)
class Configured:
    """One configuration, timed or not."""

    values: dict[str, str]
    evidence: PerformanceEvidence

    @property
    def name(self) -> str:
        """'BLOCK=64 num_warps=4'."""
        return " ".join(f"{name}={value}" for name, value in self.values.items())


def parse(words: Sequence[str]) -> dict[str, list[str]]:
    """`BLOCK=64,128 num_warps=4,8` as values by name. Raises Mistake."""
    values: dict[str, list[str]] = {}
    for word in " ".join(words).split():
        name, _, listed = word.partition("=")
        several = list(dict.fromkeys(listed.split(",")))
        if not _NAME.fullmatch(name) or not all(map(_VALUE.fullmatch, several)):
            raise Mistake(
                "--configs: expected constants with numbers, as in BLOCK=64,128 num_warps=4,8, "
                f"got {word!r}"
            )
        if name in values:
            raise Mistake(f"--configs: expected each constant once, got {name} again")
        values[name] = several
    if not values:
        raise Mistake("--configs: expected constants, as in BLOCK=64,128 num_warps=4,8")
    return values


def configurations(values: Values) -> list[dict[str, str]]:
    """All combinations, the last constant changing fastest. Raises Mistake for too many."""
    count = 1
    for several in values.values():
        count *= len(several)
    if count > MOST:
        raise Mistake(f"--configs: expected at most {MOST} configurations, got {count}")
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


def constants(data: bytes | str, task: Task, values: Values) -> Constants:
    """The constants of a task's file. Raises Mistake where it lacks one of `values`."""
    file = task.variant.file
    if isinstance(data, str):
        raise Mistake(f"{task}: {data}")
    try:
        known = constants_of(data, task.variant.entry, task.variant.language)
    except Unreadable as error:
        raise Mistake(f"{file}: its constants can't be read: {error}") from None
    for name in values:
        if name not in known.names:
            listed = ", ".join(known.constants) or "none"
            raise Mistake(
                f"--configs: expected a constant that {task.variant.entry} uses in {file}, of "
                f"which there are {listed}; got {name}"
            )
    return known


def run(
    session: Session,
    trusted: Sandbox,
    task: Task,
    values: Values,
    known: Roofs | None = None,
    budget: sequential.Budget | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Iterator[Configured]:
    """Time a task's first performance case with each configuration.

    `trusted` is where the baselines run. Raises Mistake before anything is timed.
    """
    every = configurations(values)
    of_file = constants(session.files.read(task.variant.file), task, values)
    case = fixed_case(task, task.variant.timed.every_case[0], session.seed)
    options = Options(also=BESIDE_OTHERS, roofs=known, budget=budget or AROUND, held_to_idle=False)
    executors = session.runners.sandbox_of("cuda")
    with Baselines(trusted, executors, task, [case], None) as baselines:
        baselines.expect(BESIDE_OTHERS)
        for number, chosen in enumerate(every, 1):
            one = Configured(chosen, PerformanceEvidence(Status.not_measured))
            on_step(Step(f"{task} {one.name}", case, number, len(every)))
            text = of_file.with_values({n: _written(v, task) for n, v in chosen.items()})
            files = {task.variant.file: text.encode()}
            with Session(
                session.submission,
                session.exercises,
                session.options,
                sandbox=session.sandbox,
                files=files,
                lent=Lent(trusted=trusted),
            ) as changed:
                yield Configured(chosen, _timed(changed, task, baselines, case, options))


def _timed(
    session: Session, task: Task, baselines: Baselines, case: Case, options: Options
) -> PerformanceEvidence:
    if reason := why_not(session, task):
        return PerformanceEvidence(*reason, case=str(case))
    try:
        candidate = session.stopwatch.planned(task)
        return time_alike(candidate, baselines, case, options)
    except (TimingFailed, SandboxError) as failed:
        status = failed.status if isinstance(failed, TimingFailed) else Status.grader_error
        return PerformanceEvidence(status, str(failed), case=str(case))


def _written(value: str, task: Task) -> str:
    """A value in the language of the file."""
    return value.lower() if task.variant.language == "cuda" else value

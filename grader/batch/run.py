"""A class: collected, stored, graded where that is missing, and written out.

    collect -> store -> what is missing -> processes -> store -> views

Whatever ends it, the same command goes on from what is stored.
"""

from __future__ import annotations

import csv
import fcntl
import os
import secrets
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader import __version__, confinement, evidence, machine, pool
from grader.allowed_paths import DeviceName
from grader.batch import schedule
from grader.batch.keys import Conditions
from grader.batch.plan import Lifted, Plan, Plans, attempts_of
from grader.batch.schedule import Executor, Finished, InPool, Lane
from grader.batch.store import NewResult, Store, StoreError, StoredHandin
from grader.batch.tasks import INTERPRETER, Graded, Task, grade_in_pool, has_grader_error
from grader.correctness import Effort
from grader.score import score
from grader.spec import Exercise

MOST_SEEDS = 1 << 32


class RunError(ValueError):
    """The command asks for what can't be: one line with what was expected and what came."""


@dataclass(frozen=True)
class Options:
    """How a class is graded."""

    only: tuple[str, ...] = ()
    seed: int | None = None
    require_sandbox: bool = True
    effort: Effort = Effort()
    jobs: int | None = None


@dataclass
class Outcome:
    """What became of a run."""

    handins: int = 0
    unreadable: int = 0
    graded: int = 0  # results of this run
    complete: bool = True
    failed: list[str] = field(default_factory=list)  # ids of hand-ins that the grader failed on
    statuses: Counter[str] = field(default_factory=Counter)  # of this run's results


@dataclass(frozen=True)
class Grading:
    """Grading of what is stored, under the conditions of one run."""

    store: Store
    exercises: Mapping[str, Exercise]
    options: Options
    seed: int
    device: str
    run: int
    lifted: Lifted = lambda handin: ()

    @property
    def plans(self) -> Plans:
        conditions = Conditions(self.seed, self.device, self.options.effort)
        return Plans(self.store, self.exercises, conditions, self.lifted)

    def grade(
        self,
        handins: Sequence[StoredHandin],
        executor: Executor,
        *,
        anew: bool = False,
        on_finished: Callable[[Finished, int, int], None] = lambda finished, done, total: None,
    ) -> Outcome:
        """Run what is missing of the hand-ins; each result is stored as it comes."""
        plan = self.plans.make(
            handins,
            only=self.options.only,
            require_sandbox=self.options.require_sandbox,
            anew=anew,
        )
        outcome = Outcome(len(handins), sum(bool(each.handin.problem) for each in handins))
        waits = {number: set(keys) for number, keys in plan.open.items()}
        lane = Lane(executor)
        lane.add(plan.jobs)

        def finished(done: Finished) -> None:
            results = [self._new(each) for each in done.results]
            self.store.keep_results(results, self.seed, done.environment, self.run)
            outcome.graded += len(results)
            keys = {each.key for each in results}
            for number in list(waits):
                waits[number] -= keys
                if not waits[number]:
                    del waits[number]
            if any(each.grader_failed for each in results):
                outcome.failed.append(done.job.handin.handin.id)
            on_finished(done, len(handins) - len(waits), len(handins))

        environment = machine.environment(_device_name(self.device), "")
        schedule.drive([lane], self._task, finished, environment)
        return outcome

    def _task(self, job: Any) -> Task:
        return Task(
            self.store.files(job.handin.number),
            job.wanted,
            self.exercises,
            self.seed,
            self.device,
            self.options.effort,
            self.options.require_sandbox,
        )

    def _new(self, result: Any) -> NewResult:
        seen = evidence.variant_from_json(result.evidence)
        return NewResult(
            result.key,
            result.evidence,
            self.device,
            to_measure=result.to_measure,
            grader_failed=has_grader_error(seen),
            seconds=result.seconds,
        )


def _device_name(device: str) -> DeviceName:
    return "interpreter" if device == INTERPRETER else "cuda"


def device_here() -> str:
    """This machine, as results name it: the GPU's name, or "interpreter"."""
    return machine.gpu_name() or INTERPRETER


def seed_of(store: Store, wanted: int | None) -> int:
    """The class's seed: drawn, or as wanted, at the first run. Raises RunError for another one."""
    known = store.seed
    if known is None:
        return store.set_seed(secrets.randbelow(MOST_SEEDS) if wanted is None else wanted)
    if wanted is not None and wanted != known:
        raise RunError(
            f"--seed {wanted}: the results in {store.path.parent} are of seed {known}, and one "
            "class is graded with one seed; leave --seed out, or give another --out"
        )
    return known


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a class's folder against a second command. Raises StoreError where one runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "class.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"{folder}: another command is grading this class: wait for it, or stop it"
            ) from None
        yield

"""Finds the results of a class that still have to be run, each once, and those that exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from unicodedata import combining, normalize

from grader.batch.course.records import Attempt, Member
from grader.batch.store.handins import StoredHandin
from grader.batch.store.keys import NO_FILE, Conditions, Keys
from grader.batch.store.results import Known, StoredResult
from grader.batch.store.store import Store
from grader.batch.tasks import Wanted
from grader.evidence import Evidence, VariantEvidence
from grader.grading.session import selected
from grader.spec import Exercise
from grader.spec.compiling import digest
from grader.spec.predictions import ANSWERS, PREDICTIONS
from grader.spec.task import Task
from grader.status import Status

Lifted = Callable[[StoredHandin], Collection[str]]  # names of what may break the rules there


@dataclass(frozen=True)
class Job:
    """The results to be made of one hand-in's files."""

    handin: StoredHandin
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True)
class Plan:
    """The jobs of a run. `open` has the keys that each unfinished hand-in waits for.

    `outdated` counts, by variant, the results that were there, but under other keys: made by
    another version of the grader, or under other specs.
    """

    jobs: tuple[Job, ...]
    open: Mapping[int, frozenset[str]]
    shared: int = 0  # results that another hand-in with the same file gives
    outdated: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Plans:
    """Plans for one class under one set of conditions."""

    store: Store
    exercises: Mapping[str, Exercise]
    conditions: Conditions
    lifted: Lifted = lambda handin: ()
    _keys: Keys = field(init=False)

    def __post_init__(self) -> None:
        self._keys = Keys(self.exercises, self.conditions)

    def make(
        self,
        handins: Sequence[StoredHandin],
        *,
        only: Sequence[str] = (),
        require_sandbox: bool = True,
        anew: bool = False,
    ) -> Plan:
        """The missing results of these hand-ins; with `anew`, all that the class was graded on.

        A result is missing where there is none, where the grader failed on it, and where it was
        seen without a sandbox and one is required.
        """
        known = self.store.results.known()
        graded = self.store.results.graded(self.conditions.device)
        if anew and not only:  # a variant of which nobody has a result isn't run again
            only = self.store.results.variants()
        outdated: Counter[str] = Counter()
        jobs: list[Job] = []
        waits: dict[int, frozenset[str]] = {}
        claimed: set[str] = set()
        shared = 0
        for handin in handins:
            if handin.handin.problem:
                continue
            wanted = [
                each
                for each in self.wanted(handin, only)
                if anew or not _is_done(known.get(each.key), require_sandbox)
            ]
            if not wanted:
                continue
            waits[handin.number] = frozenset(each.key for each in wanted)
            mine = tuple(
                self._begun(each, known, anew) for each in wanted if each.key not in claimed
            )
            shared += len(wanted) - len(mine)
            claimed |= waits[handin.number]
            if mine:
                jobs.append(Job(handin, mine))
            outdated.update(
                each.name
                for each in mine
                if each.key not in known
                and (each.exercise, each.variant, self._sha256(handin, each), each.lifted) in graded
            )
        return Plan(tuple(jobs), waits, shared, {} if anew else outdated)

    def wanted(self, handin: StoredHandin, only: Sequence[str] = ()) -> list[Wanted]:
        """A hand-in's results, by their keys; in the order of the specs."""
        lifted = set(self.lifted(handin))
        results = []
        for task in self._tasks(handin, only):
            names = task.exercise.name, task.variant.name
            is_lifted = bool({names[0], str(task)} & lifted)
            wanted = Wanted(*names, "", is_lifted)
            key = self._keys.of(*names, self._sha256(handin, wanted), lifted=is_lifted)
            results.append(replace(wanted, key=key))
        return results

    def _tasks(self, handin: StoredHandin, only: Sequence[str]) -> list[Task]:
        """The tasks of a grade, and the answers to questions where the hand-in has some."""
        tasks = selected(self.exercises, only)
        if ANSWERS in handin.hashes:
            asking = [each for each in self.exercises.values() if each.predictions is not None]
            answers = [Task(each, each.graded[PREDICTIONS]) for each in asking]
            tasks += [e for e in answers if not only or {e.exercise.name, str(e)} & {*only}]
        return tasks

    def attempts(self, handins: Sequence[StoredHandin], seed: int) -> list[Attempt]:
        """The hand-ins with what is known of them; without evidence where something is missing.

        What counts as missing is a variant of which the class has results: of others nobody asked.
        """
        graded = self.store.results.graded(self.conditions.device)
        covered = {(exercise, variant) for exercise, variant, *_ in graded}
        result_of = cache(self.store.results.of)  # hand-ins share results
        return [Attempt(e.handin, self._evidence(e, covered, seed, result_of)) for e in handins]

    def _evidence(
        self,
        handin: StoredHandin,
        covered: Collection[tuple[str, str]],
        seed: int,
        result_of: Callable[[str], StoredResult | None],
    ) -> Evidence | None:
        if handin.handin.problem or not covered:
            return None
        stored = []
        for each in self.wanted(handin):
            if (each.exercise, each.variant) not in covered:
                continue
            result = result_of(each.key)
            if result is None and each.lifted:  # not run again yet: what there was before
                sha256 = self._sha256(handin, each)
                result = result_of(self._keys.of(each.exercise, each.variant, sha256))
            if result is None:
                return None
            stored.append(result)
        if not stored:
            return None
        newest = max(stored, key=lambda result: result.stored)
        variants = tuple(with_owner(each.evidence, handin.handin.members) for each in stored)
        return Evidence(handin.handin.id, seed, variants, newest.environment)

    def _sha256(self, handin: StoredHandin, wanted: Wanted) -> str:
        files = wanted.task(self.exercises).variant.files
        return digest([handin.hashes.get(name, NO_FILE) for name in files])

    def _begun(self, wanted: Wanted, known: Mapping[str, Known], anew: bool) -> Wanted:
        """`wanted` with the stored evidence, where only timing on the whole GPU is left to do."""
        stored = known.get(wanted.key)
        if anew or stored is None or not stored.to_measure or stored.grader_failed:
            return wanted
        return replace(wanted, checked=self.store.results.evidence_of(wanted.key))


def with_owner(evidence: VariantEvidence, members: Sequence[Member]) -> VariantEvidence:
    """The evidence; where it is on answers that name nobody of the hand-in, these don't count.

    One word of the name has to occur in a member's name or address. Where the platform gives
    neither, any name counts.
    """
    made = evidence.predictions
    known = " ".join(_plain(f"{each.name} {each.email}") for each in members).strip()
    if made is None or not known or any(word in known for word in _plain(made.student).split()):
        return evidence
    reason = f"{ANSWERS} names {made.student!r}, who isn't {' or '.join(e.name for e in members)}"
    return replace(evidence, predictions=replace(made, status=Status.wrong_values, reason=reason))


def _plain(text: str) -> str:
    """Text without case and accents."""
    return "".join(c for c in normalize("NFKD", text.casefold()) if not combining(c))


def _is_done(stored: Known | None, require_sandbox: bool) -> bool:
    if stored is None or stored.grader_failed or stored.to_measure:
        return False
    return stored.had_sandbox or not require_sandbox


def attempts_of(handins: Sequence[StoredHandin]) -> list[StoredHandin]:
    """The hand-ins that can count: those of the source now, and earlier ones with a known time."""
    return [
        each
        for each in handins
        if (each.is_current and not each.is_gone) or each.handin.submitted_at is not None
    ]

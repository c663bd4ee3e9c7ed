"""The mistakes that a class shares: one status under one condition in one variant.

'23 submissions fail only where cols > 1024'. Numbers that belong to a condition tell mistakes
apart (cols > 1024 is not cols > 512); numbers that belong to a single case don't.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from grader.batch.course.records import Entry
from grader.batch.pages.overview import Submission
from grader.evidence import VariantEvidence
from grader.report import one_line
from grader.report.code_frame import frame
from grader.report.message import ALWAYS, TRIED, listing, merge_failures, without_numbers
from grader.scoring.score import MEMORY, PERFORMANCE, SKIPPED_AS_WRONG, VariantScore
from grader.spec import Exercise
from grader.status import Status

EVERY_CASE = "every case"

_CONDITION = re.compile(r"every case with (?P<condition>.+?) fails\b", re.IGNORECASE)
_LINE = re.compile(r"\b(?:this )?line \d+\b")
_Example = tuple[str, str]  # words and lines of code
_SOURCE = re.compile(r" \(`[^`]*`\)")  # a line of the submission, quoted


@dataclass(frozen=True)
class Kind:
    """The properties that two failures share where they count as the same mistake."""

    exercise: str
    variant: str
    status: Status
    condition: str  # "cols > 1024", EVERY_CASE, or "" where nothing tells failing cases apart
    check: str = ""  # "performance" or "memory" where it is no case that fails
    dtypes: tuple[str, ...] = ()  # the ones that fail, where others don't and no condition is known
    hint: str = ""
    about: str = ""  # what happened, without numbers; "" where the condition says enough

    @property
    def is_slow(self) -> bool:
        """Whether the kernel is right and only misses a speed target."""
        return self.check == PERFORMANCE and self.status is Status.target_missed


@dataclass(frozen=True)
class Cluster:
    """A mistake and everybody who made it."""

    kind: Kind
    example: str  # the cause in one of them, or what happened there
    frame: str  # its lines of code, with a mark under the place, or ""
    submissions: tuple[Submission, ...]

    @property
    def count(self) -> int:
        """The number of submissions; a group's is one."""
        return len(self.submissions)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everybody whose counted attempt it is, in the order of the gradebook."""
        return tuple(entry for each in self.submissions for entry in each.entries)

    @property
    def sentence(self) -> str:
        """'23 submissions fail only where cols > 1024'."""
        kind = self.kind
        many = f"{self.count} submission{'s' if self.count != 1 else ''}"
        fail = f"{many} fail{'' if self.count != 1 else 's'}"
        if kind.is_slow:
            return f"{many} right, but too slow for any points"
        if kind.check and kind.status is Status.target_missed:
            return f"{many} right, but short of the {kind.check} target"
        if kind.check:
            return f"{fail} when {'timed' if kind.check == PERFORMANCE else 'counted'}"
        if kind.condition == EVERY_CASE:
            where = " on every case"
        else:
            where = f" only where {kind.condition}" if kind.condition else ""
        return fail + where + (f" for {listing(kind.dtypes)} only" if kind.dtypes else "")


def clusters(
    everyone: Iterable[Submission], exercises: Mapping[str, Exercise]
) -> tuple[Cluster, ...]:
    """The mistakes of a class, the most frequent first.

    Those of right kernels that are only slow come last: the timings tell more about them.

    A submission counts once for a mistake, in however many dtypes and size classes it shows, and
    may have several mistakes. Not attempted, not measured and grader_error are none.
    """
    groups: dict[Kind, tuple[_Example, list[Submission]]] = {}
    for submission in everyone:
        for kind, example in dict(_mistakes(submission, exercises)).items():
            groups.setdefault(kind, (example, []))[1].append(submission)
    order = list(exercises)

    def rank(row: Cluster) -> tuple[object, ...]:
        return (row.kind.is_slow, -row.count, order.index(row.kind.exercise), row.kind.variant)

    rows = (Cluster(kind, *example, tuple(each)) for kind, (example, each) in groups.items())
    return tuple(sorted(rows, key=rank))


def _mistakes(
    submission: Submission, exercises: Mapping[str, Exercise]
) -> Iterator[tuple[Kind, _Example]]:
    for exercise in exercises.values():
        for name in exercise.variants:
            score = submission.variant(exercise.name, name)
            evidence = submission.observed(exercise.name, name)
            if score is not None and evidence is not None and not evidence.not_attempted:
                yield from _of_cases(evidence)
                yield from _of_targets(exercise.name, score)


def _of_cases(evidence: VariantEvidence) -> Iterator[tuple[Kind, _Example]]:
    tried = {part.dtype for part in evidence.parts}
    for merged in merge_failures(evidence.parts):
        failure = merged.failure
        condition = "" if failure.cause else _condition(failure.pattern)
        failing = dict.fromkeys(dtype for _, dtype in merged.places)
        says_enough = condition not in ("", EVERY_CASE)
        yield (
            Kind(
                evidence.exercise,
                evidence.variant,
                failure.status,
                condition,
                dtypes=()
                if failure.cause or says_enough or set(failing) == tried
                else tuple(failing),
                hint=one_line(failure.hint),
                about=_cause(failure.cause) or ("" if says_enough else _about(failure.what)),
            ),
            (one_line(failure.cause or failure.what), frame(failure.code).plain),
        )


def _of_targets(exercise: str, score: VariantScore) -> Iterator[tuple[Kind, _Example]]:
    """The mistakes in speed and memory of a kernel that is right."""
    for check in score.checks:
        if check.name not in (PERFORMANCE, MEMORY) or check.message in SKIPPED_AS_WRONG:
            continue
        if check.status.is_failure:
            is_slow = check.name == PERFORMANCE and check.status is Status.target_missed
            about = "" if is_slow else _about(check.message)
            kind = Kind(exercise, score.name, check.status, "", check.name, about=about)
            yield kind, (one_line(check.message), "")


def _condition(pattern: str) -> str:
    """'Every case with cols > 1024 fails (9 tried); …' -> 'cols > 1024'."""
    text = TRIED.sub("", one_line(pattern))
    if match := _CONDITION.match(text):
        return match["condition"]
    return EVERY_CASE if ALWAYS.match(text) else text


def _cause(cause: str) -> str:
    """A cause without the numbers of lines, which differ from one file to the next."""
    return _LINE.sub("a line", one_line(cause))


def _about(message: str) -> str:
    return without_numbers(_SOURCE.sub("", one_line(message)))

"""The class report: one self-contained HTML page, complete without its script.

The script (class.js) adds sorting, filtering and the what-if. The page's content policy allows
that text alone, by its hash, and nothing from outside, so that a name or a message which slipped
through escaping could still run nothing.
"""

from __future__ import annotations

import base64
import hashlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from grader.batch.course.records import Adjustment, AdjustmentKind, Entry, Gradebook, Handin
from grader.batch.pages import charts, overview
from grader.batch.pages.overview import Strip, Submission
from grader.batch.pages.shared_mistakes import clusters
from grader.report import one_line, summary
from grader.report.html import template
from grader.spec import Exercise
from grader.status import Status

SHARED_BY = 2  # submissions that make a mistake worth a line of its own
DOT = 4.6  # pixels between the dots of a strip
HERE = Path(__file__).parent

LinkOf = Callable[[Entry], str]


def render(
    gradebook: Gradebook, exercises: Mapping[str, Exercise], link_of: LinkOf = lambda entry: ""
) -> str:
    """The class report as an HTML document. Everything in it is cleaned and escaped.

    `link_of` says where an entry's own page lies: a path relative to this page, with slashes and
    not quoted ("students/ada.html"), or "" where there is none.
    """
    everyone = overview.submissions(gradebook)
    shared = clusters(everyone, exercises)
    strips = overview.strips(everyone, exercises)
    entries = gradebook.entries
    index = {id(entry): number for number, entry in enumerate(entries)}
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template("class.html", HERE).render(
        book=gradebook,
        made_at=_time(gradebook.made_at),
        links=[href(link_of(entry)) for entry in entries],
        counts=_counts(gradebook, everyone),
        errors=_grader_errors(everyone),
        waiting=_waiting(everyone),
        unfinished=[name for e in everyone if not e.grade.complete for name in e.names],
        unconfined=sum(summary.is_unconfined(each.grade) for each in everyone),
        scores=_scores(gradebook),
        rows=[_row(entry, exercises) for entry in entries],
        columns=[name for name in exercises if exercises[name].max_points],
        exercises=exercises,
        # Together in the order they come in: Jinja's groupby sorts.
        tallies=[
            (name, list(rows))
            for name, rows in groupby(overview.tally(everyone, exercises), lambda row: row.exercise)
        ],
        mistakes=[
            (each, [index[id(entry)] for entry in each.entries])
            for each in shared
            if each.count >= SHARED_BY
        ],
        alone=sum(each.count < SHARED_BY for each in shared),
        strips=[_strip(each) for each in strips],
        adjusted=[(entry, each) for entry in entries for each in entry.adjustments],
        adjustment_in_words=adjustment_in_words,
        unmatched=[_unmatched(handin) for handin in gradebook.unmatched_handins],
        data={"strips": [_what_if(each) for each in strips]},
        script=Markup(script),
        scripts=Markup(f"; script-src 'sha256-{digest}'"),
    )


def href(path: str) -> str:
    """A relative path as a link that can be nothing else: no scheme, no host."""
    return "./" + quote(path.lstrip("/"), safe="/", errors="replace") if path else ""


# --- the whole class ------------------------------------------------------------------------------


def _counts(gradebook: Gradebook, everyone: Sequence[Submission]) -> dict[str, int]:
    entries = gradebook.entries
    handed_in = [entry for entry in entries if entry.attempts]
    return {
        "students": len(entries),
        "handed_in": len(handed_in),
        "submissions": len(everyone),
        "late": sum(entry.lateness.days > 0 for entry in entries),
        "unscored": sum(entry.score is None for entry in handed_in),
        "waiting": sum(bool(entry.waiting) for entry in entries),
    }


def _scores(gradebook: Gradebook) -> dict[str, Any] | None:
    scores = [e.final_score for e in gradebook.entries if e.final_score is not None]
    if not scores:
        return None
    least, low, middle, high, most = charts.five_numbers(scores)
    bars = charts.histogram(scores, gradebook.max_score)
    top = bars[-1].high
    return {
        "count": len(scores),
        "mean": statistics.fmean(scores),
        "least": least,
        "low": low,
        "median": middle,
        "high": high,
        "most": most,
        "bars": bars,
        "at_median": 100 * min(max(middle / top, 0), 1),
    }


def _grader_errors(everyone: Iterable[Submission]) -> Mapping[tuple[str, str], list[str]]:
    """By (where, detail) of a failure of the grader itself, the names of everybody it concerns."""
    names_of: dict[tuple[str, str], list[str]] = {}
    for each in everyone:
        for error in each.grader_errors:
            names_of.setdefault(error, []).extend(each.names)
    return names_of


def _waiting(everyone: Iterable[Submission]) -> Mapping[str, list[str]]:
    """By exercise/variant, whose times a person has to decide about."""
    names_of: dict[str, list[str]] = {}
    for each in everyone:
        for exercise in each.grade.exercises:
            for variant in exercise.variants:
                if any(check.status is Status.implausible_time for check in variant.checks):
                    names_of.setdefault(f"{exercise.name}/{variant.name}", []).extend(each.names)
    return names_of


def _unmatched(handin: Handin) -> dict[str, str]:
    people = [", ".join(filter(None, (each.name, each.id, each.email))) for each in handin.members]
    return {
        "id": one_line(handin.id),
        "people": one_line("; ".join(people)) or "nobody is named",
        "at": _time(handin.submitted_at),
        "problem": one_line(handin.problem),
    }


# --- timings --------------------------------------------------------------------------------------


def _strip(strip: Strip) -> dict[str, Any]:
    """One variant's timings, drawn once for each measure."""
    drawings = []
    for measure in strip.measures:
        timings = [each for each in strip.timings if measure in each.values]
        values = [each.values[measure] for each in timings]
        limits = [
            (number, each)
            for number, each in enumerate(strip.thresholds)
            if overview.measure_of(each) == measure
        ]
        scale = charts.axis(values, [each.limit for _, each in limits])
        places = charts.swarm(values, scale)
        drawings.append(
            {
                "measure": measure,
                "is_ratio": measure != overview.MILLISECONDS,
                "scale": scale,
                "dots": [
                    (across, away * DOT, f"{', '.join(each.submission.names)}: {value:.3g}")
                    for (across, away), each, value in zip(places, timings, values, strict=True)
                ],
                "limits": limits,
            }
        )
    return {
        "strip": strip,
        "drawings": drawings,
        "thresholds": [
            (each, _getting(strip, number)) for number, each in enumerate(strip.thresholds)
        ],
        "nothing": _getting(strip, -1),
    }


def _getting(strip: Strip, number: int) -> int:
    """The number of submissions for which a threshold is the first that holds; -1: none does."""
    return sum(overview.reached(each.at_best, strip.thresholds) == number for each in strip.timings)


def _what_if(strip: Strip) -> dict[str, Any]:
    """The numbers that the script needs to count again."""
    return {
        "offered": strip.points,
        "thresholds": [
            {
                "measure": strip.measures.index(overview.measure_of(each)),
                "limit": each.limit,
                "least": each.speed_vs is not None,
                "points": each.points,
            }
            for each in strip.thresholds
        ],
        "timings": [
            [each.at_best.get(measure) for measure in strip.measures] for each in strip.timings
        ],
    }


# --- a student's row ------------------------------------------------------------------------------


def _row(entry: Entry, exercises: Mapping[str, Exercise]) -> dict[str, Any]:
    counted, grade = entry.counted, entry.grade
    scores = {row.name: row.score for row in grade.exercises} if grade is not None else {}
    evidence = counted.evidence if counted is not None else None
    errors = bool(grade and evidence and summary.grader_errors(evidence, grade))
    problems = [each.handin.problem for each in entry.attempts if each.handin.problem]
    lines = [*(["the grader failed on it"] if errors else []), *entry.waiting, *entry.notes]
    notes = list(dict.fromkeys([*lines, *(each for each in problems if each not in str(lines))]))
    tags = {
        "unscored": entry.score is None,
        "waiting": bool(entry.waiting),
        "late": entry.lateness.days > 0,
        "adjusted": bool(entry.adjustments),
        "failed": errors,
        "noted": bool(notes),
    }
    return {
        "entry": entry,
        "name": entry.student.name or entry.student.id,
        "scores": {name: scores.get(name) for name in exercises},
        "late": _lateness(entry),
        "adjusted": "; ".join(map(adjustment_in_words, entry.adjustments)),
        "notes": list(map(one_line, notes)),
        "tags": " ".join(tag for tag, holds in tags.items() if holds),
    }


def _lateness(entry: Entry) -> str:
    late = entry.lateness
    if not late.days:
        return ""
    words = [f"{late.days} day{'s' * (late.days != 1)}"]
    if late.refused:
        return f"{words[0]}: too late to count"
    if late.slip_days:
        words.append(f"{late.slip_days} slip")
    if late.penalty:
        words.append(f"\N{MINUS SIGN}{100 * late.penalty:.3g} %")
    return ", ".join(words)


def adjustment_in_words(adjustment: Adjustment) -> str:
    """'+1.5 (softmax/online)', 'rules lifted (silu/triton)'."""
    words = {
        AdjustmentKind.points: f"{adjustment.points:+g}".replace("-", "\N{MINUS SIGN}"),
        AdjustmentKind.lift: "rules lifted",
        AdjustmentKind.accept_time: "time accepted",
        AdjustmentKind.reject_time: "time rejected",
        AdjustmentKind.note: "note",
    }
    return words[adjustment.kind] + (f" ({one_line(adjustment.only)})" if adjustment.only else "")


def _time(when: datetime | None) -> str:
    return when.strftime("%Y-%m-%d %H:%M %Z").strip() if when is not None else ""


def _script() -> str:
    text = (HERE / "class.js").read_text(encoding="utf-8")
    assert "</" not in text  # it would end the script element
    return text

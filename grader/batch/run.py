"""A folder of submissions, one after the other; what is graded already isn't graded again.

    OUT/scores.csv               one row per submission, written anew after each
    OUT/evidence/NAME.json       what was observed
    OUT/reports/NAME.html        the student's page
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader import evidence as evidence_files
from grader import report
from grader.evidence import Evidence, EvidenceError
from grader.grade import Progress, SubmissionError, grade, selected
from grader.score import GradeScore, score
from grader.spec import Exercise
from grader.status import Status


@dataclass
class Table:
    """The scores so far."""

    path: Path
    rows: list[dict[str, str]] = field(default_factory=list)
    grader_errors: int = 0
    complete: bool = True


def run(
    source: Path,
    out: Path,
    exercises: Mapping[str, Exercise],
    *,
    seed: int,
    only: Sequence[str] = (),
    on_submission: Callable[[str, int, int], None] = lambda name, done, total: None,
    on_step: Progress = lambda step: None,
) -> Table:
    """Grade every folder in `source`; each becomes a row, whatever is in it.

    A submission whose files, seed and variants are those of stored evidence is scored from that.
    Raises SubmissionError when `source` is no folder or holds none.
    """
    submissions = submissions_in(source)
    for folder in (out / "evidence", out / "reports"):
        folder.mkdir(parents=True, exist_ok=True)
    table = Table(out / "scores.csv")
    try:
        for done, submission in enumerate(submissions):
            on_submission(submission.name, done, len(submissions))
            stored = out / "evidence" / f"{submission.name}.json"
            observed = _stored(stored, submission, exercises, only, seed)
            if observed is None:
                observed = grade(submission, exercises, seed=seed, only=only, on_step=on_step)
                if not observed.complete:
                    table.complete = False
                    break
                _write(stored, evidence_files.to_json(observed))
            graded = score(observed, exercises)
            page = out / "reports" / f"{submission.name}.html"
            _write(page, report.to_html(observed, graded))
            table.rows.append(_row(submission.name, observed, graded))
            table.grader_errors += _has_grader_error(observed)
            _write_csv(table)
    except KeyboardInterrupt:
        table.complete = False
    return table


def submissions_in(source: Path) -> list[Path]:
    """The folders directly in `source`, by name; hidden ones are left out."""
    if not source.is_dir():
        raise SubmissionError(f"{source}: expected a folder of submissions, found none")
    folders = [path for path in sorted(source.iterdir()) if path.is_dir() and path.name[0] != "."]
    if not folders:
        raise SubmissionError(f"{source}: expected one folder per submission, found none")
    return folders


def _stored(
    path: Path, submission: Path, exercises: Mapping[str, Exercise], only: Sequence[str], seed: int
) -> Evidence | None:
    """Stored evidence, where it is of the same files, seed and variants."""
    try:
        observed = evidence_files.read(path)
    except EvidenceError:
        return None
    wanted = {
        (exercise.name, variant.name): _digest(submission / variant.file)
        for exercise, variant in selected(exercises, only)
    }
    have = {(each.exercise, each.variant): each.sha256 for each in observed.variants}
    if observed.seed != seed or have != wanted or _has_grader_error(observed):
        return None
    return observed


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _has_grader_error(observed: Evidence) -> bool:
    return any(
        part.status is Status.grader_error for each in observed.variants for part in each.parts
    )


def _row(name: str, observed: Evidence, graded: GradeScore) -> dict[str, str]:
    row = {
        "submission": name,
        "score": f"{graded.score:g}",
        "gradable": f"{graded.gradable:g}",
        "max_score": f"{graded.max_score:g}",
        "seed": str(observed.seed),
    }
    for exercise in graded.exercises:
        for variant in exercise.variants:
            key = f"{exercise.name}/{variant.name}"
            row[key] = f"{variant.score:g}"
            row[f"{key} status"] = variant.status.value
    return row


def _write_csv(table: Table) -> None:
    columns = list(dict.fromkeys(column for row in table.rows for column in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows({key: _safe(value) for key, value in row.items()} for row in table.rows)
    _write(table.path, text.getvalue())


def _safe(cell: str) -> str:
    """A cell that a spreadsheet won't take for a formula."""
    return "'" + cell if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _write(path: Path, text: str) -> None:
    """All of it or nothing: an interrupted run leaves no half-written file."""
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)

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
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader import confinement, machine, report
from grader import evidence as evidence_files
from grader.confinement import Level
from grader.evidence import Evidence, EvidenceError, VariantEvidence
from grader.grade import Progress, Session, SubmissionError, grade, selected
from grader.score import GradeScore, score
from grader.spec import Exercise
from grader.status import Status

LONGEST_NAME = 100  # bytes of a submission's name in the names of its files

OnSubmission = Callable[[str, int, int], None]  # its name, how many are done, how many there are


@dataclass
class Table:
    """The scores so far, by the name of the submission and in the order of the names."""

    path: Path
    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    grader_errors: list[str] = field(default_factory=list)  # submissions the grader failed on
    left_out: list[str] = field(default_factory=list)  # names in the source that are no folders
    complete: bool = True


def run(
    source: Path,
    out: Path,
    exercises: Mapping[str, Exercise],
    *,
    seed: int,
    only: Sequence[str] = (),
    require_sandbox: bool = True,
    on_submission: OnSubmission = lambda name, done, total: None,
    on_step: Progress = lambda step: None,
) -> Table:
    """Grade every folder in `source`; each becomes a row, whatever is in it.

    A submission whose files, seed and parts are those of stored evidence is scored from that;
    these come first, so that an interrupted run leaves no fewer rows than it found. Ctrl-C ends
    the batch with `complete` False. Raises SubmissionError when `source` is no folder or holds
    none, OSError when `out` can't be written, and ConfinementError where a sandbox is required (a
    class is strangers' code) and there is none.
    """
    submissions, left_out = submissions_in(source, out)
    for folder in (out / "evidence", out / "reports"):
        folder.mkdir(parents=True, exist_ok=True)
    table = Table(out / "scores.csv", left_out=left_out)
    confinement.choose(None, machine.device(), require_sandbox)  # say now that there is none
    job = _Job(out, exercises, seed, tuple(only), require_sandbox)
    try:
        missing = [each for each in submissions if not _add_stored(table, job, each)]
        _write_csv(table)
        for index, submission in enumerate(missing):
            done = len(submissions) - len(missing) + index
            on_submission(submission.name, done, len(submissions))
            if not _add_graded(table, job, submission, on_step):
                table.complete = False
                break
            _write_csv(table)
    except KeyboardInterrupt:
        table.complete = False
    return table


def submissions_in(source: Path, out: Path | None = None) -> tuple[list[Path], list[str]]:
    """The folders directly in `source`, by name, and the names of what else is there.

    Hidden entries don't count, nor does `out`. Raises SubmissionError when there is no folder.
    """
    if not source.is_dir():
        raise SubmissionError(f"{source}: expected a folder of submissions, found none")
    ours = out.resolve() if out is not None else None
    entries = [
        path
        for path in sorted(source.iterdir())
        if not path.name.startswith(".") and path.resolve() != ours
    ]
    folders = [path for path in entries if path.is_dir()]
    if not folders:
        raise SubmissionError(f"{source}: expected one folder per submission, found none")
    return folders, [path.name for path in entries if path not in set(folders)]


@dataclass(frozen=True)
class _Job:
    """What is the same for every submission."""

    out: Path
    exercises: Mapping[str, Exercise]
    seed: int
    only: tuple[str, ...]
    require_sandbox: bool

    def evidence_path(self, submission: Path) -> Path:
        return self.out / "evidence" / f"{_file_stem(submission.name)}.json"

    def report_path(self, submission: Path) -> Path:
        return self.out / "reports" / f"{_file_stem(submission.name)}.html"


def _add_stored(table: Table, job: _Job, submission: Path) -> bool:
    """Add the row of a submission that was graded before; whether there was such evidence."""
    observed = _stored(job, submission)
    if observed is not None:
        _add(table, job, submission, observed)
    return observed is not None


def _add_graded(table: Table, job: _Job, submission: Path, on_step: Progress) -> bool:
    """Grade a submission and add its row; False when grading was interrupted.

    Trouble with one submission, the grader's own too, is a row that says so: the others go on.
    """
    try:
        observed = grade(
            submission,
            job.exercises,
            seed=job.seed,
            only=job.only,
            require_sandbox=job.require_sandbox,
            on_step=on_step,
        )
    except SubmissionError:
        _add_note(table, job, submission, "the folder is gone")
        return True
    except Exception as error:
        trouble = "".join(traceback.format_exception_only(error))
        _add_note(table, job, submission, f"the grader failed: {trouble}")
        table.grader_errors.append(report.one_line(submission.name))
        return True
    if not observed.complete:
        return False
    # A name that isn't UTF-8 could not be written.
    observed = replace(observed, submission=report.one_line(observed.submission))
    _write(job.evidence_path(submission), evidence_files.to_json(observed))
    _add(table, job, submission, observed)
    return True


def _add_note(table: Table, job: _Job, submission: Path, note: str) -> None:
    """Add a row without a score."""
    table.rows[submission.name] = {
        "submission": report.one_line(submission.name),
        "seed": str(job.seed),
        "note": report.one_line(note),
    }


def _add(table: Table, job: _Job, submission: Path, observed: Evidence) -> None:
    graded = score(observed, job.exercises)
    _write(job.report_path(submission), report.to_html(observed, graded))
    table.rows[submission.name] = _row(observed, graded)
    if has_grader_error(observed.variants):
        table.grader_errors.append(observed.submission)


def _stored(job: _Job, submission: Path) -> Evidence | None:
    """Stored evidence, where it is of the same files and seed and has all that is asked for."""
    try:
        observed = evidence_files.read(job.evidence_path(submission))
        with Session(submission, job.exercises, seed=job.seed) as session:
            now = [session.unseen(e, v) for e, v in selected(job.exercises, job.only)]
    except (EvidenceError, SubmissionError, OSError):
        return None
    stored = {(each.exercise, each.variant): each for each in observed.variants}
    wanted = [stored.get((each.exercise, each.variant)) for each in now]
    if observed.seed != job.seed or not observed.complete:
        return None
    if job.require_sandbox and observed.environment.get("sandbox") == Level.limits.value:
        return None  # whoever asked for a sandbox wants no verdict from without
    for each, before in zip(now, wanted, strict=True):
        if before is None or not _is_of(before, each, job.exercises[each.exercise]):
            return None
    kept = replace(observed, variants=tuple(each for each in wanted if each is not None))
    return None if has_grader_error(kept.variants) else kept


def _is_of(before: VariantEvidence, now: VariantEvidence, exercise: Exercise) -> bool:
    """Whether stored evidence is of the file as it is now, with every part the spec has now."""
    if (before.sha256, before.not_attempted) != (now.sha256, now.not_attempted):
        return False
    variant = exercise.variants[now.variant]
    wanted = {(dtype, name) for dtype in variant.dtypes for name in variant.size_classes}
    seen = {(part.dtype, part.size_class) for part in before.parts}
    return bool(now.not_attempted) or wanted <= seen


def has_grader_error(variants: Iterable[VariantEvidence]) -> bool:
    """Whether the grader itself failed anywhere in the evidence of these variants."""
    return any(
        part.status is Status.grader_error
        for each in variants
        for part in (*each.parts, each.performance)
        if part is not None
    )


# --- the CSV file --------------------------------------------------------------------------------


def _row(observed: Evidence, graded: GradeScore) -> dict[str, str]:
    row = {
        "submission": observed.submission,
        "score": f"{graded.score:g}",
        "gradable": f"{graded.gradable:g}",
        "max_score": f"{graded.max_score:g}",
        "bonus": f"{graded.bonus:g}",
        "max_bonus": f"{graded.max_bonus:g}",
        "seed": str(observed.seed),
        "note": "the grader failed on a part of it" if has_grader_error(observed.variants) else "",
    }
    for exercise in graded.exercises:
        for variant in exercise.variants:
            key = f"{exercise.name}/{variant.name}"
            row[key] = f"{variant.score:g}"
            row[f"{key} status"] = variant.status.value
    return row


def _write_csv(table: Table) -> None:
    rows = [table.rows[name] for name in sorted(table.rows)]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, _columns(rows), restval="")
    writer.writeheader()
    writer.writerows({key: _safe(value) for key, value in row.items()} for row in rows)
    _write(table.path, text.getvalue())


def _columns(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Those of every row, the longest row's order first."""
    columns: dict[str, None] = {}
    for row in sorted(rows, key=len, reverse=True):
        columns.update(dict.fromkeys(row))
    return list(columns) or ["submission", "score"]


def _safe(cell: str) -> str:
    """A cell that a spreadsheet won't take for a formula."""
    return (
        "'" + cell
        if cell.lstrip()[:1] in ("=", "+", "-", "@") or cell[:1] in ("\t", "\r", "\n")
        else cell
    )


# --- files ---------------------------------------------------------------------------------------


def _file_stem(name: str) -> str:
    """A submission's name as part of a file's name: told apart by a hash where it can't be used."""
    data = name.encode("utf-8", "surrogateescape")
    if len(data) <= LONGEST_NAME and name.isprintable():
        return name
    start = report.one_line(name).encode()[: LONGEST_NAME // 2].decode("utf-8", "ignore")
    return f"{start}-{hashlib.sha256(data).hexdigest()[:16]}"


def _write(path: Path, text: str) -> None:
    """All of it or nothing: an interrupted run leaves no half-written file."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

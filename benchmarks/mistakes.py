"""Is each single mistake of the corpus caught, and what does the student read about it?

Grades every case of tests/submissions/mistakes without a GPU, as `grader grade --only` does it, and
writes OUT/rows.json: for each case whether it lost points, how many lines the messages have,
seconds, and seconds of processor time, which a busy machine hardly changes. What a judge reads lies
in OUT/cases/ID, which names no mistake: the file handed in and message.txt. Rows that OUT already
holds are not run again, so an interrupted run goes on.

    python benchmarks/mistakes.py OUT [--half work|held|all] [--only TEXT]... [--jobs N]
    python benchmarks/mistakes.py OUT --bases

The half `held` is judged once, at the end: its messages are written with `--half held` alone. With
`--half all` it has rows and no messages. `--bases` grades the right solutions that cases are edits
of, none of which may lose a point.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.progress import (  # noqa: E402
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table  # noqa: E402

from tests.support import mistakes  # noqa: E402

PATIENCE_SECONDS = 600  # for one case, before it is recorded as an error
WIDTH = 100  # columns of the terminal for which messages are laid out


@dataclass(frozen=True)
class Graded:
    """What a grading of one file said."""

    caught: bool | None  # whether points were lost; None where the grader gave no grade
    message: str
    seconds: float
    cpu_seconds: float = 0.0

    @property
    def lines(self) -> int:
        """Lines of the messages that aren't empty."""
        return sum(bool(line.strip()) for line in self.message.splitlines())


@dataclass(frozen=True)
class Row:
    """A line of OUT/rows.json. It tells nothing of a message but its length."""

    name: str
    id: str
    half: str
    task: str
    kind: str
    caught: bool | None
    lines: int
    seconds: float
    code: str  # of what was handed in: a case that was changed since is graded again
    cpu_seconds: float = 0.0


def main() -> int:
    """Run what OUT lacks; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--half", choices=["work", "held", "all"], default="work")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="only cases with this text in exercise/variant or name; of several texts, all",
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--bases", action="store_true", help="the right solutions, not the cases")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    if given.bases:
        return check_bases(console)
    halves: tuple[mistakes.Half, ...] = (
        ("work", "held") if given.half == "all" else (cast(mistakes.Half, given.half),)
    )
    chosen = [
        (half, case)
        for half in halves
        for case in mistakes.half_of(half)
        if all(text in f"{case.task} {case.name}" for text in given.only)
    ]
    if not chosen:
        parser.error(f"no case has {' and '.join(given.only)} in its name")
    shown = {"work"} if given.half == "all" else {given.half}
    rows = collect(given.out, chosen, shown, given.jobs, console)
    summarise([rows[case.name] for _, case in chosen], console)
    return 0


def collect(
    out: Path,
    chosen: Sequence[tuple[mistakes.Half, mistakes.Case]],
    shown: set[str],
    jobs: int,
    console: Console,
) -> dict[str, Row]:
    """Grade what OUT lacks and write each row when it comes. All rows, by the cases' names.

    `shown` are the halves whose messages are written.
    """
    rows = read_rows(out)
    for half, case in chosen:  # a case that came later may have moved this one
        if case.name in rows:
            rows[case.name] = replace(rows[case.name], half=half)
    missing = [
        (half, case)
        for half, case in chosen
        if case.name not in rows
        or rows[case.name].code != code_of(case)
        or (half in shown and not folder_of(out, case).is_dir())
    ]
    named = TextColumn("{task.fields[name]}")
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), named)
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(jobs) as pool:
        bar = progress.add_task("", total=len(missing), name="")
        futures = {
            pool.submit(graded, case.file, case.text(), case.task): (half, case)
            for half, case in missing
        }
        for future in as_completed(futures):
            half, case = futures[future]
            result = future.result()
            rows[case.name] = Row(
                name=case.name,
                id=case.id,
                half=half,
                task=case.task,
                kind=case.kind,
                caught=result.caught,
                lines=result.lines,
                seconds=round(result.seconds, 2),
                code=code_of(case),
                cpu_seconds=round(result.cpu_seconds, 2),
            )
            if half in shown:
                keep(folder_of(out, case), case, result)
            write_rows(out, rows)
            progress.update(bar, advance=1, name=case.task)
    return rows


def graded(file: str, text: str, task: str) -> Graded:
    """The grade that `grader grade --only TASK` gives a submission of one file."""
    with tempfile.TemporaryDirectory(prefix="warpgrade-mistakes-") as root:
        submission = Path(root) / "submission"
        submission.mkdir()
        (submission / file).write_text(text, encoding="utf-8")
        grade = Path(root) / "grade.json"
        command = [sys.executable, "-m", "grader", "grade", "submission", "--only", task]
        command += ["--jobs", "1", "--json", str(grade)]
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "COLUMNS": str(WIDTH),
            "CUDA_VISIBLE_DEVICES": "",
        }
        started = time.monotonic()
        output, cpu_seconds = _run(command, root, environment)
        seconds = time.monotonic() - started
        if not grade.exists():
            return Graded(None, output, seconds, cpu_seconds)
        variant = variant_of(json.loads(grade.read_text(encoding="utf-8")))
        missed = {
            check["name"]
            for check in variant["checks"]
            if check["status"] == "target_missed"
            or (check["name"] == "memory" and check["status"] in ("timed_out", "out_of_memory"))
        }
        return Graded(lost(variant), messages_of(output, missed), seconds, cpu_seconds)


def _run(command: Sequence[str], folder: str, environment: dict[str, str]) -> tuple[str, float]:
    """What a command prints, and its seconds of processor time with those of its processes.

    Of a command without an end it is "".
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=errors
        )
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > until:
                process.kill()
                process.wait()
                return "", 0.0
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed = b""
        for file in (output, errors) if process.returncode else (output,):
            file.seek(0)
            printed += file.read()
        return printed.decode("utf-8", "replace"), used.ru_utime + used.ru_stime


def variant_of(grade: dict[str, Any]) -> dict[str, Any]:
    """The one variant that was graded."""
    [exercise] = grade["exercises"]
    [variant] = exercise["variants"]
    return cast(dict[str, Any], variant)


def lost(variant: dict[str, Any]) -> bool:
    """Whether a variant lost points, or failed where it is worth none (gelu)."""
    return variant["status"] != "passed" or bool(variant["score"] < variant["gradable"])


def messages_of(output: str, missed: Set[str] = frozenset()) -> str:
    """The messages in what `grade` prints: without its head, the table of points and the sum.

    Of the table the rows of the checks `missed` are kept, in which a missed target is explained.
    """
    _, table, *blocks = output.strip().split("\n\n")
    rows: list[list[str]] = []
    for line in table.splitlines()[2:]:
        if re.match(r"  \S", line) or not rows:
            rows.append([])
        rows[-1].append(line.rstrip())
    explained = ["\n".join(row) for row in rows if row[0].split()[0] in missed]
    told = [block for block in blocks if not block.startswith("Earned")]
    return "\n\n".join([*explained, *told]) + "\n"


def keep(folder: Path, case: mistakes.Case, result: Graded) -> None:
    """Write what a judge reads. The folder is there once it is whole."""
    partial = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / case.file).write_text(case.text(), encoding="utf-8")
    (partial / "message.txt").write_text(result.message, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


def code_of(case: mistakes.Case) -> str:
    """A digest of the file handed in."""
    return hashlib.sha256(case.text().encode()).hexdigest()[:16]


def folder_of(out: Path, case: mistakes.Case) -> Path:
    """Where a case's file and messages lie."""
    return out / "cases" / case.id


def read_rows(out: Path) -> dict[str, Row]:
    """The rows of an earlier run, by the cases' names."""
    path = out / "rows.json"
    if not path.exists():
        return {}
    return {row["name"]: Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))}


def write_rows(out: Path, rows: dict[str, Row]) -> None:
    """Replace the file at once, so that an interrupted run leaves a whole one."""
    out.mkdir(parents=True, exist_ok=True)
    partial = out / "rows.json.part"
    text = json.dumps([asdict(rows[name]) for name in sorted(rows)], indent=1)
    partial.write_text(f"{text}\n", encoding="utf-8")
    partial.replace(out / "rows.json")


def summarise(rows: Sequence[Row], console: Console) -> None:
    """Print counts and medians for each half, and the names of what wasn't caught."""
    table = Table(
        *("half", "cases", "caught", "median lines", "median s, Triton", "median s, CUDA"),
        *("CPU s, Triton", "CPU s, CUDA"),
    )
    for half in ("work", "held"):
        of_half = [row for row in rows if row.half == half]
        if not of_half:
            continue
        caught = [row for row in of_half if row.caught]
        table.add_row(
            half,
            str(len(of_half)),
            str(len(caught)),
            _median([row.lines for row in caught]),
            _median([row.seconds for row in of_half if "cuda" not in row.task]),
            _median([row.seconds for row in of_half if "cuda" in row.task]),
            _median([row.cpu_seconds for row in of_half if "cuda" not in row.task]),
            _median([row.cpu_seconds for row in of_half if "cuda" in row.task]),
        )
    console.print(table)
    for row in rows:
        if not row.caught:
            said = "not caught" if row.caught is False else "no grade"
            console.print(f"{said}: {row.task} {row.name} ({row.half})", highlight=False)


def check_bases(console: Console) -> int:
    """Grade each variant that has cases of a base on that base, unedited; 1 if any lost points."""
    failed = 0
    tasks = {(case.task, case.file) for case in mistakes.load() if case.base}
    for task, file in sorted(tasks):
        result = graded(file, (mistakes.BASES / file).read_text(encoding="utf-8"), task)
        failed += result.caught is not False
        console.print(f"{task}: {'right' if result.caught is False else 'LOST POINTS'}")
        if result.caught is not False:
            console.print(result.message, markup=False, highlight=False)
    return 1 if failed else 0


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3g}" if values else "-"


if __name__ == "__main__":
    raise SystemExit(main())

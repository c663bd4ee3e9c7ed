"""The files in RESULTS/ that people open. All of them can be written again at any time.

gradebook.csv gradebook.json    the class
index.html                      the class's page
students/NAME.html NAME.md      each student's
results/NAME.json               Gradescope's results.json of the hand-in that counts
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from grader.batch import exports
from grader.batch.course.records import Entry, Gradebook
from grader.batch.gradebook import page_stem
from grader.batch.pages import class_page, feedback
from grader.spec import Exercise

STUDENTS, RESULTS = "students", "results"
PAGE = "index.html"


def write(book: Gradebook, exercises: Mapping[str, Exercise], folder: Path) -> list[Path]:
    """Write every view of a gradebook; files of students who aren't in it any more go.

    Of two commands that write, one waits for the other. Raises OSError where something can't be
    written: what was there before is still whole.
    """
    written = []
    with _locked(folder):
        for name, text in _views(book, exercises):
            _replace(folder / name, text)
            written.append(folder / name)
        for part in (STUDENTS, RESULTS):
            kept = {path for path in written if path.parent.name == part}
            for path in (folder / part).glob("*"):
                if path not in kept and path.suffix in (".html", ".md", ".json", ".part"):
                    path.unlink()
    return written


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _views(book: Gradebook, exercises: Mapping[str, Exercise]) -> Iterator[tuple[str, str]]:
    for entry in book.entries:
        stem = page_stem(entry.student)
        yield f"{STUDENTS}/{stem}.html", feedback.to_html(book, entry)
        yield f"{STUDENTS}/{stem}.md", feedback.to_markdown(book, entry)
        if results := feedback.to_results(book, entry):
            yield f"{RESULTS}/{stem}.json", results
    yield "gradebook.json", exports.to_json(book, allow_incomplete=True)
    yield "gradebook.csv", exports.to_csv(book, allow_incomplete=True)
    yield PAGE, class_page.render(book, exercises, _link_of)


def _link_of(entry: Entry) -> str:
    return f"{STUDENTS}/{page_stem(entry.student)}.html"


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all: an interrupted command leaves none half-written."""
    data = text.encode("utf-8", "replace")
    with contextlib.suppress(OSError):
        if path.read_bytes() == data:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

"""The grader's test corpus: submissions known to be wrong, and honest ones that look unusual.

They live in tests/submissions/{wrong,honest}/EXERCISE.yaml, each a list of entries such as

    - name: grid_rounds_down
      mistake: the number of blocks is rounded down, so nothing computes the tail
      edits:                              # of reference/EXERCISE.py
        - old: triton.cdiv(n_elements, BLOCK)
          new: n_elements // BLOCK
      status: not_written                 # what the grader must say
      classes: [ragged, degenerate]       # size classes that must fail
      passes: [aligned]                   # size classes that must still pass

`old` must occur exactly once. Where it has several lines, write them without the indentation that
its first line has in the file; `new` is indented to match. `whole` in place of `edits` is a
complete file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pydantic
import yaml

from grader.status import Status

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "submissions"
REFERENCE = ROOT / "reference"

Kind = Literal["wrong", "honest"]
Name = Annotated[str, pydantic.Field(pattern=r"^[a-z][a-z0-9_]*$")]


class CorpusError(ValueError):
    """An entry of the corpus is wrong; the message names file, entry and what was expected."""


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Edit(_Model):
    """One replacement in the reference solution."""

    old: Annotated[str, pydantic.Field(min_length=1)]
    new: str


class Submission(_Model):
    """One entry: how to make the submission, and what the grader must say about it."""

    kind: Kind
    exercise: str
    name: Name
    mistake: str = ""  # what the student did wrong, in one sentence; wrong ones only
    about: str = ""  # what is unusual; honest ones only
    edits: tuple[Edit, ...] = ()
    whole: str | None = None
    status: Status = Status.passed
    gpu_status: Status | None = None  # where a GPU can't but say something else
    classes: tuple[str, ...] = ()  # size classes that must fail, with `status`
    dtypes: tuple[str, ...] = ()  # dtypes that must fail; () is all. The others may do either
    passes: tuple[str, ...] = ()  # size classes that must pass, in every dtype
    passes_dtypes: tuple[str, ...] = ()  # dtypes that must pass, in every size class
    fast: bool = True  # honest ones: whether the speed targets are within its reach

    @property
    def id(self) -> str:
        """`silu-grid_rounds_down`, as the id of a test."""
        return f"{self.exercise}-{self.name}"

    @property
    def file(self) -> str:
        """The name of the file handed in."""
        return f"{self.exercise}.py"

    def status_on(self, gpu: bool) -> Status:
        """The status that a machine with or without a GPU must find."""
        return self.gpu_status if gpu and self.gpu_status is not None else self.status

    def text(self) -> str:
        """The file handed in. Raises CorpusError where an edit doesn't fit the reference."""
        if self.whole is not None:
            return self.whole
        text = (REFERENCE / self.file).read_text(encoding="utf-8")
        for edit in self.edits:
            text = _applied(edit, text, f"{self.kind}/{self.exercise}.yaml: {self.name}")
        return text

    def write(self, folder: Path) -> Path:
        """Make `folder` the submission: the one file, and nothing else. Returns its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file
        path.write_text(self.text(), encoding="utf-8")
        return path


def load(kind: Kind) -> list[Submission]:
    """Every entry of one kind, in the order of the files. Raises CorpusError."""
    return [
        submission
        for path in sorted((FOLDER / kind).glob("*.yaml"))
        for submission in _read(path, kind)
    ]


def _read(path: Path, kind: Kind) -> list[Submission]:
    place = f"{kind}/{path.name}"
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise CorpusError(f"{place}: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CorpusError(f"{place}: expected a list of mappings")
    submissions = []
    for entry in entries:
        try:
            submission = Submission(**{"kind": kind, "exercise": path.stem, **entry})
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise CorpusError(f"{place}: {entry.get('name')}: {key}: {first['msg']}") from None
        _check(submission, place)
        submissions.append(submission)
    names = [submission.name for submission in submissions]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise CorpusError(f"{place}: named twice: {', '.join(repeated)}")
    return submissions


def _check(submission: Submission, place: str) -> None:
    """What must hold between the fields of one entry."""
    place = f"{place}: {submission.name}"
    wrong = submission.kind == "wrong"
    if bool(submission.edits) == (submission.whole is not None):
        raise CorpusError(f"{place}: expected either edits or whole")
    if wrong != submission.status.is_failure:
        raise CorpusError(f"{place}: status: got {submission.status.value}")
    if wrong != bool(submission.mistake) or wrong == bool(submission.about):
        raise CorpusError(f"{place}: expected {'mistake' if wrong else 'about'}, and only that")
    if wrong and not submission.classes and submission.status is not Status.not_attempted:
        raise CorpusError(f"{place}: classes: expected the size classes that must fail")
    both = {*submission.classes} & {*submission.passes}
    both |= {*submission.dtypes} & {*submission.passes_dtypes}
    if both:
        raise CorpusError(f"{place}: must both fail and pass: {', '.join(sorted(both))}")


def _applied(edit: Edit, text: str, place: str) -> str:
    old, new = edit.old.rstrip("\n"), edit.new.rstrip("\n")
    found = []
    for indent in ("", " " * 4, " " * 8):
        needle = _indented(old, indent)
        start = text.find(needle)
        while start >= 0:
            if _indent_at(text, start) == indent:
                found.append((start, needle, indent))
            start = text.find(needle, start + 1)
    if len(found) != 1:
        raise CorpusError(f"{place}: expected {old!r} once in the reference, got {len(found)}")
    start, needle, indent = found[0]
    return text[:start] + _indented(new, indent) + text[start + len(needle) :]


def _indented(text: str, indent: str) -> str:
    """`text` with `indent` before every line but the first and the empty ones."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(indent + line if line else line for line in rest)])


def _indent_at(text: str, position: int) -> str:
    """The white space that starts the line of `text` which holds `position`."""
    line = text[text.rfind("\n", 0, position) + 1 :]
    return line[: len(line) - len(line.lstrip(" "))]

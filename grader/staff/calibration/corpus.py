"""The corpus: submissions known to be wrong or slow, and honest ones that look unusual.

They live in the folders wrong/ and honest/ of a course, in this project's own course in
tests/submissions/. EXERCISE.yaml is a list of entries such as

    - name: grid_rounds_down
      mistake: the number of blocks is rounded down, so nothing computes the tail
      edits:                              # of reference/EXERCISE.py
        - old: triton.cdiv(n_elements, BLOCK)
          new: n_elements // BLOCK
      status: not_written                 # what the grader must say
      classes: [ragged, degenerate]       # size classes that must fail
      passes: [aligned]                   # size classes that must still pass

EXERCISE_cuda.yaml holds those of the CUDA variants, as edits of reference/EXERCISE.cu without its
stub lines (//|). docs/spec.md has all fields. What is right but slow is timed on a GPU by
`grader calibrate`: the thresholds that it must miss name it in `missed_by`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import yaml

from grader.mistakes import Mistake
from grader.spec import Course, SpecError
from grader.spec.document import parsed
from grader.spec.exercise import HOME, REFERENCE
from grader.spec.values import hint
from grader.status import Status

MOST_LISTED = 8  # words in a message
Kind = Literal["wrong", "honest"]
Language = Literal["triton", "cuda"]
Name = Annotated[str, pydantic.Field(pattern=r"^[a-z][a-z0-9_]*$")]


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Edit(_Model):
    """One replacement in a file, such as the reference solution."""

    old: Annotated[str, pydantic.Field(min_length=1)]
    new: str


class Submission(_Model):
    """One entry: how to make the submission, and what the grader must say about it.

    docs/spec.md has the fields for authors.
    """

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
    wraps: bool = False  # honest ones: whether an index wraps beyond 2^31 elements
    fast: bool = True  # honest ones: whether the speed targets are within its reach
    variant: str = "triton"
    reference: Path = REFERENCE  # the folder of the file that is edited; load() sets it
    handed_in: str = ""  # the file's name; load() sets the variant's own where it isn't given
    after: str = ""  # edits and lines are the first ones behind this text
    line: tuple[str, ...] = ()  # texts of lines; the message must point at one of them
    check: Literal["sizes", "memory", "performance", "large"] = "sizes"  # what must fail
    rare: bool = False  # few cases show it: tests look at more of them
    only_observed: bool = False  # runs by plan alone show it: on a GPU any status may come
    # "3.9": the first version of Triton that takes notice of the mistake.
    since_triton: str = pydantic.Field("", pattern=r"^(\d+\.\d+)?$")

    @pydantic.field_validator("line", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @property
    def language(self) -> Language:
        """The language of the file handed in."""
        return "cuda" if self.variant.startswith("cuda") else "triton"

    @property
    def id(self) -> str:
        """`silu-grid_rounds_down` or `transpose-cuda_v4-unpadded`, as the id of a test."""
        words = (self.exercise, *([self.variant] * (self.variant != "triton")), self.name)
        return "-".join(words)

    @property
    def file(self) -> str:
        """The name of the file handed in."""
        return self.handed_in or f"{self.exercise}.{'py' if self.language == 'triton' else 'cu'}"

    @property
    def place(self) -> str:
        """Where the entry stands, as messages name it."""
        suffix = "_cuda" if self.language == "cuda" else ""
        return f"{self.kind}/{self.exercise}{suffix}.yaml: {self.name}"

    def text(self) -> str:
        """The file handed in. Raises Mistake where an edit doesn't fit the reference."""
        if self.whole is not None:
            return self.whole
        text = (self.reference / self.file).read_text(encoding="utf-8")
        if self.after or self.language == "cuda":
            text = _without_stub_lines(text)
        for edit in self.edits:
            text = applied(edit, text, self.place, self.after)
        return text


def load(
    kind: Kind, language: Language = "triton", course: Course | None = None
) -> list[Submission]:
    """Every entry of one kind and language, in the order of the files. Raises Mistake.

    Those of the default course where none is given.
    """
    course = course or Course(HOME)
    folder = course.wrong if kind == "wrong" else course.honest
    return [
        submission
        for path in sorted(folder.glob("*.yaml"))
        if path.stem.endswith("_cuda") == (language == "cuda")
        for submission in of_file(path, kind, course)
    ]


def of_file(path: Path, kind: Kind, course: Course) -> list[Submission]:
    """Every entry of one file of a course's corpus. Raises Mistake."""
    submissions = _read(path, kind)
    try:
        exercise = course.exercises.get(path.stem.removesuffix("_cuda"))
    except SpecError as error:
        exercise = error.right.get(path.stem.removesuffix("_cuda"))
    variants = exercise.variants if exercise is not None else {}
    return [
        each.model_copy(
            update={
                "reference": course.reference,
                "handed_in": each.handed_in
                or (variants[each.variant].file if each.variant in variants else ""),
            }
        )
        for each in submissions
    ]


def _read(path: Path, kind: Kind) -> list[Submission]:
    place = f"{kind}/{path.name}"
    try:
        loader, root = parsed(path.read_text(encoding="utf-8"))
        _expect_keys_once(root, place)
        entries = None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{place}:{mark.line + 1}" if mark else place
        reason = getattr(error, "problem", None) or error
        raise Mistake(f"{where}: can't be read as YAML: {reason}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Mistake(f"{place}: expected a list of mappings")
    exercise = path.stem.removesuffix("_cuda")
    variant = "triton" if exercise == path.stem else "cuda"
    submissions = []
    for entry in entries:
        try:
            known = {"kind": kind, "exercise": exercise, "variant": variant}
            submission = Submission(**{**known, **entry})
        except pydantic.ValidationError as error:
            mistake = _in_words(error.errors()[0])
            raise Mistake(f"{place}: {entry.get('name')}: {mistake}") from None
        _check(submission, place)
        submissions.append(submission)
    counts = Counter(submission.name for submission in submissions)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise Mistake(f"{place}: named twice: {', '.join(repeated)}")
    return submissions


def _expect_keys_once(root: yaml.Node | None, place: str) -> None:
    """Raise Mistake where an entry has a field twice, of which YAML takes the last one."""
    entries = root.value if isinstance(root, yaml.SequenceNode) else ()
    for entry in entries:
        lines: dict[str, int] = {}
        for key, _ in entry.value if isinstance(entry, yaml.MappingNode) else ():
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                again = f"expected each key once, got it again on line {line}"
                raise Mistake(f"{place}:{lines[name]}: {name}: {again}")
            lines[name] = line


def _in_words(error: Mapping[str, Any]) -> str:
    """A mistake in an entry's field: the field, what was expected, and what came."""
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        word = error["loc"][-1]
        model = Edit if len(error["loc"]) > 1 else Submission
        known = [*model.model_fields.keys() - {"kind", "exercise", "reference"}]
        return f"{key}: expected a field of docs/spec.md, got {word!r}{hint(word, known)}"
    if error["type"] in ("enum", "literal_error"):
        known = re.findall(r"'(\w+)'", error["ctx"]["expected"])
        is_short = len(known) < MOST_LISTED
        expected = f"one of {', '.join(known)}" if is_short else f"a {key} of docs/spec.md"
        return f"{key}: expected {expected}, got {error['input']!r}{hint(error['input'], known)}"
    if error["type"] == "string_type":
        return f"{key}: expected text, got {error['input']!r}: put it in quotes"
    if error["type"] == "missing":
        return f"{key}: expected the field {error['loc'][-1]!r}, which is missing"
    return f"{key}: {error['msg']}, got {error['input']!r}"


def _check(submission: Submission, place: str) -> None:
    """What must hold between the fields of one entry."""
    place = f"{place}: {submission.name}"
    wrong = submission.kind == "wrong"
    if bool(submission.edits) == (submission.whole is not None):
        raise Mistake(f"{place}: expected either edits or whole")
    if wrong != submission.status.is_failure:
        wanted = "the status that must be found" if wrong else "none for what is right"
        raise Mistake(f"{place}: status: expected {wanted}, got {submission.status.value}")
    if wrong != bool(submission.mistake) or wrong == bool(submission.about):
        raise Mistake(f"{place}: expected {'mistake' if wrong else 'about'}, and only that")
    is_of_target = submission.check in ("memory", "performance")
    if is_of_target != (submission.status is Status.target_missed):
        raise Mistake(
            f"{place}: check: expected memory or performance with target_missed, and only there"
        )
    running = submission.status not in (Status.not_attempted, Status.target_missed)
    if wrong and running and submission.check != "large" and not submission.classes:
        raise Mistake(f"{place}: classes: expected the size classes that must fail")
    both = {*submission.classes} & {*submission.passes}
    both |= {*submission.dtypes} & {*submission.passes_dtypes}
    if both:
        raise Mistake(f"{place}: must both fail and pass: {', '.join(sorted(both))}")


def lines(submission: Submission) -> tuple[int, ...]:
    """The numbers, from 1, of the lines of which the message must point at one.

    Raises Mistake where a line's text is not in the file, or not once.
    """
    text = submission.text()
    start = behind(submission.after, text, submission.place)
    numbers = []
    for wanted in submission.line:
        times = text.count(wanted, start)
        if times == 0 or (times > 1 and not submission.after):
            raise Mistake(f"{submission.place}: line: expected {wanted!r} once, got {times}")
        numbers.append(text.count("\n", 0, text.index(wanted, start)) + 1)
    return tuple(numbers)


def _without_stub_lines(text: str) -> str:
    """The solution alone: the stub's lines (#| and //|) repeat names and calls of it."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith(("#|", "//|")))


def behind(after: str, text: str, place: str) -> int:
    """Where `text` goes on behind `after`, which must occur once unless it is empty."""
    if after and text.count(after) != 1:
        raise Mistake(f"{place}: after: expected {after!r} once, got {text.count(after)}")
    return text.index(after) + len(after)


def applied(edit: Edit, text: str, place: str, after: str = "") -> str:
    """`text` with an edit made behind `after`. Raises Mistake where it doesn't fit."""
    old, new = edit.old.rstrip("\n"), edit.new.rstrip("\n")
    matched = []
    first_line = old.partition("\n")[0]
    start = text.find(first_line, behind(after, text, place))
    while start >= 0:
        indent = _indent_at(text, start)
        needle = _indented(old, indent)
        if text.startswith(needle, start):
            matched.append((start, needle, indent))
        start = text.find(first_line, start + 1)
    if not matched:  # several lines with the indentation that they have in the file
        begin = behind(after, text, place)
        starts = (each.start() for each in re.finditer(re.escape(old), text[begin:]))
        matched = [(begin + each, old, "") for each in starts]
    if not matched or (len(matched) != 1 and not after):
        raise Mistake(f"{place}: expected {old!r} once in the file it edits, got {len(matched)}")
    start, needle, indent = min(matched)
    return text[:start] + _indented(new, indent) + text[start + len(needle) :]


def _indented(text: str, indent: str) -> str:
    """`text` with `indent` before every line but the first and the empty ones."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(indent + line if line else line for line in rest)])


def _indent_at(text: str, position: int) -> str:
    """The white space that starts the line of `text` which holds `position`."""
    line = text[text.rfind("\n", 0, position) + 1 :]
    return line[: len(line) - len(line.lstrip(" "))]

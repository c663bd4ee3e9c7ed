"""The students' release: the stubs, the oracles, the grader and the assignment; no solutions.

This module lists the files. Stubs are made from reference/, because assignment/ may hold somebody's
work. Notebooks are made from their text sources. In a file that staff and students share, what
lies between the lines `# BEGIN STAFF` and `# END STAFF` is left out. Specs lose `missed_by`, names
of submissions that say how a kernel is made slow, and of questions `answer` and `accept`. What
grades a class and what only the staff run is left out (STAFF_FILES).

The same tree gives the same bytes: files are sorted, times and permissions fixed, and a zip's
entries are stored as they are, since what compresses them differs from one machine to the next.
"""

from __future__ import annotations

import calendar
import hashlib
import itertools
import os
import posixpath
import re
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from grader.mistakes import Mistake
from grader.spec import Course, Exercise
from grader.spec.course_file import FILE as COURSE_FILE
from grader.staff import notebooks
from grader.staff.handout import render
from grader.staff.stubs import headers_of, make_stubs

FOLDER = "warpgrade"  # what a zip unpacks to
SHARED = (
    ".gitignore",
    "LICENSE",
    "Makefile",
    "constraints.txt",
    "grader/cli/app.py",
    "pyproject.toml",
    "tests/__init__.py",
    "tests/conftest.py",
    "tests/test_assignment.py",
    "tests/test_performance.py",
)
# In students/, and at the top of the release.
THEIRS = (".devcontainer/Dockerfile", ".devcontainer/devcontainer.json", "AGENTS.md", "README.md")
HANDOUT = "handout.md"
STAFF_FILES = (
    "grader/batch/",
    "grader/service/",
    "grader/staff/",
    "grader/cli/calibrate.py",
    "grader/cli/class_commands.py",
    "grader/cli/serve_command.py",
    "grader/cli/staff_commands.py",
)

_GRADER_SUFFIXES = {
    "",  # headers of the C++ kind: <cuda/pipeline>
    ".py",
    ".typed",
    ".yaml",
    ".html",
    ".cuh",
    ".h",
    ".cpp",
    ".cu",
    ".txt",
    ".js",
    ".sh",
    ".sql",
    ".css",
    ".csv",
    ".json",
}
_FIRST_TIME, _LAST_TIME = (calendar.timegm((year, 1, 1, 0, 0, 0)) for year in (1980, 2107))
_COMMENT = b"students' release "
_MISSED_BY = re.compile(r",\s*missed_by:\s*\[[\w\s,]*\]")
_SECRETS = frozenset({"missed_by", "answer", "accept"})  # keys of specs that students don't get
_ANSWER = re.compile(r"^ +(?:answer|accept): .*\n", re.MULTILINE)  # of a question, on one line
_STAFF = re.compile(r"^# (BEGIN|END) STAFF$")
_LINKED_SUFFIXES = r"md|svg|png|yaml|py|ipynb|cu|txt|toml"
# A link of Markdown, as far as it can't be taken for a launch: `kernel[grid](x)`.
_LINK = re.compile(
    rf"\[(?P<text>[^\[\]]*)\]\((?P<file>[\w./-]+\.(?:{_LINKED_SUFFIXES}))?(?P<anchor>#[\w-]+)?\)"
)
_DRAWN = re.compile(rf"src=\"(?P<file>[\w./-]+\.(?:{_LINKED_SUFFIXES}))\"")


@dataclass(frozen=True)
class Release:
    """The files of a release by their paths, which have slashes and are sorted.

    A zip holds them below `folder`, or at its top where that is ""; `programs` can be run.
    """

    files: Mapping[str, bytes]
    folder: str = FOLDER
    programs: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.files.values()))


def make(
    project: Path,
    exercises: Mapping[str, Exercise],
    only: Iterable[str] = (),
    course: Course | None = None,
) -> Release:
    """The release of the checkout `project`, with the exercises `only` names, or all.

    They are those of `course`, whose root is the project where none is given. Oracles stay whole;
    spec, stubs and the handout's section are there for those exercises alone. Raises Mistake
    where a name is no exercise's and where a file is missing, is a link or isn't UTF-8, and
    as `make_stubs` does.
    """
    named = set(only) or set(exercises)
    if unknown := sorted(named - set(exercises)):
        raise Mistake(f"{', '.join(unknown)}: expected whole exercises, of {', '.join(exercises)}")
    kept = {name: exercise for name, exercise in exercises.items() if name in named}
    left_out = [name for name in exercises if name not in named]
    course = course or Course(project.resolve())
    stubs = make_stubs(course.reference, kept)
    files = {f"assignment/{name}": text.encode() for name, text in stubs.items()}
    files |= {name: _read(project, f"students/{name}") for name in THEIRS}
    files |= {name: _read(project, name) for name in _grader_files(project)}
    files |= {name: _for_students(_text(project, name), name) for name in SHARED}
    files |= notebooks.made(project, kept)
    files |= _of_course(course, kept, left_out)
    files |= _pages(project, course, exercises, left_out, files)
    return Release(dict(sorted(files.items())))


def write(release: Release, out: Path) -> None:
    """Write a release to the folder `out`, or to a zip where its name ends in .zip.

    It is complete or not there. A folder that isn't empty, and a file that isn't an unchanged
    release, are left alone: Mistake.
    """
    when = _time()
    parent = out.absolute().parent
    if not parent.is_dir():
        raise Mistake(f"{out}: expected a folder that exists, there is no {parent}")
    if out.suffix.lower() == ".zip":
        _write_zip(release, out, when)
    else:
        _write_folder(release, out, when)


# --- which files ----------------------------------------------------------------------------------


def _grader_files(project: Path) -> list[str]:
    """The grader's own files: code, specs and data, in folders with ordinary names."""
    paths = (path for path in sorted((project / "grader").rglob("*")) if not path.is_dir())
    names = [path.relative_to(project) for path in paths if path.suffix in _GRADER_SUFFIXES]
    return [
        name.as_posix()
        for name in names
        if not any(part.startswith((".", "__pycache__")) for part in name.parts)
        and not name.as_posix().startswith(STAFF_FILES)
    ]


def _of_course(
    course: Course, kept: Mapping[str, Exercise], left_out: Sequence[str]
) -> dict[str, bytes]:
    """The oracles, the specs and the course file, which says nothing of what is left out."""
    specs = course.specs.relative_to(course.root)
    oracles = course.oracles.relative_to(course.root).as_posix()
    files = {f"exercises/{name}.yaml": _spec(course.root, f"{specs}/{name}.yaml") for name in kept}
    files["reference/oracles.py"] = _for_students(_text(course.root, oracles), oracles)
    for name in headers_of(kept):  # the grader takes them from here, not from assignment/
        path = (course.reference / name).relative_to(course.root).as_posix()
        files[f"reference/{name}"] = _read(course.root, path)
    text = _for_students(_text(course.root, COURSE_FILE), COURSE_FILE).decode()
    lines = text.splitlines(keepends=True)
    of_others = re.compile(rf"\s*(- ({'|'.join(left_out)})|({'|'.join(left_out)}):.*)\s*(#.*)?")
    is_kept = (not left_out or not of_others.fullmatch(line) for line in lines)
    files[COURSE_FILE] = "".join(itertools.compress(lines, is_kept)).encode()
    return files


def _spec(root: Path, name: str) -> bytes:
    whole = _text(root, name)
    text = _ANSWER.sub("", _MISSED_BY.sub("", whole))
    before, matched, _ = text.partition("missed_by")
    if matched:
        line = before.count("\n") + 1
        raise Mistake(
            f"{name}:{line}: expected missed_by: [names] last in a threshold's {{...}}, "
            "from where it can be taken out for students"
        )
    try:
        is_right = yaml.safe_load(text) == _without_secrets(yaml.safe_load(whole))
    except yaml.YAMLError:
        is_right = False
    if not is_right:
        raise Mistake(
            f"{name}: expected a question's `answer: ...` and `accept: ...` on a line each, "
            "from where they can be taken out for students"
        )
    return text.encode()


def _without_secrets(value: Any) -> Any:
    """What is left of a spec's data for students."""
    if isinstance(value, dict):
        return {k: _without_secrets(each) for k, each in value.items() if k not in _SECRETS}
    return list(map(_without_secrets, value)) if isinstance(value, list) else value


def _pages(
    project: Path,
    course: Course,
    exercises: Mapping[str, Exercise],
    left_out: Sequence[str],
    files: Mapping[str, bytes],
) -> dict[str, bytes]:
    """The handout, and the drawings and pages of docs/ that it shows or links to.

    Links to what isn't in the release become their text.
    """
    written = course.handout.relative_to(course.root).as_posix()
    handout = _without_sections(_text(course.root, written), exercises, left_out)
    linked = [name for name in _links(handout, HANDOUT) if _may_ship(project, name)]
    texts = {HANDOUT: handout}
    texts |= {name: _text(project, name) for name in linked if name.endswith(".md")}
    shown = {name for page, text in texts.items() for name in _links(text, page)}
    drawings = {each for each in shown if not each.endswith(".md") and _may_ship(project, each)}
    present = {*files, *texts, *drawings}
    pages = {
        page: _relinked(notebooks.relinked(text), page, present, left_out)
        for page, text in texts.items()
    }
    made = {name: _read(project, name) for name in drawings}
    return made | {page: text.encode() for page, text in pages.items()}


def _may_ship(project: Path, name: str) -> bool:
    """Whether a path is a drawing, or a file of docs/, in this checkout."""
    if name.startswith(("../", "reference/", "tests/", "students/")):
        return False
    drawn = name.endswith((".svg", ".png"))
    return (drawn or name.startswith("docs/")) and (project / name).is_file()


def _read(project: Path, name: str) -> bytes:
    path = project / name
    try:
        if path.resolve() != project.resolve() / name:
            raise Mistake(f"{path}: expected a file of the project, got a symbolic link")
        return path.read_bytes()
    except OSError as error:
        wanted = "expected a file for the students' release"
        raise Mistake(f"{path}: {wanted}: {error.strerror}") from None


def _text(project: Path, name: str) -> str:
    try:
        return _read(project, name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Mistake(f"{project / name}: expected UTF-8, byte {error.start} is not") from None


# --- what changes in them -------------------------------------------------------------------------


def _for_students(text: str, source: str) -> bytes:
    """A shared file without the lines that are for staff."""
    kept = []
    begun = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        marker = _STAFF.match(line.strip())
        if not marker:
            if not begun:
                kept.append(line)
        elif (marker[1] == "BEGIN") == bool(begun):
            other = f"END STAFF for line {begun}" if begun else "BEGIN STAFF first"
            raise Mistake(f"{source}:{number}: expected # {other}, got {line.strip()}")
        else:
            begun = 0 if begun else number
    if begun:
        raise Mistake(f"{source}:{begun}: # BEGIN STAFF without # END STAFF")
    return "".join(kept).encode()


def _without_sections(
    handout: str, exercises: Mapping[str, Exercise], left_out: Sequence[str]
) -> str:
    """The handout without the sections `## name` and rows of some exercises, its tables made anew.

    Raises Mistake where the handout has no place for a table.
    """
    headings = {f"## {name}" for name in left_out}
    rows = tuple(f"| [{name}](#{name}) |" for name in left_out)
    kept = []
    skipping = fenced = False
    for line in handout.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if line.startswith("## ") and not fenced:
            skipping = line.rstrip() in headings
        if not skipping and not line.startswith(rows):
            kept.append(line)
    named = {name: each for name, each in exercises.items() if name not in left_out}
    return render("".join(kept), named, HANDOUT)


def _links(text: str, page: str) -> Iterator[str]:
    """The files that a page links to or shows, as paths in the project."""
    for pattern in (_LINK, _DRAWN):
        for link in pattern.finditer(text):
            if link["file"]:
                yield _target(page, link["file"])


def _target(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _relinked(text: str, page: str, present: Iterable[str], left_out: Iterable[str]) -> str:
    files, gone = set(present), {f"#{name}" for name in left_out}

    def link(match: re.Match[str]) -> str:
        missing = match["file"] and _target(page, match["file"]) not in files
        dead = match["anchor"] in gone and (not match["file"] or match["file"] == HANDOUT)
        return match["text"] if missing or dead else match[0]

    return _LINK.sub(link, text)


# --- writing --------------------------------------------------------------------------------------


def _time() -> int:
    """Seconds since 1970 of every file: SOURCE_DATE_EPOCH, or the first that a zip can hold."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not given:
        return _FIRST_TIME
    if not re.fullmatch(r"\d{1,12}", given):
        raise Mistake(f"SOURCE_DATE_EPOCH: expected seconds since 1970, got {given!r}")
    # A zip counts in steps of two seconds from 1980 on.
    return min(max(int(given), _FIRST_TIME), _LAST_TIME) // 2 * 2


def _write_folder(release: Release, out: Path, when: int) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise Mistake(f"{out}: expected a new folder, or a name ending in .zip; got a file")
    if out.exists() and any(out.iterdir()):
        wanted = "a new or an empty folder, this one holds files"
        raise Mistake(f"{out}: expected {wanted}; nothing was written")
    with _beside(out) as temporary:
        made = temporary / "made"
        for name, data in release.files.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for path in (*sorted(made.rglob("*"), reverse=True), made):
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.utime(path, (when, when))
        made.rename(out)


def _write_zip(release: Release, out: Path, when: int) -> None:
    if (out.exists() or out.is_symlink()) and not _is_a_release(out):
        wanted = "a new name, or a release that nobody has changed"
        raise Mistake(f"{out}: expected {wanted}; nothing was written")
    with _beside(out) as temporary:
        made = temporary / "made"
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
            for name, data in release.files.items():
                path = f"{release.folder}/{name}" if release.folder else name
                entry = zipfile.ZipInfo(path, time.gmtime(when)[:6])
                entry.create_system = 3  # Unix, for the permissions
                entry.external_attr = (0o100755 if name in release.programs else 0o100644) << 16
                archive.writestr(entry, data)
            archive.comment = _COMMENT + _digest(archive)
        made.chmod(0o644)
        made.replace(out)


def _digest(archive: zipfile.ZipFile) -> bytes:
    """A hash of the names and checksums of all entries: unchanged releases have it as comment."""
    listed = "".join(f"{entry.filename}\n{entry.CRC}\n" for entry in archive.infolist())
    return hashlib.sha256(listed.encode()).hexdigest().encode()


def _is_a_release(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == _COMMENT + _digest(archive)
    except (OSError, zipfile.BadZipFile):
        return False


@contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A temporary folder on the file system of `out`."""
    prefix, parent = f".{out.name}.", out.absolute().parent
    try:
        with tempfile.TemporaryDirectory("", prefix, parent, ignore_cleanup_errors=True) as made:
            yield Path(made)
    except OSError as error:
        raise Mistake(f"{out}: can't be written: {error.strerror}") from None

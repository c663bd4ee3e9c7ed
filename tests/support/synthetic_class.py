"""A synthetic class: hand-ins made of solutions, stubs and the corpus, in a platform's layout.

    python -m tests.support.synthetic_class OUT --n 300 --layout gradescope --seed 1

writes a platform's export into OUT, beside `roster.csv`, `course.yaml` and `truth.json`, which has
the files of every hand-in and what collecting must find. The same seed makes the same class, byte
by byte, and the same students in every layout. A layout omits what it can't express (groups, times,
an earlier hand-in).

Of twenty students, one hands in nothing at all, one an empty folder, one a broken archive; two are
a group; and two hand in twice, one of them with fewer files the second time. Files are renamed,
wrapped in folders, zipped, in CRLF, UTF-16 or with a byte order mark.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import io
import json
import random
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path

import yaml

from grader.spec import load_all
from grader.spec.exercise import HOME
from grader.staff.calibration import corpus

LAYOUTS = ("folders", "archives", "gradescope", "canvas", "classroom", "single")
DUE = datetime(2026, 3, 2, 23, 59, tzinfo=timezone(timedelta(hours=1)))
SLUG = "kernels"
_FIRST = (
    *("Ada", "Grace", "Łukasz", "Zoë", "Edsger", "Barbara", "Donald", "Mei-Ling", "Tony", "Fran"),
    *("Niklaus", "Šárka", "Alan"),
)
_LAST = (
    *("Lovelace", "O'Brien", "Nguyen", "van_der_Berg", "Müller", "Hopper", "李", "Cruz", "Knuth"),
    *("Åström", "4th"),
)
_BROKEN = ("cut_off", "text", "no_bytes", "outside", "password")


@dataclass(frozen=True)
class TrueFile:
    """One file of a hand-in. `source` names its origin: "reference/gelu.py", "assignment/gelu.py",
    "wrong/silu.yaml: grid_rounds_down"; `sha256` is of the bytes that collecting must give."""

    source: str
    change: str  # "", "comments", "crlf", "bom", "utf-16"
    name: str  # as it was handed in: "RMSNorm (1).py"
    sha256: str


@dataclass(frozen=True)
class TrueHandin:
    """What collecting must find; a problem where `broken` says how the archive is broken."""

    id: str
    members: tuple[str, ...]  # ids of the roster
    files: Mapping[str, TrueFile]
    broken: str = ""
    submitted_at: str | None = None
    marked_late: bool = False
    shape: str = "flat"


@dataclass(frozen=True)
class Truth:
    """A class and its origins. Paths are relative to its folder."""

    layout: str
    seed: int
    source: str  # what to collect
    handins: tuple[TrueHandin, ...]
    absent: tuple[str, ...]  # ids of who handed in nothing
    roster: str = "roster.csv"
    course: str = "course.yaml"


# --- what the students do, whatever the layout ---------------------------------------------------


@dataclass(frozen=True)
class _Person:
    number: int
    name: str
    extension: int = 0  # days

    @property
    def id(self) -> str:
        return f"s{self.number:04}"

    @property
    def sid(self) -> str:
        return f"{self.number:07}"  # with zeros in front, which YAML must not take for octal

    @property
    def login(self) -> str:
        letters = "".join(c for c in self.name.lower() if c.isascii() and c.isalnum())
        return f"{letters or 'x'}-{self.number}"

    @property
    def canvas_id(self) -> int:
        return 50_000 + self.number

    @property
    def sortable(self) -> str:
        """As Canvas writes it: last name first, letters and digits only."""
        first, _, last = self.name.partition(" ")
        return "".join(c for c in f"{last}, {first}".lower() if c.isalnum() or c == "_")


@dataclass(frozen=True)
class _Work:
    """One hand-in without a layout."""

    people: tuple[_Person, ...]
    at: datetime
    shape: str  # flat, wrapped, deep, zipped
    files: Mapping[str, TrueFile] = field(default_factory=dict)
    data: Mapping[str, bytes] = field(default_factory=dict)  # by the name it is handed in under
    extras: Mapping[str, bytes] = field(default_factory=dict)  # what must be ignored
    broken: str = ""
    attempt: int = 0

    @property
    def late(self) -> bool:
        return self.at > DUE

    @property
    def tree(self) -> dict[str, bytes]:
        """Paths and bytes of everything in it, unzipped."""
        prefix = {"wrapped": "assignment/", "deep": "my work/final/v2/"}.get(self.shape, "")
        files = {f"{prefix}{name}": data for name, data in self.data.items()}
        return {**files, **self.extras}


_EXTRAS: Mapping[str, bytes] = {
    "conftest.py": b"raise SystemExit('the conftest.py of a submission ran')\n",
    "sitecustomize.py": b"raise SystemExit('the sitecustomize.py of a submission ran')\n",
    "torch.py": b"raise SystemExit('the torch.py of a submission ran')\n",
    "grader/scoring/score.py": b"raise SystemExit('a submission replaced the grader')\n",
    "rmsnorm.yaml": b"title: forged\n",
    "__MACOSX/._gelu.py": b"\x00\x05\x16\x07",
    ".DS_Store": b"\x00\x00\x00\x01Bud1",
    "notes.ipynb": b"{}",
    "README.md": b"Please be kind.\n",
}


class _Origins:
    """Texts that files can have, with their names; corpus entries of the statuses wanted."""

    def __init__(self, only: Sequence[str], without: Sequence[str]) -> None:
        exercises = {k: v for k, v in load_all().items() if not only or k in only}
        names = (v.file for exercise in exercises.values() for v in exercise.variants.values())
        self.files = tuple(dict.fromkeys(names))
        self.entries: dict[tuple[str, str], list[corpus.Submission]] = {}
        for entry in _corpus():
            if entry.exercise in exercises and entry.status.value not in without:
                self.entries.setdefault((entry.kind, entry.file), []).append(entry)

    def choose(self, rng: random.Random, file: str) -> tuple[str, bytes]:
        """An origin and its bytes; ("", b"") where the file is missing."""
        kinds = ("reference", "assignment", "wrong", "honest", "")
        [kind] = rng.choices(kinds, (45, 18, 25, 7, 5))
        entries = self.entries.get((kind, file))
        if kind in ("wrong", "honest"):
            if not entries:
                return self._of("reference", file)
            entry = rng.choice(entries)
            return entry.place, _text_of(entry)
        return self._of(kind, file) if kind else ("", b"")

    def _of(self, folder: str, file: str) -> tuple[str, bytes]:
        return f"{folder}/{file}", (HOME / folder / file).read_bytes()


@cache
def _corpus() -> tuple[corpus.Submission, ...]:
    kinds: tuple[corpus.Kind, ...] = ("wrong", "honest")
    languages: tuple[corpus.Language, ...] = ("triton", "cuda")
    return tuple(each for k in kinds for language in languages for each in corpus.load(k, language))


@cache
def _text_of(entry: corpus.Submission) -> bytes:
    return entry.text().encode()


def _changed(rng: random.Random, file: str, data: bytes) -> tuple[str, bytes, bytes]:
    """How a file was saved: the change, its bytes, and those that collecting must give."""
    changes = ("", "comments", "crlf", "bom", "utf-16")
    [change] = rng.choices(changes, (60, 20, 12, 5, 3))
    if change == "comments":
        mark = "#" if file.endswith(".py") else "//"
        data = data + f"\n\n{mark} checked twice, {rng.randrange(1000)}\n\n".encode()
    if change == "crlf":
        data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    saved = data
    if change == "bom":
        saved = b"\xef\xbb\xbf" + data
    if change == "utf-16":
        saved = data.decode().encode("utf-16")
    return change, saved, data


def _renamed(rng: random.Random, file: str) -> str:
    stem, _, suffix = file.rpartition(".")
    names = (
        file,
        f"{stem.upper()}.{suffix}",
        f"{stem} (1).{suffix}",
        f"{stem}-2.{suffix}",
        f"{stem} - Copy.{suffix}",
        f"{file}.txt",
    )
    return rng.choices(names, (86, 4, 3, 3, 2, 2))[0]


def _work(
    rng: random.Random, people: Sequence[_Person], origins: _Origins, at: datetime, shape: str
) -> _Work:
    files: dict[str, TrueFile] = {}
    handed_in: dict[str, bytes] = {}
    for file in origins.files:
        source, data = origins.choose(rng, file)
        change, saved, expected = _changed(rng, file, data)
        name = _renamed(rng, file)
        if source:
            digest = hashlib.sha256(expected).hexdigest()
            files[file] = TrueFile(source, change, name, digest)
            handed_in[name] = saved
    extras = {k: v for k, v in _EXTRAS.items() if rng.random() < 0.1}
    return _Work(tuple(people), at, shape, files, handed_in, extras)


def _class(n: int, seed: int, origins: _Origins) -> tuple[list[_Person], list[_Work]]:
    rng = random.Random(f"class {seed}")
    people = []
    for number in range(1, n + 1):
        name = f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"
        people.append(_Person(number, name, 2 if rng.random() < 0.06 else 0))
    works: list[_Work] = []
    grouped = False
    for index, person in enumerate(people):
        if grouped:  # with the one before
            grouped = False
            continue
        place = index % 20
        at = _time(rng)
        shape = rng.choice(("flat", "flat", "wrapped", "deep", "zipped"))
        if place == 2:
            continue
        if place == 4:
            works.append(_Work((person,), at, shape))
        elif place == 7:
            broken = _BROKEN[index // 20 % len(_BROKEN)]
            whole = _work(rng, [person], origins, at, "zipped")
            works.append(dataclasses.replace(whole, broken=broken))
        else:
            grouped = place == 11 and index + 1 < n
            group = people[index : index + 2] if grouped else [person]
            work = _work(rng, group, origins, at, shape)
            works.append(work)
            if place in (13, 17):
                works.append(_again(rng, work, origins, is_partial=place == 17))
    return people, works


def _time(rng: random.Random) -> datetime:
    hours = rng.uniform(1, 60) if rng.random() < 0.15 else -rng.uniform(0.1, 200)
    zone = timezone(timedelta(hours=rng.choice((-8, 0, 1, 1, 1))))
    return (DUE + timedelta(hours=hours)).replace(microsecond=0).astimezone(zone)


def _again(rng: random.Random, first: _Work, origins: _Origins, is_partial: bool) -> _Work:
    at = first.at + timedelta(hours=rng.uniform(0.5, 30))
    again = _work(rng, first.people, origins, at.replace(microsecond=0), first.shape)
    if is_partial and len(again.files) > 1:
        kept = dict(list(again.files.items())[: len(again.files) // 2])
        data = {each.name: again.data[each.name] for each in kept.values()}
        again = dataclasses.replace(again, files=kept, data=data)
    return dataclasses.replace(again, attempt=1)


# --- archives ------------------------------------------------------------------------------------


def zipped(tree: Mapping[str, bytes]) -> bytes:
    """A zip of these files, the same every time."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in tree.items():
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def tarred(tree: Mapping[str, bytes]) -> bytes:
    """A tar.gz of these files, the same every time."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, data in tree.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    packer = zlib.compressobj(wbits=31)
    return packer.compress(made.getvalue()) + packer.flush()


def _broken(how: str, tree: Mapping[str, bytes]) -> bytes:
    whole = zipped(tree)
    if how == "cut_off":
        return whole[: len(whole) * 2 // 3]
    if how == "text":
        return b"I could not get it to work, sorry.\n"
    if how == "outside":
        return zipped({**tree, "../../../home/ta/.bashrc": b"echo here\n"})
    if how == "password":
        return encrypted(whole)
    return b""


def encrypted(whole: bytes) -> bytes:
    """A zip whose members all say that they are encrypted."""
    data = bytearray(whole)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        for info in archive.infolist():
            data[info.header_offset + 6] |= 1
        at = archive.start_dir
        for _ in archive.infolist():
            data[at + 8] |= 1
            at += 46 + sum(struct.unpack_from("<3H", data, at + 28))  # name, extra, comment
    return bytes(data)


def _in_a_folder(work: _Work) -> dict[str, bytes]:
    """What lies in the folder of a hand-in."""
    if work.broken:
        return {"assignment.zip": _broken(work.broken, work.tree)}
    if work.shape == "zipped" and work.data:
        return {"assignment.zip": zipped(work.tree)}
    return work.tree


# --- layouts: each gives the files of its source, and what collecting must find in them ----------

_Written = tuple[str, dict[str, bytes], list[TrueHandin]]


def _true(work: _Work, name: str, **more) -> TrueHandin:
    members = more.pop("members", tuple(person.id for person in work.people))
    files = {} if work.broken else work.files
    return TrueHandin(name, members, files, work.broken, shape=work.shape, **more)


def _last_of_each(works: Sequence[_Work]) -> list[_Work]:
    """What a platform without attempts shows."""
    return list({work.people: work for work in works}.values())


def _alone(work: _Work) -> _Work:
    """A group's hand-in where there are no groups: the first of them handed it in."""
    return dataclasses.replace(work, people=work.people[:1])


def _placed(tree: Mapping[str, bytes], folder: str) -> dict[str, bytes]:
    """The files below `folder`, which is there without any too."""
    return {f"{folder}/": b"", **{f"{folder}/{path}": data for path, data in tree.items()}}


def _folders(works: Sequence[_Work]) -> _Written:
    files: dict[str, bytes] = {"notes of the staff.txt": b"grade by Friday\n"}
    handins = []
    for work in map(_alone, _last_of_each(works)):
        name = work.people[0].login
        files |= _placed(_in_a_folder(work), name)
        handins.append(_true(work, name))
    return "submissions", files, handins


def _archives(works: Sequence[_Work]) -> _Written:
    files: dict[str, bytes] = {}
    handins = []
    for index, work in enumerate(map(_alone, _last_of_each(works))):
        suffix = ".zip" if work.broken or index % 3 else (".tar.gz", ".tgz")[index % 2]
        name = f"{work.people[0].login}{suffix}"
        pack = zipped if suffix == ".zip" else tarred
        files[name] = _broken(work.broken, work.tree) if work.broken else pack(work.tree)
        handins.append(_true(work, name))
    return "submissions", files, handins


def _gradescope(works: Sequence[_Work]) -> _Written:
    files: dict[str, bytes] = {}
    metadata: list[str] = ["---\n"]
    handins = []
    for index, work in enumerate(works):
        name = f"submission_{900_000 + 7 * index}"
        if not work.broken and not work.data and index % 2:
            files[f"{name}/.DS_Store"] = b""
        files |= _placed(_in_a_folder(work), name)
        # As Ruby writes it: keys keep their colons, a time nine digits.
        at = f"{work.at:%Y-%m-%d %H:%M:%S}.000000000 {_offset(work.at)}"
        lines = [f"{name}:\n", "  :submitters:\n"]
        for person in work.people:
            lines.append(f"  - :name: {json.dumps(person.name, ensure_ascii=False)}\n")
            lines.append(f"    :sid: '{person.sid}'\n")
            if person.number % 5:
                lines.append(f"    :email: {person.login}@example.org\n")
        lines += [f"  :created_at: {at}\n", "  :score: \n", "  :status: processed\n"]
        metadata += lines
        handins.append(_true(work, name, submitted_at=work.at.isoformat()))
    files["submission_metadata.yml"] = "".join(metadata).encode()
    return "assignment_4711_export", files, handins


def _offset(at: datetime) -> str:
    text = at.strftime("%z")
    return "Z" if text == "+0000" else f"{text[:3]}:{text[3:]}"


def _canvas(works: Sequence[_Work]) -> _Written:
    files: dict[str, bytes] = {}
    handins = []
    attachment = 7_000_000
    for work in map(_alone, _last_of_each(works)):
        if not work.broken and not work.data:
            continue  # Canvas takes nothing that is empty
        person = work.people[0]
        late = "_LATE" if work.late else ""
        tree = _in_a_folder(work)
        if any("/" in path for path in tree):
            tree = {"assignment.zip": zipped(tree)}
        for name, data in tree.items():
            attachment += 13
            if work.attempt and name in work.files:
                stem, _, suffix = name.rpartition(".")
                name = f"{stem}-{work.attempt}.{suffix}"
            files[f"{person.sortable}{late}_{person.canvas_id}_{attachment}_{name}"] = data
        handins.append(_true(work, f"{person.sortable}_{person.canvas_id}", marked_late=work.late))
    return "submissions.zip", files, handins


def _classroom(works: Sequence[_Work]) -> _Written:
    files: dict[str, bytes] = {}
    handins = []
    for work in map(_alone, _last_of_each(works)):
        name = f"{SLUG}-{work.people[0].login}"
        files |= _placed({**_in_a_folder(work), **clone_at(work.at)}, name)
        handins.append(_true(work, name, submitted_at=work.at.isoformat()))
    return f"{SLUG}-submissions", files, handins


def clone_at(at: datetime) -> dict[str, bytes]:
    """A .git with one commit, of an empty tree, made at that time."""
    stamp = f"Student <student@example.org> {int(at.timestamp())} {at:%z}"
    tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    text = f"tree {tree}\nauthor {stamp}\ncommitter {stamp}\n\nHand in\n".encode()
    whole = b"commit %d\0" % len(text) + text
    sha = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    return {
        ".git/HEAD": b"ref: refs/heads/main\n",
        ".git/refs/heads/main": f"{sha}\n".encode(),
        f".git/objects/{sha[:2]}/{sha[2:]}": zlib.compress(whole),
        ".git/config": b"[core]\n\trepositoryformatversion = 0\n",
    }


def _single(works: Sequence[_Work]) -> _Written:
    work = _alone(next(work for work in works if work.data and not work.broken))
    name = work.people[0].login
    return name, _in_a_folder(work), [_true(work, name)]


_WRITE: Mapping[str, Callable[[Sequence[_Work]], _Written]] = {
    "folders": _folders,
    "archives": _archives,
    "gradescope": _gradescope,
    "canvas": _canvas,
    "classroom": _classroom,
    "single": _single,
}


# --- the class -----------------------------------------------------------------------------------


def make(
    out: Path,
    n: int,
    layout: str = "folders",
    seed: int = 1,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    other_form: bool = False,
) -> Truth:
    """Write a class of `n` students into `out`, a new or empty folder, and return what it is.

    `only` names exercises (all, where it is empty); corpus entries of the statuses in `without`
    aren't used, so that a test can do without those that run out of time. `other_form` makes a
    Gradescope export a zip and a Canvas zip a folder.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout: expected one of {', '.join(LAYOUTS)}, got {layout!r}")
    if n < 1:
        raise ValueError(f"n: expected at least 1 student, got {n}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: expected a new or an empty folder")
    origins = _Origins(only, without)
    if not origins.files:
        raise ValueError(f"only: expected names of exercises, got {', '.join(only)}")
    people, works = _class(n, seed, origins)
    source, files, handins = _WRITE[layout](works)
    if other_form:
        source = source.removesuffix(".zip") if source.endswith(".zip") else f"{source}.zip"
    out.mkdir(parents=True, exist_ok=True)
    _write(out / source, files)
    there = {member for handin in handins for member in handin.members}
    absent = tuple(person.id for person in people if person.id not in there)
    truth = Truth(layout, seed, source, tuple(sorted(handins, key=lambda each: each.id)), absent)
    (out / truth.roster).write_text(_roster(people, layout), encoding="utf-8", newline="")
    (out / truth.course).write_text(_course(people), encoding="utf-8")
    told = json.dumps(dataclasses.asdict(truth), indent=1, ensure_ascii=False)
    (out / "truth.json").write_text(told + "\n", encoding="utf-8")
    return truth


def _write(source: Path, files: Mapping[str, bytes]) -> None:
    if source.suffix == ".zip":
        top = "" if source.name == "submissions.zip" else f"{source.stem}/"
        source.write_bytes(zipped({f"{top}{path}": data for path, data in files.items()}))
        return
    source.mkdir()
    for path, data in files.items():
        place = source / path
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)


def _platform_id(person: _Person, layout: str) -> str:
    if layout == "gradescope":
        return person.sid
    return str(person.canvas_id) if layout == "canvas" else person.login


def _roster(people: Sequence[_Person], layout: str) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["id", "platform_id", "login", "name", "email", "section"])
    for person in people:
        writer.writerow(
            [
                person.id,
                _platform_id(person, layout),
                person.login,
                person.name,
                f"{person.login}@example.org",
                "AB"[person.number % 2],
            ]
        )
    return text.getvalue()


def _course(people: Sequence[_Person]) -> str:
    course = {
        "title": "Kernels",
        "due": DUE.isoformat(),
        "late": {"grace": "15m", "slip_days": 2, "penalty_per_day": 10, "cap": 50},
        "extensions": {person.id: f"{person.extension}d" for person in people if person.extension},
        "counts": "last",
        "device": "cpu",
    }
    return yaml.safe_dump(course, sort_keys=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. 0, or 2 where it is wrong."""
    parser = argparse.ArgumentParser(prog="synthetic_class", description="Make a synthetic class.")
    parser.add_argument("out", type=Path, help="a new or an empty folder")
    parser.add_argument("--n", type=int, default=300, help="students (default 300)")
    parser.add_argument("--layout", choices=LAYOUTS, default="folders")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=(), metavar="EXERCISE")
    parser.add_argument("--without", nargs="*", default=(), metavar="STATUS")
    parser.add_argument(
        "--other-form", action="store_true", help="Gradescope's as a zip, Canvas's as a folder"
    )
    given = parser.parse_args(arguments)
    try:
        truth = make(
            given.out,
            given.n,
            given.layout,
            given.seed,
            only=given.only,
            without=given.without,
            other_form=given.other_form,
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{given.out / truth.source}: {len(truth.handins)} hand-ins of {given.n} students")
    return 0


if __name__ == "__main__":
    sys.exit(main())

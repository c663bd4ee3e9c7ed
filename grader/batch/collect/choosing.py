"""The files of a hand-in that exercises name, as bytes that the grader can read.

If several files match one name, these rules choose, in this order: a file by itself beats one in an
archive; one in the hand-in's main folder (which has the most of the files wanted) beats others; the
nearer name (file_names.py); fewer folders around it; the one handed in later, by the platform or by
the number of the copy; the alphabet. The files that weren't chosen, and those that no exercise
names, are noted.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from grader.batch.collect.archives import Refused, is_archive, open_archive
from grader.batch.collect.file_names import Match, Quality, Wanted
from grader.batch.collect.files import MAX_DEPTH, Item, Listing
from grader.grading.submitted import MAX_FILE_BYTES, Unreadable
from grader.report import one_line

MAX_ARCHIVES = 8  # in one hand-in
_MOST_SHOWN = 8  # names in one note
_MOST_NOTES = 20  # on what wasn't read
# What would change a run if it lay beside it; nothing but the files wanted ever does.
_MEDDLING = frozenset(
    {"conftest.py", "sitecustomize.py", "usercustomize.py", "torch.py", "triton.py", "numpy.py"}
    | {"ctypes.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py", "makefile"}
)
_MEDDLING_SUFFIXES = (".yaml", ".yml", ".pth", ".so")
_Place = tuple[str, str]  # an archive in the hand-in, or "", and a folder


@dataclass
class Taken:
    """The files taken from a hand-in. `problem` says why nothing could be read, if so."""

    files: dict[str, bytes] = field(default_factory=dict)
    problem: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Candidate:
    item: Item
    match: Match

    @property
    def place(self) -> _Place:
        return (self.item.archive, self.item.folder)

    def rank(self, home: _Place) -> tuple[object, ...]:
        return (
            bool(self.item.archive),
            self.place != home,
            self.match.quality,
            self.item.path.count("/"),
            -self.item.order,
            -self.match.copy,
            self.item.path,
        )


def take(listing: Listing, wanted: Wanted) -> Taken:
    """The files of a hand-in that exercises name; archives that lie in it are opened too."""
    taken = Taken(notes=list(listing.notes))
    failures: list[str] = []  # why something that may have held a wanted file wasn't read
    candidates: dict[str, list[_Candidate]] = {}
    ignored: list[Item] = []
    for item in _with_archives(listing, taken.notes, failures):
        match = wanted.match(item.name)
        if item.path.count("/") > MAX_DEPTH:
            taken.notes.append(f"not looked at, {MAX_DEPTH} folders deep: {item.shown}")
        elif match is not None:
            candidates.setdefault(match.file, []).append(_Candidate(item, match))
        elif item.path.endswith("/"):  # a folder that can't be listed
            failures.append(f"{item.shown} {item.refused}")
        else:
            ignored.append(item)
    taken.notes[:] = _few(taken.notes)
    home = _home([each for several in candidates.values() for each in several])
    try:
        for file in wanted.files:
            if file in candidates:
                _take_one(file, candidates[file], home, taken, failures)
    except Refused as error:
        return Taken(problem=one_line(str(error)), notes=_readable(taken.notes))
    taken.notes += _few(failures)
    taken.notes += _about(ignored, wanted, taken.files)
    if not taken.files and failures:
        more = f" (and {len(failures) - 1} more like it)" if len(failures) > 1 else ""
        taken.problem = failures[0] + more
    elif not taken.files:
        is_empty = not (ignored or listing.items)
        nothing = "nothing is in it" if is_empty else "it has no file that an exercise names"
        taken.notes.insert(0, nothing)
    return Taken(taken.files, one_line(taken.problem), _readable(taken.notes))


def _few(notes: list[str]) -> list[str]:
    """The notes, or of many the first ones: an archive may have a reason for thousands."""
    more = len(notes) - _MOST_NOTES
    return notes if more <= 0 else [*notes[:_MOST_NOTES], f"and {more} more like these"]


def _readable(notes: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(one_line, notes)))


# --- archives in a hand-in -----------------------------------------------------------------------


def _with_archives(listing: Listing, notes: list[str], failures: list[str]) -> list[Item]:
    """The files of a hand-in, and those of the archives in it unless it is one itself."""
    items: list[Item] = []
    opened = 0
    for item in listing.items:
        if not is_archive(item.name):
            items.append(item)
        elif listing.in_archive:
            failures.append(f"{item.shown} is an archive in an archive, which isn't opened")
        elif item.refused or opened == MAX_ARCHIVES:
            why = item.refused or f"isn't opened, it has more than {MAX_ARCHIVES} archives"
            failures.append(f"{item.shown} {why}")
        else:
            opened += 1
            try:
                inner = open_archive(item)
            except Unreadable as error:
                failures.append(f"{item.shown} {error}")
                continue
            notes += [f"{item.shown}: {note}" for note in inner.notes]
            items += _inside(item, inner, failures)
    return items


def _inside(archive: Item, inner: Listing, failures: list[str]) -> Iterable[Item]:
    for each in inner.items:
        shown = f"{archive.shown}/{each.path}"
        if is_archive(each.name):
            failures.append(f"{shown} is an archive in an archive, which isn't opened")
        else:
            yield replace(each, archive=archive.path, order=archive.order, label=shown)


# --- which, and its bytes ------------------------------------------------------------------------


def _home(candidates: list[_Candidate]) -> _Place:
    """The main folder, with the archive it is in: the one with the most of the files wanted."""
    by_themselves = [each for each in candidates if not each.item.archive] or candidates
    files: dict[_Place, set[str]] = {}
    orders: dict[_Place, int] = {}
    for each in by_themselves:
        files.setdefault(each.place, set()).add(each.match.file)
        orders[each.place] = max(orders.get(each.place, 0), each.item.order)

    def rank(place: _Place) -> tuple[object, ...]:
        folder = place[1]
        depth = folder.count("/") + bool(folder)
        is_ours = folder.rpartition("/")[2] == "assignment"
        return (-len(files[place]), -orders[place], not is_ours, depth, place)

    return min(files, key=rank, default=("", ""))


def _take_one(
    file: str, candidates: list[_Candidate], home: _Place, taken: Taken, failures: list[str]
) -> None:
    best, *others = sorted(candidates, key=lambda each: each.rank(home))
    item = best.item
    if others:
        left = _names(each.item.shown for each in others)
        taken.notes.append(f"{file}: {item.shown} is taken, left are {left}")
    elif best.match.quality is not Quality.exact or best.place != home:
        taken.notes.append(f"{file}: {item.shown} is taken")
    if item.refused:
        failures.append(f"{item.shown} {item.refused}")
        return
    try:
        data = item.read(MAX_FILE_BYTES + 1)
    except Refused as error:
        raise Refused(f"{item.archive} {error}" if item.archive else str(error)) from None
    except Unreadable as error:
        failures.append(f"{item.shown} {error}")
        return
    if len(data) > MAX_FILE_BYTES:
        failures.append(f"{item.shown} is larger than {MAX_FILE_BYTES >> 20} MiB")
        return
    taken.files[file], repaired = in_utf8(data)
    if repaired:
        taken.notes.append(f"{item.shown} {repaired}")


_MARKS = (
    ("utf-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),  # one begins with one of UTF-16's
    ("utf-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
)


def in_utf8(data: bytes) -> tuple[bytes, str]:
    """A text file's bytes in UTF-8 without a byte order mark, and a note on what was changed.

    Line ends stay as they are, and so does what can't be decoded: the grader says what it sees.
    """
    if data.startswith(codecs.BOM_UTF8):
        return data[len(codecs.BOM_UTF8) :], "began with a byte order mark, which was taken off"
    marked = [encoding for encoding, marks in _MARKS if data.startswith(marks)]
    if marked:
        encoding = marked[0]
        try:
            text = data.decode(encoding).encode()
        except UnicodeError:
            return data, f"begins like {encoding.upper()}, but can't be decoded"
        return text, f"was in {encoding.upper()} and was converted to UTF-8"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data, f"isn't in UTF-8 (byte {error.start})"
    return data, ""


# --- what no exercise names ----------------------------------------------------------------------


def _about(ignored: list[Item], wanted: Wanted, files: dict[str, bytes]) -> list[str]:
    """Notes on files that no exercise names: hints first, then all the others in one line.

    Nothing on a course's headers, which students have beside their files.
    """
    notes = []
    rest = []
    for item in ignored:
        if item.name in wanted.given:
            continue
        meant = wanted.resembled(item.name)
        if meant and meant not in files:
            notes.append(f"ignored: {item.shown}; was it meant to be {meant}?")
        else:
            rest.append(item)
    if len(notes) > _MOST_SHOWN:
        notes[_MOST_SHOWN:] = [f"and {len(notes) - _MOST_SHOWN} more whose names resemble those"]
    meddling = [item for item in rest if _meddles(item)]
    others = _by_folder([item for item in rest if not _meddles(item)])
    shown = [item.shown for item in meddling] + others
    if shown:
        notes.append(f"ignored, for no exercise names them: {_names(shown)}")
    return notes


def _meddles(item: Item) -> bool:
    *folders, name = item.path.lower().split("/")
    return name in _MEDDLING or name.endswith(_MEDDLING_SUFFIXES) or "grader" in folders


def _by_folder(items: list[Item]) -> list[str]:
    """Files by name, those of a folder with many of them by the folder's name alone."""
    tops = [item.shown.partition("/")[0] if "/" in item.shown else "" for item in items]
    counts = Counter(tops)
    shown: dict[str, None] = {}
    for item, top in zip(items, tops, strict=True):
        many = top and counts[top] > 3
        shown[f"{top}/ ({counts[top]} files)" if many else item.shown] = None
    return list(shown)


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _MOST_SHOWN
    return ", ".join(listed[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")

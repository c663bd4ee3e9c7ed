"""Finds similar files of different people: a reason for a person to look, never a verdict.

copydetect (extra `[similarity]`) replaces all names in a file by one, so that renaming changes
nothing, and compares the resulting texts by their substrings of LENGTH characters. The stub's code
is removed first. copydetect's own command and report aren't used, since they write files and open
a browser.
"""

from __future__ import annotations

import importlib
import io
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from grader.batch.course.records import Handin
from grader.grading import source_reading
from grader.grading.submitted import MAX_FILE_BYTES
from grader.mistakes import Mistake
from grader.report import one_line
from grader.report.html import template

LENGTH = 25  # characters of the text with names made alike: a line or so
LEAST = 150  # of them that a file must have beside the stub: shorter kernels are all alike
THRESHOLD = 0.75
LONGEST = MAX_FILE_BYTES  # characters of a file that are looked at: all of one that is graded
_BLANKS = re.compile(r"\s{100,}")
MOST_SHOWN = 500  # pairs of which the page has both texts

CAUTION = (
    "Alike is not copied. Kernels of a few lines leave little room to differ, a textbook or an "
    "assistant may have written both, and students may have been allowed to talk. It doesn't show "
    "who had it first either. And what isn't listed may still be a copy: it compares text, not "
    "ideas. Read both files before you speak to anybody."
)


Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Pair:
    """Two hand-ins of different people with a file that is alike.

    Shares are of a file's own code, the stub's taken out: 1.0 where all of it is in the other.
    `spans` are the alike places in each file's text, as offsets of characters.
    """

    file: str
    left: Handin
    right: Handin
    of_left: float
    of_right: float
    left_spans: Spans = ()
    right_spans: Spans = ()

    @property
    def share(self) -> float:
        """The larger of the two: a copy with much added to it is found as well."""
        return max(self.of_left, self.of_right)


@dataclass(frozen=True)
class Unread:
    """A hand-in's file that isn't compared, and why."""

    file: str
    handin: Handin
    reason: str

    def __str__(self) -> str:
        reason = f"{self.reason}. Read it yourself."
        return f"{one_line(self.file)} of {who(self.handin)} isn't compared: {reason}"


def unread(handins: Sequence[Handin], files: Iterable[str]) -> tuple[Unread, ...]:
    """The hand-ins' files that the library can't read in time. Raises as `pairs` does."""
    return tuple(
        Unread(file, each, reason)
        for file in files
        for each in handins
        if file in each.files and (reason := _unreadable(file, _text(each.files[file])))
    )


@lru_cache(maxsize=4096)
def _unreadable(file: str, text: str) -> str:
    """Why the library can't read a text, or "".

    Its lexers are regular expressions, and take exponential time to read some texts. So another
    process, with limits, reads each text first.
    """
    library = _copydetect()
    try:
        source_reading.limited(lambda: len(library.utils.filter_code(text, file)[0]))
    except source_reading.TooInvolved as error:
        return str(error)
    return ""


def pairs(
    handins: Sequence[Handin],
    stubs: Mapping[str, str],
    threshold: float = THRESHOLD,
    located: int = MOST_SHOWN,
) -> tuple[Pair, ...]:
    """The pairs whose share is at least `threshold`, the most alike first.

    Only the first `located` have spans: in a class of copies these take longer than all the rest.
    `stubs` maps a file's name to what students started from; other files aren't compared, nor are
    those that `unread` names. Hand-ins with a person in common are never a pair, and of several
    pairs of the same people in a file the most alike stands. Raises Mistake where copydetect isn't
    installed.
    """
    library = _copydetect()
    alike = [
        each
        for file, stub in stubs.items()
        for each in _pairs_of(library, file, stub, handins, threshold)
    ]
    alike.sort(key=lambda each: (-each[0].share, each[0].file, each[0].left.id))
    first = [_located(library, *each) for each in alike[:located]]
    return (*first, *(pair for pair, _, _ in alike[located:]))


def _pairs_of(
    library: ModuleType, file: str, stub: str, handins: Iterable[Handin], threshold: float
) -> list[tuple[Pair, _Fingerprint, _Fingerprint]]:
    """The pairs in one file, with the fingerprints they were found by."""
    started_from = _Fingerprint.of(library, file, stub).made.hashes
    read = [(each, _text(each.files[file])) for each in handins if file in each.files]
    having = [(each, text) for each, text in read if not _unreadable(file, text)]
    prints = {
        text: _Fingerprint.of(library, file, text, started_from)
        for text in {text for _, text in having}
    }
    # Of two texts once, however many people have them: half a class may have the same few.
    shares: dict[tuple[str, str], tuple[float, float]] = {}
    closest: dict[frozenset[frozenset[str]], tuple[Pair, _Fingerprint, _Fingerprint]] = {}
    for (left, one), (right, other) in combinations(having, 2):
        a, b = prints[one], prints[other]
        if (one, other) not in shares:
            shares[one, other] = a.share_in(b), b.share_in(a)
        pair = Pair(file, left, right, *shares[one, other])
        if pair.share < threshold or _people(left) & _people(right):
            continue
        people = frozenset({_people(left), _people(right)})
        if people not in closest or pair.share >= closest[people][0].share:
            closest[people] = (pair, a, b)
    return list(closest.values())


@dataclass(frozen=True)
class _Fingerprint:
    """A file's substrings of LENGTH characters, by their hashes, without the stub's."""

    made: Any  # a copydetect.CodeFingerprint
    hashes: np.ndarray  # sorted, one for each place
    places: np.ndarray  # where each begins

    @classmethod
    def of(
        cls, library: ModuleType, file: str, text: str, without: Iterable[int] = ()
    ) -> _Fingerprint:
        # A window of one substring: of a wider one copydetect keeps the substring with the least
        # hash, and Python's hashes of text differ from run to run.
        made = library.CodeFingerprint(file, LENGTH, 1, fp=io.StringIO(text))
        # Its own way of taking boilerplate out also takes out what a file repeats.
        for each in made.hashes & set(without):
            made.hashes.discard(each)
            del made.hash_idx[each]
        places = sorted((h, place) for h, places in made.hash_idx.items() for place in places)
        pairs = np.array(places, dtype=np.int64).reshape(-1, 2)
        return cls(made, pairs[:, 0], pairs[:, 1])

    @cached_property
    def own(self) -> int:
        """Characters that the substrings cover."""
        return _covered(self.places)

    def share_in(self, other: _Fingerprint) -> float:
        """The share of this that is in the other, from 0 to 1; 0 where either is too short."""
        if min(self.own, other.own) < LEAST:
            return 0.0
        at = np.searchsorted(other.hashes, self.hashes).clip(max=len(other.hashes) - 1)
        return _covered(self.places[other.hashes[at] == self.hashes]) / self.own


def _covered(places: np.ndarray) -> int:
    """Characters that substrings at these places cover, overlaps counted once."""
    gaps = np.diff(np.sort(places))
    return int(np.minimum(gaps, LENGTH).sum()) + (LENGTH if len(places) else 0)


def _located(library: ModuleType, pair: Pair, a: _Fingerprint, b: _Fingerprint) -> Pair:
    _, _, (of_a, of_b) = library.compare_files(a.made, b.made)
    left, right = _spans(of_a, a.made.raw_code), _spans(of_b, b.made.raw_code)
    return replace(pair, left_spans=left, right_spans=right)


def _spans(slices: Any, text: str) -> Spans:
    """Sorted and without overlaps, whatever the library's offsets say."""
    merged: list[tuple[int, int]] = []
    if len(slices) != 2:
        return ()
    for start, end in sorted(zip(map(int, slices[0]), map(int, slices[1]), strict=True)):
        start, end = max(0, start), min(end, len(text))
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return tuple(merged)


def _people(handin: Handin) -> frozenset[str]:
    return frozenset(member.id for member in handin.members) or frozenset({f"hand-in {handin.id}"})


def _text(data: bytes) -> str:
    """A file's text, in which long runs of blanks are one.

    They don't count when texts are compared, and the lexer of C++ takes more than quadratic time to
    read them.
    """
    text = data.decode("utf-8-sig", "replace")[:LONGEST]
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BLANKS.sub(lambda run: "\n" if "\n" in run[0] else " ", text)


@lru_cache(maxsize=1)
def _copydetect() -> ModuleType:
    """The library; importing it imports matplotlib, which would write a cache to one's home."""
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            patch.dict(os.environ, MPLCONFIGDIR=folder, MPLBACKEND="Agg"),
        ):
            library = importlib.import_module("copydetect")
            importlib.import_module("copydetect.utils")
    except ImportError as error:
        raise Mistake(
            f"similarity needs copydetect, which can't be imported ({error}): "
            "pip install 'warpgrade[similarity]'"
        ) from None
    return library


# --- in words -------------------------------------------------------------------------------------


def to_text(
    alike: Sequence[Pair], threshold: float = THRESHOLD, missing: Sequence[Unread] = ()
) -> str:
    """A line for each pair, for the terminal, and what it doesn't prove."""
    lines = [
        f"{each.share:4.0%}  {one_line(each.file)}  {who(each.left)} ({each.of_left:.0%})  and  "
        f"{who(each.right)} ({each.of_right:.0%})"
        for each in alike
    ]
    return "\n".join([_count(alike, threshold), *lines, *map(str, missing), "", CAUTION]) + "\n"


def to_html(
    alike: Sequence[Pair], threshold: float = THRESHOLD, missing: Sequence[Unread] = ()
) -> str:
    """The pairs with both texts side by side, the alike places marked; no script."""
    pairs = [
        (
            each,
            [
                (each.left, each.of_left, _pieces(each.left, each.file, each.left_spans)),
                (each.right, each.of_right, _pieces(each.right, each.file, each.right_spans)),
            ],
        )
        for each in alike[:MOST_SHOWN]
    ]
    page = template("similarity.html", Path(__file__).parent / "pages").render(
        count=_count(alike, threshold),
        caution=CAUTION,
        pairs=pairs,
        missing=missing,
        more=len(alike) - MOST_SHOWN,
        who=who,
    )
    return f"{page}\n"


def who(handin: Handin) -> str:
    """The people of a hand-in, or its id where none are known; one clean line."""
    return one_line(", ".join(each.name or each.id for each in handin.members) or handin.id)


def _count(alike: Sequence[Pair], threshold: float) -> str:
    many = f"{len(alike)} pair{'s' * (len(alike) != 1)}"
    return f"{many} with {threshold:.0%} or more of a file's own code in common."


def _pieces(handin: Handin, file: str, spans: Spans) -> Iterator[tuple[str, bool]]:
    """A file's text in pieces, each with whether it is alike."""
    text, at = _text(handin.files[file]), 0
    for start, end in spans:
        yield text[at:start], False
        yield text[start:end], True
        at = end
    yield text[at:], False

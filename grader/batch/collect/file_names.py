"""Names of handed-in files matched with those in the specs.

A name may differ in these ways, the preferred ones first: not at all; in capitals, forms of Unicode
or spaces around it; by the marks of a copy (`rmsnorm (1).py`, `rmsnorm-2.py`, `Copy of rmsnorm.py`)
and other separators (`rms_norm.py`); by `.txt` behind it, as some browsers put it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from grader.sandbox.untrusted import clean

_LONGEST = 120  # characters of an id
_COPIES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"copy of (?P<stem>.+)",
        r"(?P<stem>.+?)[ _-]+copy(?:[ _-]*\(?(?P<number>\d{1,4})\)?)?",
        r"(?P<stem>.+?) ?\((?P<number>\d{1,4})\)",
        r"(?P<stem>.+?)[ _-](?P<number>\d{1,4})",
    )
)
_SEPARATORS = re.compile(r"[\s._-]+")


class Quality(IntEnum):
    """The kind of difference between a name and the one in the spec; a smaller one is nearer."""

    exact = 0
    spelling = 1
    copy = 2
    as_text = 3


@dataclass(frozen=True)
class Match:
    """The file that a name stands for, as specs name it, and the number of the copy."""

    file: str
    quality: Quality
    copy: int = 0


class Wanted:
    """The names of the files that exercises name; `given` are those that students don't write."""

    def __init__(self, files: Iterable[str], given: Iterable[str] = ()) -> None:
        self.files = tuple(dict.fromkeys(files))
        self.given = frozenset(given)
        self._by_case = _unambiguous((_folded(file), file) for file in self.files)
        self._by_letters = _unambiguous((_letters(file), file) for file in self.files)

    def match(self, name: str) -> Match | None:
        """The file that a name (without folders) stands for, if any."""
        if name in self.files:
            return Match(name, Quality.exact)
        folded = _folded(name)
        if (near := self._near(folded)) is not None:
            return near
        bare = folded.removesuffix(".txt").rstrip()
        near = self._near(bare) if bare != folded else None
        return near and replace(near, quality=Quality.as_text)

    def resembled(self, name: str) -> str:
        """The file that a name which stands for none may have been meant for, or ""."""
        stem, dot, suffix = _folded(name).rpartition(".")
        for file in sorted(self.files, key=len, reverse=True):
            own, _, kind = _folded(file).rpartition(".")
            if dot and suffix in (kind, "ipynb") and _letters(own) in _letters(stem):
                return file
        return ""

    def _near(self, folded: str) -> Match | None:
        if (file := self._by_case.get(folded)) is not None:
            return Match(file, Quality.spelling)
        if (file := self._by_letters.get(_letters(folded))) is not None:
            return Match(file, Quality.copy)
        stem, dot, suffix = folded.rpartition(".")
        for pattern in _COPIES:
            match = pattern.fullmatch(stem.strip())
            file = match and self._by_letters.get(_letters(f"{match['stem']}{dot}{suffix}"))
            if match and file:
                return Match(file, Quality.copy, int(match.groupdict().get("number") or 0))
        return None


def _folded(name: str) -> str:
    """A name without differences in capitals, forms of Unicode and spaces around it."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def _letters(name: str) -> str:
    """A folded name without what separates words; the last dot stays."""
    stem, dot, suffix = _folded(name).rpartition(".")
    return _SEPARATORS.sub("", stem if dot else suffix) + (dot + suffix.strip() if dot else "")


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The pairs whose first half occurs once."""
    by_key: dict[str, str] = {}
    twice = set()
    for key, file in pairs:
        twice |= {key} & by_key.keys()
        by_key[key] = file
    return {key: file for key, file in by_key.items() if key not in twice}


def identifier(name: str) -> str:
    """A name from outside as an id: text in UTF-8 without control characters, of bounded length.

    One that had to be changed ends in a hash of what it was, so that two stay two.
    """
    safe = clean(name).replace("\n", "\N{REPLACEMENT CHARACTER}")[:_LONGEST]
    if safe == name:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{safe}~{digest[:8]}"

"""Untrusted text made fit for display, and JSON from a submission's processes. Never raises."""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pydantic

from grader.worker.protocol import Reply

MAX_LINE = 10_000_000
MOST_MISTAKES = 1000  # of a text, for the first of them to be described
SENTENCE_LIMIT = 1000  # characters of a field in a message

# Each pattern makes one pass, also over unterminated sequences: no quadratic time.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")
_UNUSUAL = re.compile(r"[^\n -~]")
_FORBIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Commands to a CI service that reads its jobs' logs: GitHub's where a line begins, which may be
# anywhere once a report has wrapped it; and in brackets those of GitHub, Azure and TeamCity.
_COMMANDS = re.compile(
    r":(?=:(?:(?:add|internal|remove|save|set|stop)-[a-z]"
    r"|(?:debug|echo|endgroup|error|group|notice|warning)(?!\w)))|#(?=#(?:vso|teamcity)?\[)",
    re.IGNORECASE,
)
_LOOKALIKES = {":": "\ua789", "#": "\u266f"}


def fields(reply: Reply) -> dict[str, Any]:
    """The reply's text as a JSON object; {} where it isn't one. Its fields are still untrusted."""
    if not reply.text:  # most answers
        return {}
    with contextlib.suppress(ValueError, RecursionError):
        read = json.loads(reply.text)
        if isinstance(read, dict):
            return read
    return {}


def mistake(error: pydantic.ValidationError) -> str:
    """The first mistake that a reader found: its place, and what was expected there."""
    if error.error_count() > MOST_MISTAKES:  # pydantic describes all or none
        return f"{error.error_count():,} mistakes"
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))[:200] or "top level"
    return f"{place}: {first['msg'][:200]}"


def text(fields: dict[str, Any], name: str) -> str:
    """A text field, fit to be printed; "" for any other value."""
    value = fields.get(name)
    return clean(value) if isinstance(value, str) else ""


def line(fields: dict[str, Any]) -> int | None:
    """The field `line` as the number of a line in a file, or None."""
    value = fields.get("line")
    return value if type(value) is int and 1 <= value < MAX_LINE else None


def dicts(value: Any) -> Sequence[dict[str, Any]]:
    """The objects of a list; () for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def clean(text: str) -> str:
    """Text that is safe in a terminal, and in XML and HTML, which escape it as well.

    Terminal escape sequences are removed. Any other control or formatting character (including
    those that change the reading direction), lone surrogate or non-character becomes U+FFFD. Line
    breaks stay; tabs become spaces. Commands to a CI service get another first character.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    text = _UNUSUAL.sub(_visible, text)
    return _COMMANDS.sub(lambda command: _LOOKALIKES[command[0]], text)


def _visible(unusual: re.Match[str]) -> str:
    char = unusual[0]
    code = ord(char)
    is_nonchar = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return "\ufffd" if is_nonchar or unicodedata.category(char) in _FORBIDDEN else char


def of_bytes(text: str) -> str:
    """Text in UTF-8, of which `text` has a character for each byte, as native programs write it."""
    return text.encode("latin-1", "replace").decode("utf-8", "replace")


def joined(kind: str, message: str) -> str:
    """An exception's type and message, as Python prints them, or what there is of them."""
    return ": ".join(filter(None, (kind, message)))


def one_line(text: str) -> str:
    """`clean` text without line breaks, shortened."""
    return shorten(" ".join(clean(text).split()))


# Python's name of an object without one of its own: the address says nothing, and varies.
_ADDRESSES = re.compile(r"(?<= object) at 0x[0-9a-f]{1,16}(?=>)")


def brief(text: str, limit: int = 400) -> str:
    """`clean` text without line breaks, to stand within a line: at most `limit` characters."""
    text = _ADDRESSES.sub("", " ".join(clean(text).split()))
    return text if len(text) <= limit else text[: limit - 2] + " …"


def shorten(text: str, limit: int = SENTENCE_LIMIT) -> str:
    """`text` cut to `limit` characters, with the number of missing ones."""
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit} more)"


def shorten_middle(text: str, limit: int) -> str:
    """`text` without its middle: keeps a compiler's first error and a traceback's last line."""
    if len(text) <= limit:
        return text
    head, tail = limit // 3, limit - limit // 3
    return f"{text[:head]}\n... ({len(text) - limit} more) ...\n{text[-tail:]}"


# Numbers end at commas: where they could end anywhere, a long one would be read in endless ways.
_PLACES = re.compile(r"^\[grader\] at ((?:\d{1,10},){0,256}(?:\d{1,10})?)$", re.MULTILINE)
MOST_SAMPLES = 16


def places_in_log(log: str) -> list[list[int]]:
    """The places that a process printed each time it was asked where it is."""
    matches = islice(_PLACES.finditer(log), MOST_SAMPLES)
    return [[int(each) for each in match[1].split(",") if each] for match in matches]


def tracebacks_in_log(log: str, path: Path) -> list[list[int]]:
    """The lines of the submission's file in each of faulthandler's tracebacks, innermost first."""
    parts = log.split("(most recent call first)")[1:MOST_SAMPLES]
    line = re.compile(rf'File "{re.escape(str(path))}", line (\d{{1,7}})')
    return [[int(number) for number in line.findall(part)[:MOST_SAMPLES]] for part in parts]


def line_in_log(log: str, path: Path) -> int | None:
    """The innermost line of the submission's file in faulthandler's output."""
    match = re.search(rf'File "{re.escape(str(path))}", line (\d{{1,7}})', log)
    return int(match[1]) if match else None


def tail(log: str, lines: int = 25) -> str:
    return "\n".join(log.splitlines()[-lines:])

"""Untrusted text made fit to be shown, and the JSON that a submission's processes answer with.

Nothing here raises, whatever came.
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.worker.protocol import Reply

MAX_LINE = 10_000_000
SENTENCE_LIMIT = 1000  # characters of one field in a message

# One pass over the text each, also when a sequence never ends: no quadratic time on untrusted text.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")
_UNUSUAL = re.compile(r"[^\n -~]")
_FORBIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def fields(reply: Reply) -> dict[str, Any]:
    """The reply's text as a JSON object; {} where it is none. Untrusted: check what you take."""
    if not reply.text:  # most answers: there was nothing to tell
        return {}
    with contextlib.suppress(ValueError, RecursionError):
        read = json.loads(reply.text)
        if isinstance(read, dict):
            return read
    return {}


def text(fields: dict[str, Any], name: str) -> str:
    """A field that is text, fit to be printed; "" where it is anything else."""
    value = fields.get(name)
    return clean(value) if isinstance(value, str) else ""


def line(fields: dict[str, Any]) -> int | None:
    """The number of a line in a file, where the field `line` is one."""
    value = fields.get("line")
    return value if type(value) is int and 1 <= value < MAX_LINE else None


def dicts(value: Any) -> Sequence[dict[str, Any]]:
    """Those of a list that are objects; () where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def clean(text: str) -> str:
    """Text that is safe in a terminal, in XML and in HTML (which escape it on top).

    Terminal escape sequences go; any other control or formatting character (also those that turn
    the reading direction), lone surrogate or non-character becomes U+FFFD. Line breaks stay; tabs
    become spaces.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    return _UNUSUAL.sub(_visible, text)


def _visible(unusual: re.Match[str]) -> str:
    char = unusual[0]
    code = ord(char)
    is_nonchar = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return "\ufffd" if is_nonchar or unicodedata.category(char) in _FORBIDDEN else char


def joined(kind: str, message: str) -> str:
    """An exception's type and message, as Python prints them."""
    return f"{kind}: {message}" if message else kind


def one_line(text: str) -> str:
    """`clean` text without line breaks, shortened."""
    return shorten(" ".join(clean(text).split()))


def brief(text: str, limit: int = 400) -> str:
    """`clean` text without line breaks, to stand within a line: `limit` characters at most."""
    text = " ".join(clean(text).split())
    return text if len(text) <= limit else text[: limit - 2] + " …"


def shorten(text: str, limit: int = SENTENCE_LIMIT) -> str:
    """`text` cut to `limit` characters, saying how many are missing."""
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit} more)"


def shorten_middle(text: str, limit: int) -> str:
    """`text` without its middle: a compiler's first error and a traceback's last line stay."""
    if len(text) <= limit:
        return text
    head, tail = limit // 3, limit - limit // 3
    return f"{text[:head]}\n... ({len(text) - limit} more) ...\n{text[-tail:]}"


def line_in_log(log: str, path: Path) -> int | None:
    """The innermost line of the submission's file in what faulthandler printed."""
    match = re.search(rf'File "{re.escape(str(path))}", line (\d{{1,7}})', log)
    return int(match[1]) if match else None


def tail(log: str, lines: int = 25) -> str:
    """The last lines of a log."""
    return "\n".join(log.splitlines()[-lines:])

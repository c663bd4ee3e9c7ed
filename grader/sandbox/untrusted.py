"""Reading what a submission's process says: JSON and text of strangers, fit to be shown.

Nothing here raises, whatever came.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.worker.protocol import Reply

MAX_LINE = 10_000_000
# Controls but tab and newline; surrogates; what XML has no way to write.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def fields(reply: Reply) -> dict[str, Any]:
    """The reply's text as a JSON object; {} where it is none. Hostile: check what you take."""
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
    """Text of a submission without what would disturb a terminal, XML or UTF-8."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def joined(kind: str, message: str) -> str:
    """An exception's type and message, as Python prints them."""
    return f"{kind}: {message}" if message else kind


def one_line(text: str, limit: int = 400) -> str:
    """Text without line breaks, cut to `limit` characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 2] + " …"


def line_in_log(log: str, path: Path) -> int | None:
    """The innermost line of the submission's file in what faulthandler printed."""
    match = re.search(rf'File "{re.escape(str(path))}", line (\d{{1,7}})', log)
    return int(match[1]) if match else None


def tail(log: str, lines: int = 25) -> str:
    """The last lines of a log."""
    return "\n".join(log.splitlines()[-lines:])

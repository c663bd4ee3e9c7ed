"""What a change of the source is: text for text, line breaks kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Replaces source[start:end]; the replacement has as many line breaks as what it replaces."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Trouble:
    """A place that can't be rewritten."""

    offset: int
    message: str


def line_breaks(text: str) -> str:
    """The line breaks of a piece of source, spliced ones still spliced."""
    return "".join(re.findall(r"\\?\r?\n", text))


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits made; one that starts inside another is left out."""
    parts, position = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            continue
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])

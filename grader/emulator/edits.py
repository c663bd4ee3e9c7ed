"""Changes of a source's text that keep its line breaks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LINE_BREAK = re.compile(r"(?:\\[ \t\f\v]*)?\r?\n")  # spliced ones stay spliced


@dataclass(frozen=True)
class Edit:
    """Replaces source[start:end] by `text`, followed by the line breaks of the original."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Trouble:
    """A place that can't be rewritten."""

    offset: int
    message: str


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits made; one that starts inside another is left out."""
    parts, position = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            continue
        breaks = _LINE_BREAK.findall(text, edit.start, edit.end)
        parts += [text[position : edit.start], edit.text, *breaks]
        position = edit.end
    return "".join([*parts, text[position:]])

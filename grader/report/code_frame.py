"""The lines of a submission that a failure is about, with a mark under the place.

    19 | output[threadIdx.x] = input[i];
       | ^^^^^^^^^^^^^^^^^^^ thread (0,0,0) of block (1,0,0) writes

One frame serves terminal, pytest and HTML. The lines are a student's: they are cleaned as all
untrusted text is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from grader.evidence import SourceLine
from grader.sandbox.untrusted import clean, one_line

MOST_COLUMNS = 88  # of a line; what is longer is cut
IN_A_TERMINAL = 66  # columns of a line that 80 columns have room for, beside its number
BEFORE_MARK = 30  # columns that are shown before a mark further right


def frame(code: Sequence[SourceLine], width: int | None = None) -> Text:
    """The frame, with a line for each source line and one or more for its mark.

    In a window of `width` columns a mark far to the right is shown with what stands around it.
    """
    lines = [(each, _shown(each.text)) for each in code]
    margin = min((len(text) - len(text.lstrip()) for _, text in lines), default=0)
    digits = max((len(str(each.line)) for each in code), default=0)
    room = max(BEFORE_MARK, (width or MOST_COLUMNS) - digits - len(" | "))
    edge = min(IN_A_TERMINAL, room)
    shown = Text()
    for index, (each, text) in enumerate(lines):
        if index:
            shown.append("\n")
        start = (each.start if each.length else len(text) - len(text.lstrip())) - margin
        start, length = max(start, 0), each.length or len(text.strip())
        text = text[margin:]
        skipped = start - BEFORE_MARK
        if each.length and skipped > 0 and start + min(length, BEFORE_MARK) > edge:
            text, start = f"… {text[skipped:]}", BEFORE_MARK + 2
        shown.append(f"{each.line:>{digits}} | ", "dim")
        shown.append(_cut(text))
        for row in _mark(start, length, each.note, min(MOST_COLUMNS, room)):
            shown.append(f"\n{' ' * digits} | ", "dim")
            shown.append(row, "bold red")
    return shown


def _mark(start: int, length: int, note: str, room: int) -> list[str]:
    """The rows below a line: the mark, and what is done there, on a row of its own if long."""
    start = min(start, MOST_COLUMNS - 1)
    mark = " " * start + "^" * max(1, min(length, MOST_COLUMNS - start))
    note = one_line(note)
    if not note:
        return [mark]
    if len(mark) + 1 + len(note) <= room:
        return [f"{mark} {note}"]
    return [mark, *note.split("; ")]


def _shown(text: str) -> str:
    """A line as it is shown: clean, without line breaks; its indentation stays."""
    return " ".join(clean(text).split("\n")).rstrip()


def _cut(text: str) -> str:
    return text if len(text) <= MOST_COLUMNS else f"{text[: MOST_COLUMNS - 2]} …"

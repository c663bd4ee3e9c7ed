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


def frame(code: Sequence[SourceLine]) -> Text:
    """The frame, with a line for each source line and one or more for its mark."""
    lines = [(each, _shown(each.text)) for each in code]
    margin = min((len(text) - len(text.lstrip()) for _, text in lines), default=0)
    digits = max((len(str(each.line)) for each in code), default=0)
    shown = Text()
    for index, (each, text) in enumerate(lines):
        if index:
            shown.append("\n")
        shown.append(f"{each.line:>{digits}} | ", "dim")
        shown.append(_cut(text[margin:]))
        for row in _mark(each, margin):
            shown.append(f"\n{' ' * digits} | ", "dim")
            shown.append(row, "bold red")
    return shown


def _mark(line: SourceLine, margin: int) -> list[str]:
    """The rows below a line: the mark, and what is done there, on a row of its own if long."""
    text = _shown(line.text)
    start = line.start if line.length else len(text) - len(text.lstrip())
    length = line.length or len(text.strip())
    start = min(max(start - margin, 0), MOST_COLUMNS - 1)
    mark = " " * start + "^" * max(1, min(length, MOST_COLUMNS - start))
    note = one_line(line.note)
    if not note:
        return [mark]
    if len(mark) + 1 + len(note) <= MOST_COLUMNS:
        return [f"{mark} {note}"]
    return [mark, *note.split("; ")]


def _shown(text: str) -> str:
    """A line as it is shown: clean, without line breaks; its indentation stays."""
    return " ".join(clean(text).split("\n")).rstrip()


def _cut(text: str) -> str:
    return text if len(text) <= MOST_COLUMNS else f"{text[: MOST_COLUMNS - 2]} …"

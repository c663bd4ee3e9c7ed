"""Text and tables in a window of any width: no word, name or number goes over two lines.

A number stays with its unit. A word that is longer than the window has a line of its own, and so
has a command in backquotes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from grader.sandbox.untrusted import clean

BETWEEN = 2  # columns of space between those of a table: its padding
_HELD = "\ue000"  # stands for a space at which no line is broken
_WHOLE = re.compile(
    r"`(?:grader|make|pip|pytest|source|apt) [^`\n]*`"  # commands
    r"|\d (?:%|[mu]s\b|[kMGT]?B(?:/s)?\b|[GT]FLOP(?:/s)?\b)"  # a number and its unit
)


def table(**options: Any) -> Table:
    """An empty table without lines, as `show` expects one."""
    return Table(box=None, padding=(0, BETWEEN, 0, 0), pad_edge=False, **options)


def wrapped(text: Text, width: int, indent: int = 0, hang: int = 0, whole: str = "") -> list[Text]:
    """The lines of a text, each moved in by `indent`, all but the first by `hang` more.

    `whole` is a part of the text in which no line may be broken.
    """
    kept = text.copy()
    kept.plain = _WHOLE.sub(lambda best: best[0].replace(" ", _HELD), text.plain)
    if whole:
        kept.plain = kept.plain.replace(whole, whole.replace(" ", _HELD))
    lines: list[Text] = []
    for paragraph in kept.split("\n", allow_blank=True):
        paragraph.expand_tabs(8)
        for line in paragraph.divide(_breaks(paragraph.plain, width - indent - hang)):
            line.rstrip()
            line.plain = line.plain.replace(_HELD, " ")
            lines.append(Text(" " * (indent + hang * bool(lines))) + line)
    return lines


def _breaks(text: str, width: int) -> list[int]:
    """Where lines of a text begin but for the first: at words, whatever their length.

    rich's own wrapping breaks words that are longer than a line, or none at all.
    """
    starts, used = [], 0
    for best in re.finditer(r"\s*\S+\s*", text):
        if used and used + cell_len(best[0].rstrip()) > width:
            starts.append(best.start())
            used = 0
        used += cell_len(best[0])
    return starts


def tell(
    text: Text,
    console: Console,
    width: int | None = None,
    indent: int = 0,
    hang: int = 0,
    whole: str = "",
) -> None:
    """Print the lines of `wrapped`; they have the console's width where none is given."""
    for line in wrapped(text, width or console.width, indent, hang, whole):
        console.print(line, soft_wrap=True)


def line(text: str, console: Console, style: str = "", indent: int = 0) -> None:
    """Print a text in the console's width; what doesn't fit goes on below it, moved in."""
    tell(Text(text, style=style), console, indent=indent, hang=2)


def named(name: str, value: str, console: Console, width: int) -> None:
    """Print a name in `width` columns, moved in, and beside it what it is."""
    tell(Text.assemble((f"{name:<{width}}", "cyan"), value), console, indent=2, hang=width)


def say(text: str, console: Console, style: str = "", whole: str = "") -> None:
    """Print a message: no markup or controls, in one piece where nobody sees a window's edge."""
    text = clean(text)  # names of files and folders are students' too
    if console.is_terminal:
        tell(Text(text, style=style), console, whole=whole)
    else:
        console.print(Text(text, style=style), soft_wrap=True)


def fits(table: Table, width: int, at_least: int = 0) -> bool:
    """Whether a table of `table` breaks no word in `width` columns.

    A column that wraps needs its longest word, and `at_least` so many columns if its cells do.
    """
    needed = [_needed(column, table.show_header, at_least) for column in table.columns]
    return sum(needed) + BETWEEN * (len(needed) - 1) <= width


def show(
    table: Table,
    console: Console,
    width: int | None = None,
    indent: int = 0,
    order: Sequence[int] = (),
    at_least: int = 0,
    blocks: bool | None = None,
) -> None:
    """Print a table of `table` if it `fits`, or a block for each row; `blocks` says which of them.

    A block of a table with titles is the first cell, and below it a line for each title. Without
    titles it is a row's cells one after the other, in `order`.
    """
    room = width or console.width
    if blocks is None:
        blocks = not fits(table, room - indent, at_least)
    if not blocks:
        padded = Padding(table, (0, 0, 0, indent), expand=False) if indent else table
        console.print(padded, width=width)
        return
    for row in zip(*(map(_text, column.cells) for column in table.columns), strict=True):
        if table.show_header:
            titles = [_text(column.header) for column in table.columns]
            _titled(titles, row, console, room, indent)
        else:
            cells = [row[index] for index in order or range(len(row))]
            start = len(cells[0].plain) - len(cells[0].plain.lstrip())
            joined = Text(" " * BETWEEN).join(cell for cell in cells if cell.plain.strip())
            away = indent if cells[0].plain.strip() else indent + BETWEEN
            tell(joined, console, room, away, hang=start + BETWEEN)


def _titled(
    titles: Sequence[Text], row: Sequence[Text], console: Console, width: int, indent: int
) -> None:
    if row[0].plain.strip():
        tell(row[0], console, width, indent, hang=BETWEEN)
    start = max(cell_len(title.plain) for title in titles[1:]) + BETWEEN
    away = Text(" " * (indent + BETWEEN))
    for title, cell in zip(titles[1:], row[1:], strict=True):
        line = title.copy()
        line.pad_right(start - cell_len(title.plain))
        for each in wrapped(cell, width - indent - BETWEEN - start) or [Text()]:
            console.print(away + line + each, soft_wrap=True)
            line = Text(" " * start)


def _needed(column: Column, has_title: bool, at_least: int) -> int:
    cells = [*([column.header] if has_title else []), *column.cells]
    return max(
        [column.min_width or 0, *(_room_of(_text(cell), column, at_least) for cell in cells)]
    )


def _room_of(cell: Text, column: Column, at_least: int) -> int:
    whole = max(map(cell_len, cell.plain.split("\n")))
    if column.no_wrap:
        return whole
    return max([min(whole, at_least), *map(cell_len, cell.plain.split())])


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))

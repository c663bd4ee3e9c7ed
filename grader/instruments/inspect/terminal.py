"""Kernels on the terminal: what they use, what their code shows, and the code by lines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from grader.instruments.inspect import listing
from grader.instruments.inspect.findings import Finding
from grader.instruments.inspect.kernels import Inspected, Kernel
from grader.instruments.inspect.listing import Row
from grader.report import narrow

_STYLES = {
    "global": "cyan",
    "shared": "blue",
    "local": "red",
    "tensor": "green",
    "branch": "magenta",
}
_TONES = {"good": "green", "cost": "yellow", "fact": ""}
_NAMES = 15  # columns of what is used
_INDENT = 7  # columns in front of code: room for a line's number


def headline(inspected: Inspected, console: Console) -> None:
    """Print which case it is."""
    narrow.line(f"{inspected.task}: {inspected.case}", console, "bold")


def show(inspected: Inspected, kernel: Kernel, count: int, console: Console) -> None:
    """Print what a kernel is, with what it was compiled for, and what it uses."""
    narrow.line(listing.title(kernel, count), console, "bold")
    for each in configuration(inspected):
        narrow.line(each, console, indent=2)
    if kernel.arguments:
        narrow.line("; ".join(kernel.arguments), console, "dim", indent=2)
    if kernel.options:
        options = ", ".join(f"{name}={value}" for name, value in kernel.options.items())
        narrow.line(f"compiled with {options}", console, "dim", indent=2)
    for name, words in listing.resources(kernel):
        narrow.named(name, words, console, _NAMES)


def show_findings(results: Sequence[Finding], console: Console) -> None:
    """Print what a kernel's code shows, each with its line."""
    if not results:
        return
    console.print()
    for each in results:
        where = f"{each.place}  " if each.place else ""
        line = Text.assemble((where, "bold"), (each.text, _TONES[each.tone]))
        narrow.tell(line, console, indent=2, hang=2)


def show_code(rows: Sequence[Row], stage: str, console: Console) -> None:
    """Print the lines of the source, each with its code below it."""
    console.print()
    files = list(dict.fromkeys(each.place.file for each in rows if each.place))
    narrow.line(
        f"{stage.upper()}, by the lines of {', '.join(files) or 'no file'}", console, "bold"
    )
    shown = ""
    for row in rows:
        if row.place is None:
            narrow.line(listing.NO_LINE, console, "italic")
        else:
            if len(files) > 1 and row.place.file != shown:
                shown = row.place.file
                narrow.line(shown, console, "underline")
            number = Text(f"{row.place.line:>{_INDENT - 2}}  ", style="dim")
            source = Text(row.source, style="bold" if row.code else "dim")
            _source(number, source, console)
        for each in row.code:
            text = Text(each.text.strip(), style=_STYLES.get(listing.kind_of(each), ""))
            narrow.tell(text, console, indent=_INDENT + 2, hang=4)


def configuration(inspected: Inspected) -> list[str]:
    """Which configuration of a tuned kernel this is, and what the others are."""
    if not inspected.tuned:
        return []
    count, chosen = len(inspected.tuned), inspected.chosen
    lines = [f"configuration {chosen + 1} of {count}: {inspected.tuned[chosen]}"]
    others = [
        f"--config {n}: {name}" for n, name in enumerate(inspected.tuned, 1) if n != chosen + 1
    ]
    return [*lines, f"the others: {'; '.join(others)}"]


def _source(number: Text, source: Text, console: Console) -> None:
    """A line of the source behind its number; what doesn't fit goes on below it."""
    start = len(source.plain) - len(source.plain.lstrip())
    room = console.width - _INDENT
    if source.cell_len <= room:
        line = number + source
        line.rstrip()
        console.print(line, soft_wrap=True)
        return
    lines = narrow.wrapped(source[start:], room, indent=min(start, room // 3), hang=4)
    for index, line in enumerate(lines):
        console.print((number if index == 0 else Text(" " * _INDENT)) + line, soft_wrap=True)

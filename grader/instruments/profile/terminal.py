"""A profile on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from grader.instruments.profile import sentences, tables
from grader.instruments.profile.read import Profile
from grader.instruments.profile.tools import METRICS, ToolReport
from grader.report import narrow

_ROWS = 12  # of a table
_NAMES = 13  # columns of what a line is about
_LEVELS = " ▁▂▃▄▅▆▇█"
_TIMED = ("operator", "call")
_WIDEST = 100  # columns of a timeline
Times = Iterable[tuple[float, float]]


def show(profile: Profile, console: Console) -> None:
    """Print a profile: facts, the timeline, who waited, kernels, and torch's table."""
    narrow.line(sentences.headline(profile), console, "bold")
    for name, value in sentences.facts(profile):
        narrow.named(name, value, console, _NAMES)
    _timeline(profile, console)
    for each in sentences.findings(profile):
        where = (f"{each.place}  ", "bold") if each.place else ""
        line = Text.assemble(where, (each.text, "yellow" if each.is_cost else ""))
        narrow.tell(line, console, indent=2, hang=2)
    _kernels(profile, console)
    _operators(profile, console)


def show_tool(report: ToolReport, console: Console) -> None:
    """Print what `ncu` or `nsys` says, below the command that was run."""
    console.print()
    narrow.line(f"What {report.tool} says", console, "bold")
    if report.command:
        narrow.line(f"$ {report.command}", console, "cyan", indent=2)
    if report.problem:
        narrow.line(f"{report.tool}: {report.problem}", console, "yellow", indent=2)
    if report.written is not None:
        said = f"{report.written}: open it with `nsys-ui`, or ask `nsys stats`"
        narrow.line(said, console, indent=2)
    for name, meaning in METRICS.items() if report.counted else ():
        narrow.line(name, console, "bold", indent=2)
        narrow.line(meaning, console, "dim", indent=4)
        for kernel, value in tables.by_kernel(report.counted, name):
            narrow.line(f"{value:>14}  {kernel}", console, indent=4)


def say(lines: Sequence[str], console: Console) -> None:
    """Print lines that stand by themselves."""
    for line in lines:
        narrow.line(line, console)
    console.print()


def explain(console: Console) -> None:
    """Print what the columns and words mean."""
    console.print()
    narrow.line("What the words mean", console, "bold")
    for name, meaning in (tables.COLUMNS | sentences.TERMS).items():
        narrow.named(name, meaning, console, _NAMES)


def _timeline(profile: Profile, console: Console) -> None:
    """The host and the device over time: the higher a mark, the busier."""
    room = min(console.width, _WIDEST) - 2 - _NAMES
    if not profile.duration or room < 10:
        return
    top = [
        each
        for each in profile.host
        if each.kind in _TIMED and not any(above.kind in _TIMED for above in each.parents)
    ]
    waits = [(each.start, each.end) for each in profile.waits]
    rows: list[tuple[str, Times, str]] = [("host", [(s.start, s.end) for s in top], "cyan")]
    if profile.work:
        rows += [
            ("waits", waits, "red"),
            ("device", [(each.start, each.end) for each in profile.work], "green"),
        ]
    console.print()
    for name, times, style in rows:
        marks = _marks(times, profile.duration, room)
        console.print(Text.assemble(f"  {name:<{_NAMES}}", (marks, style)), soft_wrap=True)
    end = sentences.microseconds(profile.duration)
    console.print(Text(f"  {'':<{_NAMES}}0{end:>{room - 1}}", style="dim"), soft_wrap=True)


def _marks(times: Times, duration: float, room: int) -> str:
    """A mark for each stretch of time: how much of it the times fill."""
    filled = [0.0] * room
    step = duration / room
    for start, end in times:
        first, last = int(start / step), min(room - 1, int(end / step))
        for cell in range(first, last + 1):
            inside = min(end, (cell + 1) * step) - max(start, cell * step)
            filled[cell] += max(0.0, inside) / step
    return "".join(_LEVELS[min(8, -int(-8 * share // 1))] for share in filled)


def _kernels(profile: Profile, console: Console) -> None:
    rows = tables.kernels(profile)
    if not rows:
        return
    whole = sum(row.time for row in rows)
    cells = [
        (
            tables.short_name(row.name, 34),
            f"{row.count}",
            f"{row.average:.1f}",
            f"{100 * row.time / whole:.0f} %",
            ", ".join(map(str, row.places[:2])),
        )
        for row in rows[:_ROWS]
    ]
    titles = ("kernel", "count", "us each", "share", "launched at")
    _table("Kernels on the device", titles, cells, len(rows), console)


def _operators(profile: Profile, console: Console) -> None:
    rows = tables.operators(profile)
    cells = []
    for row in rows[:_ROWS]:
        times = (row.self_cpu, row.cpu_total, row.self_cuda, row.cuda_total)
        cells.append((row.name[:22], *(f"{time:.0f}" for time in times), f"{row.calls}"))
    title = "torch.profiler's table, in microseconds"
    _table(title, tuple(tables.COLUMNS), cells, len(rows), console)


def _table(
    title: str,
    titles: Sequence[str],
    cells: Sequence[Sequence[str]],
    count: int,
    console: Console,
) -> None:
    console.print()
    narrow.line(title, console, "bold")
    table = narrow.table(header_style="dim")
    for number, name in enumerate(titles):
        is_text = number == 0 or name == "launched at"
        table.add_column(name, justify="left" if is_text else "right", no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))
    narrow.show(table, console, indent=2)
    if count > len(cells):
        narrow.line(f"and {count - len(cells)} others", console, "dim", indent=2)

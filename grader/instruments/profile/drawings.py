"""A profile drawn: the host above the device over time, and the host's stacks as a flame graph."""

from __future__ import annotations

import hashlib

from grader.instruments.profile.read import Profile, Span
from grader.instruments.profile.tables import Frame, short_name, stacks
from grader.instruments.svg import Drawing

_WIDTH = 960
_LEFT = 84  # room for the rows' names
_ROW = 20
_LETTER = 6.6  # pixels
_DEEPEST = 3  # rows of the host: operators in operators
_FLAMES = ("orange", "red", "pink", "green", "blue")
_MOST_DEEP = 24


def timeline(profile: Profile) -> Drawing:
    """The host's ranges, operators, calls and waits above the device's kernels and gaps."""
    end = profile.duration
    streams = sorted({each.stream for each in profile.work})
    top = 34
    calls_y = top + _ROW * (1 + _DEEPEST)
    waits_y, device_y = calls_y + _ROW, calls_y + 2 * _ROW + 26
    height = device_y + _ROW * max(1, len(streams)) + 34
    drawing = Drawing(
        _WIDTH,
        height,
        f"Timeline of {profile.target}",
        f"{len(profile.kernels)} kernels on the device below what the host did, over {end:.0f} "
        f"microseconds; {len(profile.waits)} waits and {len(profile.gaps)} gaps.",
    )
    scale = (_WIDTH - _LEFT - 8) / end
    _axis(drawing, end, scale, height)
    names = (
        (top, "ranges"),
        (top + _ROW, "operators"),
        (calls_y, "CUDA calls"),
        (waits_y, "waits"),
    )
    for y, name in names:
        drawing.text(_LEFT - 8, y + 14, name, "small dim", "end")
    for span in profile.host:
        _host_span(drawing, span, top, calls_y, scale, end)
    for wait in profile.waits:
        where = f" ({wait.place})" if wait.place else ""
        tip = f"{wait.name} waits for {wait.duration:.0f} µs{where}"
        _box(drawing, (wait.start, wait.end), waits_y, "red", f"{wait.name}{where}", tip, scale)
    _gaps(drawing, profile, device_y, scale)
    for work in profile.work:
        y = device_y + _ROW * streams.index(work.stream)
        if work.launch is not None and len(profile.work) <= 60:
            x = _LEFT + work.launch.start * scale
            drawing.line([(x, calls_y + _ROW - 3), (_LEFT + work.start * scale, y)], "edge")
        tip = f"{work.name}: {work.duration:.1f} µs" + (f" ({work.place})" if work.place else "")
        kind = "green" if work.kind == "kernel" else "pink"
        _box(drawing, (work.start, work.end), y, kind, short_name(work.name), tip, scale)
    for number, stream in enumerate(streams):
        y = device_y + _ROW * number
        drawing.text(_LEFT - 8, y + 14, f"stream {stream}", "small dim", "end")
    return drawing


def _gaps(drawing: Drawing, profile: Profile, y: float, scale: float) -> None:
    """A line through each gap, with its length where there is room for it."""
    for gap in profile.gaps:
        x, width = _LEFT + gap.start * scale, gap.duration * scale
        drawing.line([(x, y + 10), (x + width, y + 10)], "dash")
        words = f"gap {gap.duration:.0f} µs"
        if width > _LETTER * len(words) + 8:
            drawing.text(x + width / 2, y + 5, words, "small dim", "middle")


def _axis(drawing: Drawing, end: float, scale: float, height: float) -> None:
    """A line for each of some round times."""
    step = next(
        base * 10**power
        for power in range(12)
        for base in (1, 2, 5)
        if end / (base * 10**power) <= 8
    )
    for number in range(int(end // step) + 1):
        x = _LEFT + number * step * scale
        drawing.line([(x, 22), (x, height - 24)], "dash")
        anchor = "middle" if x < _WIDTH - 40 else "end"
        drawing.text(x, 16, f"{number * step} µs" if number else "0", "small dim", anchor)


def _host_span(
    drawing: Drawing, span: Span, top: float, calls_y: float, scale: float, end: float
) -> None:
    tip = f"{span.name}: {span.duration:.0f} µs" + (f" ({span.place})" if span.place else "")
    times = (span.start, min(span.end, end))
    if span.kind == "range":
        _box(drawing, times, top, "grey", span.name, tip, scale)
    elif span.kind == "operator":
        depth = sum(each.kind == "operator" for each in span.parents)
        if depth < _DEEPEST:
            name = span.name.removeprefix("aten::")
            _box(drawing, times, top + _ROW * (1 + depth), "blue", name, tip, scale)
    elif span.kind == "call":
        _box(drawing, times, calls_y, "orange", span.name, tip, scale)


def _box(
    drawing: Drawing,
    times: tuple[float, float],
    y: float,
    kind: str,
    name: str,
    tip: str,
    scale: float,
) -> None:
    """A box over a time, with as much of its name as it has room for."""
    x, width = _LEFT + times[0] * scale, max(0.6, (times[1] - times[0]) * scale)
    drawing.rect(x, y + 1, width, _ROW - 2, kind, tip)
    letters = int((width - 4) / _LETTER)
    if letters >= min(3, len(name)):
        text = name if len(name) <= letters else f"{name[: letters - 1]}…"
        drawing.text(x + 3, y + 14, text, "small")


def flame_graph(profile: Profile) -> Drawing:
    """The host's stacks: a box for each function, as wide as the time in it, below its callers."""
    root = stacks(profile)
    depth = min(_MOST_DEEP, _depth(root))
    drawing = Drawing(
        _WIDTH,
        (depth + 1) * _ROW + 4,
        f"Flame graph of {profile.target}",
        "Each box is a function on the host, as wide as the time in it. Below it lie those that "
        f"it called. All of it is {root.time:.0f} microseconds.",
    )
    _flames(drawing, root, 0.0, 0, _WIDTH / max(root.time, 1e-9))
    return drawing


def _depth(frame: Frame) -> int:
    return 1 + max((_depth(each) for each in frame.children.values()), default=0)


def _flames(drawing: Drawing, frame: Frame, x: float, level: int, scale: float) -> None:
    width = frame.time * scale
    if width < 0.5 or level > _MOST_DEEP:
        return
    colour = hashlib.sha256(frame.name.encode()).digest()[0] % len(_FLAMES)
    kind = f"{_FLAMES[colour]} edge" if level else "grey edge"
    y = level * _ROW + 2
    drawing.rect(x, y, width, _ROW, kind, f"{frame.name}: {frame.time:.0f} µs")
    letters = int((width - 6) / _LETTER)
    if letters >= 3:
        name = frame.name if len(frame.name) <= letters else f"{frame.name[: letters - 1]}…"
        drawing.text(x + 3, y + 14, name, "small")
    for each in sorted(frame.children.values(), key=lambda each: (-each.time, each.name)):
        _flames(drawing, each, x, level + 1, scale)
        x += each.time * scale

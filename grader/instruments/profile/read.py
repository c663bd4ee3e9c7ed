"""Reads a trace that collect.py wrote: what the host did, what the device did, and who waited.

Times are microseconds after the start of what was profiled.
"""

from __future__ import annotations

import bisect
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.instruments.profile.collect import PROFILED
from grader.mistakes import Mistake

_SKEW = 10.0  # microseconds: lines are timed by Python's clock, the rest by torch's
LEAST_GAP = 3.0  # microseconds: below that the device goes from kernel to kernel
# What the host and the device do, by a trace's categories.
HOST = {
    "cpu_op": "operator",
    "user_annotation": "range",
    "python_function": "python",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "line": "line",
}
DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
_WAITS = re.compile(r"cu(da)?\w*Synchronize\w*$|cu(da)?Memcpy(?!\w*Async)\w*$")
_METHOD = re.compile(r"<built-in method (\w+) of Tensor object")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SYNCHRONIZE = re.compile(r"torch/cuda/(__init__|streams)\.py\(\d+\): synchronize$")
# Operators that wait for the device where no method's name says more.
_WAITING_OPERATORS = {
    "aten::is_nonzero": "a tensor as a condition",
    "aten::item": "a tensor's value as a number",
    "aten::_local_scalar_dense": "a tensor's value as a number",
    "aten::nonzero": "a mask as an index",
    "aten::copy_": "a copy to or from the host",
    "aten::_to_copy": "a copy to or from the host",
}


@dataclass(frozen=True)
class Place:
    """A line of the user's files."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Span:
    """What the host did for some time: an operator, a call of CUDA, a range, a Python function."""

    kind: str
    name: str
    start: float
    duration: float
    thread: str
    correlation: int = 0
    place: Place | None = None
    parent: Span | None = field(default=None, repr=False)

    @property
    def end(self) -> float:
        return self.start + self.duration

    @property
    def parents(self) -> tuple[Span, ...]:
        """What was going on around it, the outermost first."""
        inner_first, above = [], self.parent
        while above:
            inner_first.append(above)
            above = above.parent
        return tuple(reversed(inner_first))


@dataclass(frozen=True)
class Work:
    """What the device did: a kernel, a copy or a fill. `launch` is the call that asked for it."""

    kind: str
    name: str
    start: float
    duration: float
    stream: int
    launch: Span | None

    @property
    def end(self) -> float:
        return self.start + self.duration

    @property
    def place(self) -> Place | None:
        return self.launch.place if self.launch else None


@dataclass(frozen=True)
class Wait:
    """The host waited for the device: in which expression, at which line."""

    name: str
    start: float
    duration: float
    place: Place | None

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass(frozen=True)
class Gap:
    """The device had nothing to do, and why."""

    start: float
    duration: float
    cause: str
    place: Place | None


@dataclass(frozen=True)
class Profile:
    """What a trace shows."""

    target: str
    case: str
    device: str  # empty where no GPU was recorded
    torch: str
    date: str
    failed: bool
    duration: float
    host: tuple[Span, ...]
    work: tuple[Work, ...]
    waits: tuple[Wait, ...]
    gaps: tuple[Gap, ...]

    @property
    def kernels(self) -> tuple[Work, ...]:
        return tuple(each for each in self.work if each.kind == "kernel")

    @property
    def ranges(self) -> tuple[Span, ...]:
        """The program's named ranges."""
        return tuple(each for each in self.host if each.kind == "range")

    @property
    def calls(self) -> int:
        """How often a function was called; 1 for a file."""
        return max(1, sum(bool(re.fullmatch(r"call \d+", each.name)) for each in self.ranges))

    @property
    def busy(self) -> float:
        """The time in which the device did something."""
        return sum(end - start for start, end in _together(self.work))


def read(path: Path) -> Profile:
    """The profile that a trace shows. Raises Mistake, OSError."""
    try:
        return from_trace(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Mistake(f"{path}: expected a trace of `grader profile`: {error!r}") from None


def from_trace(trace: Mapping[str, Any]) -> Profile:
    """The profile of a trace in Chrome's format."""
    spans = [each for each in trace["traceEvents"] if each.get("ph") == "X"]
    # On a GPU the range for ncu and nsys is an annotation of the same name, inside the other.
    named = [each for each in spans if each["name"] == PROFILED]
    annotated = [each for each in named if each.get("cat") == "user_annotation"]
    whole = max(annotated, key=lambda each: float(each["dur"]))
    begin, end = float(whole["ts"]), float(whole["ts"]) + float(whole["dur"])
    host = tuple(_host_spans(spans, begin, end, str(whole["tid"])))
    work = tuple(_works(spans, begin, host))
    waits = tuple(_waits(host))
    about = trace["warpgrade"]
    return Profile(
        target=about["target"],
        case=about["case"],
        device=about["device"],
        torch=about["torch"],
        date=about["date"],
        failed=about["failed"],
        duration=max([end - begin, *(each.end for each in work)]),
        host=host,
        work=work,
        waits=waits,
        gaps=tuple(_gaps(work, waits)),
    )


def _host_spans(
    events: Sequence[Mapping[str, Any]], begin: float, end: float, thread: str
) -> Iterator[Span]:
    """The host's spans within the profiled range, each with its parents and its line."""
    lines = _Lines(events, begin)
    chosen = [
        each
        for each in events
        if each.get("cat") in HOST
        and each["cat"] != "line"
        and begin <= each["ts"] < end
        and each["name"] != PROFILED
    ]
    chosen.sort(key=lambda each: (each["ts"], -each["dur"]))
    open_spans: dict[str, list[Span]] = {}
    for each in chosen:
        start, own_thread = each["ts"] - begin, str(each["tid"])
        parents = open_spans.setdefault(own_thread, [])
        while parents and parents[-1].end <= start:
            parents.pop()
        span = Span(
            kind=HOST[each["cat"]],
            name=_ADDRESS.sub("", each["name"]),
            start=start,
            duration=float(each["dur"]),
            thread=own_thread,
            correlation=int(each.get("args", {}).get("correlation", 0)),
            place=lines.at(start + each["dur"] / 2) if own_thread == thread else None,
            parent=parents[-1] if parents else None,
        )
        if span.kind == "range" and any(
            above.kind == "range" and above.name == span.name for above in parents
        ):
            continue  # an NVTX range is recorded as a range of torch's, too
        parents.append(span)
        yield span


class _Lines:
    """Which line of the user's files ran at a time: the innermost one."""

    def __init__(self, events: Sequence[Mapping[str, Any]], begin: float) -> None:
        spans = sorted(
            (each["ts"] - begin, -each["dur"], each["name"])
            for each in events
            if each.get("cat") == "line"
        )
        self._starts: list[float] = []
        self._places: list[Place | None] = []
        open_lines: list[tuple[float, Place]] = []
        for start, negative, name in spans:
            self._close(open_lines, start)
            file, _, line = name.rpartition(":")
            open_lines.append((start - negative, Place(file, int(line))))
            self._mark(start, open_lines[-1][1])
        self._close(open_lines, float("inf"))

    def at(self, time: float) -> Place | None:
        """The line; just behind the end of one it is that one."""
        index = bisect.bisect_right(self._starts, time) - 1
        if index > 0 and self._places[index] is None and time - self._starts[index] < _SKEW:
            index -= 1
        return self._places[index] if index >= 0 else None

    def _close(self, open_lines: list[tuple[float, Place]], until: float) -> None:
        while open_lines and open_lines[-1][0] <= until:
            end, _ = open_lines.pop()
            self._mark(end, open_lines[-1][1] if open_lines else None)

    def _mark(self, time: float, place: Place | None) -> None:
        self._starts.append(time)
        self._places.append(place)


def _works(
    events: Sequence[Mapping[str, Any]], begin: float, host: Sequence[Span]
) -> Iterator[Work]:
    """What the device did that the profiled range asked for, in order."""
    launches = {each.correlation: each for each in host if each.kind == "call"}
    for each in sorted(events, key=lambda each: float(each["ts"])):
        details = each.get("args", {})
        correlation = int(details.get("correlation", 0))
        if each.get("cat") in DEVICE and correlation in launches:
            yield Work(
                kind=DEVICE[each["cat"]],
                name=each["name"],
                start=each["ts"] - begin,
                duration=float(each["dur"]),
                stream=int(details.get("stream", 0)),
                launch=launches[correlation],
            )


def _waits(host: Sequence[Span]) -> Iterator[Wait]:
    for each in host:
        if each.kind == "call" and _WAITS.match(each.name):
            yield Wait(_waiting_for(each), each.start, each.duration, each.place)


def _waiting_for(call: Span) -> str:
    """What waits, as the user wrote it: `.item()`."""
    names = [each.name for each in call.parents]
    for name in reversed(names):
        if method := _METHOD.match(name):
            return f"`.{method[1]}()`"
        if _SYNCHRONIZE.search(name):
            return "`synchronize()`"
    operator = next((name for name in names if name in _WAITING_OPERATORS), "")
    return _WAITING_OPERATORS.get(operator, call.name)


def _together(work: Sequence[Work]) -> Iterator[tuple[float, float]]:
    """When the device was busy, whatever the stream: begin and end, in order."""
    begin = end = 0.0
    for each in sorted(work, key=lambda each: each.start):
        if each.start > end:
            if end > begin:
                yield begin, end
            begin = each.start
        end = max(end, each.end)
    if end > begin:
        yield begin, end


def _gaps(work: Sequence[Work], waits: Sequence[Wait]) -> Iterator[Gap]:
    """The device's idle times between its first and its last work."""
    busy = list(_together(work))
    by_start = {each.start: each for each in work}
    for (_, idle_from), (begin, _) in itertools.pairwise(busy):
        if begin - idle_from >= LEAST_GAP:
            yield _gap(idle_from, by_start[begin], waits)


def _gap(start: float, following: Work, waits: Sequence[Wait]) -> Gap:
    duration = following.start - start
    launch = following.launch
    if launch is None or launch.end <= start:
        return Gap(start, duration, "the next was launched in time: the device took so long", None)
    for wait in waits:
        if wait.start < launch.start and start <= wait.end <= launch.end:
            cause = f"the host waited in {wait.name}, and launched the next kernel only then"
            return Gap(start, duration, cause, wait.place)
    cause = "the host was late: it launched the next kernel when the device was done"
    return Gap(start, duration, cause, launch.place)

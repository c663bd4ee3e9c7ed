"""What a profile adds up to: torch's table of operators, one of kernels, and the tree of stacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from grader.instruments.profile.read import Place, Profile, Span
from grader.instruments.profile.tools import Counted

# The columns of torch.profiler's own table, named as it names them, and what each says.
COLUMNS = {
    "Name": "an operator of torch (aten::…), or a call of CUDA's runtime",
    "Self CPU": "time on the host in it alone, without the operators and calls inside it",
    "CPU total": "time on the host from its begin to its end",
    "Self CUDA": "time on the device of the kernels that it launched itself",
    "CUDA total": "the same, with those of the operators inside it",
    "# of Calls": "how often it ran",
}


@dataclass
class Row:
    """An operator or a call; times in microseconds."""

    name: str
    calls: int = 0
    self_cpu: float = 0.0
    cpu_total: float = 0.0
    self_cuda: float = 0.0
    cuda_total: float = 0.0


@dataclass
class KernelRow:
    """All launches of a kernel; microseconds."""

    name: str
    count: int = 0
    time: float = 0.0
    places: list[Place] = field(default_factory=list)

    @property
    def average(self) -> float:
        return self.time / self.count


@dataclass
class Frame:
    """A function in the tree of stacks: the time in it, and in what it called."""

    name: str
    time: float = 0.0
    children: dict[str, Frame] = field(default_factory=dict)


def operators(profile: Profile) -> list[Row]:
    """torch's table: the most time on the device first, then on the host."""
    rows: dict[str, Row] = {}
    for span in profile.host:
        if span.kind not in ("operator", "call"):
            continue
        row = rows.setdefault(span.name, Row(span.name))
        row.calls += 1
        row.self_cpu += span.duration
        above = _operators_above(span)
        if above:
            rows[above[-1].name].self_cpu -= span.duration
        if span.name not in {each.name for each in above}:
            row.cpu_total += span.duration
    for work in profile.work:
        if work.launch is None:
            continue
        above = _operators_above(work.launch)
        nearest = above[-1] if above else work.launch
        rows[nearest.name].self_cuda += work.duration
        for name in {each.name for each in (*above, nearest)}:
            rows[name].cuda_total += work.duration
    return sorted(rows.values(), key=lambda row: (-row.cuda_total, -row.cpu_total, row.name))


def kernels(profile: Profile) -> list[KernelRow]:
    """Each kernel, copy and fill, the most time first."""
    rows: dict[str, KernelRow] = {}
    for work in profile.work:
        row = rows.setdefault(work.name, KernelRow(work.name))
        row.count += 1
        row.time += work.duration
        if work.place is not None and work.place not in row.places:
            row.places.append(work.place)
    return sorted(rows.values(), key=lambda row: (-row.time, row.name))


def stacks(profile: Profile) -> Frame:
    """The host's time by stacks: functions, operators in them, calls of CUDA in those."""
    thread = next((each.thread for each in profile.host if each.kind == "range"), "")
    root = Frame("all")
    for span in profile.host:
        if span.thread != thread or span.kind == "range":
            continue
        path = [each for each in span.parents if each.kind != "range"]
        frame = root
        for each in path:
            frame = frame.children[_frame_name(each)]
        own = frame.children.setdefault(_frame_name(span), Frame(_frame_name(span)))
        own.time += span.duration
        if not path:
            root.time += span.duration
    return root


def by_kernel(launches: Sequence[Counted], metric: str) -> list[tuple[str, str]]:
    """A metric's value in each launch, in their order, with the kernel's name."""
    return [
        (short_name(launch.kernel), launch.values[metric])
        for launch in launches
        if metric in launch.values
    ]


def short_name(name: str, most: int = 60) -> str:
    """A kernel's name without what C++ puts around it: `void at::native::…<…>(…)`."""
    short = (
        name.removeprefix("void ")
        .replace("at::native::", "")
        .replace("(anonymous namespace)::", "")
    )
    if "<" in short and "_kernel" in short.partition("<")[0]:
        short, _, inner = short.partition("<")
        words = (part.rpartition("::")[2] for part in re.split(r"[\s<>,(]+", inner))
        named = next((w for w in words if w.lower().endswith(("functor", "impl", "op"))), "")
        short += f"<{named}>" if named else ""
    return short if len(short) <= most else f"{short[: most - 1]}…"


def _operators_above(span: Span) -> Sequence[Span]:
    return [each for each in span.parents if each.kind in ("operator", "call")]


def _frame_name(span: Span) -> str:
    """`gelu.py:10 manual` of `gelu.py(10): manual`, and without `<built-in method …>`."""
    name = span.name
    if span.kind != "python":
        return name
    if name.startswith("<built-in "):
        words = name[len("<built-in ") : -1].removeprefix("method ").removeprefix("function ")
        method, _, owner = words.partition(" of ")
        owner = owner.removesuffix(" object")
        return f"{owner}.{method}" if owner and owner != "type" else method
    return name

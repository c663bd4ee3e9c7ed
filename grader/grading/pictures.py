"""The picture of a failing case: a map of what is wrong in an output, and who wrote it.

It is made once for a failure that is told. Who wrote what comes from one more run of the case, in
which each access is recorded; of large cases, and on a GPU, only the map is made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch

from grader.cases import Case, inputs, oracle
from grader.cases.arena import Slot
from grader.cases.compare import wrong_values
from grader.evidence import Picture
from grader.executors.runner import CaseResult, Runner
from grader.executors.trace import Event, Kind, Launch, Trace, addresses
from grader.spec.task import Task
from grader.status import Status

CELLS = 32  # of a map, along each side
MAX_TRACED = 1 << 13  # elements of an output
MAX_WRITERS = 4
_ON_VALUES = (Status.wrong_values, Status.not_finite, Status.not_written)


def picture_of(task: Task, runner: Runner, result: CaseResult) -> Picture | None:
    """The picture of a failing case, as far as its result shows what went wrong where."""
    if result.case is None or result.status not in _ON_VALUES or not result.outputs:
        return result.picture
    made = inputs.make(task, result.case)
    right = oracle.of(task.exercise)
    truths = right.truths(made.tensors, made.numbers, task.magnitude)
    slots = {n: s for n, s in enumerate(made.order) if isinstance(s, Slot) and s.role != "input"}
    for (place, slot), values, truth in zip(slots.items(), result.outputs, truths, strict=True):
        wrong = wrong_values(values, truth, slot.dtype, task.tolerance.of(slot.name))
        if bool(wrong.any()):
            writers = _writers(runner, result.case, place, slot, wrong)
            return _map(slot.name, slot.shape, wrong, writers)
    return None


def _map(
    name: str, shape: Sequence[int], wrong: torch.Tensor, writers: tuple[tuple[str, int], ...]
) -> Picture:
    count = wrong.numel()
    is_flat = len(shape) < 2 or count == shape[-1]
    # Elements of one dimension stand in rows, too.
    columns = min(count, CELLS * math.ceil(count / CELLS**2)) if is_flat else shape[-1]
    rows = math.ceil(count / columns)
    high = math.ceil(rows / CELLS)
    wide = math.ceil(columns / CELLS)
    table = torch.zeros(math.ceil(rows / high) * high, math.ceil(columns / wide) * wide)
    padded = torch.zeros(rows * columns)
    padded[:count] = wrong.flatten()
    table[:rows, :columns] = padded.reshape(rows, columns)
    cells = table.reshape(-1, high, table.shape[1] // wide, wide).amax((1, 3)).bool()
    lines = tuple("".join("x" if each else "." for each in row) for row in cells.tolist())
    size = tuple(shape) if not is_flat else (count,)
    return Picture(name, size, (high, wide), lines, int(wrong.count_nonzero()), writers)


def _writers(
    runner: Runner, case: Case, place: int, slot: Slot, wrong: torch.Tensor
) -> tuple[tuple[str, int], ...]:
    """(who, how many wrong elements) of those who wrote most; "nobody" for what nobody wrote."""
    if slot.extent > MAX_TRACED or runner.on_gpu:
        return ()
    traced = runner.trace(case)
    if traced is None or traced.trace is None or traced.trace.cut:
        return ()
    unit = "program" if runner.task.variant.language == "triton" else "block"
    wrote = _last_writers(traced.trace, place, slot, unit)
    # Where each element of the output lies, in elements from its first.
    index = torch.arange(slot.extent).as_strided(slot.shape, slot.strides)
    counted = Counter(wrote.get(each, "nobody") for each in index[wrong].tolist())
    return tuple(counted.most_common(MAX_WRITERS))


def _last_writers(trace: Trace, place: int, slot: Slot, unit: str) -> dict[int, str]:
    """Who wrote each element last, by its distance from the first."""
    memory = next((each for each in trace.places if each.argument == place), None)
    wrote: dict[int, str] = {}
    itemsize = getattr(torch, slot.dtype).itemsize
    for launch in trace.launches if memory is not None else ():
        for event in launch.events:
            if event.kind not in (Kind.store, Kind.atomic):
                continue
            who = _name(launch, event, unit)
            for address in addresses(event):
                if address is None or memory is None:
                    continue
                first = (address - memory.start) // itemsize
                for element in range(first, first + max(1, event.bytes // itemsize)):
                    wrote[element] = who
    return wrote


def _name(launch: Launch, event: Event, unit: str) -> str:
    x, y, _ = launch.grid
    return f"{unit} {(event.block % x, event.block // x % y, event.block // x // y)}"

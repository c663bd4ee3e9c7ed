"""How kernels use memory: metrics from counters, and whether the counters can be believed.

The counters come from an executor's report or from ncu. A metric has the key of its bound in a
spec's memory block (scoring/memory_bounds.py judges it) and names the counters it is made of:

    useful_bytes_per_sector.load    distinct bytes asked for per 32-byte sector moved, global loads
    useful_bytes_per_sector.store   the same of global stores
    reads.NAME                      bytes loaded from an argument, over the argument's size; and
                                    bytes loaded from scratch, and from each output, beyond those
                                    stored there, over the size of all inputs, less a quarter
    largest_share                   bytes moved by the busiest thread (CUDA), or distinct bytes of
                                    the busiest program (Triton), of each launch, over the size of
                                    all inputs and outputs, or over the bytes that kernels move in
                                    global memory where these are fewer; at most 1, and 0 where
                                    they move none
    requests                        accesses of whole warps to global memory, which ncu counts as
                                    l1tex__t_requests; in Triton each 32 elements of a block
    blocks                          blocks (CUDA) or programs (Triton) of one launch that store to
                                    global memory or change it atomically, the most of any launch
    simt_efficiency                 CUDA: threads that take part in accesses to global memory, over
                                    32 for each access of a warp, or in those to global and shared
                                    memory where that is less, there for each word of 4 bytes;
                                    Triton: elements that masks let through, over all elements of
                                    loads, stores and atomics

Only of CUDA C++ (cuda/cuda_metrics.py):

    shared_bank_conflicts           wavefronts beyond those that an access without conflicts needs;
                                    for a spec that allows none, also those of lanes that take
                                    turns, if they are over 1/16 of the requests to global memory:
                                    beyond what whole warps need, where half a warp's lanes or fewer
                                    take part; and where data is moved, of each element's loads
                                    beyond the fourth
    copies, bytes_copied            between host and device
    scratch_stores                  bytes that kernels store to global memory beside the arguments

Only of Triton (triton/triton_metrics.py):

    scratch_bytes                   of tensors that the entry brings beside its arguments
    largest_tile                    elements of the largest block
    wave_bytes.distinct             distinct bytes loaded by programs that run at once
    wave_bytes.to_row_major         the same, over those of tiles in row-major order
    growth.tile                     largest block at four times the sizes, over before
    growth.scratch                  the same of scratch_bytes, or of those among them that kernels
                                    store to, where that is more; or of all bytes that they store,
                                    where that is more and they store more than all arguments have

A report is the word of a process that ran student code, so the counters are held against what the
case's bytes require.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from grader.cases import Case
from grader.evidence import LineCounters, MemoryEvidence, Metric
from grader.spec import ITEMSIZE, Tensor
from grader.spec.task import Task
from grader.status import Status

MAX_LINES = 200  # rows kept in evidence
KINDS = ("load", "store")  # of accesses whose sectors a spec bounds
MOST_ASIDE = Fraction(1, 8)  # that copies or atomics may move where sectors of kernels are judged
MOST_AGAIN = Fraction(1, 4)  # of the inputs' bytes, that kernels may load again from scratch
_USEFUL = "useful_bytes_per_sector"
_NAMES = {
    f"{_USEFUL}.load": "useful bytes per sector of loads",
    f"{_USEFUL}.store": "useful bytes per sector of stores",
    "largest_share": "the busiest's share",
    "simt_efficiency": "the share of threads that take part",
}
CUT = "the run has more counters than fit into one answer"
_ADDED_UP = ("requests", "sectors", "useful_bytes", "wavefronts", "conflicts", "masked")


@dataclass(frozen=True)
class Traffic:
    """Bytes that one call moves in global memory, by how they are moved."""

    load: int  # by loads of kernels
    store: int
    atomic: int
    copied: float  # by copies; math.inf where nobody has counted them

    @property
    def all(self) -> int:
        """Bytes that kernels move."""
        return self.load + self.store + self.atomic

    @property
    def written(self) -> int:
        """Bytes that kernels store or add."""
        return self.store + self.atomic

    @classmethod
    def of(cls, sites: Iterable[Any], copied: float) -> Traffic:
        """The traffic of places that access global memory, from either executor's report."""
        moved = dict.fromkeys((*KINDS, "atomic"), 0)
        for site in sites:
            moved[site.kind] += site.useful_bytes
        return cls(**moved, copied=copied)

    def scratch(self, kind: str, buffers: Sequence[Any]) -> int:
        """Bytes loaded or stored, by atomics too, beside the arguments of a report."""
        of_arguments: int = sum(getattr(buffer, f"{kind}_bytes") for buffer in buffers)
        in_all: int = getattr(self, kind) + self.atomic
        return in_all - of_arguments

    def disagreement(self, buffers: Sequence[Any]) -> str:
        """Why this and the counters of a report's arguments can't both be right, or ""."""
        for kind in KINDS:
            if (beside := self.scratch(kind, buffers)) < 0:
                in_all = getattr(self, kind) + self.atomic
                return (
                    f"the counters don't agree: kernels {kind} {in_all:,} bytes in all, "
                    f"but {in_all - beside:,} of the arguments"
                )
        return ""


def useful_bytes(kind: str, sites: Sequence[Any], counter: str) -> Iterator[Metric]:
    """Distinct bytes for each sector that the sites of one kind move, if they move any.

    `counter` says what counts them: "{} sectors".
    """
    if sectors := sum(site.sectors for site in sites):
        useful = sum(site.useful_bytes for site in sites)
        words = f"{useful} bytes / {counter.format(sectors)}"
        yield Metric(f"{_USEFUL}.{kind}", useful / sectors, words)


def reads(
    buffers: Sequence[Any], traffic: Traffic, task: Task, case: Case, returned: int = 0
) -> Iterator[Metric]:
    """How often each input on the device is loaded from global memory.

    What kernels load from scratch, or from an output, more often than it was stored there may be a
    copy of any input, so all of them are read that much more often. Partial results are loaded
    once, and a few that each block loads anew, as sums of the blocks before it, don't count.
    Atomics count as loads and as stores, and so cancel out: `returned` are the bytes that they
    found and kernels use, where that is known.
    """
    loaded = {buffer.argument: buffer.load_bytes for buffer in buffers}
    stored = {buffer.argument: buffer.store_bytes for buffer in buffers}
    tensors = list(tensors_of(task, case))
    inputs = input_bytes(task, case)
    again = returned
    again += max(0, traffic.scratch("load", buffers) - traffic.scratch("store", buffers))
    for index, tensor, _ in tensors:
        if not tensor.is_input:
            again += max(0, loaded.get(index, 0) - stored.get(index, 0))
    again -= int(MOST_AGAIN * inputs)
    for index, tensor, size in tensors:
        if tensor.is_input and tensor.space == "device":
            count, words = loaded.get(index, 0) / size, f"{loaded.get(index, 0)} bytes of {size}"
            if again > 0:
                count += again / inputs
                words += f" + {again} bytes of scratch or outputs of {inputs}"
            yield Metric(f"reads.{tensor.name}", count, words)


def largest_share(largest_bytes: int, traffic: Traffic, task: Task, case: Case) -> Metric:
    """The part of a case's bytes that the busiest moves.

    One that does all of the work moves all that the case needs, however much others move beside it.
    """
    needed = sum(_needs(task, case).values())
    whole = min(traffic.all, needed or traffic.all)
    share = min(1, largest_bytes / whole) if whole else 0
    return Metric("largest_share", share, f"{largest_bytes} bytes of {whole}")


def shared_work(blocks: int, sites: Sequence[Any], lanes: tuple[int, int]) -> Iterator[Metric]:
    """How the work is shared: `sites` access global memory; `lanes` are those active, and all."""
    yield Metric("requests", sum(site.requests for site in sites))
    yield Metric("blocks", blocks)
    active, every = lanes
    if every:
        yield Metric("simt_efficiency", active / every, f"{active} of {every}")


def impossible_share(largest: int, moved: int, asked: int, sharers: int) -> str:
    """Why one of `sharers` can't have moved the `largest` bytes of a launch, or "".

    They ask for `asked` bytes in all, of which the hardware moves `moved`.
    """
    if largest <= moved and largest * sharers >= asked:
        return ""
    return (
        f"the counters don't agree: {sharers:,} threads or programs ask for {asked:,} bytes, of "
        f"which {moved:,} are moved, but the busiest is said to move {largest:,}"
    )


def judged(
    metrics: Iterable[Metric],
    traffic: Traffic,
    rows: Iterable[LineCounters],
    report: Any,
    task: Task,
    case: Case,
) -> MemoryEvidence:
    """The evidence of a run whose counters can be believed; `rows` may be many for a line."""
    reason = unearned(traffic, task, case)
    reason = reason and _repeated(report.buffers, task, case) + reason
    status = Status.target_missed if reason else Status.passed
    return MemoryEvidence(status, reason, str(case), tuple(metrics), by_line(rows))


def _repeated(buffers: Sequence[Any], task: Task, case: Case) -> str:
    """What explains too much traffic: each element of an output is stored by many; or ""."""
    who = "threads" if task.variant.language == "cuda" else "programs"
    stored = {buffer.argument: buffer.store_bytes for buffer in buffers}
    for index, tensor, size in tensors_of(task, case):
        times = stored.get(index, 0) / size
        if tensor.is_output and times >= 2:
            return (
                f"{who} do each other's work: every element of {tensor.name} is stored "
                f"{times:.3g} times (does the loop step by the number of all {who}?); "
            )
    return ""


def by_line(rows: Iterable[LineCounters]) -> tuple[LineCounters, ...]:
    """Counters added up by source line, kernel, space and access, in the order of the source."""
    groups: dict[tuple[int, str, str, str], list[LineCounters]] = defaultdict(list)
    for row in rows:
        groups[row.line, row.kernel, row.space, row.access].append(row)
    summed = []
    for group in groups.values():
        sums = {name: sum(getattr(row, name) for row in group) for name in _ADDED_UP}
        summed.append(replace(group[0], **sums, ways=max(row.ways for row in group)))
    heaviest = sorted(summed, key=lambda row: (-row.sectors - row.wavefronts, row.line))
    return tuple(sorted(heaviest[:MAX_LINES], key=lambda row: (row.line, row.space, row.access)))


def unearned(traffic: Traffic, task: Task, case: Case) -> str:
    """Why averages over a run's traffic say nothing about the work, or "".

    Where a spec bounds useful bytes per sector, copies or atomics may not do the work instead. Nor
    may other traffic lift that average, or lower the share of the busiest.
    """
    if (block := task.variant.memory) is None:
        return ""
    limited = block.limited_traffic()
    of_sectors = {kind for kind, bounds in limited.items() if f"{_USEFUL}.{kind}" in bounds}
    needs = _needs(task, case)
    for kind in sorted(of_sectors):
        if traffic.copied > MOST_ASIDE * needs[kind]:
            return "copies moved a part of the data: what counts here is what kernels move"
        if kind == "store" and traffic.atomic > MOST_ASIDE * needs[kind]:  # none loads an input
            return "atomics moved a part of the data: what counts here are loads and stores"
    for kind, bounds in limited.items():
        moved = getattr(traffic, kind) + (0 if kind in of_sectors else traffic.atomic)
        # Of inputs in host memory kernels can load a copy. A reduction's output is small beside
        # what its blocks add to it, and a share is one of loads and stores together.
        is_small = not needs[kind] or (kind == "store" and kind not in of_sectors)
        needed = max(needs.values()) if is_small else needs[kind]
        if moved > block.traffic_limit * needed:
            names = " and ".join(_NAMES[each] for each in bounds)
            origin = "most_traffic of the exercise" if block.most_traffic else "the default"
            return (
                f"kernels {kind} {moved:,} bytes where {needed:,} are needed, {moved / needed:.3g} "
                f"times as many (workspaces count), asked for: at most {block.traffic_limit:g} "
                f"times ({origin}); with more, {names} can't be judged"
            )
    return ""


def input_bytes(task: Task, case: Case) -> int:
    """The bytes of inputs on the device."""
    return _needs(task, case)["load"]


def _needs(task: Task, case: Case) -> dict[str, int]:
    """The bytes of arguments on the device that kernels have to load, and to store."""
    sizes = list(tensors_of(task, case))
    return {
        kind: sum(size for _, tensor, size in sizes if _is_side(tensor, kind)) for kind in KINDS
    }


def _is_side(tensor: Tensor, kind: str) -> bool:
    """Whether kernels have to load, or to store, all of a tensor."""
    return tensor.space == "device" and (tensor.is_input if kind == "load" else tensor.is_output)


def left_out(moved: Mapping[int, tuple[int, int]], copied: float, task: Task, case: Case) -> str:
    """Which tensor's bytes a run that did the work can't have left out, or "".

    `moved` are bytes loaded and stored by the argument's place, `copied` those of copies.
    """
    for index, tensor, size in tensors_of(task, case):
        loaded, stored = moved.get(index, (0, 0))
        for verb, count, is_needed in (
            ("loaded", loaded, tensor.is_input and tensor.space == "device"),
            ("stored", stored, tensor.is_output),
        ):
            if is_needed and count + copied < size:
                return (
                    f"the counters can't be complete: {tensor.name} has {size:,} bytes and the "
                    f"result is right, but only {count:,} were {verb}"
                )
    return ""


def tensors_of(task: Task, case: Case) -> Iterator[tuple[int, Tensor, int]]:
    """(place in the signature, tensor, bytes of its elements) for a case."""
    for index, argument in enumerate(task.signature):
        if isinstance(argument, Tensor):
            shape = argument.concrete_shape(dict(case.sizes))
            yield index, argument, math.prod(shape) * ITEMSIZE[argument.concrete_dtype(case.dtype)]

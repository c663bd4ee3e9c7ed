"""How a kernel uses memory: metrics from counters, which scoring/memory_bounds.py judges.

The counters come from the emulator's report or from ncu; a metric goes under the key that bounds it
in a spec's memory block and names the counters of ncu's that it is made of:

    useful_bytes_per_sector.load    distinct bytes asked for per 32-byte sector moved, global loads
    useful_bytes_per_sector.store   the same of global stores
    shared_bank_conflicts           wavefronts beyond those that an access without conflicts needs
    copies, bytes_copied            between host and device
    scratch_stores                  bytes that kernels store to global memory beside the arguments
    reads.NAME                      bytes loaded from an argument, over the argument's size

For Triton kernels they come from another executor: see triton_metrics.py, which adds

    scratch_bytes                   of tensors that the entry brings beside its arguments
    wave_bytes.distinct             distinct bytes loaded by programs that run at once
    wave_bytes.to_row_major         the same, over those of tiles in row-major order
    growth.tile, growth.scratch     largest block and scratch at four times the sizes, over before

memory_use.py decides which runs are measured: beside the spec's case one of other sizes, and each
configuration of a tuned kernel. The worst of them counts.

The emulator's counters are the word of a process that ran student code, so `implausible` holds them
against what the case's bytes require.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from grader.cases import Case
from grader.emulator.report import Report, SiteCounters, status_name_of
from grader.evidence import LineCounters, MemoryEvidence, Metric
from grader.spec import ITEMSIZE, Tensor
from grader.spec.task import Task
from grader.status import Status

MAX_LINES = 200  # rows kept in evidence

_USEFUL = "useful_bytes_per_sector"

Lines = Mapping[int, int | None]  # source lines, by the pc of a site

_SECTORS = {"load": "op_ld", "store": "op_st"}
_CONFLICTS = {**_SECTORS, "atomic": "op_atom"}
# Of what a case needs: up to here traffic beside that of the work leaves an average as it is. With
# twice the bytes, the rest in whole sectors, only an average of 28.2 bytes is lifted to 30. A spec
# whose kernels have to go over their data more often says so: `most_traffic`.
MOST_TRAFFIC = 2
MOST_ASIDE = Fraction(1, 8)  # that copies or atomics may move where sectors of kernels are judged


@dataclass(frozen=True)
class Traffic:
    """Bytes that one call moves in global memory, by how they are moved."""

    load: int  # by loads of kernels
    store: int
    atomic: int
    copied: float  # by copies; math.inf where nobody has counted them

    @classmethod
    def of(cls, sites: Iterable[Any], copied: float) -> Traffic:
        """That of the places that access global memory, in either executor's report."""
        moved = dict.fromkeys(_CONFLICTS, 0)
        for site in sites:
            moved[site.kind] += site.useful_bytes
        return cls(**moved, copied=copied)

    def disagreement(self, buffers: Sequence[Any]) -> str:
        """Why this and the counters of a report's arguments can't both be right, or ""."""
        for kind in _SECTORS:
            in_all = getattr(self, kind) + self.atomic
            of_arguments = sum(getattr(buffer, f"{kind}_bytes") for buffer in buffers)
            if of_arguments > in_all:
                return (
                    f"the counters don't agree: kernels {kind} {in_all:,} bytes in all, "
                    f"but {of_arguments:,} of the arguments"
                )
        return ""


# --- measuring ------------------------------------------------------------------------------------


def measure(report: Report, lines: Lines, task: Task, case: Case) -> MemoryEvidence:
    """What the report of one call says about memory; `lines` has source lines by the pc of a site.

    Not measured, with the reason, where the report is incomplete or can't be true; a finding's
    status where the run found something wrong.
    """
    name = str(case)
    if report.findings:
        first = report.findings[0]
        status = Status(status_name_of(first.kind))
        return MemoryEvidence(status, f"the counted run ended in: {status.headline}", name)
    if report.error or report.lost:
        reason = f"the counted run ended in CUDA error {report.error}"
        return MemoryEvidence(Status.launch_error, reason, name)
    if report.cut:
        reason = "the run has more counters than fit into one answer"
        return MemoryEvidence(Status.not_measured, reason, name)
    reason = implausible(report, task, case)
    if reason:
        return MemoryEvidence(Status.not_measured, reason, name)
    metrics = tuple(_metrics(report, task, case))
    reason = unearned(_traffic(report), task, case)
    status = Status.target_missed if reason else Status.passed
    return MemoryEvidence(status, reason, name, metrics, lines_of(report, lines))


def _metrics(report: Report, task: Task, case: Case) -> Iterator[Metric]:
    sites = [site for launch in report.launches for site in launch.sites]
    for kind, op in _SECTORS.items():
        of_kind = [site for site in sites if (site.space, site.kind) == ("global", kind)]
        counter = f"l1tex__t_sectors_pipe_lsu_mem_global_{op}.sum = {{}}"
        yield from useful_bytes(kind, of_kind, counter)
    shared = [site for site in sites if site.space == "shared"]
    has_atomics = any(site.kind == "atomic" for site in shared)
    by_kind = {
        op: sum(site.conflicts for site in shared if site.kind == kind)
        for kind, op in (_CONFLICTS if has_atomics else _SECTORS).items()
    }
    yield Metric(
        "shared_bank_conflicts",
        sum(by_kind.values()),
        " + ".join(
            f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_{op}.sum = {conflicts}"
            for op, conflicts in by_kind.items()
        ),
    )
    yield Metric("copies", report.copies.host_to_device + report.copies.device_to_host)
    yield Metric("bytes_copied", report.copies.bytes)
    moved = _traffic(report)
    stored = moved.store + moved.atomic
    to_arguments = sum(buffer.store_bytes for buffer in report.buffers)
    yield Metric("scratch_stores", stored - to_arguments, f"{stored} bytes - {to_arguments}")
    yield from reads(report.buffers, task, case)


def useful_bytes(kind: str, sites: Sequence[Any], counter: str) -> Iterator[Metric]:
    """Distinct bytes for each sector that the sites of one kind move, if they move any.

    `counter` says what counts them: "{} sectors".
    """
    if sectors := sum(site.sectors for site in sites):
        useful = sum(site.useful_bytes for site in sites)
        words = f"{useful} bytes / {counter.format(sectors)}"
        yield Metric(f"{_USEFUL}.{kind}", useful / sectors, words)


def reads(buffers: Sequence[Any], task: Task, case: Case) -> Iterator[Metric]:
    """How often each input on the device is loaded from global memory."""
    loaded = {buffer.argument: buffer.load_bytes for buffer in buffers}
    for index, tensor, size in tensors_of(task, case):
        if tensor.is_input and tensor.space == "device":
            bytes_ = loaded.get(index, 0)
            yield Metric(f"reads.{tensor.name}", bytes_ / size, f"{bytes_} bytes of {size}")


def lines_of(report: Report, lines: Lines) -> tuple[LineCounters, ...]:
    """Counters by source line, kernel, space and kind of access, in the order of the source."""
    rows: dict[tuple[int, str, str, str], list[SiteCounters]] = defaultdict(list)
    for launch in report.launches:
        for site in launch.sites:
            if site.space in ("global", "shared"):
                key = (lines.get(site.pc) or 0, launch.kernel, site.space, site.kind)
                rows[key].append(site)
    summed = [
        LineCounters(
            line,
            kernel,
            sites[0].space,
            sites[0].kind,
            requests=sum(site.requests for site in sites),
            sectors=sum(site.sectors for site in sites),
            useful_bytes=sum(site.useful_bytes for site in sites),
            wavefronts=sum(site.wavefronts for site in sites),
            conflicts=sum(site.conflicts for site in sites),
            ways=max(site.ways for site in sites),
        )
        for (line, kernel, _, _), sites in rows.items()
    ]
    heaviest = sorted(summed, key=lambda row: (-row.sectors - row.wavefronts, row.line))
    return tuple(sorted(heaviest[:MAX_LINES], key=lambda row: (row.line, row.space, row.access)))


def implausible(report: Report, task: Task, case: Case) -> str:
    """Why the counters can't be those of a run that did the work, or "".

    Every byte of an input on the device must have been loaded, and every byte of an output stored,
    unless it was copied. An input in host memory may be needed in part only, so its output
    is what counts.
    """
    moved = {each.argument: (each.load_bytes, each.store_bytes) for each in report.buffers}
    missing = left_out(moved, _traffic(report).copied, task, case)
    return missing or _traffic(report).disagreement(report.buffers)


def _traffic(report: Report) -> Traffic:
    """What a call in the emulator moves. The bytes of copies within the device aren't counted."""
    sites = [s for launch in report.launches for s in launch.sites if s.space == "global"]
    within = report.copies.device_to_device
    return Traffic.of(sites, copied=math.inf if within else report.copies.bytes)


def unearned(traffic: Traffic, task: Task, case: Case) -> str:
    """Why the average over a run's sectors says nothing about the work, or "".

    Where a spec bounds useful bytes per sector, they are to be those of kernels that do the work:
    not those of a show beside copies or atomics, nor an average that other traffic has lifted.
    """
    block = task.variant.memory
    if block is None:
        return ""
    kinds = {path[1] for path, _ in block.bounds() if path[0] == _USEFUL}
    sizes = list(tensors_of(task, case))
    factor = block.most_traffic or MOST_TRAFFIC
    for kind in sorted(kinds):
        needed = sum(size for _, tensor, size in sizes if _is_side(tensor, kind))
        if traffic.copied > MOST_ASIDE * needed:
            return "copies moved a part of the data: what counts here is what kernels move"
        if traffic.atomic > MOST_ASIDE * needed:
            return "atomics moved a part of the data: what counts here are loads and stores"
        moved = getattr(traffic, kind)
        if moved > factor * needed:
            return (
                f"kernels {kind} {moved:,} bytes where {needed:,} are needed: the average over so "
                "much else says nothing about the work"
            )
    return ""


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

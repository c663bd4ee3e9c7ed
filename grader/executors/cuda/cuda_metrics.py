"""Metrics of CUDA C++ kernels, from the emulator's report of one call (see memory_metrics.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from grader.cases import Case
from grader.emulator.report import (
    WARP_LANES,
    LaunchCounters,
    Report,
    SiteCounters,
    status_name_of,
)
from grader.evidence import LineCounters, MemoryEvidence, Metric
from grader.executors import memory_metrics
from grader.executors.memory_metrics import Traffic
from grader.plan import Plan
from grader.plan.model import Launch
from grader.spec.formula import Formula
from grader.spec.task import Task
from grader.status import Status

NONE = Formula(0)
# One turn in so many requests to global memory doesn't count. A tile whose lanes take turns has at
# least one in two.
FEW = 16
# Times that elements which are only moved may be loaded from shared memory, each.
MOST_LOADS = 4
Lines = Mapping[int, int | None]  # source lines, by the pc of a site
_NCU = {
    "load": "op_ld",
    "store": "op_st",
    "atomic": "op_atom",
}  # kinds of access, as ncu names them


def measure(
    report: Report, lines: Lines, task: Task, case: Case, plan: Plan | None = None
) -> MemoryEvidence:
    """The evidence of one call; `lines` has source lines by the pc of a site.

    The launches of a report have to be some of the `plan`, where it is given.

    Not measured, with the reason, where the report is incomplete or can't be true; a finding's
    status where the run found something wrong.
    """
    name = str(case)
    if report.findings:
        status = Status(status_name_of(report.findings[0].kind))
        return MemoryEvidence(status, f"the counted run ended in: {status.headline}", name)
    if report.error or report.lost:
        reason = f"the counted run ended in CUDA error {report.error}"
        return MemoryEvidence(Status.launch_error, reason, name)
    if reason := memory_metrics.CUT if report.cut else implausible(report, task, case, plan):
        return MemoryEvidence(Status.not_measured, reason, name)
    metrics = _metrics(report, task, case)
    return memory_metrics.judged(metrics, _traffic(report), rows(report, lines), report, task, case)


def _metrics(report: Report, task: Task, case: Case) -> Iterator[Metric]:
    sites = [site for launch in report.launches for site in launch.sites]
    for kind in ("load", "store"):
        of_kind = [site for site in sites if (site.space, site.kind) == ("global", kind)]
        counter = f"l1tex__t_sectors_pipe_lsu_mem_global_{_NCU[kind]}.sum = {{}}"
        yield from memory_metrics.useful_bytes(kind, of_kind, counter)
    largest = sum(launch.largest_bytes for launch in report.launches)
    blocks = max((launch.storing_blocks for launch in report.launches), default=0)
    of_global = [site for site in sites if site.space == "global"]
    # Accesses to shared memory may only lower the share: whole warps' would lift it for nothing.
    lanes = min(_lanes(of_global), _lanes(sites), key=lambda each: each[0] / (each[1] or 1))
    moved = _traffic(report)
    yield memory_metrics.largest_share(largest, moved, task, case)
    yield from memory_metrics.shared_work(blocks, of_global, lanes)
    conflicts = {"load": 0, "store": 0}
    for site in sites:
        if site.space == "shared":
            conflicts[site.kind] = conflicts.get(site.kind, 0) + site.conflicts
    words = [
        f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_{_NCU[kind]}.sum = {count}"
        for kind, count in conflicts.items()
    ]
    memory = task.variant.memory
    bound = memory.shared_bank_conflicts if memory else None
    # A bound above 0 leaves room for what few lanes of a warp do. One of 0 leaves it for a thread
    # that tells its block some numbers.
    turns = sum(map(_turns, sites)) if bound and bound.at_most == NONE else 0
    if bound and bound.at_most == NONE and task.exercise.moves_data:
        turns += _loads_again(sites, moved.written)
    if FEW * turns <= sum(site.requests for site in of_global):
        turns = 0
    else:
        words.append(f"{turns} wavefronts of lanes that take turns")
    yield Metric("shared_bank_conflicts", sum(conflicts.values()) + turns, " + ".join(words))
    yield Metric("copies", report.copies.host_to_device + report.copies.device_to_host)
    yield Metric("bytes_copied", report.copies.bytes)
    stored, beside = moved.written, moved.scratch("store", report.buffers)
    yield Metric("scratch_stores", beside, f"{stored} bytes - {stored - beside}")
    yield from memory_metrics.reads(report.buffers, moved, task, case)


def _lanes(sites: Sequence[SiteCounters]) -> tuple[int, int]:
    """The threads that take part in the accesses of warps, and all threads of these warps.

    In shared memory both are counted for each word of four bytes, so that a lone thread's wide
    accesses weigh as much as narrow ones that move the same.
    """
    active = every = 0
    for site in sites:
        if site.space in ("global", "shared"):
            words = max(1, site.bytes // 4) if site.space == "shared" else 1
            active += words * site.lanes
            every += words * WARP_LANES * site.requests
    return active, every


def _turns(site: SiteCounters) -> int:
    """Wavefronts beyond those that whole warps need, where lanes access shared memory in turn.

    A request of one lane has no bank conflict, and takes as long as the wavefront that it avoids.
    """
    if site.space != "shared" or 2 * site.lanes > WARP_LANES * site.requests:
        return 0
    needed = math.ceil(max(1, site.bytes // 4) * site.lanes / WARP_LANES)
    return max(0, site.wavefronts - site.conflicts - needed)


def _loads_again(sites: Sequence[SiteCounters], moved: int) -> int:
    """Wavefronts of whole warps that load each other's elements, where `moved` bytes are stored.

    A warp whose threads all load the word of one of them, in turn, has no bank conflict either.
    """
    shared = [site for site in sites if (site.space, site.kind) == ("shared", "load")]
    loaded = sum(site.lanes * site.bytes for site in shared)
    return max(0, loaded - MOST_LOADS * moved) // (4 * WARP_LANES)


def rows(report: Report, lines: Lines) -> Iterator[LineCounters]:
    """The counters of each site, with its source line."""
    for launch in report.launches:
        for site in launch.sites:
            if site.space in ("global", "shared"):
                yield LineCounters(
                    lines.get(site.pc) or 0,
                    launch.kernel,
                    site.space,
                    site.kind,
                    site.requests,
                    site.sectors,
                    site.useful_bytes,
                    site.wavefronts,
                    site.conflicts,
                    site.ways,
                )


def implausible(report: Report, task: Task, case: Case, plan: Plan | None = None) -> str:
    """Why the counters can't be those of a run that did the work, or "".

    Every byte of an input on the device must have been loaded, and every byte of an output stored,
    unless it was copied. Of an input in host memory a part may be enough.
    """
    moved = {each.argument: (each.load_bytes, each.store_bytes) for each in report.buffers}
    traffic = _traffic(report)
    missing = memory_metrics.left_out(moved, traffic.copied, task, case)
    return (
        missing
        or traffic.disagreement(report.buffers)
        or next(filter(None, map(_impossible_share, report.launches)), "")
        or ("" if plan is None else _unplanned(report, plan))
    )


def _unplanned(report: Report, plan: Plan) -> str:
    """Why the report's counters can't be right: it has a launch that the plan lacks; or ""."""
    planned = {(step.grid, step.block) for step in plan.calls[0] if isinstance(step, Launch)}
    for launch in report.launches:
        if (launch.grid, launch.block) not in planned:
            return (
                f"the counters can't be right: no launch of {launch.grid} blocks of "
                f"{launch.block} threads was planned"
            )
    return ""


def _impossible_share(launch: LaunchCounters) -> str:
    """Why one thread of a launch can't have moved the bytes that it is said to move, or ""."""
    sites = [site for site in launch.sites if site.space == "global"]
    return memory_metrics.impossible_share(
        launch.largest_bytes,
        sum(site.useful_bytes for site in sites),
        sum(site.lanes * site.bytes for site in sites),
        math.prod(launch.grid) * math.prod(launch.block),
    )


def _traffic(report: Report) -> Traffic:
    """The traffic of a call in the emulator, which counts no bytes of copies within the device."""
    sites = [s for launch in report.launches for s in launch.sites if s.space == "global"]
    within = report.copies.device_to_device
    return Traffic.of(sites, copied=math.inf if within else report.copies.bytes)

"""Metrics of Triton kernels, from the executor's report of one call (see memory_metrics.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from grader.cases import Case
from grader.evidence import LineCounters, MemoryEvidence, Metric
from grader.executors import memory_metrics
from grader.executors.memory_metrics import Traffic
from grader.executors.triton.triton_report import (
    Finding,
    Report,
    SiteCounters,
    WaveCounters,
    message_of,
)
from grader.spec.task import Task
from grader.status import Status

# Programs load no more than so many times what their launch does: what they share is at the edges.
_HARDLY_SHARED = Fraction(9, 8)
_FEW = Fraction(1, 8)  # of the inputs' bytes, by launches whose order isn't judged
_STATUS_OF = {
    "out_of_bounds_read": Status.invalid_read,
    "out_of_bounds_write": Status.wrote_out_of_bounds,
    "modified_input": Status.modified_input,
    "misaligned": Status.misaligned_access,
    "misaligned_tensor": Status.misaligned_access,
    "device_assert": Status.crashed,
    "false_assumption": Status.crashed,
    "data_race": Status.data_race,
    "store_conflict": Status.data_race,
    "uninitialised_read": Status.uninitialised_read,
    "gathered_outside": Status.uninitialised_read,
}


def status_of(finding: Finding) -> Status:
    """The status of a case with a finding."""
    return _STATUS_OF[finding.kind]


def worst_of(findings: Sequence[Finding]) -> Finding:
    """The gravest of some findings, at least one."""
    return min(findings, key=lambda each: list(Status).index(status_of(each)))


def measure(
    report: Report,
    task: Task,
    case: Case,
    source: Sequence[str] = (),
    grown: tuple[Case, Report] | None = None,
) -> MemoryEvidence:
    """The evidence of one call; `grown` is the report of a call on larger sizes.

    Not measured, with the reason, where a report is incomplete or can't be true; a finding's
    status where a run found something wrong.
    """
    name = str(case)
    for each, counted in [(case, report), *([grown] if grown else [])]:
        if counted.findings:
            worst = worst_of(counted.findings)
            what, _ = message_of(worst, arguments(task, each), task.variant.file, source)
            return MemoryEvidence(status_of(worst), f"the counted run: {what}", str(each))
        if reason := memory_metrics.CUT if counted.cut else implausible(counted, task, each):
            return MemoryEvidence(Status.not_measured, reason, name)
    metrics = list(_metrics(report, task, case))
    if grown is not None:
        metrics += _growth(task, (case, report), grown)
    return memory_metrics.judged(metrics, _traffic(report), rows(report), report, task, case)


def _traffic(report: Report) -> Traffic:
    """The traffic of kernels. The rules on plans refuse copies that could do their work."""
    return Traffic.of(report.sites, copied=0)


def arguments(task: Task, case: Case) -> list[tuple[str, int]]:
    """(name, bytes) of each argument of the entry, 0 bytes for scalars."""
    sizes = {index: size for index, _, size in memory_metrics.tensors_of(task, case)}
    return [(argument.name, sizes.get(index, 0)) for index, argument in enumerate(task.signature)]


def _metrics(report: Report, task: Task, case: Case) -> Iterator[Metric]:
    for kind in ("load", "store"):
        of_kind = [site for site in report.sites if site.kind == kind]
        yield from memory_metrics.useful_bytes(kind, of_kind, "{} sectors")
    traffic = _traffic(report)
    yield from memory_metrics.reads(report.buffers, traffic, task, case, report.returned_bytes)
    yield memory_metrics.largest_share(report.largest_footprint, traffic, task, case)
    lanes = sum(site.lanes for site in report.sites)
    every = lanes + sum(site.masked for site in report.sites)
    yield from memory_metrics.shared_work(report.storing_programs, report.sites, (lanes, every))
    yield Metric("scratch_bytes", report.scratch_bytes)
    yield Metric("largest_tile", report.largest_tile, f"elements, line {report.tile_line}")
    yield from _waves([launch for launch in report.waves if launch.waves], task, case)


def _waves(launches: Sequence[WaveCounters], task: Task, case: Case) -> Iterator[Metric]:
    """What programs that run at once load: the most bytes of a launch, and the worst order."""
    if not launches:
        return
    heaviest = max(launches, key=lambda launch: launch.bytes)
    words = f"{heaviest.bytes} bytes in {heaviest.waves} waves"
    yield Metric("wave_bytes.distinct", heaviest.bytes / heaviest.waves, words)
    ordered = list(_ordered(launches, memory_metrics.input_bytes(task, case))) or [heaviest]
    if all(launch.row_major_bytes for launch in ordered):
        worst = max(ordered, key=lambda launch: Fraction(launch.bytes, launch.row_major_bytes))
        words = f"{worst.bytes} bytes / {worst.row_major_bytes} bytes"
        yield Metric("wave_bytes.to_row_major", worst.bytes / worst.row_major_bytes, words)


def _ordered(launches: Sequence[WaveCounters], inputs: int) -> Iterator[WaveCounters]:
    """The launches in which the order of programs matters: several load the same.

    Without the smallest, as of the edges, which together load few of the `inputs` bytes. The others
    all count, so that none with a good order can stand for the one that does the work.
    """
    passed_over = 0
    for launch in sorted(launches, key=lambda each: each.bytes):
        if launch.asked_bytes <= _HARDLY_SHARED * launch.distinct_bytes:
            continue
        passed_over += launch.distinct_bytes
        if passed_over > _FEW * inputs:
            yield launch


def _growth(
    task: Task, before: tuple[Case, Report], after: tuple[Case, Report]
) -> Iterator[Metric]:
    small, (case, large) = before[1], after
    yield _ratio("growth.tile", "elements", small.largest_tile, large.largest_tile)
    scratch = [_ratio("growth.scratch", "bytes", small.scratch_bytes, large.scratch_bytes)]
    # What an entry allocates may be the same for all sizes, and more than all need.
    was, used = small.scratch_stored_bytes, large.scratch_stored_bytes
    scratch.append(_ratio("growth.scratch", "bytes of scratch stored to", was, used))
    # A part of the scratch memory can be stored to again and again, and so can an output.
    stored = _traffic(large).written
    if stored > sum(size for _, _, size in memory_metrics.tensors_of(task, case)):
        was = _traffic(small).written
        scratch.append(_ratio("growth.scratch", "bytes stored", was, stored))
    yield max(scratch, key=lambda metric: metric.value)


def _ratio(name: str, unit: str, before: int, after: int) -> Metric:
    return Metric(name, after / max(before, 1), f"{after} {unit} / {before} {unit}")


def rows(report: Report) -> Iterator[LineCounters]:
    """The counters of each site: the compiled kernel's, where all of the line's are known."""
    by_elements = {_key(site) for site in report.sites if site.compiled is None}
    for site in report.sites:
        is_compiled = _key(site) not in by_elements
        counted = site.compiled if is_compiled and site.compiled is not None else site
        yield LineCounters(
            site.line,
            site.kernel,
            "global",
            site.kind,
            counted.requests,
            counted.sectors,
            counted.useful_bytes,
            masked=site.masked,
            rule="compiled" if is_compiled else "elements",
        )


def _key(site: SiteCounters) -> tuple[int, str, str]:
    return site.line, site.kernel, site.kind


def implausible(report: Report, task: Task, case: Case) -> str:
    """Why the counters can't be those of a run that did the work, or "".

    Every element of an input must have been loaded, unless PyTorch copied it, and every element of
    an output stored.
    """
    moved = {
        each.argument: (each.distinct_load_bytes, each.distinct_store_bytes)
        for each in report.buffers
    }
    if missing := memory_metrics.left_out(moved, report.copied_bytes, task, case):
        return missing
    for index, tensor, size in memory_metrics.tensors_of(task, case):
        if max(moved.get(index, (0, 0))) > size:
            return f"the counters can't be right: {tensor.name} has {size:,} bytes, not more"
    traffic = _traffic(report)
    return traffic.disagreement(report.buffers) or memory_metrics.impossible_share(
        report.largest_bytes, traffic.all, traffic.all, report.programs
    )

"""How Triton kernels use memory: metrics from what the executor saw of one call.

The metrics are named in memory.py, which also holds them against the bounds of a spec. A second
call at four times the sizes shows what grows. The counters are the word of an untrusted process, so
`implausible` holds them against what the case's bytes require.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from grader.cases import Case
from grader.evidence import LineCounters, MemoryEvidence, Metric
from grader.executors.cuda_metrics import MAX_LINES, Traffic, tensors_of, too_few, unearned
from grader.executors.triton_report import (
    CompiledCounters,
    Finding,
    Report,
    SiteCounters,
    message_of,
)
from grader.spec import Exercise, Variant
from grader.status import Status

_Kind = Literal["load", "store", "atomic"]

_STATUS_OF = {
    "out_of_bounds_read": Status.invalid_read,
    "out_of_bounds_write": Status.wrote_out_of_bounds,
    "modified_input": Status.modified_input,
    "misaligned": Status.misaligned_access,
    "device_assert": Status.crashed,
    "data_race": Status.data_race,
    "uninitialised_read": Status.uninitialised_read,
}


def status_of(finding: Finding) -> Status:
    """The status that a finding means."""
    return _STATUS_OF[finding.kind]


def worst_of(findings: Sequence[Finding]) -> Finding:
    """The gravest of some findings, at least one."""
    return min(findings, key=lambda found: list(Status).index(status_of(found)))


def measure(
    report: Report,
    exercise: Exercise,
    variant: Variant,
    case: Case,
    source: Sequence[str] = (),
    grown: tuple[Case, Report] | None = None,
) -> MemoryEvidence:
    """What the report of one call says about memory; `grown` is that of a call on larger sizes.

    Not measured, with the reason, where a report is incomplete or can't be true; a finding's
    status where a run found something wrong.
    """
    told = str(case)
    for each, seen in [(case, report), *([grown] if grown else [])]:
        if seen.findings:
            worst = worst_of(seen.findings)
            what, _ = message_of(worst, arguments(exercise, variant, each), variant.file, source)
            return MemoryEvidence(status_of(worst), f"the counted run: {what}", str(each))
        if seen.cut:
            reason = "the run has more counters than fit into one answer"
            return MemoryEvidence(Status.not_measured, reason, told)
        if reason := implausible(seen, exercise, variant, each):
            return MemoryEvidence(Status.not_measured, reason, told)
    metrics = [*_metrics(report, exercise, variant, case)]
    if grown is not None:
        metrics += _growth(report, grown[1])
    reason = unearned(_traffic(report), exercise, variant, case)
    status = Status.target_missed if reason else Status.passed
    return MemoryEvidence(status, reason, told, tuple(metrics), lines_of(report))


def _traffic(report: Report) -> Traffic:
    """What kernels move. Where a copy could do their work, the rules on plans have refused it."""
    return Traffic.of(report.sites, copied=0)


def arguments(exercise: Exercise, variant: Variant, case: Case) -> list[tuple[str, int]]:
    """(name, bytes) of each argument of the entry, 0 bytes for scalars."""
    sizes = {index: size for index, _, size in tensors_of(exercise, variant, case)}
    return [
        (argument.name, sizes.get(index, 0))
        for index, argument in enumerate(exercise.signature(variant))
    ]


def _metrics(report: Report, exercise: Exercise, variant: Variant, case: Case) -> Iterator[Metric]:
    for kind in ("load", "store"):
        sectors = sum(site.sectors for site in report.sites if site.kind == kind)
        useful = sum(site.useful_bytes for site in report.sites if site.kind == kind)
        if sectors:
            name = f"useful_bytes_per_sector.{kind}"
            yield Metric(name, useful / sectors, f"{useful} bytes / {sectors} sectors")
    loaded = {buffer.argument: buffer.load_bytes for buffer in report.buffers}
    for index, tensor, size in tensors_of(exercise, variant, case):
        if tensor.is_input:
            bytes_ = loaded.get(index, 0)
            yield Metric(f"reads.{tensor.name}", bytes_ / size, f"{bytes_} bytes of {size}")
    yield Metric("scratch_bytes", report.scratch_bytes)
    yield Metric("largest_tile", report.largest_tile, f"elements, line {report.tile_line}")
    waves = [launch for launch in report.waves if launch.waves]
    if waves:
        heaviest = max(waves, key=lambda launch: launch.bytes)
        told = f"{heaviest.bytes} bytes in {heaviest.waves} waves"
        yield Metric("wave_bytes.distinct", heaviest.bytes / heaviest.waves, told)
        if heaviest.row_major_bytes:
            told = f"{heaviest.bytes} bytes / {heaviest.row_major_bytes} bytes"
            ratio = heaviest.bytes / heaviest.row_major_bytes
            yield Metric("wave_bytes.to_row_major", ratio, told)


def _growth(before: Report, after: Report) -> Iterator[Metric]:
    for name, unit, small, large in (
        ("growth.tile", "elements", before.largest_tile, after.largest_tile),
        ("growth.scratch", "bytes", before.scratch_bytes, after.scratch_bytes),
    ):
        yield Metric(name, large / max(small, 1), f"{large} {unit} / {small} {unit}")


def lines_of(report: Report) -> tuple[LineCounters, ...]:
    """Counters by source line, kernel and kind of access, in the order of the source.

    They are the compiled kernel's where all of a line's are known.
    """
    rows: dict[tuple[int, str, _Kind], list[SiteCounters]] = defaultdict(list)
    for site in report.sites:
        rows[site.line, site.kernel, site.kind].append(site)
    summed = [_line(*key, sites) for key, sites in rows.items()]
    heaviest = sorted(summed, key=lambda row: (-row.sectors, row.line))
    return tuple(sorted(heaviest[:MAX_LINES], key=lambda row: (row.line, row.access)))


def _line(line: int, kernel: str, kind: _Kind, sites: Sequence[SiteCounters]) -> LineCounters:
    compiled = [site.compiled for site in sites if site.compiled is not None]
    is_compiled = len(compiled) == len(sites)
    counted: Sequence[SiteCounters | CompiledCounters] = compiled if is_compiled else sites
    return LineCounters(
        line,
        kernel,
        "global",
        kind,
        requests=sum(each.requests for each in counted),
        sectors=sum(each.sectors for each in counted),
        useful_bytes=sum(each.useful_bytes for each in counted),
        masked=sum(site.masked for site in sites),
        rule="compiled" if is_compiled else "elements",
    )


def implausible(report: Report, exercise: Exercise, variant: Variant, case: Case) -> str:
    """Why the counters can't be those of a run that did the work, or "".

    Every element of an input must have been loaded, unless PyTorch copied it, and every element of
    an output stored.
    """
    buffers = {buffer.argument: buffer for buffer in report.buffers}
    for index, tensor, size in tensors_of(exercise, variant, case):
        seen = buffers.get(index)
        loaded = seen.distinct_load_bytes if seen else 0
        stored = seen.distinct_store_bytes if seen else 0
        if tensor.is_input and loaded + report.copied_bytes < size:
            return too_few(tensor.name, size, "loaded", loaded)
        if tensor.is_output and stored + report.copied_bytes < size:
            return too_few(tensor.name, size, "stored", stored)
        if max(loaded, stored) > size:
            return f"the counters can't be right: {tensor.name} has {size:,} bytes, not more"
    return _traffic(report).disagreement(report.buffers)

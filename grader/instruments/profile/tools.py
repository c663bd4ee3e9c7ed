"""NVIDIA's own profilers, where they are installed: `ncu` for a kernel's counters, `nsys` for a
program's timeline.

Each is run on the same program once more; the command is kept, so that it can be typed.
"""

from __future__ import annotations

import csv
import io
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.instruments.profile.collect import PROFILED

NCU_SECONDS = 180
NSYS_SECONDS = 120
MOST_KERNELS = 12  # that ncu counts: it runs each several times

# What ncu calls it, and what it says.
METRICS = {
    "gpu__time_duration.sum": "the kernel's time, at the clock that ncu holds it to",
    "dram__bytes.sum": "bytes to and from the GPU's memory: compare them with what must move",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": (
        "how much of the memory's bandwidth it used"
    ),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": (
        "how much of the multiprocessors' arithmetic it used; if this and the memory's are both "
        "low, too little is in flight"
    ),
    "sm__warps_active.avg.pct_of_peak_sustained_active": (
        "the occupancy reached: of the 64 warps that an SM has room for"
    ),
    "launch__registers_per_thread": "registers of a thread: they bound the occupancy",
    "launch__waves_per_multiprocessor": (
        "how often all SMs were filled with blocks: at 1.1, a tenth of them runs alone at the end"
    ),
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": (
        "sectors of 32 bytes for each load of a warp: 4 for 4-byte loads and 16 for 16-byte ones "
        "where neighbours read neighbours"
    ),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": (
        "passes that shared memory took again, since threads met in one bank"
    ),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": (
        "warps that waited for global memory, for each instruction issued"
    ),
}


@dataclass(frozen=True)
class Counted:
    """One launch that ncu counted: values with their units, by metric."""

    kernel: str
    values: dict[str, str]


@dataclass(frozen=True)
class ToolReport:
    """What a tool said; `problem` is a line that says why it said nothing."""

    tool: str
    command: str = ""
    problem: str = ""
    counted: tuple[Counted, ...] = field(default=())
    written: Path | None = None


def ncu(program: Sequence[str], is_function: bool) -> ToolReport:
    """The counters of a program's first kernels, or of those in the range that calls a function."""
    within = ["--nvtx", "--nvtx-include", f"{PROFILED}/"] if is_function else []
    options = ["--csv", *within, "--launch-count", str(MOST_KERNELS)]
    line = ["ncu", *options, "--metrics", ",".join(METRICS), *program]
    report, done = _run(line, "it comes with NVIDIA's CUDA toolkit", NCU_SECONDS)
    if done is None:
        return report
    counted = read_ncu(done.stdout)
    return replace(report, problem="" if counted else _complaint(done), counted=counted)


def nsys(program: Sequence[str], out: Path) -> ToolReport:
    """A report of the program's timeline, for NVIDIA's viewer; `out` is without its ending."""
    options = ["--trace=cuda,nvtx", "--force-overwrite=true", f"--output={out}"]
    line = ["nsys", "profile", *options, *program]
    report, done = _run(line, "NVIDIA has it as Nsight Systems", NSYS_SECONDS)
    if done is None:
        return report
    written = out.with_name(f"{out.name}.nsys-rep")
    if not written.is_file():
        return replace(report, problem=f"it made no report: {_complaint(done)}")
    return replace(report, written=written)


def read_ncu(text: str) -> tuple[Counted, ...]:
    """The launches in what `ncu --csv` printed, in order."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    launches: dict[str, Counted] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        number, metric = row.get("ID"), row.get("Metric Name")
        if number is None or metric is None:
            continue
        launch = launches.setdefault(number, Counted(row.get("Kernel Name") or "", {}))
        unit = row.get("Metric Unit") or ""
        launch.values[metric] = f"{row.get('Metric Value') or ''} {unit}".strip()
    return tuple(launches.values())


def _run(
    line: Sequence[str], origin: str, seconds: float
) -> tuple[ToolReport, subprocess.CompletedProcess[str] | None]:
    """Run a tool, of which `origin` says where it comes from: its end, or a report of why not."""
    tool, *arguments = line
    path = shutil.which(tool)
    if path is None:
        return ToolReport(tool, problem=f"it isn't installed: {origin}"), None
    report, command = ToolReport(tool, shlex.join(line)), [path, *arguments]
    try:
        return report, subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        problem = f"it was not done after {seconds:.0f} s"
    except OSError as error:
        problem = f"it can't be run: {error.strerror}"
    return replace(report, problem=problem), None


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """What a tool gives as its reason: its own error line, else its last."""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("==ERROR==") or "error" in line.lower()]
    said = (own or lines or ["it said nothing"])[0 if own else -1]
    return f"{said[:200]} (status {done.returncode})"

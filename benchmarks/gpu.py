"""Everything that needs a GPU, in one run: a table of steps, their times and results.

    python benchmarks/gpu.py [STEP]... [--out FOLDER] [--jobs N] [--limit S] [--list]

Each step is a process of its own with a time limit; its output goes to FOLDER/STEP.txt. A failed
step doesn't stop the others, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grader.gpu import machine

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
COPIES = "{jobs}"
# Failures are printed at once, so that the output of a step that is cut off has them.
PYTEST = [PYTHON, "-m", "pytest", "-v", "--tb=short", "--durations=12", "-m", "gpu"]
PYTEST += ["-p", "benchmarks.failures_at_once", "-n", COPIES, "--dist", "worksteal"]


@dataclass(frozen=True)
class Step:
    """One process: its command, and the seconds it may take."""

    name: str
    command: tuple[str, ...]
    seconds: float

    def line(self, jobs: int) -> list[str]:
        """The command line, with so many parallel tests."""
        return [word.format(jobs=jobs) if word == COPIES else word for word in self.command]


def tests(name: str, *words: str, seconds: float = 300.0, beside: bool = True) -> Step:
    """A step of tests; those that time something run one after the other."""
    line = PYTEST if beside else [word for word in PYTEST if word not in ("-n", COPIES)]
    line = line if beside else [word for word in line if word not in ("--dist", "worksteal")]
    return Step(name, (*line, *words), seconds)


STEPS = (
    Step("doctor", (PYTHON, "-m", "grader", "doctor", "--gpu", "--again"), 120.0),
    tests(
        "clock",
        "tests/grader/gpu/test_onlooker.py",
        "tests/grader/timing/test_plans.py",
        "tests/grader/timing/test_baselines.py",
        "tests/grader/timing/test_roof_timing.py",
        "tests/grader/worker/test_replays.py",
        "tests/grader/cli/test_gpu_doctor.py",
        "tests/grader/staff/test_calibration.py",
        "tests/grader/executors/gpu/test_gpu_memory_shortage.py",
        "tests/grader/batch/test_gpus.py",
        beside=False,
    ),
    tests("cheats", "tests/grader/timing/test_clock_cheats.py", beside=False),
    Step("agreement", (PYTHON, "benchmarks/clock_agreement.py"), 180.0),
    Step("copies", (PYTHON, "benchmarks/copies.py"), 60.0),
    Step("costs", (PYTHON, "benchmarks/timing_costs.py"), 180.0),
    Step("repeated", (PYTHON, "benchmarks/repeated_grades.py"), 600.0),
    Step("kernels", (PYTHON, "benchmarks/reference_kernels.py"), 300.0),
    tests(
        "profile",
        "tests/grader/instruments/profile/test_profile.py",
        beside=False,
    ),
    Step("inspect", (PYTHON, "benchmarks/inspect_solutions.py"), 200.0),
    tests(
        "host",
        "tests/grader/executors/gpu/test_plan_files.py",
        "tests/grader/cases/test_gpu_arena.py",
        "tests/grader/sandbox/test_confinement.py",
    ),
    tests(
        "experts",
        "tests/reference/test_oracles.py",
        "tests/reference/test_expert_silu.py",
        "tests/reference/test_expert_rows.py",
        "tests/reference/test_expert_flash_attention.py",
        "tests/grader/grading/test_experts_graded.py",
    ),
    Step("reference", (PYTHON, "benchmarks/whole_grade.py"), 300.0),
    tests("submissions", "tests/grader/grading/test_submissions.py", seconds=500.0),
    tests("cuda", "tests/grader/grading/test_cuda_submissions.py", seconds=500.0),
    tests(
        "attacks",
        "tests/grader/grading/test_attacks.py",
        "tests/grader/grading/test_cuda_attacks.py",
        seconds=500.0,
    ),
    tests("features", "tests/grader/emulator/test_features.py"),
    tests("handout", "tests/docs/test_documents.py", beside=False),  # its programs time kernels
)


def main() -> None:
    """Run the steps named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [step.name for step in STEPS]
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(names))
    parser.add_argument("--out", type=Path, default=Path("gpu-checks"))
    parser.add_argument("--jobs", type=int, default=12, help="tests side by side")
    parser.add_argument("--limit", type=float, metavar="S", help="seconds for each step, at most")
    parser.add_argument("--list", action="store_true", help="print the steps, and run nothing")
    given = parser.parse_args()
    if unknown := [each for each in given.steps if each not in names]:
        parser.error(f"expected steps among {', '.join(names)}, got {', '.join(unknown)}")
    if given.limit is not None and given.limit <= 0:
        parser.error(f"--limit: expected seconds above 0, got {given.limit:g}")
    chosen = [step for step in STEPS if not given.steps or step.name in given.steps]
    if given.list:
        for step in chosen:
            print(f"{step.name:12} {' '.join(step.line(given.jobs)[1:])}")
        return
    if machine.gpu_name() is None:
        raise SystemExit("No NVIDIA GPU that torch can use: there is nothing to check here.")
    if given.limit:
        chosen = [replace(step, seconds=min(step.seconds, given.limit)) for step in chosen]
    raise SystemExit(run(chosen, given.out, given.jobs))


def run(steps: list[Step], folder: Path, jobs: int) -> int:
    """Run the steps in order; 1 where one failed."""
    folder.mkdir(parents=True, exist_ok=True)
    table = Table("step", "seconds", "ended", "last line", title=machine.gpu_name())
    failed = 0
    for step in steps:
        output = folder / f"{step.name}.txt"
        started = time.monotonic()
        ended = _run(step.line(jobs), step.seconds, output)
        failed |= ended != "ok"
        table.add_row(step.name, f"{time.monotonic() - started:.0f}", ended, last_line(output))
        print(f"{step.name}: {ended}", flush=True)  # kept if the run is cut off
    Console().print(table)
    return int(failed)


def _run(line: list[str], seconds: float, output: Path) -> str:
    with (
        output.open("wb") as file,
        subprocess.Popen(
            line, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        ) as started,
    ):
        try:
            status = started.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)  # parallel tests are processes of their own
            return f"cut off after {seconds:g} s"
    return "ok" if status == 0 else f"exit status {status}"


def last_line(output: Path) -> str:
    """The last line that isn't empty."""
    lines = [each.strip() for each in output.read_text(errors="replace").splitlines()]
    return next((each for each in reversed(lines) if each), "")[:60]


if __name__ == "__main__":
    main()

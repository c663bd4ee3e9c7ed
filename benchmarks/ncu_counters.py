"""The hardware's counters for the project's own kernels: makes the emulator's test data.

    python benchmarks/ncu_counters.py [--out tests/grader/emulator/ncu_solutions.csv]

Needs an NVIDIA GPU, nvcc and ncu (Nsight Compute) with access to the performance counters. Each
driver of tests/grader/emulator/ is built with the file whose entries it calls, and run under ncu:
one row for each launch. Standard library only, so that it runs wherever there is a GPU.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "grader" / "emulator"

COUNTERS = (
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)


class Measured(NamedTuple):
    """A file whose kernels are counted, its driver, and the launches' arguments."""

    source: Path
    driver: Path
    cases: tuple[tuple[str, str], ...]  # entry and case of each launch, in their order


TRANSPOSE = "rows=256 cols=512"
RUNGS = "rows columns two_apart unpadded padded_below padded_by_two filled_down swizzled vectors"
MEASURED = (
    Measured(ROOT / "reference/silu.cu", FOLDER / "drive_silu.cu", (("silu", "n=16384"),)),
    Measured(ROOT / "reference/gelu.cu", FOLDER / "drive_gelu.cu", (("gelu", "n=16384"),)),
    Measured(
        ROOT / "reference/rmsnorm.cu",
        FOLDER / "drive_rmsnorm.cu",
        (("rms_norm_vector", "rows=1 cols=2048"), ("rms_norm_matrix", "rows=16 cols=2048")),
    ),
    Measured(
        ROOT / "reference/transpose.cu",
        FOLDER / "drive_transpose.cu",
        tuple((f"transpose_v{rung}", TRANSPOSE) for rung in (1, 2, 3, 4)),
    ),
    Measured(
        FOLDER / "transpose_rungs.cu",
        FOLDER / "drive_transpose_rungs.cu",
        tuple((f"transpose_{rung}", TRANSPOSE) for rung in RUNGS.split()),
    ),
)
COLUMNS = ("file", "entry", "case", "kernel", "block", "grid", *COUNTERS)


def main() -> None:
    """Count everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FOLDER / "ncu_solutions.csv")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for each in MEASURED for row in _counted(each, Path(folder))]
    with given.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{given.out}: {len(rows)} launches")


def _counted(measured: Measured, folder: Path) -> list[dict[str, str]]:
    """A row for each launch of the driver."""
    program = folder / measured.driver.stem
    build = [_tool("nvcc"), "-std=c++17", "-O3", "-arch=native", "-o", str(program)]
    _run([*build, str(measured.driver), str(measured.source)])
    command = [_tool("ncu"), "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--metrics", ",".join(COUNTERS), str(program)]
    launches = _launches(_run(command))
    if len(launches) != len(measured.cases):
        sys.exit(f"{program.name}: expected {len(measured.cases)} launches, got {len(launches)}")
    rows = []
    for (entry, case), launch in zip(measured.cases, launches, strict=True):
        numbers = {name: launch[name].replace(",", "") for name in COUNTERS}
        rows.append(
            {
                "file": str(measured.source.relative_to(ROOT)),
                "entry": entry,
                "case": case,
                "kernel": launch["Kernel Name"],
                "block": launch["Block Size"],
                "grid": launch["Grid Size"],
                **numbers,
            }
        )
    return rows


def _launches(text: str) -> list[dict[str, str]]:
    """The launches in ncu's output: a table behind other lines, its second row the units."""
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        sys.exit(f"ncu: expected a table, got:\n{text[-2000:]}")
    launches = list(csv.DictReader(io.StringIO("\n".join(lines[first:]))))
    return [launch for launch in launches if launch["ID"]]


def _tool(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((os.environ["PATH"], "/usr/local/cuda/bin")))
    if found is None:
        sys.exit(f"{name}: not found; it comes with NVIDIA's CUDA toolkit")
    return found


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()

"""The emulator counts of the solutions and of other transposes what ncu counted on an H100.

The table is tests/grader/emulator/ncu_solutions.csv, made by benchmarks/ncu_counters.py.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from grader.emulator import report, toolchain
from grader.emulator.build import Build, Entry, build
from grader.worker.protocol import Argument, Code, Kind
from tests.grader.emulator.test_counters import COUNTERS, counted
from tests.support.emulated import NEEDS_COMPILER, SOURCES, Call
from tests.support.native import Placement, vector

pytestmark = NEEDS_COMPILER

ROOT = Path(__file__).resolve().parents[3]
POINTER = "pointer:float32"
# Of each entry: what it takes besides a first input and a last output, in call order.
SIGNATURES = {
    "silu": (POINTER, POINTER, "int"),
    "gelu": (POINTER, POINTER, "int"),
    "rms_norm_vector": (POINTER, POINTER, POINTER, "int", "float"),
    "rms_norm_matrix": (POINTER, POINTER, POINTER, "int", "int", "float"),
}
TRANSPOSE = (POINTER, POINTER, "int", "int")
# ncu counts instructions, also where every lane of a warp is switched off; the emulator counts
# accesses. Of the last steps of a reduction in one block it matters, and only there.
OTHER_INSTRUCTIONS = {
    ("rms_norm_vector", "smsp__inst_executed_op_shared_ld.sum"),
    ("rms_norm_vector", "smsp__inst_executed_op_shared_st.sum"),
}

with (SOURCES / "ncu_solutions.csv").open() as file:
    ROWS = list(csv.DictReader(file))


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Build]:
    """Each file that the table speaks of, with all the entries it names there."""
    tools = toolchain.prepare()
    builds = {}
    for name in sorted({row["file"] for row in ROWS}):
        entries = [
            Entry(row["entry"], SIGNATURES.get(row["entry"], TRANSPOSE))
            for row in ROWS
            if row["file"] == name
        ]
        builds[name] = build(ROOT / name, entries, tmp_path_factory.mktemp("built"), tools)
        assert not builds[name].problems, builds[name].problems
    return builds


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["entry"])
def test_a_solutions_counters_are_those_of_the_hardware(built, row: dict[str, str]) -> None:
    seen = measured(built[row["file"]], row["entry"], row["case"])
    [launch] = seen.launches
    assert launch.grid == shape(row["grid"])
    assert launch.block == shape(row["block"])
    for counter in COUNTERS:
        if (row["entry"], counter) not in OTHER_INSTRUCTIONS:
            assert counted(launch, counter) == int(row[counter]), counter


def test_the_listed_differences_are_still_there(built) -> None:
    for row in ROWS:
        listed = [name for entry, name in OTHER_INSTRUCTIONS if entry == row["entry"]]
        if listed:
            [launch] = measured(built[row["file"]], row["entry"], row["case"]).launches
            assert all(counted(launch, name) < int(row[name]) for name in listed)


def measured(program: Build, entry: str, case: str) -> report.Report:
    """The counters of one call; sizes by name, in the order of the case."""
    sizes = {name: int(value) for name, value in (word.split("=") for word in case.split())}
    elements = sizes.get("n") or sizes["rows"] * sizes["cols"]
    slots = [vector("input", torch.arange(float(elements)))]
    if entry.startswith("rms"):
        slots.append(vector("weight", torch.ones(sizes["cols"])))
    slots.append(vector("output", elements))
    numbers = [sizes[name] for name in ("n", "rows", "cols") if name in sizes]
    if entry == "rms_norm_vector":
        numbers = [sizes["cols"]]
    with Placement(slots) as placement:
        arguments = [
            *placement.arguments,
            *(Argument(Kind.int64, scalar=number) for number in numbers),
            *([Argument(Kind.float64, scalar=1e-5)] if entry.startswith("rms") else []),
        ]
        outcome = Call(program, entry, arguments, placement.arena.buffers).run(measure=True)
    assert outcome.code is Code.ok, outcome
    assert outcome.report is not None
    return outcome.report


def shape(text: str) -> tuple[int, ...]:
    """'(32, 8, 1)' as numbers."""
    return tuple(map(int, text.strip("()").split(",")))

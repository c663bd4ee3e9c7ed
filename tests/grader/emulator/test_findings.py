"""The emulator finds each kind of mistake at its line and thread, and accuses no right code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from grader.emulator.report import Finding
from grader.worker.protocol import Code
from tests.support.emulated import NEEDS_COMPILER, SOURCES, Program

pytestmark = NEEDS_COMPILER

Index = tuple[int, int, int]
ORIGIN: Index = (0, 0, 0)


@dataclass(frozen=True)
class Expected:
    """What the first finding of an entry must say. `thread` None: host code."""

    kind: str
    thread: Index | None = ORIGIN
    block: Index | None = ORIGIN
    text: str = ""


def thread(x: int) -> Index:
    return (x, 0, 0)


def host(kind: str, text: str = "") -> Expected:
    return Expected(kind, None, None, text)


EXPECTED = {
    "out_of_bounds_write": Expected(
        "out_of_bounds_write", thread(0), (4, 0, 0), "4 bytes at offset 1024 of out, which has 1024"
    ),
    "passed_structure_outside": Expected(
        "out_of_bounds_read", thread(32), text="16 bytes at offset 1024 of in, which has 1024"
    ),
    "structure_of_a_call_outside": Expected(
        "out_of_bounds_write", thread(64), text="16 bytes at offset 1024 of out, which has 1024"
    ),
    "returned_structure_outside": Expected(
        "out_of_bounds_write", thread(127), text="8 bytes at offset 1024 of out"
    ),
    "total_read_too_early": Expected("race", thread(1), text="an atomic write after a read"),
    "out_of_bounds_read": Expected(
        "out_of_bounds_read", text="4 bytes, 12 bytes before the start of in"
    ),
    "local_as_global": Expected(
        "out_of_bounds_read", text="4 bytes of shared or local memory by an access to global memory"
    ),
    "out_of_bounds_vector": Expected(
        "out_of_bounds_read", thread(7), text="16 bytes at offset 112 of a cudaMalloc of 120 bytes"
    ),
    "memcpy_past_its_variable": Expected(
        "out_of_bounds_write", text="128 bytes of local memory: the variable there has fewer"
    ),
    "memcpy_out_of_bounds": Expected(
        "out_of_bounds_read", thread(3), text="16 bytes at offset 96 of a cudaMalloc of 100 bytes"
    ),
    "use_after_free_write": Expected("use_after_free_write", text="of 128 bytes that was freed"),
    "use_after_free_read": Expected("use_after_free_read", text="of 128 bytes that was freed"),
    "uninitialised_global": Expected("uninitialised_read", thread(16), text="at offset 64"),
    "uninitialised_exchange": Expected("uninitialised_read", text="at offset 0"),
    "uninitialised_output": Expected("uninitialised_read", text="offset 0 of out"),
    "host_pointer": Expected("host_pointer_on_device", text="host memory from malloc"),
    "local_memory": Expected("out_of_bounds_read", text="local memory outside"),
    "write_to_input": Expected("write_to_input", text="offset 0 of in"),
    "null_pointer": Expected("out_of_bounds_write", text="through a null pointer"),
    "misaligned": Expected("misaligned", text="16 bytes at offset 4 of out"),
    "device_variable": Expected("index_out_of_range_write", text="index 100000"),
    "constant_variable": Expected("out_of_bounds_write", text="__constant__"),
    "constant_of_one_letter": Expected("out_of_bounds_write", text="offset 0 of g, which has 16"),
    "read_only_own": Expected("read_only_read", text="4 bytes at offset 0 of out"),
    "read_only_early": Expected("read_only_read", text="offset 124 of out"),
    "read_only_atomic": Expected("read_only_read", text="16 bytes at offset 0 of a cudaMalloc"),
    "shift_by_width": Expected("undefined_arithmetic", text="of 32 bits is shifted by 32"),
    "shift_by_less_than_0": Expected("undefined_arithmetic", text="of 64 bits is shifted by -1"),
    "convert_above_int": Expected("undefined_arithmetic", text="3e+09 becomes int, which doesn't"),
    "convert_nan": Expected("undefined_arithmetic", text="nan becomes int"),
    "convert_below_unsigned": Expected("undefined_arithmetic", text="-1 becomes unsigned int"),
    "shared_neighbour": Expected(
        "out_of_bounds_write", thread(31), text="offset 256 of first, which has 256 bytes of shared"
    ),
    "shared_dynamic": Expected(
        "out_of_bounds_write", thread(31), text="dynamic shared memory, of which the launch has 124"
    ),
    "index_write": Expected(
        "index_out_of_range_write", thread(16), text="index 16 of an array of type float [16]"
    ),
    "index_read": Expected("index_out_of_range_read", thread(31), text="index 32"),
    "index_local": Expected(
        "index_out_of_range_read", text="index 8 of an array of type float [8]"
    ),
    "uninitialised_shared": Expected("uninitialised_read", thread(40), text="offset 160 of tile"),
    "uninitialised_block": Expected("uninitialised_read", block=(1, 0, 0), text="of tile"),
    "race_read": Expected("race", thread(128), text="of tile"),
    "race_write": Expected("race", thread(1), text="of tile"),
    "race_warp": Expected("race", thread(16), text="of tile"),
    "race_half_warp": Expected("race", text="offset 64 of tile"),
    "race_warps": Expected("race", thread(32), text="of tile"),
    "race_next_round": Expected("race", thread(32), text="of tile"),
    "race_blocks": Expected("race", block=(1, 0, 0), text="two writes of different values"),
    "race_vector": Expected("race", thread(1), text="16 bytes at offset 0 of out"),
    "race_count": Expected("race", thread(1), text="a cudaMalloc of 4 bytes"),
    "race_atomic": Expected("race", thread(1), text="an atomic write after a plain one"),
    "race_bytes": Expected("race", thread(1), text="1 byte at offset 1 of flags"),
    "race_no_fence": Expected("race", block=(3, 0, 0), text="a cudaMalloc of 16 bytes"),
    "race_named_barriers": Expected("race", thread(63), text="4 bytes at offset 252 of s"),
    "named_barrier_alone": Expected("deadlock", text="32 more arrivals are missing"),
    "named_barrier_counts": Expected(
        "misused_barrier", thread(32), text="threads come to a barrier with different counts"
    ),
    "race_failed_exchange": Expected("race", block=(1, 0, 0), text="offset 0 of a cudaMalloc of 8"),
    "race_block_atomics": Expected("race", block=(1, 0, 0), text="two block-scoped atomics"),
    "race_scopes": Expected("race", block=(1, 0, 0), text="an atomic after a block-scoped one"),
    "race_block_flag": Expected("race", block=(1, 0, 0), text="a read after a block-scoped atomic"),
    "race_reset_of_ticket": Expected("race", thread(32), (3, 0, 0), "offset 0 of a cudaMalloc"),
    "race_fence_before_barrier": Expected("race", thread(1), (3, 0, 0), "offset 4 of a cudaMalloc"),
    "race_block_fence": Expected("race", block=(3, 0, 0), text="a cudaMalloc of 16 bytes"),
    "divergent_barrier": Expected("divergent_barrier"),
    "divergent_on_a_line": Expected("divergent_barrier"),
    "divergent_in_a_macro": Expected("divergent_barrier"),
    "syncwarp_absent": Expected("deadlock"),
    "activemask_after_branch": Expected(
        "shuffle_absent_lane", text="lane 1, which __activemask() hasn't named"
    ),
    "missing_barrier": Expected("missing_barrier"),
    "deadlock": Expected("deadlock"),
    "shuffle_absent_lane": Expected("shuffle_absent_lane"),
    "bad_warp_mask": Expected("bad_warp_mask"),
    "device_assert": Expected("device_assert", thread(7)),
    "false_assumption": Expected("device_assert", thread(7)),
    "device_pointer_on_host": host("device_pointer_on_host", "4 bytes at offset 12 of out"),
    "device_pointer_in_memcpy": host("device_pointer_on_host", "offset 0 of out"),
    "device_variable_on_host": host("device_pointer_on_host", "offset 4 of counters"),
    "wrong_copy_direction": host("wrong_copy_direction"),
    "copy_reads_outside": host("copy_reads_outside", "1028 bytes at offset 0 of in"),
    "copy_writes_outside": host("copy_writes_outside", "1028 bytes at offset 0 of out"),
    "copy_to_input": host("write_to_input", "offset 0 of in"),
    "launch_error": host("launch_error", "at most 1024 threads"),
    "double_free": host("bad_free", "freed twice"),
    "frees_argument": host("bad_free", "the argument out"),
    "leak": host("leak", "a cudaMalloc of 100 bytes"),
    "stray_host_store": host("stray_host_store"),
    "stray_into_library": host("stray_host_store"),
    "stray_into_shared": host("stray_host_store"),
    "host_index": host("index_out_of_range_read", "index 256 of an array of type int [4]"),
    "host_argument_write": host("out_of_bounds_write", "offset 1024 of h, which has 1024 bytes"),
    "host_argument_read": host("out_of_bounds_read", "offset 1424 of h"),
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(SOURCES / "findings.cu", tmp_path_factory.mktemp("findings"))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(SOURCES / "honest.cu", tmp_path_factory.mktemp("honest"))


def entries(source: str) -> list[str]:
    """The names of the entries of a file of tests/grader/emulator."""
    lines = (SOURCES / source).read_text().splitlines()
    return [line.split()[1].partition("(")[0] for line in lines if line.startswith("ENTRY ")]


def first_finding(program: Program, entry: str) -> Finding:
    outcome = program.run(entry)
    assert outcome.code is Code.findings, outcome
    assert outcome.report is not None
    return outcome.report.findings[0]


def places(program: Program, finding: Finding) -> set[int]:
    """The lines of both accesses."""
    pcs = [pc for pc in (finding.pc, finding.other_pc) if pc]
    return {line for pc in pcs if (line := program.line_of(pc))}


def test_every_mistake_has_an_expectation() -> None:
    assert set(entries("findings.cu")) == set(EXPECTED)


@pytest.mark.parametrize("entry", EXPECTED)
def test_a_mistake_is_found_at_its_line_and_thread(findings: Program, entry: str) -> None:
    expected = EXPECTED[entry]
    finding = first_finding(findings, entry)
    assert finding.kind == expected.kind
    assert (finding.thread, finding.block) == (expected.thread, expected.block)
    assert expected.text in finding.text
    marked = findings.lines_marked(f"-> {entry}") + findings.lines_marked(f"other -> {entry}")
    assert marked
    assert places(findings, finding) == set(marked)


@pytest.mark.parametrize("entry", [name for name in EXPECTED if name.startswith("race_")])
def test_a_race_names_both_threads(findings: Program, entry: str) -> None:
    finding = first_finding(findings, entry)
    assert finding.other_pc
    mine, other = (finding.block, finding.thread), (finding.other_block, finding.other_thread)
    assert None not in other
    assert mine != other


@pytest.mark.parametrize("entry", entries("honest.cu"))
def test_right_code_is_not_accused(honest: Program, entry: str) -> None:
    outcome = honest.run(entry, times=2)
    assert outcome.code is Code.ok, outcome
    assert outcome.report is not None
    assert outcome.report.findings == ()


@pytest.mark.parametrize("entry", entries("honest.cu"))
def test_right_code_is_not_accused_while_it_is_measured(honest: Program, entry: str) -> None:
    assert honest.run(entry, measure=True).code is Code.ok


@pytest.mark.parametrize("entry", ["race_read", "uninitialised_shared", "deadlock", "leak"])
def test_findings_are_the_same_every_time(findings: Program, entry: str) -> None:
    first, second = (findings.run(entry).printed for _ in range(2))
    assert first == second


@pytest.mark.parametrize("entry", ["race_read", "leak", "uninitialised_global"])
def test_a_call_reports_only_what_it_did(findings: Program, entry: str) -> None:
    assert findings.run(entry, times=3).report == findings.run(entry).report


def test_a_process_whose_device_is_lost_says_so(findings: Program) -> None:
    lost = {"out_of_bounds_write": 700, "misaligned": 716, "device_assert": 710, "deadlock": 719}
    for entry, error in lost.items():
        report = findings.run(entry).report
        assert report is not None
        assert (report.error, report.lost) == (error, True)
    for entry in ("race_read", "leak", "uninitialised_shared", "double_free"):
        report = findings.run(entry).report
        assert report is not None
        assert (report.error, report.lost) == (0, False)


MANY = """
#include <cuda_runtime.h>
#define ENTRY extern "C" void
__global__ void races(float* out) {
    __shared__ float tile[64];
    int x = threadIdx.x;
    tile[x] = x;
%s
}
ENTRY many(float* out) { races<<<1, 64>>>(out); }
"""


def test_at_most_sixteen_places_are_reported(tmp_path: Path) -> None:
    source = tmp_path / "many.cu"
    reads = "\n".join(f"    out[x] = tile[(x + {i}) % 64];" for i in range(1, 40))
    source.write_text(MANY % reads)
    report = Program(source, tmp_path / "built").run("many").report
    assert report is not None
    assert len(report.findings) == 16

"""Metrics of Triton kernels: read strictly, believed where they can be, held against a spec."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from grader.cases import Case
from grader.emulator.report import ReportError
from grader.evidence import MemoryEvidence
from grader.executors.triton import triton_metrics
from grader.executors.triton.triton_report import message_of, parse, parse_findings
from grader.grading.check import check_memory, check_part
from grader.grading.session import Options, Session
from grader.scoring import memory_bounds
from grader.spec import Exercise, SpecError
from grader.spec.task import Task
from grader.status import Status
from tests.support.small_exercise import BRIEF, RIGHT, SPEC, submission, write_spec

WITH_MEMORY = SPEC.replace("points: {ragged: 3}}", "points: {ragged: 1, memory: 2},").rstrip()
WITH_MEMORY += """
    memory: {
      case: {n: 4096},
      useful_bytes_per_sector: {load: {at_least: 30}, store: {at_least: 30}},
      reads: {x: {at_most: 1}},
      scratch_bytes: {at_most: 0},
      wave_bytes: {programs: 2, distinct: {at_most: 2 * 2048 * itemsize}},
      growth: {sizes: [n], tile: {at_most: 1}, scratch: {at_most: 4}}}}
"""
SIZE = 16384  # bytes of 4096 float32
CASE = Case((("n", 4096),), "float32", seed=1)

# What grader/worker/accesses.py tells of one call of a right SiLU.
SITE = {"kernel": "silu_kernel", "bytes": 4, "requests": 128, "lanes": 4096, "sectors": 512}
TOLD: dict[str, Any] = {
    "sites": [
        {**SITE, "line": 12, "kind": "load", "useful_bytes": SIZE, "masked": 0},
        {**SITE, "line": 13, "kind": "store", "useful_bytes": SIZE, "masked": 0},
    ],
    "buffers": [
        {
            "argument": 0,
            "load_bytes": SIZE,
            "store_bytes": 0,
            "distinct_load_bytes": SIZE,
            "distinct_store_bytes": 0,
        },
        {
            "argument": 1,
            "load_bytes": 0,
            "store_bytes": SIZE,
            "distinct_load_bytes": 0,
            "distinct_store_bytes": SIZE,
        },
    ],
    "findings": [],
    "waves": [
        {
            "turns": 2,
            "waves": 1,
            "bytes": SIZE,
            "row_major_bytes": SIZE,
            "asked_bytes": SIZE,
            "distinct_bytes": SIZE,
        }
    ],
    "largest_tile": 2048,
    "tile_line": 11,
    "scratch_bytes": 0,
    "scratch_stored_bytes": 0,
    "largest_footprint": SIZE,
    "largest_bytes": SIZE,  # a load and a store of 2048 elements by each program
    "programs": 2,
    "storing_programs": 2,
    "returned_bytes": 0,
    "copied_bytes": 0,
    "cut": False,
}
FINDING = {
    "kind": "out_of_bounds_read",
    "line": 2,
    "kernel": "silu_kernel",
    "count": 3,
    "program": [3, 0, 0],
    "argument": 0,
    "offset": SIZE,
    "bytes": 4,
}
ALLOCATED = {"argument": None, "allocated": [512, 16]}  # the nearest memory, in a finding


@pytest.fixture(scope="module")
def exercises(tmp_path_factory) -> dict[str, Exercise]:
    return write_spec(tmp_path_factory.mktemp("specs"), WITH_MEMORY)


@pytest.fixture(scope="module")
def silu(exercises) -> Exercise:
    return exercises["silu"]


def told(**changes: Any) -> dict[str, Any]:
    """TOLD with fields changed; `load__sectors=1` changes that of the first site."""
    report = copy.deepcopy(TOLD)
    for name, value in changes.items():
        owner, _, key = name.partition("__")
        if not key:
            report[name] = value
        elif owner in ("load", "store"):
            report["sites"][owner == "store"][key] = value
        else:
            report["buffers"][owner == "out"][key] = value
    return report


def measured(silu: Exercise, **changes) -> MemoryEvidence:
    report = parse(told(**changes))
    source = ["", "x = tl.load(x_ptr + offsets)"]
    return triton_metrics.measure(report, Task(silu, silu.variants["triton"]), CASE, source)


def metrics(evidence: MemoryEvidence) -> dict[str, float]:
    return {metric.name: metric.value for metric in evidence.metrics}


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"largest_tile": -1}, "largest_tile"),
        ({"largest_tile": 1.0}, "largest_tile"),
        ({"scratch_bytes": "0"}, "scratch_bytes"),
        ({"cut": 0}, "cut"),
        ({"more": 1}, "more"),
        ({"sites": {}}, "sites"),
        ({"sites": [TOLD["sites"][0]] * 301}, "sites"),
        ({"load__sectors": 511}, "more useful bytes than the sectors"),
        ({"load__sectors": 4097}, "sectors that the lanes can't have"),
        ({"load__lanes": 4097}, "lanes that the requests can't have"),
        ({"load__kernel": "k" * 101}, "kernel"),
        ({"load__bytes": 17}, "bytes"),
        ({"x__argument": 1}, "an argument twice"),
        ({"x__load_bytes": 1}, "more bytes loaded once than in all"),
        ({"waves": [{**TOLD["waves"][0], "waves": 3}]}, "waves that the turns can't make"),
        ({"waves": [{**TOLD["waves"][0], "waves": 0}]}, "waves that the turns can't make"),
        ({"waves": [{**TOLD["waves"][0], "bytes": SIZE + 1}]}, "than the turns ask for"),
        ({"largest_footprint": SIZE + 1}, "touches more bytes than it moves"),
        ({"largest_footprint": SIZE // 8 - 1}, "touch less than all of them do"),
        ({"findings": [{**FINDING, "kind": "race"}]}, "kind"),
        ({"findings": [{**FINDING, "program": [0]}]}, "program"),
        ({"findings": [{**FINDING, "offset": 1 << 64}]}, "offset"),
        ({"findings": [{**FINDING, "allocated": [-1, 2]}]}, "allocated"),
        ({"findings": [{**FINDING, "allocated": [512]}]}, "allocated"),
        ({"findings": [{**FINDING, "kind": "data_race"}]}, "a data race of one access"),
        ({"findings": [{**FINDING, "other_program": [0, 0, 0]}]}, "a second access"),
        ({"largest_tile": float("nan")}, ""),
    ],
)
def test_a_report_that_no_worker_writes_is_refused(changes, message):
    with pytest.raises(ReportError) as caught:
        parse(told(**changes))
    assert message in str(caught.value)


@pytest.mark.parametrize("nothing", [None, {}, [], "text", 7, {"sites": object()}])
def test_what_is_no_report_is_refused(nothing):
    with pytest.raises(ReportError):
        parse(nothing)


def test_a_finding_becomes_a_sentence():
    report = parse(told(findings=[FINDING]))
    source = ["", "x = tl.load(x_ptr +   offsets)"]
    what, hint = message_of(report.findings[0], [("x", SIZE), ("out", SIZE)], "silu.py", source)
    assert what == (
        "Program (3, 0, 0) reads 4 bytes at offset 16,384 of x, which has 16,384 bytes, at "
        "silu.py:2 (`x = tl.load(x_ptr + offsets)`). 3 elements did so there; this was the first."
    )
    assert "mask" in hint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"offset": -8}, "reads 4 bytes, 8 bytes before x"),
        ({"offset": 1 << 40}, "reads 4 bytes far behind x"),
        ({"offset": -(1 << 40)}, "reads 4 bytes far before x"),
        ({"argument": None}, "reads 4 bytes outside every tensor"),
        (
            {**ALLOCATED, "offset": 768},
            "reads 4 bytes, 256 bytes behind the 512 bytes that silu.py:16 allocated",
        ),
        (
            {**ALLOCATED, "offset": 512},
            "reads 4 bytes right behind the 512 bytes that silu.py:16 allocated",
        ),
        (
            {**ALLOCATED, "offset": -8},
            "reads 4 bytes, 8 bytes before the 512 bytes that silu.py:16 allocated",
        ),
        (
            {**ALLOCATED, "offset": 64},
            "reads 4 bytes at offset 64 of the 512 bytes that silu.py:16 allocated, which are "
            "freed by then",
        ),
        (
            {**ALLOCATED, "offset": 510},
            "reads 4 bytes at offset 510 of the 512 bytes that silu.py:16 allocated, at silu.py:2",
        ),
        (
            {**ALLOCATED, "offset": 2, "kind": "misaligned"},
            "4 bytes at offset 2 of the 512 bytes that silu.py:16 allocated, at silu.py:2",
        ),
        (
            {**ALLOCATED, "allocated": [512, 0], "offset": 512},
            "right behind the 512 bytes that the entry allocated",
        ),
        ({"offset": 64}, f"offset 64 of x, which has {SIZE:,} bytes, in the gap between two rows"),
        ({"offset": 64, "kind": "modified_input"}, f"of x, which has {SIZE:,} bytes, at silu.py:2"),
        ({"argument": 9}, "reads 4 bytes outside every tensor"),
        ({"kind": "out_of_bounds_write", "bytes": 1}, "writes 1 byte at offset 16,384 of x"),
    ],
)
def test_a_finding_says_where_the_access_went(changes, words):
    report = parse(told(findings=[{**FINDING, **changes}]))
    what, _ = message_of(report.findings[0], [("x", SIZE), ("out", SIZE)], "silu.py", [])
    assert words in what


@pytest.mark.parametrize(("offset", "word"), [(510, "cast to another type"), (512, "store's mask")])
def test_an_access_across_the_end_of_memory_is_one_of_another_type(offset, word):
    changes = {"kind": "out_of_bounds_write", **ALLOCATED, "offset": offset}
    report = parse(told(findings=[{**FINDING, **changes}]))
    _, hint = message_of(report.findings[0], [("x", SIZE), ("out", SIZE)], "silu.py", [])
    assert word in hint


@pytest.mark.parametrize(("offset", "word"), [(64, "stride"), (SIZE, "bound every index")])
def test_what_is_asked_about_an_access_between_two_rows_is_where_rows_start(offset, word):
    report = parse(told(findings=[{**FINDING, "offset": offset}]))
    _, hint = message_of(report.findings[0], [("x", SIZE), ("out", SIZE)], "silu.py", [])
    assert word in hint


def test_an_assertion_that_fails_is_about_no_memory():
    changes = {"kind": "device_assert", "offset": -(1 << 40), "bytes": 1}
    finding = parse(told(findings=[{**FINDING, **changes}])).findings[0]
    what, _ = message_of(finding, [("x", SIZE)], "silu.py", ["a", "b"])
    assert what.startswith(
        "Program (3, 0, 0) fails an assertion of tl.device_assert at silu.py:2 (`b`). 3 elements"
    )


RACE = {
    **FINDING,
    "kind": "data_race",
    "offset": 64,
    "access": "store",
    "other_access": "load",
    "other_program": [2, 0, 0],
    "other_line": 1,
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {},
            "Program (3, 0, 0) stores 4 bytes at offset 64 of x, which has 16,384 bytes, at "
            "silu.py:2 (`b`), and program (2, 0, 0) loads the same at silu.py:1 (`a`); nothing "
            "orders the two. 3 elements are contended there; this was the first.",
        ),
        (
            {"other_access": "store", "other_line": 2},
            "at silu.py:2 (`b`), and program (2, 0, 0) stores another value there at the same "
            "line; nothing orders the two.",
        ),
        (
            {"argument": None, "allocated": [512, 16]},
            "stores 4 bytes at offset 64 of the 512 bytes that silu.py:16 allocated, at silu.py:2",
        ),
        (
            {"access": "cta_atomic", "other_access": "atomic"},
            'updates by an atomic of scope "cta" 4 bytes at offset 64 of x, which has 16,384',
        ),
        ({"argument": None}, "stores 4 bytes of memory that the entry allocated, at silu.py:2"),
    ],
)
def test_a_race_names_both_accesses(changes, words):
    finding = parse(told(findings=[{**RACE, **changes}])).findings[0]
    what, hint = message_of(finding, [("x", SIZE)], "silu.py", ["a", "b"])
    assert words in what
    assert "atomic" in hint
    assert ("cta" in hint) == ("cta" in what)
    assert triton_metrics.status_of(finding) is Status.data_race


def test_an_uninitialised_read_names_the_load_and_the_store():
    changes = {"kind": "uninitialised_read", "offset": 8, "other_line": 1}
    finding = parse(told(findings=[{**FINDING, **changes}])).findings[0]
    what, hint = message_of(finding, [("x", SIZE)], "silu.py", ["a", "b"])
    assert "uses what a mask kept from being loaded at silu.py:2 (`b`): it reaches 4 bytes" in what
    assert f"at offset 8 of x, which has {SIZE:,} bytes, at silu.py:1 (`a`)." in what
    assert "`other=`" in hint
    assert triton_metrics.status_of(finding) is Status.uninitialised_read
    own = parse(told(findings=[{**FINDING, **changes, **ALLOCATED, "offset": 8}])).findings[0]
    what, _ = message_of(own, [("x", SIZE)], "silu.py", ["a", "b"])
    assert "reaches 4 bytes at offset 8 of the 512 bytes that silu.py:16 allocated, at" in what
    elsewhere = parse(told(findings=[{**FINDING, **changes, "argument": None}])).findings[0]
    what, _ = message_of(elsewhere, [("x", SIZE)], "silu.py", ["a", "b"])
    assert "from being loaded at silu.py:2 (`b`): it reaches silu.py:1 (`a`)." in what


# --- measuring ------------------------------------------------------------------------------------


def test_metrics_follow_from_the_counters(silu):
    evidence = measured(
        silu, load__sectors=1024, x__load_bytes=SIZE, scratch_bytes=64, load__masked=7
    )
    assert evidence.status is Status.passed
    assert metrics(evidence) == {
        "useful_bytes_per_sector.load": 16,
        "useful_bytes_per_sector.store": 32,
        "reads.x": 1,
        "largest_share": 0.5,
        "requests": 256,
        "blocks": 2,
        "simt_efficiency": 8192 / 8199,
        "scratch_bytes": 64,
        "largest_tile": 2048,
        "wave_bytes.distinct": SIZE,
        "wave_bytes.to_row_major": 1,
    }
    assert [(line.line, line.access, line.masked) for line in evidence.lines] == [
        (12, "load", 7),
        (13, "store", 0),
    ]


def test_the_worst_order_of_a_launch_counts(silu):
    def launch(ratio: float, asked: int = 8, of: int = SIZE) -> dict[str, int]:
        return {
            "turns": 64,
            "waves": 4,
            "bytes": int(ratio * of),
            "row_major_bytes": of,
            "asked_bytes": asked * of,
            "distinct_bytes": of,
        }

    def order(*launches: dict[str, int]) -> float:
        return metrics(measured(silu, waves=list(launches)))["wave_bytes.to_row_major"]

    heaviest, real = launch(0.5, of=64 * SIZE), launch(1)
    assert order(heaviest) == 0.5
    assert order(heaviest, real) == order(real, heaviest) == 1
    # Where programs share nothing, no order is better than another.
    assert order(heaviest, launch(1, asked=1)) == 0.5
    assert order(launch(1, asked=1)) == 1
    # Tiles at an edge are few; many small launches are not.
    edge = launch(1, of=SIZE // 16)
    assert order(heaviest, edge, edge) == 0.5
    assert order(heaviest, edge, edge, edge) == 1


def test_what_is_loaded_again_from_scratch_is_read_again(silu):
    def read(loads: int, stores: int) -> float:
        more = [
            {**SITE, "line": 20, "kind": "load", "useful_bytes": loads, "masked": 0},
            {**SITE, "line": 21, "kind": "store", "useful_bytes": stores, "masked": 0},
        ]
        sites = [*TOLD["sites"], *more]
        return metrics(measured(silu, sites=sites, largest_bytes=2 * SIZE))["reads.x"]

    assert read(SIZE, SIZE) == read(0, SIZE) == 1  # partial results are loaded once
    assert read(SIZE // 4, 0) == 1  # few
    assert read(SIZE, 0) == 1 + 3 / 4


def test_what_is_loaded_again_from_an_output_is_read_again(silu):
    def read(times: int) -> float:
        load = {**SITE, "line": 20, "kind": "load", "useful_bytes": SIZE, "masked": 0}
        report = measured(
            silu,
            sites=[*TOLD["sites"], *[{**load, "line": 20 + n} for n in range(times)]],
            out__load_bytes=times * SIZE,
            out__distinct_load_bytes=min(times, 1) * SIZE,
            largest_bytes=(times + 1) * SIZE,
        )
        return metrics(report)["reads.x"]

    assert read(0) == read(1) == 1  # a sum may be kept there
    assert read(3) == 1 + 2 - 1 / 4


def test_what_kernels_use_of_atomics_results_is_read_again(silu):
    def read(returned: int) -> float:
        return metrics(measured(silu, returned_bytes=returned))["reads.x"]

    assert read(0) == read(SIZE // 4) == 1  # a few tickets
    assert read(3 * SIZE) == 1 + 3 - 1 / 4


def test_growth_is_the_ratio_of_two_runs(silu):
    small, large = (
        parse(told(scratch_bytes=100)),
        parse(told(scratch_bytes=1600, largest_tile=8192)),
    )
    evidence = triton_metrics.measure(
        small, Task(silu, silu.variants["triton"]), CASE, grown=(CASE, large)
    )
    found = metrics(evidence)
    assert (found["growth.tile"], found["growth.scratch"]) == (4, 16)


def test_scratch_out_of_nothing_is_growth(silu):
    nothing, something = parse(TOLD), parse(told(scratch_bytes=1600))
    task = Task(silu, silu.variants["triton"])
    grown = triton_metrics.measure(nothing, task, CASE, grown=(CASE, something))
    same = triton_metrics.measure(nothing, task, CASE, grown=(CASE, nothing))
    assert metrics(grown)["growth.scratch"] == 1600
    assert metrics(same)["growth.scratch"] == 0


def test_what_is_kept_in_scratch_of_constant_size_is_growth(silu):
    small, large = (
        parse(told(scratch_bytes=1 << 20, scratch_stored_bytes=stored)) for stored in (100, 400)
    )
    task = Task(silu, silu.variants["triton"])
    grown = triton_metrics.measure(small, task, CASE, grown=(CASE, large))
    assert metrics(grown)["growth.scratch"] == 4


def test_what_goes_through_scratch_of_constant_size_is_growth(silu):
    def growth(before: int, after: int) -> float:
        """Of kernels that store so often as many bytes as the output has, in one tensor."""
        reports = []
        for stores in (before, after):
            store = {**SITE, "kind": "store", "useful_bytes": SIZE, "masked": 0}
            sites = [TOLD["sites"][0], *({**store, "line": line} for line in range(stores))]
            told_of = told(sites=sites, scratch_bytes=64, largest_bytes=stores * SIZE)
            reports.append(parse(told_of))
        task = Task(silu, silu.variants["triton"])
        evidence = triton_metrics.measure(reports[0], task, CASE, grown=(CASE, reports[1]))
        return metrics(evidence)["growth.scratch"]

    assert growth(1, 2) == 1  # no more than all arguments have
    assert growth(2, 3) == 3 / 2
    assert growth(2, 32) == 16


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x__load_bytes": 64, "x__distinct_load_bytes": 64}, "only 64 were loaded"),
        # A kernel that reads one element over and over has not read them all.
        ({"x__distinct_load_bytes": 4}, "only 4 were loaded"),
        ({"out__distinct_store_bytes": SIZE - 4}, "only 16,380 were stored"),
        ({"buffers": []}, "only 0 were loaded"),
        ({"x__distinct_load_bytes": 2 * SIZE}, "not more"),
        ({"x__load_bytes": 2 * SIZE}, "the counters don't agree"),
        ({"largest_bytes": 2 * SIZE + 4}, "the busiest is said to move 32,772"),
        # Half of what both programs move is the least that the busiest can have moved.
        (
            {"largest_bytes": SIZE - 4, "largest_footprint": 4096},
            "2 threads or programs ask for 32,768 bytes",
        ),
        ({"programs": 1, "storing_programs": 1}, "1 threads or programs"),
        ({"cut": True}, "more counters than fit"),
    ],
)
def test_counters_that_cant_be_true_are_not_measured(silu, changes, reason):
    evidence = measured(silu, **changes)
    assert evidence.status is Status.not_measured
    assert reason in evidence.reason
    assert evidence.metrics == ()


def test_what_pytorch_copied_need_not_be_loaded(silu):
    evidence = measured(silu, x__load_bytes=0, x__distinct_load_bytes=0, copied_bytes=SIZE)
    assert evidence.status is Status.passed


def test_an_access_outside_every_tensor_is_the_verdict(silu):
    write = {**FINDING, "kind": "out_of_bounds_write"}
    assert measured(silu, findings=[FINDING]).status is Status.invalid_read
    both = measured(silu, findings=[FINDING, write])
    assert both.status is Status.wrote_out_of_bounds
    assert "silu.py:2" in both.reason


# --- judging --------------------------------------------------------------------------------------


def missed(silu: Exercise, evidence: MemoryEvidence) -> list[str]:
    variant = silu.variants["triton"]
    assert variant.memory is not None
    judged = memory_bounds.judge(variant.memory, evidence.metrics, memory_bounds.sizes_of(variant))
    return [
        memory_bounds.missed(each, evidence.lines, "silu.py") for each in judged if not each.holds
    ]


def test_the_words_for_what_is_missed(silu):
    grown = parse(told(scratch_bytes=8000, largest_tile=8192))
    report = parse(
        told(
            scratch_bytes=1000,
            waves=[{**TOLD["waves"][0], "bytes": 2 * SIZE, "asked_bytes": 2 * SIZE}],
            load__sectors=1024,
        )
    )
    evidence = triton_metrics.measure(
        report, Task(silu, silu.variants["triton"]), CASE, grown=(CASE, grown)
    )
    assert missed(silu, evidence) == [
        "loads use 16 of 32 bytes per sector (silu.py:12 the fewest), asked for: at least 30",
        "the entry brings 1,000 bytes of its own, asked for: none",
        "programs that run at once load 32,768 distinct bytes, asked for: at most 16,384",
        "with 4 times the size the largest block of a program grows 4 times, asked for: at most 1",
        "with 4 times the size scratch memory, or what is stored to it, grows 8 times, "
        "asked for: at most 4",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("programs: 2,", "", "expected the key 'programs'"),
        ("programs: 2,", "programs: 0,", "whole number"),
        (", distinct: {at_most: 2 * 2048 * itemsize}", "", "expected distinct or to_row_major"),
        ("distinct: {at_most", "distinct: {at_least", "expected at_most for wave_bytes"),
        ("growth: {sizes: [n]", "growth: {sizes: [m]", "expected"),
        (", tile: {at_most: 1}, scratch: {at_most: 4}", "", "expected tile or scratch"),
        ("scratch_bytes: {at_most: 0}", "copies: {at_most: 0}", "counted in Triton alone"),
        ("scratch_bytes: {at_most: 0}", "scratch_bytes: {at_most: k}", "'k'"),
    ],
)
def test_a_mistake_in_a_bound_is_told(tmp_path, old, new, message):
    assert old in WITH_MEMORY
    with pytest.raises(SpecError) as caught:
        write_spec(tmp_path, WITH_MEMORY.replace(old, new))
    assert message in str(caught.value)


def test_what_only_triton_counts_is_no_bound_of_a_cuda_variant(tmp_path):
    text = WITH_MEMORY.replace("file: silu.py", "file: silu.cu")
    with pytest.raises(
        SpecError, match="counted in CUDA C\\+\\+ alone, got scratch_bytes and wave"
    ):
        write_spec(tmp_path, text)


def test_the_grown_case_is_four_times_as_large(silu):
    assert silu.variants["triton"].memory.grown_case() == {"n": 4 * 4096}


# --- a whole run ----------------------------------------------------------------------------------


@pytest.fixture
def run(exercises, tmp_path, shared_sandbox):
    """Counts a call of a source's silu."""

    def run(source: str) -> MemoryEvidence:
        silu = exercises["silu"]
        folder = submission(tmp_path / "submission", source)
        with Session(
            folder, exercises, Options(effort=BRIEF, policy=False), sandbox=shared_sandbox
        ) as session:
            return check_memory(session, Task(silu, silu.variants["triton"]))

    return run


def test_a_right_kernel_is_measured(run, silu):
    evidence = run(RIGHT)
    assert (evidence.status, evidence.reason) == (Status.passed, "")
    found = metrics(evidence)
    assert found["reads.x"] == 1
    assert found["useful_bytes_per_sector.load"] == found["useful_bytes_per_sector.store"] == 32
    assert missed(silu, evidence) == []
    assert evidence.observed_by == "worker"
    *told, beside = memory_bounds.sentences(evidence, silu, silu.variants["triton"])
    assert len(told) == 7
    assert beside.startswith("It is the same with a size drawn beside the case (n=")


def test_a_read_behind_the_tensor_that_changes_nothing_is_found(run):
    loads = [line for line in RIGHT.splitlines() if "tl.load(" in line]
    assert len(loads) == 1
    indent = loads[0][: len(loads[0]) - len(loads[0].lstrip())]
    behind = "tl.load(x_ptr + tl.num_programs(0) * BLOCK + offs % 4)"
    again = f"{indent}offs = tl.where(offs < 0, {behind}.to(tl.int32), offs)"
    source = RIGHT.replace(loads[0], f"{loads[0]}\n{again}")
    line = source.splitlines().index(again) + 1
    evidence = run(source)
    assert evidence.status is Status.invalid_read
    told = f"reads 4 bytes at offset [0-9,]+ of x, which has [0-9,]+ bytes, at silu.py:{line} "
    assert re.search(told, evidence.reason)


def test_a_wrong_kernel_is_not_measured(run):
    source = "def silu(x, out): out.fill_(0)\n"
    assert run(source).status is Status.wrong_values


def test_a_kernel_of_these_sizes_alone_has_to_compile(run):
    evidence = run(RIGHT.replace("num_warps=8", "num_warps=64 if n_elements >= 4096 else 8"))
    assert evidence.status is Status.compile_error
    assert "a block has at most 1024" in evidence.reason


# --- every run ------------------------------------------------------------------------------------

READS_BEHIND = """
import torch
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(tl.float32)
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=offs < n)

def silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
"""


def test_a_read_without_a_mask_fails_although_its_result_is_right(
    exercises, tmp_path, shared_sandbox
):
    """The smallest case that shows it: one element, of which 15 more are read and never used."""
    silu = exercises["silu"]
    folder = submission(tmp_path / "behind", READS_BEHIND)
    with Session(folder, exercises, Options(effort=BRIEF), sandbox=shared_sandbox) as session:
        part = check_part(session, Task(silu, silu.variants["triton"]), "float32", "ragged")
    assert part.status is Status.invalid_read
    [failure] = part.failures
    assert failure.case.startswith("n=1 ")
    assert failure.what == (
        "Program (0, 0, 0) reads 4 bytes at offset 4 of x, which has 4 bytes, at silu.py:9 "
        "(`x = tl.load(x_ptr + offs).to(tl.float32)`). 15 elements did so there; this was the "
        "first."
    )
    assert failure.where == "silu.py:9"
    assert "mask" in failure.hint
    assert failure.observed_by == "worker"


def test_host_code_can_not_reach_what_finds(exercises, tmp_path, shared_sandbox):
    forging = """
import sys
for name, module in list(sys.modules.items()):
    if "ttir" in name and hasattr(module, "Findings"):
        module.Findings.report = lambda self: []
"""
    silu = exercises["silu"]
    folder = submission(tmp_path / "forged", READS_BEHIND + forging)
    with Session(
        folder, exercises, Options(effort=BRIEF, policy=False), sandbox=shared_sandbox
    ) as session:
        part = check_part(session, Task(silu, silu.variants["triton"]), "float32", "ragged")
    assert part.status is Status.invalid_read


def test_findings_are_read_as_strictly_as_a_report():
    assert parse_findings([FINDING])[0].offset == SIZE
    for nonsense in ([], {}, None, [FINDING] * 17, [{**FINDING, "line": -1}], [{}]):
        with pytest.raises(ReportError):
            parse_findings(nonsense)

"""Memory metrics: what counters come to, which bounds hold, and what can't be true."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import spec
from grader.cases import fixed_case
from grader.emulator.report import (
    BufferCounters,
    Copies,
    Finding,
    LaunchCounters,
    Report,
    SiteCounters,
)
from grader.evidence import LineCounters, MemoryEvidence, Metric
from grader.executors.cuda import cuda_metrics
from grader.executors.memory_metrics import MAX_LINES, by_line
from grader.plan import Plan
from grader.plan.model import Launch
from grader.scoring import memory_bounds
from grader.spec.task import Task
from grader.status import Status

EXERCISES = spec.load_all()
TRANSPOSE = EXERCISES["transpose"]
COLUMN = EXERCISES["copy_first_column"]
ELEMENTS = 256 * 512  # of transpose's memory case
BYTES = 4 * ELEMENTS
THREADS = 128 * 32 * 8  # of a launch
LINES = {1: 60, 2: 67, 3: 63, 4: 60, 5: None}


def site(pc, space, kind, requests, sectors=0, useful=0, wavefronts=0, conflicts=0, ways=0):
    return SiteCounters(
        pc=pc,
        space=space,
        kind=kind,
        bytes=4,
        requests=requests,
        lanes=32 * requests,
        sectors=sectors,
        useful_bytes=useful,
        wavefronts=wavefronts,
        conflicts=conflicts,
        ways=ways,
    )


def launched(*sites, kernel="transpose_kernel"):
    """A launch whose threads all move as many bytes."""
    asked = sum(each.lanes * each.bytes for each in sites if each.space == "global")
    largest = -(-asked // THREADS)
    stores = any(each.space == "global" and each.kind != "load" for each in sites)
    shape = (kernel, (128, 1, 1), (32, 8, 1), 0, 4096, 1, 1.0)
    return LaunchCounters(*shape, sites, largest, storing_blocks=128 if stores else 0)


REQUESTS = ELEMENTS // 32
LOAD = site(1, "global", "load", REQUESTS, BYTES // 32, BYTES)
STORE = site(2, "global", "store", REQUESTS, BYTES // 32, BYTES)
SCATTERED_STORE = site(2, "global", "store", REQUESTS, ELEMENTS, BYTES)
SCATTERED_LOAD = site(1, "global", "load", REQUESTS, ELEMENTS, BYTES)
WITHOUT_CONFLICTS = site(3, "shared", "load", REQUESTS, wavefronts=REQUESTS, ways=1)
CONFLICTING = site(
    3, "shared", "load", REQUESTS, wavefronts=32 * REQUESTS, conflicts=31 * REQUESTS, ways=32
)
BUFFERS = (
    BufferCounters(0, BYTES, ELEMENTS, 0, 0),
    BufferCounters(1, 0, 0, BYTES, ELEMENTS),
)

RUNGS = {
    "cuda_v1": (SCATTERED_LOAD, SCATTERED_STORE),
    "cuda_v2": (LOAD, SCATTERED_STORE),
    "cuda_v3": (LOAD, CONFLICTING, STORE),
    "cuda_v4": (LOAD, WITHOUT_CONFLICTS, STORE),
}


def measured(report, name="cuda_v4", exercise=TRANSPOSE):
    variant = exercise.variants[name]
    case = fixed_case(Task(exercise, variant), variant.memory.case, 7)
    return cuda_metrics.measure(report, LINES, Task(exercise, variant), case)


def report_of(*sites, **changes):
    return dataclasses.replace(Report(launches=(launched(*sites),), buffers=BUFFERS), **changes)


def values(evidence):
    return {metric.name: metric.value for metric in evidence.metrics}


def judged(evidence, name):
    variant = TRANSPOSE.variants[name]
    sizes = memory_bounds.sizes_of(variant)
    return {j.name: j for j in memory_bounds.judge(variant.memory, evidence.metrics, sizes)}


# --- measuring ------------------------------------------------------------------------------------


def test_counters_of_all_launches_are_summed_into_metrics() -> None:
    half = dataclasses.replace(LOAD, sectors=LOAD.sectors // 2, useful_bytes=BYTES // 2)
    halves = (launched(half, STORE), launched(half, CONFLICTING, kernel="other"))
    evidence = measured(dataclasses.replace(report_of(), launches=halves))
    assert evidence.status is Status.passed
    assert values(evidence) == {
        "useful_bytes_per_sector.load": 32,
        "useful_bytes_per_sector.store": 32,
        "shared_bank_conflicts": 31 * REQUESTS,
        "copies": 0,
        "bytes_copied": 0,
        "scratch_stores": 0,
        "reads.input": 1,
        "largest_share": (32 + 16) / (2 * BYTES),
        "requests": 3 * REQUESTS,
        "blocks": 128,
        "simt_efficiency": 1,
    }
    assert evidence.case == "rows=256 cols=512 dtype=float32 seed=7"
    assert evidence.observed_by == "worker"


def test_metrics_name_the_counters_of_ncu() -> None:
    told = {m.name: m.counters for m in measured(report_of(LOAD, SCATTERED_STORE)).metrics}
    store = told["useful_bytes_per_sector.store"]
    assert store == f"{BYTES} bytes / l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum = {ELEMENTS}"
    assert (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum = 0"
        in told["shared_bank_conflicts"]
    )


def test_accesses_of_other_spaces_and_atomics_are_no_loads_or_stores_of_sectors() -> None:
    others = (
        site(4, "global", "atomic", 32, 1024, 4096),
        site(4, "local", "load", 32, 1024, 4096),
        site(4, "shared", "atomic", 1, wavefronts=32, conflicts=31, ways=32),
    )
    evidence = measured(report_of(LOAD, STORE, *others))
    assert values(evidence)["useful_bytes_per_sector.load"] == 32
    assert values(evidence)["shared_bank_conflicts"] == 31  # those of atomics count


def test_lanes_that_take_turns_in_shared_memory_cost_what_conflicts_cost() -> None:
    turns = site(3, "shared", "load", 32 * REQUESTS, wavefronts=32 * REQUESTS, ways=1)
    evidence = measured(report_of(LOAD, dataclasses.replace(turns, lanes=32 * REQUESTS), STORE))
    assert values(evidence)["shared_bank_conflicts"] == 31 * REQUESTS
    assert not judged(evidence, "cuda_v4")["shared_bank_conflicts"].holds
    more_than_half = dataclasses.replace(WITHOUT_CONFLICTS, lanes=17 * REQUESTS)
    evidence = measured(report_of(LOAD, more_than_half, STORE))
    assert values(evidence)["shared_bank_conflicts"] == 0


def test_the_few_numbers_that_a_thread_tells_its_block_cost_nothing() -> None:
    lone = site(3, "shared", "store", REQUESTS // 16, wavefronts=REQUESTS // 16, ways=1)
    told = dataclasses.replace(lone, lanes=lone.requests)
    assert values(measured(report_of(LOAD, told, STORE)))["shared_bank_conflicts"] == 0


def test_counters_are_summed_by_line() -> None:
    two_sites = (
        LOAD,
        dataclasses.replace(LOAD, pc=4),
        CONFLICTING,
        dataclasses.replace(STORE, pc=5),
    )
    evidence = measured(report_of(*two_sites))
    rows = {(row.line, row.space, row.access): row for row in evidence.lines}
    assert list(rows) == sorted(rows)
    assert rows[60, "global", "load"].sectors == 2 * LOAD.sectors
    assert rows[63, "shared", "load"].ways == 32
    assert rows[0, "global", "store"].requests == REQUESTS  # no line is known


def test_a_long_list_of_lines_keeps_the_heaviest() -> None:
    many = [site(pc, "global", "load", 1, 1 + pc, 4) for pc in range(1000)]
    rows = by_line(cuda_metrics.rows(report_of(*many), {pc: pc for pc in range(1000)}))
    assert len(rows) == MAX_LINES
    assert min(row.line for row in rows) == 1000 - MAX_LINES


def test_reads_are_counted_per_element_of_an_argument() -> None:
    thrice = (dataclasses.replace(BUFFERS[0], load_bytes=3 * BYTES), BUFFERS[1])
    loads = dataclasses.replace(LOAD, requests=3 * REQUESTS, lanes=96 * REQUESTS)
    loads = dataclasses.replace(loads, sectors=3 * LOAD.sectors, useful_bytes=3 * BYTES)
    evidence = measured(report_of(loads, STORE, buffers=thrice))
    assert values(evidence)["reads.input"] == 3


def test_copies_between_host_and_device_are_counted() -> None:
    copies = Copies(3, 4096, host_to_device=1, device_to_host=1, device_to_device=1)
    evidence = measured(Report(copies=copies), "cuda", COLUMN)
    assert evidence.status is Status.passed
    assert values(evidence) == {
        "shared_bank_conflicts": 0,
        "copies": 2,
        "bytes_copied": 4096,
        "scratch_stores": 0,
        "largest_share": 0,
        "requests": 0,
        "blocks": 0,
    }


def test_a_run_that_found_something_is_no_measurement() -> None:
    evidence = measured(report_of(LOAD, STORE, findings=(Finding("race"),)))
    assert (evidence.status, evidence.metrics) == (Status.data_race, ())
    evidence = measured(report_of(LOAD, STORE, error=700, lost=True))
    assert evidence.status is Status.launch_error and "700" in evidence.reason


def test_a_report_that_was_cut_is_not_measured() -> None:
    assert measured(report_of(LOAD, STORE, cut=True)).status is Status.not_measured


# --- what can't be true ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (Report(), "input has 524,288 bytes and the result is right, but only 0 were loaded"),
        (report_of(LOAD, STORE, buffers=BUFFERS[1:]), "only 0 were loaded"),
        (report_of(LOAD, STORE, buffers=BUFFERS[:1]), "output has 524,288 bytes"),
        (
            report_of(LOAD, STORE, buffers=(BufferCounters(0, BYTES - 1, BYTES, 0, 0), BUFFERS[1])),
            "only 524,287 were loaded",
        ),
        (report_of(STORE), "don't agree"),
        (report_of(LOAD), "don't agree"),
    ],
)
def test_counters_below_what_the_case_requires_are_not_believed(report, said) -> None:
    evidence = measured(report)
    assert evidence.status is Status.not_measured
    assert said in evidence.reason
    assert evidence.metrics == ()


@pytest.mark.parametrize(
    ("largest", "said"),
    [
        (2 * BYTES + 1, "but the busiest is said to move 1,048,577"),  # both sites: 1,048,576
        (2 * BYTES // THREADS - 1, "32,768 threads or programs ask for 1,048,576 bytes"),
    ],
)
def test_a_share_that_no_thread_can_have_is_not_believed(largest, said) -> None:
    launch = dataclasses.replace(launched(LOAD, STORE), largest_bytes=largest)
    evidence = measured(report_of(launches=(launch,)))
    assert (evidence.status, evidence.metrics) == (Status.not_measured, ())
    assert said in evidence.reason


@pytest.mark.parametrize("largest", [2 * BYTES // THREADS, 2 * BYTES])
def test_a_share_between_even_and_all_is_believed(largest) -> None:
    launch = dataclasses.replace(launched(LOAD, STORE), largest_bytes=largest)
    evidence = measured(report_of(launches=(launch,)))
    assert values(evidence)["largest_share"] == largest / (2 * BYTES)


def test_blocks_that_nobody_planned_are_not_believed() -> None:
    variant = TRANSPOSE.variants["cuda_v4"]
    case = fixed_case(Task(TRANSPOSE, variant), variant.memory.case, 7)
    report = report_of(LOAD, STORE)
    for grid, said in (((128, 1, 1), ""), ((64, 1, 1), "no launch of (128, 1, 1) blocks")):
        step = Launch("launch", 0, grid, (32, 8, 1))
        plan = Plan.__new__(Plan)
        object.__setattr__(plan, "calls", ((step,),))
        assert said in cuda_metrics.implausible(report, Task(TRANSPOSE, variant), case, plan)
    assert cuda_metrics.implausible(report, Task(TRANSPOSE, variant), case, plan) != ""


def test_copies_may_do_what_kernels_do_not() -> None:
    variant = TRANSPOSE.variants["cuda_v4"]
    case = fixed_case(Task(TRANSPOSE, variant), variant.memory.case, 7)
    for copies in (Copies(1, BYTES, host_to_device=1), Copies(1, 0, device_to_device=1)):
        report = report_of(LOAD, buffers=BUFFERS[:1], copies=copies)
        assert cuda_metrics.implausible(report, Task(TRANSPOSE, variant), case) == ""


ATOMIC_STORE = site(4, "global", "atomic", REQUESTS, ELEMENTS, BYTES)
MUCH_MORE = site(4, "global", "load", 2 * REQUESTS, BYTES // 16, 2 * BYTES)


@pytest.mark.parametrize(
    ("sites", "copies", "told"),
    [
        ((LOAD, STORE), Copies(1, BYTES, host_to_device=1), "copies moved"),
        ((LOAD, STORE), Copies(1, 0, device_to_device=1), "copies moved"),
        ((LOAD, STORE, ATOMIC_STORE), Copies(), "atomics moved"),
        ((LOAD, STORE, MUCH_MORE), Copies(), "kernels load 1,572,864 bytes where 524,288 are"),
    ],
)
def test_sectors_of_a_show_beside_the_work_earn_nothing(sites, copies, told) -> None:
    evidence = measured(report_of(*sites, copies=copies))
    assert evidence.status is Status.target_missed
    assert told in evidence.reason


def test_atomics_that_add_up_leave_the_average_of_loads_as_it_is() -> None:
    assert measured(report_of(LOAD, ATOMIC_STORE), "cuda_v2").status is Status.passed


def test_a_few_copies_and_atomics_and_twice_the_traffic_are_honest() -> None:
    few = site(4, "global", "atomic", 1, 1, 32)
    twice = [dataclasses.replace(s, pc=s.pc + 4) for s in (LOAD, STORE)]
    copies = Copies(2, 256, host_to_device=1, device_to_host=1)
    evidence = measured(report_of(LOAD, STORE, *twice, few, copies=copies))
    assert evidence.status is Status.passed


def test_stores_beside_the_arguments_are_counted() -> None:
    aside = site(4, "global", "store", 10, 40, 1280)
    by_atomics = site(5, "global", "atomic", 1, 1, 32)
    evidence = measured(report_of(LOAD, STORE, aside, by_atomics))
    assert values(evidence)["scratch_stores"] == 1280 + 32


def test_of_host_memory_a_part_is_enough() -> None:
    rows = COLUMN.variants["cuda"].memory.case["rows"]
    enough = Report(copies=Copies(1, 4 * rows, host_to_device=1))
    assert measured(enough, "cuda", COLUMN).status is Status.passed
    short = Report(copies=Copies(1, 4 * rows - 1, host_to_device=1))
    assert measured(short, "cuda", COLUMN).status is Status.not_measured


# --- judging --------------------------------------------------------------------------------------


@pytest.mark.parametrize("solution", RUNGS)
@pytest.mark.parametrize("rung", ["cuda_v2", "cuda_v3", "cuda_v4"])
def test_a_rung_is_earned_by_it_and_by_every_higher_one(solution, rung) -> None:
    found = judged(measured(report_of(*RUNGS[solution]), rung), rung)
    assert all(each.holds for each in found.values()) == (solution >= rung)


def test_a_bound_holds_at_its_own_value() -> None:
    block = TRANSPOSE.variants["cuda_v4"].memory
    assert block is not None
    exact = [
        Metric("useful_bytes_per_sector.load", 30.0),
        Metric("useful_bytes_per_sector.store", 29.999),
        Metric("shared_bank_conflicts", 0),
        Metric("largest_share", 0.05),
        Metric("blocks", 8),
    ]
    found = memory_bounds.judge(block, exact, {"rows": 1, "cols": 1, "itemsize": 4, "sms": 132})
    assert [each.holds for each in found] == [True, False, True, True, True]


@pytest.mark.parametrize(("gpu", "sms"), [("A100", 108), ("T4", 40), ("", 132), ("GT 710", 132)])
def test_bounds_count_the_sms_of_the_courses_gpu(gpu: str, sms: int) -> None:
    exercise = spec.load_all()["silu"]
    exercise.belongs_to(None, gpu)
    assert memory_bounds.sizes_of(exercise.variants["cuda"])["sms"] == sms


def test_bounds_are_formulas_over_the_cases_sizes() -> None:
    variant = COLUMN.variants["cuda"]
    assert variant.memory is not None
    assert memory_bounds.sizes_of(variant) == {
        "rows": 1024,
        "cols": 48,
        "itemsize": 4,
        "sms": 132,
    }
    metrics = [Metric("copies", 4), Metric("bytes_copied", 8193)]
    copies, bytes_copied, _ = memory_bounds.judge(
        variant.memory, metrics, memory_bounds.sizes_of(variant)
    )
    assert copies.holds and not bytes_copied.holds
    assert (bytes_copied.measured, bytes_copied.wanted) == (8193, 8192)


def test_a_metric_that_was_not_measured_holds_no_bound() -> None:
    block = TRANSPOSE.variants["cuda_v4"].memory
    assert block is not None
    found = memory_bounds.judge(block, [], {"rows": 1, "cols": 1, "sms": 132})
    assert [(each.measured, each.holds) for each in found] == [(None, False)] * 5


def test_evidence_of_another_case_is_told_apart() -> None:
    variant = TRANSPOSE.variants["cuda_v4"]
    assert memory_bounds.is_case_of(variant, "rows=256 cols=512 dtype=float32 seed=9")
    assert not memory_bounds.is_case_of(variant, "rows=256 cols=256 dtype=float32 seed=7")
    assert not memory_bounds.is_case_of(variant, "rows=256 cols=512 dtype=float16 seed=7")
    assert not memory_bounds.is_case_of(variant, "")


# --- in words -------------------------------------------------------------------------------------


def test_how_work_is_shared_is_told_and_what_of_it_has_no_points() -> None:
    evidence = measured(report_of(LOAD, STORE), "cuda_v3")
    assert memory_bounds.shared_work(evidence, TRANSPOSE.variants["cuda_v3"]) == [
        "Of the bytes that the case needs, the busiest thread moves 0.01 %.",
        "Warps make 8,192 requests to global memory (not scored).",
        "The largest launch has 128 blocks that store.",
        "100 % of a warp's threads take part in its accesses to memory (not scored).",
    ]
    v1 = memory_bounds.shared_work(evidence, TRANSPOSE.variants["cuda_v1"])
    assert v1[2] == "The largest launch has 128 blocks that store (not scored)."
    # A bound for which there are no points.
    gelu = EXERCISES["gelu"].variants["cuda"]
    assert all(text.endswith("(not scored).") for text in memory_bounds.shared_work(evidence, gelu))


def test_shares_are_told_in_percent_and_never_rounded_over_their_bound() -> None:
    metrics = [Metric("largest_share", 0.05001), Metric("simt_efficiency", 0.2499)]
    block = EXERCISES["rmsnorm"].variants["cuda_matrix"].counted
    found = memory_bounds.judge(block, metrics, {})
    assert [memory_bounds.missed(each, (), "rmsnorm.cu") for each in found] == [
        "of the bytes that the case needs, the busiest thread moves 5.01 %, asked for: at most 5 %",
        "24.99 % of a warp's threads take part in its accesses to memory, asked for: at least 25 %",
    ]


def test_of_triton_programs_and_elements_are_told() -> None:
    names = ("largest_share", "requests", "blocks", "simt_efficiency")
    metrics = tuple(
        Metric(name, value) for name, value in zip(names, (0.5, 256, 1, 1), strict=True)
    )
    evidence = MemoryEvidence(Status.passed, metrics=metrics)
    assert memory_bounds.shared_work(evidence, EXERCISES["silu"].variants["triton"]) == [
        "Of the bytes that the case needs, the busiest program moves 50 %.",
        "Programs make 256 requests to global memory, each of up to 32 elements (not scored).",
        "The largest launch has 1 program that stores.",
        "Masks let 100 % of the elements of loads, stores and atomics through (not scored).",
    ]


def test_what_was_measured_is_told_with_what_the_next_rung_asks() -> None:
    evidence = measured(report_of(*RUNGS["cuda_v3"]), "cuda_v3")
    assert memory_bounds.sentences(evidence, TRANSPOSE, TRANSPOSE.variants["cuda_v3"]) == [
        "Loads use 32 of 32 bytes per sector.",
        "Stores use 32 of 32 bytes per sector.",
        "Of the bytes that the case needs, the busiest thread moves 0.01 %.",
        "The largest launch has 128 blocks that store.",
        "Shared loads conflict 32 ways at transpose.cu:63: 126,976 extra wavefronts; "
        "cuda_v4 asks for none.",
    ]
    evidence = measured(report_of(*RUNGS["cuda_v1"]), "cuda_v1")
    assert any(
        each.endswith("; cuda_v2, cuda_v3 and cuda_v4 ask for at least 30.")
        for each in memory_bounds.sentences(evidence, TRANSPOSE, TRANSPOSE.variants["cuda_v1"])
    )
    evidence = measured(report_of(*RUNGS["cuda_v4"]), "cuda_v4")
    assert memory_bounds.sentences(evidence, TRANSPOSE, TRANSPOSE.variants["cuda_v4"])[2] == (
        "Shared memory has no bank conflicts."
    )


def test_a_variant_is_told_nothing_of_what_another_language_asks() -> None:
    evidence = measured(report_of(*RUNGS["cuda_v2"]), "cuda_v2")
    for name, told in (
        ("cuda_v2", {"cuda_v3", "cuda_v4"}),
        ("triton_v2", {"triton_v3", "triton_v4"}),
    ):
        sentences = " ".join(memory_bounds.sentences(evidence, TRANSPOSE, TRANSPOSE.variants[name]))
        assert set(re.findall(r"\b(?:cuda|triton)_v\d", sentences)) == told


def test_what_was_missed_is_told_beside_what_was_wanted() -> None:
    evidence = measured(report_of(*RUNGS["cuda_v2"]), "cuda_v3")
    missed = judged(evidence, "cuda_v3")["useful_bytes_per_sector.store"]
    assert memory_bounds.missed(missed, evidence.lines, "transpose.cu") == (
        "stores use 4 of 32 bytes per sector (transpose.cu:67 the fewest), asked for: at least 30"
    )
    evidence = measured(report_of(*RUNGS["cuda_v3"]), "cuda_v4")
    missed = judged(evidence, "cuda_v4")["shared_bank_conflicts"]
    assert memory_bounds.missed(missed, evidence.lines, "transpose.cu") == (
        "shared loads conflict 32 ways at transpose.cu:63: 126,976 extra wavefronts, "
        "asked for: none"
    )


def test_what_never_happened_is_told_as_such() -> None:
    copies = Copies(1, 2 * BYTES, host_to_device=1)
    evidence = measured(report_of(copies=copies, buffers=()), "cuda_v2")
    missed = judged(evidence, "cuda_v2")["useful_bytes_per_sector.load"]
    assert memory_bounds.missed(missed, (), "t.cu").startswith(
        "no kernel loads anything from global"
    )


def test_copies_are_told_in_words() -> None:
    rows = [
        memory_bounds.Judged(("copies",), 1024, 4, False, False),
        memory_bounds.Judged(("bytes_copied",), 196608, 8192, False, False),
        memory_bounds.Judged(("scratch_stores",), 8704, 4096, False, False),
        memory_bounds.Judged(("scratch_stores",), 0, 0, False, True),
        memory_bounds.Judged(("reads", "weight"), 2.5, 1, False, False),
        memory_bounds.Judged(("reads", "x"), 1, 0.5, False, False),
    ]
    assert [memory_bounds.missed(row, (), "t.cu") for row in rows] == [
        "1,024 copies between host and device, asked for: at most 4",
        "196,608 bytes copied between host and device, asked for: at most 8,192",
        "kernels store 8,704 bytes beside the arguments, asked for: at most 4,096",
        "kernels store nothing beside the arguments, asked for: none",
        "every element of weight is read 2.5 times, asked for: at most 1",
        "every element of x is read once, asked for: at most 0.5",
    ]


def test_lanes_that_take_turns_are_told_as_that() -> None:
    missed = memory_bounds.Judged(("shared_bank_conflicts",), 1000, 0, False, False)
    assert memory_bounds.missed(missed, [], "t.cu") == (
        "threads take turns in shared memory: 1,000 wavefronts more than warps need, "
        "asked for: none"
    )


def test_conflicts_in_several_lines_are_told_with_their_sum() -> None:
    rows = [
        LineCounters(63, "k", "shared", "load", 32, conflicts=900, ways=32),
        LineCounters(70, "k", "shared", "store", 32, conflicts=100, ways=2),
    ]
    missed = memory_bounds.Judged(("shared_bank_conflicts",), 1000, 0, False, False)
    assert "63: 900 extra wavefronts, 1,000 in all," in memory_bounds.missed(missed, rows, "t.cu")


@given(st.floats(0, 1e12), st.booleans())
def test_a_number_is_never_shown_on_the_other_side_of_a_bound(value, up) -> None:
    shown = float(memory_bounds.number(value, up).replace(",", ""))
    assert shown >= value if up else shown <= value
    assert abs(shown - value) <= 0.0101 + 1e-12 * value


def test_what_concurrent_programs_load_is_told_as_a_share_of_row_major_order() -> None:
    judged = memory_bounds.Judged(("wave_bytes", "to_row_major"), 1.0, 0.75, False, False)
    assert memory_bounds.missed(judged, (), "gemm.py") == (
        "programs that run at once load 100 % of the bytes that row-major order needs, "
        "asked for: at most 75 %"
    )

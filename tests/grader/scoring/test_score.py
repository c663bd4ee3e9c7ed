"""Points: what each status earns, what is gradable, and that the sums are exact."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import spec
from grader.cases import fixed_case
from grader.evidence import (
    Baseline,
    Evidence,
    LineCounters,
    MemoryEvidence,
    Metric,
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
    from_json,
    to_json,
)
from grader.scoring.score import NEEDS_GPU, RIGHT_FIRST, GradeScore, score
from grader.scoring.speed import IN_DOUBT
from grader.spec.task import Task
from grader.status import Status

DTYPES = ("float32", "float16", "bfloat16")
POINTS = {"aligned": 1.5, "ragged": 1.5, "degenerate": 1.0, "performance": 2.0}
GPU = {"gpu": "NVIDIA H100 80GB HBM3"}


def make_threshold(points, speed_vs=None, at_least=None, milliseconds=None):
    return SimpleNamespace(
        points=points, speed_vs=speed_vs, at_least=at_least, milliseconds=milliseconds
    )


THRESHOLDS = (make_threshold(2.0, "copy", 0.90), make_threshold(1.0, "torch", 1.00))


CASES = ({"rows": 8, "dtype": "float32"},)
CASE = "rows=8 dtype=float32 seed=7"


def make_variant(points=POINTS, dtypes=DTYPES, thresholds=THRESHOLDS, name="triton", cases=CASES):
    timed = SimpleNamespace(
        steps=thresholds,
        every_case=cases,
        device=None,
        beside=False,
        by_gpu={},
        calibrated_on=(),
        on=lambda device: timed,
    )
    return SimpleNamespace(
        name=name,
        file="rmsnorm.py",
        dtypes=dtypes,
        points=points,
        size_classes=tuple(key for key in points if key not in ("performance", "memory")),
        performance=timed if "performance" in points else None,
        timed=timed,
        memory=None,
        bonus=False,
    )


def make_specs(*variants, name="rmsnorm"):
    by_name = {variant.name: variant for variant in variants or (make_variant(),)}
    space = SimpleNamespace(name=name, title="RMSNorm", variants=by_name, graded=by_name, gpu="")
    return {name: space}


def make_parts(changes=(), points=POINTS, dtypes=DTYPES):
    """Every part passed, but those of `changes`: {(size class, dtype): status}."""
    changes = dict(changes)
    return tuple(
        PartEvidence(dtype, key, changes.get((key, dtype), Status.passed), reason="why")
        for key in points
        if key not in ("performance", "memory")
        for dtype in dtypes
    )


def timed(status=Status.passed, copy=0.95, torch=1.05, **changes):
    baselines = (Baseline("copy", 90.0, copy), Baseline("torch", 100.0, torch))
    evidence = PerformanceEvidence(
        status, device=GPU["gpu"], case=CASE, microseconds=95.0, baselines=baselines
    )
    return dataclasses.replace(evidence, **changes)


def make_evidence(parts=None, performance=None, environment=None, **changes):
    variant = VariantEvidence(
        "rmsnorm",
        "triton",
        "rmsnorm.py",
        parts=make_parts() if parts is None else parts,
        performance=performance,
        not_attempted=changes.pop("not_attempted", ""),
    )
    environment = {"gpu": None} if environment is None else environment
    return Evidence("reference", 7, (variant,), environment, **changes)


def numbers(row) -> tuple[float, float, float]:
    return row.score, row.gradable, row.max_score


def check(grade: GradeScore, name: str):
    (found,) = [c for c in grade.exercises[0].variants[0].checks if c.name == name]
    return found


def test_all_correct_without_a_gpu_earns_all_that_is_gradable_here():
    grade = score(make_evidence(), make_specs())
    assert numbers(grade) == (4.0, 4.0, 6.0)
    performance = check(grade, "performance")
    assert performance.status is Status.not_measured
    assert performance.message == NEEDS_GPU
    assert grade.exercises[0].variants[0].status is Status.passed


def test_a_size_class_is_split_evenly_over_the_dtypes():
    parts = make_parts({("ragged", "float16"): Status.wrong_values})
    grade = score(make_evidence(parts), make_specs())
    ragged = check(grade, "ragged")
    assert numbers(ragged) == (1.0, 1.5, 1.5)
    assert ragged.status is Status.wrong_values
    assert [part.score for part in ragged.parts] == [0.5, 0.0, 0.5]
    assert grade.exercises[0].variants[0].status is Status.wrong_values


@pytest.mark.parametrize("status", list(Status))
def test_what_each_status_of_a_part_earns(status):
    grade = score(make_evidence(make_parts({("degenerate", "float32"): status})), make_specs())
    earned, gradable, _ = numbers(grade)
    assert earned == (4.0 if status is Status.passed else 3.6667)
    undecided = {Status.not_measured, Status.grader_error, Status.implausible_time}
    assert gradable == (3.6667 if status in undecided else 4.0)


def test_a_part_missing_from_interrupted_evidence_is_not_measured():
    parts = tuple(part for part in make_parts() if part.size_class != "degenerate")
    grade = score(make_evidence(parts, complete=False), make_specs())
    assert numbers(grade) == (3.0, 3.0, 6.0)
    assert check(grade, "degenerate").status is Status.not_measured
    assert not grade.complete


@pytest.mark.parametrize(("environment", "gradable"), [({"gpu": None}, 4.0), ({}, 4.0), (GPU, 6.0)])
def test_not_attempted_earns_nothing_of_what_this_machine_could_have_given(environment, gradable):
    evidence = make_evidence((), None, environment, not_attempted="the stub is untouched")
    grade = score(evidence, make_specs())
    assert numbers(grade) == (0.0, gradable, 6.0)
    checks = grade.exercises[0].variants[0].checks
    assert {c.status for c in checks} == {Status.not_attempted}
    assert {c.message for c in checks} == {"the stub is untouched"}


@pytest.mark.parametrize(
    ("copy", "torch", "points", "status"),
    [
        (0.90, 0.50, 2.0, Status.passed),
        (0.89, 1.00, 1.0, Status.passed),
        (0.89999, 0.99999, 0.0, Status.target_missed),
    ],
)
def test_performance_earns_the_first_threshold_that_holds(copy, torch, points, status):
    grade = score(make_evidence(None, timed(copy=copy, torch=torch), GPU), make_specs())
    performance = check(grade, "performance")
    assert numbers(performance) == (points, 2.0, 2.0)
    assert performance.status is status


def test_a_missed_target_is_not_rounded_up_to_it():
    grade = score(make_evidence(None, timed(copy=0.89999, torch=0.5), GPU), make_specs())
    assert "0.899 of a copy's speed (target 0.9)" in check(grade, "performance").message


def measured(low, high, ratio=None, **changes):
    """A time with one baseline, copy, whose ratio lies between low and high."""
    ratio = (low + high) / 2 if ratio is None else ratio
    return timed(baselines=(Baseline("copy", 90.0, ratio, low, high),), **changes)


def graded(performance, *thresholds, **variant):
    specs = make_specs(
        make_variant(**({"thresholds": thresholds} if thresholds else {}), **variant)
    )
    return check(score(make_evidence(None, performance, GPU), specs), "performance")


@pytest.mark.parametrize(
    ("low", "high", "points", "in_doubt"),
    [(0.90, 0.95, 2.0, False), (0.88, 0.90, 2.0, True), (0.85, 0.8999, 0.0, False)],
)
def test_the_doubt_of_a_measurement_is_the_students(low, high, points, in_doubt):
    found = graded(measured(low, high), make_threshold(2.0, "copy", 0.90))
    assert numbers(found) == (points, 2.0, 2.0)
    assert found.status is (Status.passed if points else Status.target_missed)
    assert (IN_DOUBT in found.message) is in_doubt


def test_what_was_measured_stands_beside_its_interval():
    found = graded(measured(0.88, 0.9049, 0.8929), make_threshold(2.0, "copy", 0.90))
    assert found.message == (
        "0.892 of a copy's speed (0.880 to 0.904; target 0.9): within the measurement's doubt, "
        "decided in your favour"
    )


def test_of_several_cases_all_must_reach_a_threshold():
    first = measured(0.95, 0.99, further=(measured(0.85, 0.89, case="rows=1 dtype=float32"),))
    found = graded(first, make_threshold(2.0, "copy", 0.90), cases=SEVERAL)
    assert found.status is Status.target_missed
    assert found.message.endswith("the worst of 2 cases: rows=1 dtype=float32")
    first = measured(0.95, 0.99, further=(measured(0.89, 0.93, case="rows=1 dtype=float32"),))
    found = graded(first, make_threshold(2.0, "copy", 0.90), cases=SEVERAL)
    assert (found.score, IN_DOUBT in found.message) == (2.0, True)


def test_evidence_from_before_intervals_counts_as_it_did():
    old = '{"name": "copy", "microseconds": 90.0, "ratio": 0.8999}'
    text = to_json(make_evidence(None, timed(copy=0.8999), GPU))
    new = json.loads(text)
    new["variants"][0]["performance"] = {
        "status": "passed", "device": GPU["gpu"], "case": CASE, "microseconds": 95.0,
        "samples": 21, "baselines": [json.loads(old)],
    }  # fmt: skip
    evidence = from_json(json.dumps(new))
    [baseline] = evidence.variants[0].performance.baselines
    assert (baseline.low, baseline.high, baseline.at_best) == (None, None, 0.8999)
    found = check(score(evidence, make_specs()), "performance")
    assert numbers(found) == (0.0, 2.0, 2.0)
    assert "0.899 of a copy's speed (target 0.9)" in found.message


def test_all_that_is_known_of_a_time_goes_through_json():
    full = measured(
        0.8, 0.9, flops=1e12, samples=24, voids={"slept": 2}, budget_ended=True,
        microseconds_low=94.0, microseconds_high=96.0, disturbed="copy took 5.0% longer",
        machine={"driver": "580.1", "sm_mhz": 1980, "celsius": 61.5},
    )  # fmt: skip
    evidence = make_evidence(None, full, GPU)
    assert from_json(to_json(evidence)) == evidence


LINEAR = spec.Threshold.model_validate(
    {"speed_vs": "copy", "from": 0.5, "at_least": 0.9, "points": 2}
)


@pytest.mark.parametrize(
    ("high", "points"),
    [(1.2, 2.0), (0.9, 2.0), (0.899, 1.8), (0.55, 0.2), (0.54, 0.2), (0.539, 0.0), (0.3, 0.0)],
)
def test_linear_points_are_those_of_the_highest_step_that_holds(high, points):
    found = graded(measured(0.98 * high, high), *LINEAR.steps)
    assert numbers(found) == (points, 2.0, 2.0)


def test_a_missed_target_names_the_next_one_of_each_baseline():
    found = graded(measured(0.38, 0.40), *LINEAR.steps)
    assert found.message == "0.390 of a copy's speed (0.380 to 0.400; target 0.54)"


@pytest.mark.parametrize(("low", "points"), [(0.0999, 2.0), (0.1001, 0.0)])
def test_milliseconds_hold_where_the_interval_reaches_them(low, points):
    limit = SimpleNamespace(gpu="H100", at_most=0.1)
    took = timed(microseconds=101.0, microseconds_low=1000 * low, microseconds_high=102.0)
    found = graded(took, make_threshold(2.0, milliseconds=limit))
    assert numbers(found) == (points, 2.0, 2.0)
    assert found.message.startswith(f"0.101 ms ({low:g} to 0.102; target 0.1 ms)")
    assert (IN_DOUBT in found.message) == bool(points)


def test_another_gpu_than_the_thresholds_are_for_is_said():
    specs = make_specs()
    specs["rmsnorm"].variants["triton"].performance.calibrated_on = ("H100",)
    for device, is_said in (("NVIDIA H100 80GB HBM3", False), ("NVIDIA A100", True)):
        grade = score(make_evidence(None, timed(device=device), GPU), specs)
        message = check(grade, "performance").message
        assert ("indicative: the final grade is taken on an H100" in message) is is_said


def test_a_disturbed_baseline_is_said():
    found = graded(timed(disturbed="copy took 5.0% longer beside the kernel"))
    assert found.message.endswith("; copy took 5.0% longer beside the kernel")


# An H100 moves 3.35 TB/s at most, so 268 MB in no less than some 78 us.
MOVED = 268435456


@pytest.mark.parametrize(("took", "doubted"), [(95.0, False), (80.2, False), (60.0, True)])
def test_a_time_that_the_memory_does_not_allow_waits_for_a_person(took, doubted):
    found = graded(timed(microseconds=took, bytes=MOVED))
    if doubted:
        assert (*numbers(found), found.status) == (0.0, 0.0, 2.0, Status.implausible_time)
        assert "60 us is below the " in found.message
        assert "a person will look, and no points are lost until then" in found.message
    else:
        assert found.status is Status.passed


def test_a_time_that_the_tensor_cores_do_not_allow_waits_for_a_person():
    fast = timed(microseconds=95.0, bytes=1000, flops=2e11, case="rows=8 dtype=bfloat16 seed=7")
    cases = ({"rows": 8, "dtype": "bfloat16"},)
    assert graded(fast, cases=cases, dtypes=("bfloat16",)).status is Status.implausible_time
    slower = dataclasses.replace(fast, microseconds=300.0)
    assert graded(slower, cases=cases, dtypes=("bfloat16",)).status is Status.passed


def test_one_implausible_case_of_several_is_enough():
    further = (timed(microseconds=60.0, bytes=MOVED, case="rows=1 dtype=float32"),)
    found = graded(timed(further=further), cases=SEVERAL)
    assert found.status is Status.implausible_time
    assert "rows=1" in found.message


def test_a_time_that_a_person_accepted_or_of_an_unknown_gpu_counts():
    doubted = timed(microseconds=1.0, bytes=MOVED)
    assert graded(dataclasses.replace(doubted, accepted=True)).status is Status.passed
    assert graded(dataclasses.replace(doubted, device="Another GPU")).status is Status.passed


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 0.0])
def test_odd_numbers_of_bytes_and_flops_break_nothing(number):
    for changes in ({"flops": number}, {"microseconds": number}):
        assert graded(timed(bytes=MOVED, **changes)).status in (Status.passed, Status.not_measured)


@pytest.mark.parametrize("ratio", [float("nan"), float("inf")])
def test_a_ratio_that_is_no_number_decides_nothing(ratio):
    grade = score(make_evidence(None, timed(copy=ratio, torch=ratio), GPU), make_specs())
    assert numbers(check(grade, "performance")) == (0.0, 0.0, 2.0)


def test_a_wrong_kernel_is_not_timed_and_loses_the_gradable_points():
    parts = make_parts({("ragged", "float16"): Status.wrong_values})
    performance = check(score(make_evidence(parts, timed(), GPU), make_specs()), "performance")
    assert numbers(performance) == (0.0, 2.0, 2.0)
    assert performance.message == RIGHT_FIRST
    # Without a GPU nothing is lost by it.
    performance = check(score(make_evidence(parts), make_specs()), "performance")
    assert numbers(performance) == (0.0, 0.0, 2.0)


def test_performance_waits_where_correctness_was_not_decided():
    parts = make_parts({("ragged", "float16"): Status.grader_error})
    performance = check(score(make_evidence(parts, timed(), GPU), make_specs()), "performance")
    assert numbers(performance) == (0.0, 0.0, 2.0)


@pytest.mark.parametrize(
    ("status", "gradable"),
    [
        (Status.not_measured, 0.0),
        (Status.grader_error, 0.0),
        (Status.implausible_time, 0.0),
        (Status.crashed, 2.0),
        (Status.timed_out, 2.0),
    ],
)
def test_a_run_that_could_not_be_timed(status, gradable):
    evidence = make_evidence(None, timed(status, reason="the reason"), GPU)
    performance = check(score(evidence, make_specs()), "performance")
    assert (*numbers(performance), performance.status) == (0.0, gradable, 2.0, status)
    assert performance.message == "the reason"


SEVERAL = ({"rows": 8, "dtype": "float32"}, {"rows": 1, "dtype": "float32"})


def test_of_several_cases_the_worst_counts():
    variants = make_specs(make_variant(cases=SEVERAL))
    further = (timed(copy=0.7, case="rows=1 dtype=float32 seed=7"),)
    evidence = make_evidence(None, timed(copy=0.95, further=further), GPU)
    performance = check(score(evidence, variants), "performance")
    assert numbers(performance) == (1.0, 2.0, 2.0)
    assert performance.message.startswith("1.050 of torch's speed (target 1), the worst of 2 cases")

    further = (timed(copy=0.7, torch=0.5, case="rows=1 dtype=float32 seed=7"),)
    evidence = make_evidence(None, timed(copy=0.95, further=further), GPU)
    performance = check(score(evidence, variants), "performance")
    assert (performance.status, performance.score) == (Status.target_missed, 0.0)
    assert (
        "0.700 of a copy's speed (target 0.9), the worst of 2 cases: rows=1" in performance.message
    )


@pytest.mark.parametrize(
    "cases", [SEVERAL, ({"rows": 9, "dtype": "float32"},), ({"rows": 8, "dtype": "float16"},)]
)
def test_timings_of_other_cases_than_the_spec_names_now_decide_nothing(cases):
    evidence = make_evidence(None, timed(), GPU)
    performance = check(score(evidence, make_specs(make_variant(cases=cases))), "performance")
    assert (*numbers(performance), performance.status) == (0.0, 0.0, 2.0, Status.not_measured)
    assert performance.message == "timed on other cases than the spec names now"


def test_a_case_beside_the_specs_counts_where_it_allows_one():
    further = (timed(copy=0.7, torch=0.5, case="rows=10 dtype=float32 seed=7"),)
    evidence = make_evidence(None, timed(copy=0.95, further=further), GPU)
    allowed = make_variant()
    allowed.performance.beside = True
    performance = check(score(evidence, make_specs(allowed)), "performance")
    assert (performance.status, performance.score) == (Status.target_missed, 0.0)
    assert "the worst of 2 cases: rows=10" in performance.message
    performance = check(score(evidence, make_specs(make_variant())), "performance")
    assert performance.message == "timed on other cases than the spec names now"


def test_a_baseline_that_was_not_timed_costs_nothing():
    only_torch = timed(baselines=(Baseline("torch", 100.0, 1.2),))
    performance = check(score(make_evidence(None, only_torch, GPU), make_specs()), "performance")
    assert numbers(performance) == (1.0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("gpu", "at_most", "expected"),
    [("H100", 0.1, (2.0, 2.0)), ("H100", 0.09, (0.0, 2.0)), ("A100", 0.1, (0.0, 0.0))],
)
def test_a_threshold_in_milliseconds_holds_on_its_gpu_only(gpu, at_most, expected):
    limit = SimpleNamespace(gpu=gpu, at_most=at_most)
    variant = make_variant(thresholds=(make_threshold(2.0, milliseconds=limit),))
    grade = score(make_evidence(None, timed(), GPU), make_specs(variant))
    assert numbers(check(grade, "performance")) == (*expected, 2.0)


TRANSPOSE = spec.load_all()["transpose"]
V4 = TRANSPOSE.variants["cuda_v4"]
MEASURED = MemoryEvidence(
    Status.passed,
    case="rows=256 cols=512 dtype=float32 seed=7",
    metrics=(
        Metric("useful_bytes_per_sector.load", 32.0),
        Metric("useful_bytes_per_sector.store", 32.0),
        Metric("shared_bank_conflicts", 0.0),
        Metric("largest_share", 0.001),
        Metric("blocks", 128),
    ),
    lines=(
        LineCounters(67, "k", "global", "store", 4096, sectors=131072, useful_bytes=524288),
        LineCounters(63, "k", "shared", "load", 4096, conflicts=126976, ways=32),
    ),
)


def with_metrics(**values):
    metrics = tuple(Metric(name.replace("__", "."), value) for name, value in values.items())
    return dataclasses.replace(MEASURED, metrics=metrics)


def graded_memory(memory, parts=None, **changes):
    """The check "memory" of transpose/cuda_v4, and its message."""
    parts = make_parts(points=V4.points, dtypes=V4.dtypes) if parts is None else parts
    seen = VariantEvidence(
        "transpose", "cuda_v4", "transpose.cu", parts=parts, memory=memory, **changes
    )
    grade = score(Evidence("reference", 7, (seen,)), {"transpose": TRANSPOSE})
    return check(grade, "memory")


def test_memory_points_are_given_where_every_bound_holds():
    found = graded_memory(MEASURED)
    assert numbers(found) == (2.0, 2.0, 2.0)
    assert found.status is Status.passed
    assert found.message.startswith("Loads use 32 of 32 bytes per sector. Stores use 32 of 32")


def test_one_bound_that_is_missed_costs_all_memory_points_and_is_named():
    found = graded_memory(
        with_metrics(
            useful_bytes_per_sector__load=32.0,
            useful_bytes_per_sector__store=4.0,
            shared_bank_conflicts=126976.0,
            largest_share=0.05,
            blocks=8.0,
        )
    )
    assert numbers(found) == (0.0, 2.0, 2.0)
    assert found.status is Status.target_missed
    assert found.message == (
        "stores use 4 of 32 bytes per sector (transpose.cu:67 the fewest), asked for: at least 30; "
        "shared loads conflict 32 ways at transpose.cu:63: 126,976 extra wavefronts, "
        "asked for: none"
    )


def test_a_bound_without_a_measurement_is_missed():
    found = graded_memory(dataclasses.replace(MEASURED, metrics=()))
    assert numbers(found) == (0.0, 2.0, 2.0)
    assert "no kernel loads anything from global memory" in found.message


@pytest.mark.parametrize("status", list(Status))
def test_memory_counts_only_where_the_kernel_is_right(status):
    parts = make_parts({("ragged", "float32"): status}, V4.points, V4.dtypes)
    found = graded_memory(MEASURED, parts)
    if status is Status.passed:
        assert numbers(found) == (2.0, 2.0, 2.0)
    elif status.is_failure:
        assert numbers(found) == (0.0, 2.0, 2.0)
        assert found.status is status
    else:
        assert numbers(found) == (0.0, 0.0, 2.0)
        assert found.status is Status.not_measured


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.passed])
def test_a_run_that_was_not_counted_says_why(status):
    found = graded_memory(MemoryEvidence(status, "no g++ here"))
    assert found.status is status
    assert found.message == "no g++ here"
    assert numbers(found) == (0.0, 2.0 if status.is_failure else 0.0, 2.0)


def test_memory_that_nothing_was_counted_of_is_not_gradable():
    assert numbers(graded_memory(None)) == (0.0, 0.0, 2.0)
    assert numbers(graded_memory(None, not_attempted="untouched")) == (0.0, 2.0, 2.0)


def test_counters_of_another_case_than_the_specs_are_not_judged():
    found = graded_memory(dataclasses.replace(MEASURED, case="rows=8 cols=8 dtype=float32 seed=7"))
    assert found.status is Status.not_measured
    assert numbers(found) == (0.0, 0.0, 2.0)


def test_memory_evidence_survives_being_written_and_read():
    seen = VariantEvidence("transpose", "cuda_v4", "transpose.cu", memory=MEASURED)
    evidence = Evidence("reference", 7, (seen,))
    assert from_json(to_json(evidence)) == evidence


def test_variants_that_were_not_asked_for_are_left_out_of_the_maximum():
    specs = make_specs(make_variant(), make_variant(name="cuda_matrix"))
    specs |= make_specs(name="silu")
    grade = score(make_evidence(), specs)
    assert [e.name for e in grade.exercises] == ["rmsnorm"]
    assert [v.name for v in grade.exercises[0].variants] == ["triton"]
    assert grade.max_score == 6.0


def test_evidence_the_specs_no_longer_have_is_ignored():
    stale = (
        PartEvidence("float64", "aligned", Status.wrong_values),
        PartEvidence("float32", "huge", Status.wrong_values),
    )
    evidence = make_evidence(make_parts() + stale)
    gone = VariantEvidence("gelu", "triton", "gelu.py", parts=stale)
    gone_too = VariantEvidence("rmsnorm", "cuda", "rmsnorm.cu", parts=stale)
    evidence = dataclasses.replace(evidence, variants=(gone, *evidence.variants, gone_too))
    assert score(evidence, make_specs()) == score(make_evidence(), make_specs())


def test_nothing_asked_for_scores_nothing():
    assert numbers(score(Evidence("x", 7, ()), make_specs())) == (0.0, 0.0, 0.0)


def test_scoring_stored_evidence_again_gives_the_same_grade():
    evidence = make_evidence(None, timed(), GPU)
    assert score(from_json(to_json(evidence)), make_specs()) == score(evidence, make_specs())


_points = st.decimals("0", "50", places=3).map(float)
_part = st.builds(
    PartEvidence,
    dtype=st.sampled_from(DTYPES),
    size_class=st.sampled_from(["aligned", "ragged", "degenerate", "gone"]),
    status=st.sampled_from(Status),
)
_performance = st.builds(
    timed,
    status=st.sampled_from(Status),
    copy=st.floats(allow_nan=True),
    torch=st.floats(0, 2),
)


@st.composite
def _specs(draw):
    points = {name: draw(_points) for name in (*POINTS, "memory") if draw(st.booleans())}
    offered = points.get("performance", 0.0)
    thresholds = (
        make_threshold(offered, "copy", 0.9),
        make_threshold(offered / 2, "torch", 1.0),
    )
    dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=1, unique=True))
    return make_specs(make_variant(points or {"aligned": 1.0}, tuple(dtypes), thresholds))


@given(
    specs=_specs(),
    parts=st.lists(_part, max_size=12).map(tuple),
    performance=st.none() | _performance,
    environment=st.sampled_from([{}, {"gpu": None}, GPU]),
    not_attempted=st.sampled_from(["", "untouched"]),
)
def test_score_gradable_and_maximum_are_always_in_order(
    specs, parts, performance, environment, not_attempted
):
    evidence = make_evidence(parts, performance, environment, not_attempted=not_attempted)
    grade = score(evidence, specs)
    rows = [grade, *grade.exercises]
    rows += [v for e in grade.exercises for v in e.variants]
    rows += [c for e in grade.exercises for v in e.variants for c in v.checks]
    for row in rows:
        assert 0 <= row.score <= row.gradable <= row.max_score
    for row in rows:
        for inner in ("exercises", "variants", "checks"):
            for name in ("score", "gradable", "max_score"):
                if hasattr(row, inner):
                    total = sum(getattr(part, name) for part in getattr(row, inner))
                    assert getattr(row, name) == pytest.approx(total, abs=1e-3)


@given(specs=_specs())
def test_full_marks_are_exactly_the_maximum(specs):
    variant = specs["rmsnorm"].variants["triton"]
    parts = make_parts(points=variant.points, dtypes=variant.dtypes)
    grade = score(make_evidence(parts, timed(), GPU), specs)
    # With no size class nothing says that the kernel is right, so it isn't timed either.
    open_points = variant.points.get("memory", 0.0)
    if not variant.size_classes:
        open_points += variant.points.get("performance", 0.0)
    assert grade.score == grade.gradable
    assert grade.max_score == round(sum(variant.points.values()), 4)
    assert grade.score == round(sum(variant.points.values()) - open_points, 4)


# --- a bonus -------------------------------------------------------------------------------------


def with_bonus(parts=(), **bonus_seen) -> GradeScore:
    """A grade of a variant of 3 points, all earned, and of one with a bonus of 1.5."""
    bonus = make_variant({"aligned": 1.0, "ragged": 0.5}, ("float32",), name="cuda")
    bonus.bonus = True
    specs = make_specs(make_variant({"aligned": 1.5, "ragged": 1.5}), bonus)
    right = make_parts(points=("aligned", "ragged"))
    seen = (
        VariantEvidence("rmsnorm", "triton", "rmsnorm.py", parts=right),
        VariantEvidence("rmsnorm", "cuda", "rmsnorm.cu", parts=parts, **bonus_seen),
    )
    return score(Evidence("reference", 7, seen, {"gpu": None}), specs)


def bonus_parts(**changes):
    changed = {(name, "float32"): status for name, status in changes.items()}
    return make_parts(changed, ("aligned", "ragged"), ("float32",))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (bonus_parts(), (1.5, 1.5, 1.5)),
        (bonus_parts(ragged=Status.wrong_values), (1.0, 1.5, 1.5)),
        (bonus_parts(ragged=Status.not_measured), (1.0, 1.0, 1.5)),
        (bonus_parts(aligned=Status.crashed, ragged=Status.crashed), (0.0, 1.5, 1.5)),
        ((), (0.0, 0.0, 1.5)),
    ],
)
def test_a_bonus_adds_to_the_score_and_to_no_maximum(parts, expected):
    grade = with_bonus(parts)
    for row in (grade, grade.exercises[0]):
        assert numbers(row) == (3.0 + expected[0], 3.0, 3.0)
        assert (row.bonus, row.gradable_bonus, row.max_bonus) == expected
    regular, bonus = grade.exercises[0].variants
    assert (regular.is_bonus, bonus.is_bonus) == (False, True)
    assert numbers(bonus) == expected


def test_a_bonus_that_was_left_alone_costs_nothing():
    grade = with_bonus(not_attempted="the stub is as it was given")
    assert numbers(grade) == (3.0, 3.0, 3.0)
    assert (grade.bonus, grade.gradable_bonus, grade.max_bonus) == (0.0, 1.5, 1.5)


def test_stored_evidence_is_scored_anew_when_a_variant_becomes_a_bonus():
    specs = make_specs(make_variant({"aligned": 1.5, "ragged": 1.5}))
    evidence = from_json(to_json(make_evidence(make_parts(points=("aligned", "ragged")))))
    before = score(evidence, specs)
    specs["rmsnorm"].variants["triton"].bonus = True
    after = score(evidence, specs)
    assert before.score == after.score == 3.0
    assert (before.max_score, before.max_bonus) == (3.0, 0.0)
    assert (after.max_score, after.max_bonus) == (0.0, 3.0)


# --- the assignment's own ------------------------------------------------------------------------


def best_memory(exercise, variant):
    """Evidence of a run that no memory bound can be missed by."""
    if variant.memory is None:
        return None
    case = fixed_case(Task(exercise, variant), variant.memory.case, 7)
    metrics = [
        Metric(".".join(path), 32.0 if bound.at_least is not None else 0.0)
        for path, bound in variant.memory.bounds()
    ]
    return MemoryEvidence(Status.passed, case=str(case), metrics=tuple(metrics))


def test_the_specs_of_the_assignment_can_be_earned_in_full():
    for name, exercise in spec.load_all().items():
        for variant in exercise.variants.values():
            first, *further = [
                PerformanceEvidence(
                    Status.passed,
                    device="NVIDIA H100",
                    case=str(fixed_case(Task(exercise, variant), case, seed=7)),
                    microseconds=1.0,
                    baselines=tuple(
                        Baseline(t.speed_vs, 9.0, 9.0)
                        for t in variant.performance.thresholds
                        if t.speed_vs
                    ),
                )
                for case in (variant.performance.every_case if variant.performance else ())
            ] or [None]
            fast = dataclasses.replace(first, further=tuple(further)) if first else None
            parts = make_parts(points=variant.points, dtypes=variant.dtypes)
            seen = VariantEvidence(
                name,
                variant.name,
                variant.file,
                parts=parts,
                performance=fast,
                memory=best_memory(exercise, variant),
            )
            grade = score(Evidence("reference", 7, (seen,), GPU), {name: exercise})
            regular = 0 if variant.bonus else variant.max_points
            assert grade.score == variant.max_points
            assert grade.gradable == grade.max_score == regular
            assert grade.bonus == grade.gradable_bonus == grade.max_bonus == grade.score - regular

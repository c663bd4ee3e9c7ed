"""The table of a whole grade says what could not be timed, and why, and what was checked last."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from benchmarks.whole_grade import Watch, is_right, untimed
from grader.evidence import Evidence, PerformanceEvidence
from grader.grading.session import Step
from grader.spec import load_all
from grader.status import Status
from tests.support.gradebooks import variant_evidence

EXERCISE = load_all()["rmsnorm"]
TIMED = PerformanceEvidence(Status.passed, device="H100", case="rows=8192", samples=9)
NOISY = replace(TIMED, status=Status.not_measured, reason="GPU too noisy. It is shared.")


@pytest.mark.parametrize(
    ("performance", "lines"),
    [
        (TIMED, []),
        (NOISY, ["not timed: rmsnorm/triton, rows=8192: GPU too noisy. It is shared."]),
        (replace(TIMED, further=(replace(NOISY, case="rows=16"),)), ["rows=16: GPU too noisy"]),
        (replace(NOISY, disturbed="copy took 4% longer"), ["It is shared.; copy took 4% longer"]),
        (replace(NOISY, device=""), []),  # there was no GPU
    ],
)
def test_what_was_not_timed_on_a_gpu_is_told_with_its_reason(performance, lines):
    seen = variant_evidence(EXERCISE, EXERCISE.variants["triton"], performance=performance)
    told = untimed(Evidence("reference", 7, (seen,)))
    assert len(told) == len(lines) and all(b in a for a, b in zip(told, lines, strict=True))
    assert is_right(seen)
    assert not is_right(replace(seen, performance=replace(performance, status=Status.crashed)))


def test_the_parts_heard_of_last_are_named_with_their_times(monkeypatch):
    watch = Watch()
    watch.started = 100.0
    for now, step in [
        (101.0, Step("gemm", "triton_v4")),  # no part yet
        (102.0, Step("gemm", "triton_v4", "float16 aligned")),
        (103.0, Step("silu", "cuda", "float32 ragged")),
        (104.0, Step("silu", "triton", "float32 ragged")),
        (109.0, Step("gemm", "triton_v4", "float16 aligned", cases=3)),
        (110.0, Step("silu", "triton", "timing")),
        (111.0, Step("silu", "triton", "waiting for the GPU")),
    ]:
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        watch(step)
    assert watch.last(2) == [
        "silu/triton float32 ragged: 4 to 4 s",
        "gemm/triton_v4 float16 aligned: 2 to 9 s",
    ]
    assert watch.checked_by == 109.0 and watch.began == {("silu", "triton"): 110.0}

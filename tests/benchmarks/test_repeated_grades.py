"""The benchmark of repeated grades: what it calls the same points, and what not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.evidence import Baseline, PerformanceEvidence
from grader.spec import load_all
from grader.status import Status
from tests.support.modules import module_of

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "repeated_grades.py"
VARIANT = load_all()["rmsnorm"].variants["triton"]


@pytest.fixture(scope="module")
def benchmark_of_grades():
    return module_of(PATH)


def told(module, **points: str) -> list[str]:
    given = {condition: text.split(", ") for condition, text in points.items()}
    return module.verdicts([module.Subject("good", VARIANT, "", given)])


def test_the_same_points_each_time_are_what_is_asked(benchmark_of_grades):
    assert told(benchmark_of_grades, alone="2, 2, 2", cpu="2, 2", gpu="too noisy, too noisy") == []
    assert told(benchmark_of_grades, gpu="too noisy") == []


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ({"alone": "2, 1, 2"}, "the same points each time, got 2 (2), 1 (1)"),
        ({"alone": "2, 2", "cpu": "1, 1"}, "the same points each time"),
        ({"alone": "2, not measured"}, "the same points each time"),
        ({"alone": "too noisy, too noisy"}, "the same points each time"),
        (
            {"alone": "2, 2", "gpu": "too noisy, 0"},
            "'too noisy' beside a loaded GPU, got too noisy",
        ),
        ({"alone": "2, 2", "gpu": "2, 2"}, "'too noisy' beside a loaded GPU, got 2 (2)"),
        ({"gpu": "2, 2"}, "'too noisy' beside a loaded GPU, got 2 (2)"),
        ({"gpu": "not measured"}, "'too noisy' beside a loaded GPU, got not measured (1)"),
    ],
)
def test_other_points_are_told(benchmark_of_grades, points, said):
    [line] = told(benchmark_of_grades, **points)
    assert line.startswith("good: expected") and said in line


def test_points_are_those_of_the_first_threshold_that_holds(benchmark_of_grades):
    points_of = benchmark_of_grades.points_of
    seen = PerformanceEvidence(Status.passed, device="NVIDIA H100", microseconds=90.0)
    for copy, torch, points in ((0.95, 1.4, "2.5"), (0.7, 1.1, "1.25"), (0.3, 0.5, "0")):
        baselines = (
            Baseline("copy", 90.0, copy, copy - 0.01, copy + 0.01),
            Baseline("torch", 90.0, torch, torch - 0.01, torch + 0.01),
        )
        assert points_of(VARIANT, replace(seen, baselines=baselines)) == points
    noisy = PerformanceEvidence(Status.not_measured, "GPU too noisy: somebody else had 48%")
    assert points_of(VARIANT, noisy) == "too noisy"
    little = PerformanceEvidence(Status.not_measured, "the GPU has too little memory")
    assert points_of(VARIANT, little) == "not measured"
    crashed = PerformanceEvidence(Status.crashed, "it ended")
    assert points_of(VARIANT, crashed) == "crashed: it ended"

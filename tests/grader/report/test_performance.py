"""A timing is told as a speed, a share of a roof and a next step, whatever the evidence holds."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import pytest
from rich.console import Console

from grader.evidence import (
    Baseline,
    MemoryEvidence,
    Metric,
    PerformanceEvidence,
    VariantEvidence,
)
from grader.gpu.roofline import Roofs
from grader.report import performance
from grader.report.performance import duration, sentences
from grader.report.terminal import _timing
from grader.status import Status


@dataclass(frozen=True)
class Timed(PerformanceEvidence):
    """With what a case must compute."""

    flops: float | None = None


H100 = "NVIDIA H100 80GB HBM3"
ROWS = Timed(
    Status.passed,
    device=H100,
    case="rows=8192 cols=8192 dtype=bfloat16 seed=7",
    microseconds=93.1,
    bytes=2 * 8192**2 * 2,
)
PRODUCT = Timed(
    Status.passed,
    device=H100,
    case="M=4096 N=4096 K=4096 dtype=bfloat16 seed=7",
    microseconds=180.0,
    bytes=3 * 4096**2 * 2,
    flops=2.0 * 4096**3,
)


def test_memory_bound_is_told_in_gb_per_second():
    assert sentences(ROWS) == [
        "moves 268 MB in 93.1 us: 2883 GB/s, 86 % of what this GPU's memory gives at most; bound "
        "by memory. Next: only fewer bytes make it faster now: fuse it with the kernel before or "
        "after it."
    ]


@pytest.mark.parametrize(
    ("microseconds", "ratio", "told"),
    [
        (93.1, 0.98, "86 % of what this GPU's memory gives at most, where a copy beside it reaches "
         "88 %; bound by memory. Next: only fewer bytes"),
        (93.1, 0.90, "where a copy beside it reaches 96 %; bound by memory. Next: keep more bytes"),
        (105.0, 0.99, "where a copy beside it reaches 77 %; bound by memory. Next: only fewer"),
    ],
)  # fmt: skip
def test_how_near_to_the_roof_is_near_is_what_a_copy_beside_it_reached(microseconds, ratio, told):
    beside = (Baseline("torch", 99.0, 0.5), Baseline("copy", ratio * microseconds, ratio))
    timed = replace(ROWS, microseconds=microseconds, baselines=beside)
    assert told in sentences(timed)[0]
    roofs = Roofs(2957e9, {"bfloat16": 792e12}, is_measured=True)
    assert "a copy beside it" not in sentences(timed, roofs)[0]
    product = replace(PRODUCT, baselines=beside)
    assert sentences(product) == sentences(PRODUCT)


def test_what_to_try_next_follows_from_the_counted_accesses():
    slow = replace(ROWS, microseconds=180.0)
    sparing = (Metric("useful_bytes_per_sector.load", 32.0), Metric("reads.x", 1.0))
    wasteful = (*sparing, Metric("useful_bytes_per_sector.store", 2.0))
    (by_time,) = sentences(slow)
    (told,) = sentences(slow, memory=MemoryEvidence(Status.passed, metrics=sparing))
    (wastes,) = sentences(slow, memory=MemoryEvidence(Status.passed, metrics=wasteful))
    assert "Next: count the loads per input" in by_time
    assert "Next: keep more bytes in flight" in told
    assert "its stores use 2 of a sector's 32 bytes." in wastes
    assert sentences(slow, memory=MemoryEvidence(Status.not_measured)) == [by_time]


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf")])
def test_a_copys_ratio_that_is_none_is_left_out(ratio):
    timed = replace(ROWS, baselines=(Baseline("copy", 90.0, ratio),))
    assert sentences(timed) == sentences(ROWS)


def test_compute_bound_is_told_in_tflop_per_second():
    (told,) = sentences(PRODUCT)
    assert told.startswith(
        "computes 137 GFLOP in 180.0 us: 764 TFLOP/s, 77 % of the bfloat16 peak of this GPU; bound "
        "by computing (1365 FLOP per byte; the ridge is at 295). Next: load the next tiles"
    )


def test_a_product_below_the_ridge_is_told_in_bytes():
    few = replace(PRODUCT, bytes=2 * 8192**2, flops=2.0 * 16 * 8192**2, microseconds=60.0)
    (told,) = sentences(few)
    assert told.startswith("moves 134 MB in 60.0 us: 2237 GB/s, 67 % of")
    assert "bound by memory (16 FLOP per byte; the ridge is at 295)" in told


def test_measured_roofs_are_named_as_such():
    roofs = Roofs(2957e9, {"bfloat16": 792e12}, is_measured=True)
    assert "98 % of what a copy reaches here" in sentences(ROWS, roofs)[0]
    assert "96 % of the bfloat16 matrix peak measured here" in sentences(PRODUCT, roofs)[0]


def test_of_an_unknown_gpu_only_the_speed_is_told():
    assert sentences(replace(ROWS, device="Some GPU")) == ["moves 268 MB in 93.1 us: 2883 GB/s."]
    without = replace(PRODUCT, device="Some GPU", bytes=None)
    assert sentences(without) == ["computes 137 GFLOP in 180.0 us: 764 TFLOP/s."]


def test_every_case_has_a_sentence_of_its_own():
    told = sentences(replace(PRODUCT, further=(replace(PRODUCT, case="M=16 dtype=float16"),)))
    assert len(told) == 2
    assert told[1].startswith("M=16 dtype=float16: computes 137 GFLOP")


@pytest.mark.parametrize(
    "changes",
    [
        {"microseconds": None},
        {"microseconds": 0.0},
        {"microseconds": -1.0},
        {"microseconds": float("nan")},
        {"bytes": None},
        {"bytes": 0},
    ],
)
def test_what_was_not_timed_has_no_sentence(changes):
    assert sentences(replace(ROWS, **changes)) == []
    assert performance.placed(replace(ROWS, **changes)) is None


@pytest.mark.parametrize("odd", [{"flops": -1.0}, {"flops": 0.0}, {"case": "dtype=\x1b[31m\nx"}])
def test_odd_evidence_neither_breaks_the_report_nor_reaches_the_terminal(odd):
    every = replace(ROWS, **odd, further=(replace(ROWS, **odd),))
    for told in sentences(every):
        assert "\x1b" not in told
        assert "\n" not in told


def test_old_evidence_without_flops_is_told_by_its_bytes():
    plain = PerformanceEvidence(
        Status.passed, device=H100, case=ROWS.case, microseconds=93.1, bytes=ROWS.bytes
    )
    assert sentences(plain) == sentences(ROWS)


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [(0.44, "0.4 us"), (93.1, "93.1 us"), (999.96, "1.00 ms"), (1850.0, "1.85 ms")],
)
def test_durations_are_short(microseconds, words):
    assert duration(microseconds) == words


def test_the_terminal_shows_it_where_something_was_timed():
    text = io.StringIO()
    console = Console(file=text, width=80, color_system=None)
    _timing(VariantEvidence("rmsnorm", "triton", "rmsnorm.py"), console)
    assert text.getvalue() == ""
    _timing(VariantEvidence("rmsnorm", "triton", "rmsnorm.py", performance=ROWS), console)
    told = text.getvalue()
    assert f"rmsnorm/triton on {H100}" in told
    assert " ".join(sentences(ROWS)[0].split()) in " ".join(told.split())
    assert all(len(line) <= 80 for line in told.splitlines())

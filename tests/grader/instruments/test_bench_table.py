"""The table of `grader bench` says how fast, how sure, how near to the roof and against torch."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

from rich.console import Console

from grader.evidence import Baseline, PerformanceEvidence
from grader.gpu.roofline import Roofs
from grader.instruments.bench_table import render, table
from grader.status import Status


@dataclass(frozen=True)
class Timed(PerformanceEvidence):
    """With intervals."""

    microseconds_low: float | None = None
    microseconds_high: float | None = None


@dataclass(frozen=True)
class Compared(Baseline):
    """With an interval."""

    low: float | None = None
    high: float | None = None


ROWS = Timed(
    Status.passed,
    device="NVIDIA H100 80GB HBM3",
    case="rows=8192 cols=8192 dtype=bfloat16 seed=7",
    microseconds=93.1,
    microseconds_low=92.84,
    microseconds_high=93.42,
    bytes=268435456,
    baselines=(Baseline("copy", 91.0, 0.98), Compared("torch", 95.0, 1.0204, 1.01, 1.03)),
)


def printed(timings, roofs=None, width=100) -> str:
    text = io.StringIO()
    render(timings, Console(file=text, width=width, color_system=None), roofs)
    return text.getvalue()


def row_of(told: str, name: str) -> str:
    return next(" ".join(line.split()) for line in told.splitlines() if line.startswith(name))


def test_a_row_has_median_interval_speed_share_and_the_speed_against_torch():
    told = printed([("rmsnorm/triton", ROWS)])
    row = "rmsnorm/triton 93.1 us 92.8 to 93.4 us 2883 GB/s 86 % 1.02x (1.01 to 1.03)"
    assert row_of(told, "rmsnorm") == row


def test_measured_roofs_are_what_counts_where_there_are_some():
    told = printed([("rmsnorm/triton", ROWS)], Roofs(2957e9, {}, is_measured=True))
    assert " 98 % " in row_of(told, "rmsnorm")


def test_what_is_not_known_is_a_dash():
    old = PerformanceEvidence(Status.passed, device="Some GPU", microseconds=1850.0, bytes=10**9)
    assert row_of(printed([("silu/triton", old)]), "silu") == "silu/triton 1.85 ms - 541 GB/s - -"


def test_several_cases_are_told_apart_by_their_sizes():
    both = replace(ROWS, further=(replace(ROWS, case="rows=16 cols=16 dtype=float16 seed=7"),))
    told = printed([("rmsnorm", both)], width=160)
    assert row_of(told, "rmsnorm rows=8192 cols=8192 dtype=bfloat16 ")
    assert row_of(told, "rmsnorm rows=16 cols=16 dtype=float16 ")
    assert "seed" not in told.split("\n\n")[0]


def test_what_was_not_timed_says_why():
    noisy = PerformanceEvidence(Status.not_measured, "GPU too noisy")
    told = printed([("silu/triton", noisy), ("rmsnorm", ROWS)])
    assert row_of(told, "silu/triton ") == "silu/triton - - - - -"
    assert f"silu/triton: {Status.not_measured.headline}: GPU too noisy." in told


def test_an_interval_across_a_millisecond_names_both_units():
    timed = replace(ROWS, microseconds=1000.0, microseconds_low=900.0, microseconds_high=1100.0)
    assert "900.0 us to 1.10 ms" in printed([("a", timed)])


def test_strange_names_reach_no_terminal():
    odd = replace(ROWS, status=Status.crashed, reason="\x1b[31mred [bold]x[/bold]\n")
    told = printed([("[red]a\x1b[0m", odd)])
    assert "\x1b" not in told
    assert "[bold]x" in told


def test_the_table_fits_an_ordinary_window():
    told = printed([("flash_attention/triton", ROWS)], width=100)
    assert max(map(len, told.split("\n\n")[0].splitlines())) <= 100
    assert table([("a", ROWS)]).row_count == 1

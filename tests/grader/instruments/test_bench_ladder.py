"""A ladder is one table and one plot: v0 from torch's baseline, rungs on one case."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from grader.evidence import Baseline, PerformanceEvidence
from grader.gpu.roofline import peaks
from grader.grading.session import selected
from grader.instruments import bench, bench_ladder, plots
from grader.instruments.bench import Timed
from grader.spec import load_all
from grader.status import Status

EXERCISES = load_all()
GPU = "NVIDIA H100 80GB HBM3"
ROOFS = peaks(GPU).roofs()


def timed(variant: str, microseconds: float, dtype: str = "float32") -> Timed:
    evidence = PerformanceEvidence(
        Status.passed,
        device=GPU,
        case=f"rows=8192 cols=8192 dtype={dtype} seed=2026",
        microseconds=microseconds,
        bytes=536870912,
        baselines=tuple(
            Baseline(name, took, took / microseconds)
            for name, took in (("copy", 181.6), ("torch", 547.0))
        ),
    )
    return Timed("transpose", variant, None, False, evidence)


STUB = PerformanceEvidence(Status.not_attempted, "transpose_v1() is still the stub")
RUNGS = [
    Timed("transpose", "cuda_v1", None, True, STUB),
    timed("cuda_v3", 318.0),
    timed("triton_v4", 95.0, "bfloat16"),
]


def printed(width: int) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None)
    bench_ladder.show(RUNGS, EXERCISES["transpose"], ROOFS, console)
    return text.getvalue()


def test_rungs_of_both_languages_have_one_case_and_others_keep_theirs():
    for name, kept in (("transpose", {}), ("gemm", {"cuda_tiled"})):
        tasks = bench.with_a_case(selected(EXERCISES, [name]), [])
        alike = bench_ladder.on_their_case(tasks)
        assert [str(each) for each in alike] == [str(each) for each in tasks]
        cases = {
            str(each.variant.performance.every_case)
            for each in alike
            if each.variant.name not in kept
        }
        assert len(cases) == 1 and len(alike) >= 5
        assert all(len(each.variant.performance.every_case) == 1 for each in alike)
    for name in ("silu", "rmsnorm", "gemm/triton_v4"):
        assert bench_ladder.on_their_case(selected(EXERCISES, [name])) == []


def test_a_table_has_v0_from_torch_and_a_line_for_what_was_not_timed():
    lines = [line.split() for line in printed(80).splitlines()]
    assert ["Transpose,", "rows=8192", "cols=8192", "dtype=float32:"] in lines
    assert ["torch_v0", "547.0", "us", "981", "GB/s", "29", "%", "1.00x"] in lines
    assert ["cuda_v3", "318.0", "us", "1688", "GB/s", "50", "%", "1.72x"] in lines
    assert ["cuda_v1", "-", "-", "-", "-"] in lines
    assert any(line[:2] == ["triton_v4", "bfloat16"] for line in lines)
    assert "cuda_v1: not attempted: transpose_v1() is still the stub." in printed(80)


@pytest.mark.parametrize("width", [80, 50])
def test_it_stays_a_table_in_a_narrow_window(width):
    lines = printed(width).splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("torch_v0 ") and line.rstrip().endswith("1.00x") for line in lines)


def test_the_plot_has_a_bar_for_each_kernel_that_was_timed(monkeypatch):
    drawn = {}

    def save(figure, stem: Path) -> tuple[Path, ...]:
        axes = figure.axes[0]
        drawn["names"] = [label.get_text() for label in axes.get_yticklabels()]
        drawn["speeds"] = [round(bar.get_width()) for bar in axes.patches]
        drawn["roofs"] = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2]
        return (stem,)

    monkeypatch.setattr(plots, "_save", save)
    pytest.importorskip("matplotlib")
    [figure] = bench_ladder.figures(RUNGS, EXERCISES["transpose"], ROOFS, Path("out"))
    assert figure() == (Path("out/transpose-ladder"),)
    assert drawn["names"] == ["torch_v0", "cuda_v3", "triton_v4 bfloat16"]
    assert drawn["speeds"] == [981, 1688, 5651]
    assert ROOFS.bandwidth / 1e9 in drawn["roofs"]
    untimed = [replace(each, evidence=STUB) for each in RUNGS]
    assert bench_ladder.figures(untimed, EXERCISES["transpose"], ROOFS, Path("out")) == []

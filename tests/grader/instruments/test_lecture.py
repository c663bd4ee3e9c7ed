"""The lecture's comparisons: every workload computes what it says, over the CPU in tiny sizes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from grader.cases.oracle import load
from grader.gpu.roofline import peaks
from grader.instruments import plots
from grader.timing.bootstrap import Interval
from lecture import __main__ as program
from lecture import comparisons, handout, kernels, operators, results
from lecture.clock import WARM_UP, Clock
from lecture.comparisons import Comparison, Sizes, Timing
from tests.support.emulated import ELEMENTS, NEEDS_COMPILER, Program
from tests.support.small_exercise import ROOT

TINY = Sizes(
    gelu=(8, 64),
    softmax_rows=4,
    softmax=(3, 16),
    matmul=(4, 8),
    mlp_dim=4,
    mlp_batch=2,
    layers=(1, 2),
    steps=(1, 2),
)


@pytest.fixture
def uncompiled(monkeypatch) -> None:
    """torch.compile takes seconds here; what it is given is what counts."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(torch.compiler, "reset", lambda: None)


@pytest.mark.parametrize("ways", [operators.gelu_ways(), operators.softmax_ways()])
def test_each_way_computes_the_same(uncompiled, ways, tmp_path):
    x = torch.randn(5, 7, dtype=torch.float64)
    truth = load(ways.name).definition(x)
    found = ways.of("cpu", tmp_path)
    assert list(found) == ["torch, op by op", "torch", "torch.compile"]
    for function in found.values():
        torch.testing.assert_close(function(x), truth, rtol=1e-6, atol=1e-9)
    assert ways.missing == {"Triton": "there is no GPU", "CUDA": "there is no GPU"}


@pytest.mark.parametrize("name", ["gelu", "softmax"])
def test_the_triton_kernels_are_the_solutions(name):
    assert kernels.triton_entry(name, name).__code__.co_varnames[:2] == ("x", "out")
    with pytest.raises(kernels.Missing, match=r"there is no reference/nothing\.py"):
        kernels.triton_entry("nothing", "nothing")


def test_a_kernel_that_can_not_be_built_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels.shutil, "which", lambda _: None)
    source = ROOT / "lecture" / "softmax.cu"
    with pytest.raises(kernels.Missing, match="there is no nvcc"):
        kernels.cuda_entry(source, "softmax", tmp_path)
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'softmax.cu(1): error: no' >&2\nexit 1\n")
    nvcc.chmod(0o755)
    monkeypatch.setattr(kernels.shutil, "which", lambda _: str(nvcc))
    with pytest.raises(kernels.Missing, match=r"compile softmax\.cu: softmax\.cu\(1\): error: no"):
        kernels.cuda_entry(source, "softmax", tmp_path)


@NEEDS_COMPILER
@pytest.mark.parametrize("cols", [1, 37])
def test_the_cuda_softmax_is_right_in_the_emulator(tmp_path, cols):
    rows = ELEMENTS // cols
    text = (
        (ROOT / "lecture" / "softmax.cu").read_text().replace('extern "C" void softmax', "void s")
    )
    text += (
        'extern "C" void drive(const float* in, float* out, int n) '
        f"{{ s(in, out, n / {cols}, {cols}); }}\n"
    )
    (tmp_path / "drive.cu").write_text(text)
    outcome = Program(tmp_path / "drive.cu", tmp_path / "built").run("drive")
    assert not outcome.report.findings
    x = torch.arange(float(ELEMENTS))[: rows * cols].view(rows, cols)
    found = outcome.out[: rows * cols].view(rows, cols)
    torch.testing.assert_close(found, torch.softmax(x, 1), rtol=1e-5, atol=1e-7)


def test_an_mlp_does_its_steps(monkeypatch):
    passes = []
    forward = torch.nn.Linear.forward
    monkeypatch.setattr(
        torch.nn.Linear, "forward", lambda self, x: passes.append(self) or forward(self, x)
    )
    comparisons.training(layers=3, steps=4, dim=4, batch=2, device="cpu")()
    assert len(passes) == 12
    assert all(each.weight.grad is not None for each in passes)


def test_all_of_it_runs_and_leaves_tables_plots_and_json(uncompiled, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    saved = [".png", ".svg"]  # without drawing it, which test_plots.py does
    monkeypatch.setattr(
        plots, "_save", lambda _, stem: [stem.with_suffix(kind).touch() for kind in saved]
    )
    text = io.StringIO()
    every = program.compare(
        Clock("cpu", 5),
        TINY,
        list(comparisons.EVERY),
        "NVIDIA H100 80GB HBM3",
        peaks("NVIDIA H100 80GB HBM3").roofs(),
        tmp_path,
        Console(file=text, width=120, color_system=None),
    )
    kinds = ("md", "png", "svg")
    expected = {f"{name}.{kind}" for name in comparisons.EVERY for kind in kinds}
    expected |= {"matmul-rate.png", "matmul-rate.svg"}
    assert {path.name for path in tmp_path.iterdir()} == {*expected, "lecture.json"}
    lines = {each.stem: results.lines_of(each) for each in every}
    assert lines["matmul"] == ["float32", "tf32", "bfloat16"]
    assert lines["mlp"] == ["1 step", "2 steps"]
    assert [t.x for t in every[3].timings] == [1, 2, 1, 2]
    assert [t.flops for t in every[3].timings] == [2 * 32 * p for p in (2, 5, 4, 10)]
    stored = json.loads((tmp_path / "lecture.json").read_text())
    assert [each["stem"] for each in stored["comparisons"]] == list(comparisons.EVERY)
    assert "Triton is left out: there is no GPU" in text.getvalue()
    assert "Medians of 5 calls after 5 to warm up" in (tmp_path / "gelu.md").read_text()


def test_without_matplotlib_the_tables_are_there(uncompiled, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = io.StringIO()
    console = Console(file=text, width=120, color_system=None)
    program.compare(Clock("cpu", 2), TINY, ["matmul"], "a GPU", None, tmp_path, console)
    assert plots.MISSING in text.getvalue()
    assert {path.name for path in tmp_path.iterdir()} == {"matmul.md", "lecture.json"}


def test_without_a_gpu_nothing_runs_and_that_is_no_error(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(program.machine, "gpu_properties", lambda: None)
    program.main(["--out", str(tmp_path / "out")])
    assert "Nothing ran." in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out").exists()


def test_the_clock_warms_up_and_takes_the_median():
    calls = []
    took = Clock("cpu", 7).microseconds(lambda: calls.append(None))
    assert len(calls) == WARM_UP + 7
    assert took.count == 7 and 0 <= took.low <= took.median <= took.high


def test_a_table_has_a_row_for_each_size_and_the_interval_in_the_medians_unit():
    slow, fast = Interval(1850.0, 1840.0, 1900.0, 9), Interval(93.1, 92.84, 93.42, 9)
    found = Comparison(
        "gelu",
        "GELU",
        "elements",
        (Timing("torch", 8, fast), Timing("torch", 16, slow), Timing("CUDA", 8, fast)),
        {"Triton": "there is no triton"},
    )
    assert results.rows(found) == [
        ["elements", "torch", "CUDA"],
        ["8", "93.1 us (92.8-93.4)", "93.1 us (92.8-93.4)"],
        ["16", "1.85 ms (1.84-1.90)", "-"],
    ]
    text = results.markdown(found, "a GPU", "A note.")
    assert text.startswith(
        "**GELU** on a GPU\n\n| elements | torch | CUDA |\n| --: | --: | --: |\n"
    )
    assert text.endswith("A note. Triton is left out: there is no triton.\n")


def test_time_grows_upwards_in_a_plot_of_times(tmp_path: Path, monkeypatch):
    pytest.importorskip("matplotlib")
    drawn = []
    monkeypatch.setattr(plots, "_save", lambda figure, stem: drawn.append(figure.axes[0]))
    timings = tuple(Timing("1 step", n, Interval(1e3 * n, 9e2 * n, 2e3 * n, 5)) for n in (2, 4))
    found = Comparison("mlp", "MLP", "layers", timings, drawn=("time",))
    results.draw(found, "a GPU", None, tmp_path)
    line = drawn[0].lines[0]
    assert list(line.get_xdata()) == [2, 4] and list(line.get_ydata()) == [2.0, 4.0]
    assert drawn[0].get_ylabel() == "ms"


def test_the_handout_gets_its_tables_from_what_was_measured(tmp_path):
    def timing(line: str, x: int, took: float) -> Timing:
        return Timing(line, x, Interval(took, took - 1, took + 1, 9), 8, None)

    timed = (timing("torch", 64, 12.34), timing("CUDA", 64, 5.0), timing("torch", 128, 2500.0))
    found = Comparison("gelu", "GELU", "elements", timed)
    (tmp_path / "lecture.json").write_text(results.to_json([found], "H100", "Medians."))
    text = "a\n<!-- lecture: {} -->\nold\n<!-- /lecture -->\nb\n"
    page = tmp_path / "handout.md"
    page.write_text(text.format("gelu") + text.format("mlp"))
    handout.main([str(tmp_path / "lecture.json"), "--handout", str(page)])
    gelu, mlp, _ = page.read_text().split("<!-- /lecture -->")
    assert gelu.splitlines()[2:] == [
        "**GELU** on H100:",
        "",
        "| elements | torch | CUDA |",
        "| --: | --: | --: |",
        "| 64 | 12.3 us | 5.0 us |",
        "| 128 | 2.50 ms | - |",
    ]
    assert mlp.endswith("-->\nold\n"), "it wasn't measured"


def test_what_is_no_result_of_the_lecture_is_told_in_a_line(tmp_path, capsys):
    (tmp_path / "other.json").write_text("[]")
    for file, told in [
        ("other.json", "expected what `make lecture` leaves"),
        ("none.json", "No such"),
    ]:
        with pytest.raises(SystemExit):
            handout.main([str(tmp_path / file)])
        assert told in capsys.readouterr().err.splitlines()[-1]


def test_the_handout_has_a_table_of_every_comparison():
    parts = handout.PART.finditer(handout.HANDOUT.read_text(encoding="utf-8"))
    tables = {found[1]: found[0] for found in parts}
    assert set(tables) == set(program.EVERY)
    assert all(" us |" in table or " ms |" in table for table in tables.values())

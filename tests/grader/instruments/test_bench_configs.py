"""`grader bench --configs` times every combination of values, and says why one fails."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from grader.evidence import PerformanceEvidence
from grader.executors.registry import Runners
from grader.gpu.roofline import Roofs
from grader.grading.session import Options, Session
from grader.instruments import bench, bench_configs, plots
from grader.instruments.bench_configs import Configured, configurations, parse
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import sequential
from grader.timing.submission import Stopwatch
from tests.support.clocked import RMSNORM, InPython, without_doubts
from tests.support.commandline import call
from tests.support.small_exercise import ROOT

EXERCISES = load_all()
ROOFS = Roofs(2957e9, {"bfloat16": 792e12}, is_measured=True)
REFERENCE = ROOT / "reference"


def test_words_are_values_by_name_and_the_last_name_changes_fastest():
    values = parse(["BLOCK=64,128", "num_warps=4,8"])
    assert (
        values
        == {"BLOCK": ["64", "128"], "num_warps": ["4", "8"]}
        == parse(["BLOCK=64,128,64 num_warps=4,8"])
    )
    assert [[*each.values()] for each in configurations(values)] == [
        ["64", "4"], ["64", "8"], ["128", "4"], ["128", "8"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rmsnorm/triton", "--configs", "BLOCK"], "--configs: expected constants with numbers,"),
        (["rmsnorm/triton", "--configs", "BLOCK=__import__"], "--configs: expected constants with"),
        (["rmsnorm/triton", "--configs", ""], "--configs: expected constants, as in BLOCK=64,128"),
        (["rmsnorm/triton", "--configs", "A=1", "A=2"], "--configs: expected each constant once"),
        (["rmsnorm/triton", "BLOCK=64"], "expected one name, or --configs before constants, got B"),
        (["rmsnorm/triton", "--configs", "BLOCK=1", "--sizes", "8"], "--configs: expected no"),
        (["rmsnorm", "--configs", "BLOCK=1"], "--configs: expected the name of one variant"),
        (
            ["rmsnorm/triton", "--configs", "BLOK=1"],
            "--configs: expected a constant that rmsnorm uses in rmsnorm.py, of which there are M",
        ),
        (
            ["transpose/cuda_v4", "--configs", "num_warps=4"],
            "--configs: expected a constant that transpose_v4 uses in transpose.cu, of which there",
        ),
        (
            ["rmsnorm/triton", "--configs", "A=" + ",".join(map(str, range(65)))],
            "--configs: expected at most 64 configurations, got 65",
        ),
    ],
)  # fmt: skip
def test_a_mistake_of_the_user_is_one_line(capsys, words, told):
    done = call(capsys, "bench", *words, "--submission", REFERENCE)
    assert done.code == 2 and not done.out
    assert done.err.startswith(told) and done.err.count("\n") == 1, done.err


def test_sizes_without_commas_are_told_how_to_write_them(capsys):
    done = call(capsys, "bench", "rmsnorm", "--sizes", "8", "16", "--submission", REFERENCE)
    assert done.code == 2 and "got 16: values of --sizes are joined by commas" in done.err


# --- over the CPU ---------------------------------------------------------------------------------

SCALED = f"BLOCK = 64\nEXTRA = 0\n{RMSNORM}".replace(
    "wide = x.float()", "assert BLOCK != 32, 'too small'\n    wide = x.float() + EXTRA"
)


@pytest.fixture
def taken(monkeypatch, python_sandbox, tmp_path) -> list[Configured]:
    """Four configurations of a kernel in Python, of which three fail."""
    without_doubts(monkeypatch, 2)
    monkeypatch.setattr(bench_configs, "BESIDE_OTHERS", ("copy",))
    monkeypatch.setattr(Runners, "sandbox_of", lambda *_: python_sandbox)

    def planned(watch: Stopwatch, task: Task) -> InPython:
        source = watch._runners._sources.read("rmsnorm.py").decode()
        return InPython.of(python_sandbox, task, source)

    monkeypatch.setattr(Stopwatch, "planned", planned)
    exercise, variant = EXERCISES["rmsnorm"], EXERCISES["rmsnorm"].variants["triton"]
    case = {"rows": 2, "cols": 64, "dtype": "float32"}
    performance = variant.timed.model_copy(update={"case": case})
    variant = variant.model_copy(update={"performance": performance})
    (tmp_path / "rmsnorm.py").write_text(SCALED)
    budget = sequential.Budget(seconds=60.0, pairs=2)
    values = parse(["BLOCK=64,32", "EXTRA=0,1"])
    with Session(tmp_path, EXERCISES, Options(device="cpu")) as session:
        task = Task(exercise, variant)
        runs = bench_configs.run(session, python_sandbox, task, values, ROOFS, budget)
        return list(runs)


def test_each_configuration_is_timed_and_judged_and_a_failing_one_ends_none(taken, monkeypatch):
    assert [each.name for each in taken] == [
        *("BLOCK=64 EXTRA=0", "BLOCK=64 EXTRA=1", "BLOCK=32 EXTRA=0", "BLOCK=32 EXTRA=1")
    ]
    statuses = [each.evidence.status for each in taken]
    assert statuses == [Status.passed, Status.wrong_values, Status.crashed, Status.crashed]
    text, task = io.StringIO(), Task(EXERCISES["rmsnorm"], EXERCISES["rmsnorm"].variants["triton"])
    bench_configs.show(taken, task, ROOFS, Console(file=text, width=80, color_system=None))
    told = " ".join(text.getvalue().split())
    assert "rmsnorm/triton, rows=2 cols=64 dtype=float32:" in told
    assert "BLOCK=32 EXTRA=0 and 1 more: " in told and "too small" in told
    assert "The fastest: BLOCK=64 EXTRA=0, " in told
    document = json.loads(bench_configs.to_json(taken, task))
    assert (document["schema"], document["name"]) == (1, "rmsnorm/triton")
    assert document["configurations"][3]["values"] == {"BLOCK": "32", "EXTRA": "1"}

    pytest.importorskip("matplotlib")
    drawn = {}

    def save(figure, stem: Path) -> tuple[Path, ...]:
        drawn[stem.name] = [text.get_text() for text in figure.axes[0].texts]
        return (stem,)

    monkeypatch.setattr(plots, "_save", save)
    for figure in bench_configs.figures(taken, task, ROOFS, Path("out")):
        figure()
    assert [*drawn] == ["rmsnorm-triton-configs", "rmsnorm-triton-configs-roofline"]
    cells = drawn["rmsnorm-triton-configs"]
    assert len(cells) == 4 and float(cells[0]) > 0
    assert [cell.replace("\n", " ") for cell in cells[1:]] == [
        each.evidence.status.headline for each in taken[1:]
    ]


def test_where_nothing_was_timed_there_is_no_plot_and_no_fastest(tmp_path):
    failed = [
        Configured({"BLOCK": "1"}, PerformanceEvidence(Status.compile_error, "no", case="n=1"))
    ]
    task = Task(EXERCISES["silu"], EXERCISES["silu"].variants["triton"])
    assert bench_configs.figures(failed, task, ROOFS, tmp_path) == []
    assert bench_configs.fastest(failed) is None
    assert bench.BESIDE_OTHERS

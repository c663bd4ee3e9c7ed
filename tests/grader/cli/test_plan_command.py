"""`grader plan`: what each solution asks of the GPU is shown, on a machine without one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader.cli import app
from grader.cli.console import console
from grader.executors.cuda import cuda_build
from grader.spec import Course, load_all
from grader.staff import new
from tests.support import warm_python
from tests.support.commandline import call, one_line
from tests.support.small_exercise import ROOT

EXERCISES = load_all()


Show = Callable[..., str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Show:
    """What `grader plan` prints of the solutions, in a window of so many columns."""

    def show(*words: str, columns: int = 100) -> str:
        monkeypatch.setattr(console, "_width", columns)
        line = ["plan", *words, "--submission", str(ROOT / "reference")]
        result = CliRunner().invoke(app.app, line)
        assert result.exit_code == 0, result.output
        return result.output

    return show


@pytest.mark.parametrize("name", ["silu", "copy_first_column", "flash_attention"])
def test_each_variant_of_an_exercise_is_planned(name: str, shown: Show):
    if reason := cuda_build.why_not("emulator"):
        pytest.skip(reason)
    told = shown(name)
    for variant in EXERCISES[name].variants.values():
        part = told.split(f"{name}/{variant.name}:")[1].split("\n\n")[0]
        assert re.search(rf"{variant.entry} (launches|asks for) ", part), part
        assert re.search(rf"\b{variant.file}:\d+", part), part


def test_a_launch_names_grid_arguments_constants_and_line(shown: Show):
    told = " ".join(shown("silu/triton", "--case", "n=5000 dtype=float16").split())
    assert "silu_kernel on 3 programs: x, out, 5000; BLOCK=2048, 8 warps silu.py:" in told


def test_a_narrow_window_cuts_no_line_off(shown: Show):
    told = shown("gemm/triton_v3", columns=60)
    table = [line for line in told.splitlines()[2:] if line.strip()]
    assert max(map(len, table)) <= 60 and "GROUP_SIZE_M=8" in told


def test_the_plan_is_written_as_json(tmp_path, shown: Show):
    path = tmp_path / "plan.json"
    shown("silu/triton", "--json", str(path))
    assert json.loads(path.read_text())["language"] == "triton"


@pytest.mark.parametrize("size", [67_108_864, 1 << 31])
def test_a_case_of_any_size_is_planned(shown: Show, size: int):
    told = " ".join(shown("silu/triton", "--case", f"n={size}").split())
    assert f"silu_kernel on {size // 2048:,} programs: x, out, {size};" in told


def test_a_mistake_is_told_in_a_line():
    line = ["plan", "silu/triton", "--case", "n=0", "--submission", str(ROOT / "reference")]
    result = CliRunner().invoke(app.app, line)
    assert result.exit_code == 2 and "--case" in result.output + (result.stderr or "")


def test_an_exercise_whose_spec_is_wrong_is_not_taken_for_another(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    new.course(tmp_path / "course")
    for name in ("square", "squares"):
        new.exercise(Course(tmp_path / "course"), name, ["triton"])
    spec = tmp_path / "course" / "exercises" / "squares.yaml"
    spec.write_text(spec.read_text(encoding="utf-8").replace("role: output", "role: outptu"))
    for name in ("squares", "squares/triton"):
        lines = call(capsys, "plan", name, "--course", tmp_path / "course").err.splitlines()
        assert lines[0].startswith("squares.yaml:7: arguments.out.role: expected one of")
        assert lines[1:] == [f"{name}: expected an exercise whose spec is right, one of square"]


def test_a_terminal_that_does_not_know_its_width_shows_everything():
    ran = warm_python.run(["-m", "grader", "--version"], ROOT, {**os.environ, "COLUMNS": "0"})
    assert ran.stdout.startswith("warpgrade ")


def test_output_to_a_full_disk_is_a_line():
    command = [sys.executable, "-m", "grader", "--version"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, one_line(ran.stderr)) == (2, "the output: No space left on device")

"""`grader profile` as it is typed: what it prints and writes, and its mistakes, a line each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.gpu import machine
from grader.instruments.profile import read, recording, samples
from tests.grader.instruments.profile.traces import TRACE
from tests.support.commandline import call

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *words: call(capsys, "profile", *words)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[recording.Program]:
    """The programs that are recorded on what stands in for a GPU: each leaves the same trace."""
    recorded: list[recording.Program] = []

    def record(program: recording.Program, out: Path) -> read.Profile:
        recorded.append(program)
        out.write_text(json.dumps(TRACE))
        return read.read(out)

    monkeypatch.setattr(machine, "gpu_name", lambda: "A GPU")
    monkeypatch.setattr(recording, "record", record)
    return recorded


def test_a_file_is_profiled_and_leaves_a_page_and_a_trace(
    run: Run, programs: list[recording.Program], tmp_path: Path
):
    (tmp_path / "try_it.py").write_text("")
    name = f"{tmp_path}/try_it.py:main"
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    ended = run(name, "--quick", "--plain", "--html", page, "--trace", trace)
    assert ended.code == 0 and programs == [recording.Program(name)]
    assert "This is no grade." in ended.out
    assert "a.py:2  `.item()` waits here for the device, once, 40 us in all." in ended.out
    assert json.loads(trace.read_text()) == TRACE
    assert page.read_text().startswith("<!doctype html>")


def test_a_variant_is_profiled_on_the_case_that_is_timed(
    run: Run, programs: list[recording.Program]
):
    assert run("silu/triton", "--quick").code == 0
    (program,) = programs
    assert program.target == "silu/triton" and program.case.startswith("n=")
    assert program.is_function


def test_without_a_gpu_the_stored_sample_is_shown_and_said_to_be_one(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(machine, "gpu_name", lambda: None)
    monkeypatch.setattr(samples, "FOLDER", tmp_path)
    ended = run()
    assert ended.code == 2 and "this version has no stored sample" in ended.err
    for name in samples.FUNCTIONS:
        samples.trace(name).write_text(json.dumps(TRACE))
    ended = run()
    assert ended.code == 0
    words = " ".join(ended.out.split())
    assert "This is a stored sample, recorded on A GPU, 2026-01-01." in words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.py"], "nowhere.py: expected a file of yours"),
        (["gleu"], "gleu: expected the name of an exercise, one of"),
        (["--html", "/nowhere/a.html"], "/nowhere/a.html: expected a folder"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(run: Run, words: list[str], said: str):
    ended = run(*words)
    assert ended.code == 2
    assert said in ended.err and len(ended.err.strip().splitlines()) == 1

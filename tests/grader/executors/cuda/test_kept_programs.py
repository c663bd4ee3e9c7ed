"""Programs of CUDA C++ are kept in the user's cache from one run to the next."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from grader.emulator import toolchain
from grader.executors.compile import kept_builds
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.cuda import cuda_build
from grader.grading.check import check_part
from grader.grading.session import Options, Session
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status

EXERCISES = load_all()
TASK = Task(EXERCISES["silu"], EXERCISES["silu"].variants["cuda"])
SOURCE = (Path(__file__).resolve().parents[4] / "reference" / "silu.cu").read_text()


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Grades a text of silu.cu: its status, and what the compilers were asked for meanwhile."""
    toolchain.prepare()
    kept = tmp_path / "cache" / "programs.sqlite"
    begun: list[str] = []
    begin = cuda_build.begin

    def noted(sandbox: Any, order: cuda_build.Order) -> Any:
        begun.append(order.backend)
        return begin(sandbox, order)

    monkeypatch.setattr(cuda_build, "begin", noted)
    monkeypatch.setattr(cuda_build, "kept_programs", lambda: KeptBuilds(kept, 8))

    def check(source: str, keeps: bool = True) -> tuple[Status, list[str]]:
        begun.clear()
        folder = tmp_path / "submission"
        folder.mkdir(exist_ok=True)
        (folder / "silu.cu").write_text(source)
        options = Options(device="cpu", keeps_builds=keeps)
        with Session(folder, EXERCISES, options) as session:
            status = check_part(session, TASK, "float32", "degenerate").status
            session.runners.is_refused_by_nvcc(TASK)  # it waits for nvcc, where there is one
        return status, sorted(set(begun))

    check.kept = kept  # type: ignore[attr-defined]
    return check


WITH_NVCC = ["emulator", "nvcc"] if toolchain.find_nvcc() else ["emulator"]


def test_a_second_run_compiles_nothing(checked) -> None:
    assert checked(SOURCE) == (Status.passed, WITH_NVCC)
    assert checked(SOURCE) == (Status.passed, [])


def test_a_changed_text_and_another_builder_compile_anew(checked, monkeypatch) -> None:
    checked(SOURCE)
    wrong = SOURCE.replace("1.0f", "2.0f")
    assert wrong != SOURCE
    assert checked(wrong) == (Status.wrong_values, WITH_NVCC)
    monkeypatch.setattr(kept_builds, "code_of", lambda *_: "another")
    assert checked(SOURCE) == (Status.passed, WITH_NVCC)


def test_what_does_not_compile_is_not_kept(checked) -> None:
    """What hindered the compiler may have been the machine."""
    for _ in range(2):
        status, begun = checked(SOURCE.replace("__global__", "__globe__"))
        assert (status, "emulator" in begun) == (Status.compile_error, True)


def test_a_class_is_compiled_for_itself(checked) -> None:
    checked(SOURCE)
    assert checked(SOURCE, keeps=False) == (Status.passed, WITH_NVCC)


def test_a_kept_text_that_is_no_program_is_compiled_anew(checked) -> None:
    checked(SOURCE)
    for text in ("no JSON", "3", json.dumps(["answer", "no base64!"])):
        builds = cuda_build.kept_programs()
        table = sqlite3.connect(checked.kept)
        keys = [key for (key,) in table.execute("SELECT key FROM kept")]
        table.close()
        for key in keys:
            builds.put(key, text)
        builds.close()
        assert checked(SOURCE)[0] is Status.passed

"""The executor's program is built once for its sources and its compiler; a failure is told."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from grader.emulator import toolchain
from grader.executors.gpu import executor_program
from tests.support.fake_gpu import NEEDS_COMPILER

pytestmark = NEEDS_COMPILER
NATIVE = executor_program._NATIVE


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache, and the sources in a copy that a test may change; one of them is enough."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(NATIVE, tmp_path / "native")
    monkeypatch.setattr(executor_program, "_NATIVE", tmp_path / "native")
    monkeypatch.setattr(executor_program, "_SOURCES", ("one",))
    (tmp_path / "native" / "one.cpp").write_text("int main() {}\n")
    executor_program.program.cache_clear()
    yield tmp_path / "cache" / "warpgrade"
    executor_program.program.cache_clear()


def again() -> bytes:
    """The program for a grader that starts."""
    executor_program.program.cache_clear()
    return executor_program.program()


def entries(cache: Path) -> list[Path]:
    """What is kept there."""
    return [each for each in cache.iterdir() if not each.name.endswith(".lock")]


def source() -> Path:
    return executor_program._NATIVE / "one.cpp"


def test_what_was_built_is_kept_until_a_source_differs(cache: Path, monkeypatch) -> None:
    first = again()
    assert first[:4] == b"\x7fELF"
    build = mock.Mock(wraps=executor_program._build)
    monkeypatch.setattr(executor_program, "_build", build)
    assert again() == first and not build.called
    source().write_text("int main() { return 1; }\n")
    assert again() != first and build.call_count == 1
    header = executor_program._NATIVE / "text.h"
    header.write_text(f"{header.read_text()}\n")
    again()
    assert build.call_count == 2
    monkeypatch.setattr(executor_program, "_FLAGS", (*executor_program._FLAGS, "-g"))
    again()
    assert build.call_count == 3
    assert len(entries(cache)) == 4  # and no folder of a build


def test_a_build_that_fails_is_told_and_leaves_nothing(cache: Path) -> None:
    source().write_text("int main() { return nonsense; }\n")
    with pytest.raises(toolchain.ToolchainError, match="nonsense"):
        again()
    assert entries(cache) == []
    source().write_text("int main() {}\n")
    assert again()[:4] == b"\x7fELF"


def test_a_program_that_doesn_t_link_is_told(cache: Path) -> None:
    source().write_text("int absent(); int main() { return absent(); }\n")
    with pytest.raises(toolchain.ToolchainError, match="absent"):
        again()
    assert entries(cache) == []


def test_a_build_ahead_fails_in_silence(cache: Path) -> None:
    source().write_text("int main() { return nonsense; }\n")
    executor_program.begin()
    deadline = time.monotonic() + 30
    while not cache.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(toolchain.ToolchainError):
        executor_program.program()


def test_without_a_compiler_or_triton_s_header_that_is_said(cache: Path, monkeypatch) -> None:
    assert executor_program.why_not() == ""
    monkeypatch.setattr(executor_program, "_cuda_header", lambda: None)
    assert "cuda.h" in executor_program.why_not()
    with pytest.raises(toolchain.ToolchainMissing, match=r"cuda\.h"):
        again()

    def missing() -> tuple[str, str]:
        raise toolchain.ToolchainMissing("no g++ here")

    monkeypatch.setattr(toolchain, "find_compiler", missing)
    assert executor_program.why_not() == "no g++ here"
    with pytest.raises(toolchain.ToolchainMissing, match="here"):
        again()

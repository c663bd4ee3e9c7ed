"""`grader inspect` as it is typed: what it prints in wide and narrow windows, the page it writes,
and its mistakes, a line each."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.cli import inspect_command
from grader.cli.console import console
from grader.executors.cuda import cuda_build
from grader.grading.session import Session
from grader.instruments.inspect import compiling, page
from grader.sandbox import Sandbox
from tests.grader.instruments.inspect.looking import HEAD
from tests.support.commandline import call
from tests.support.small_exercise import ROOT

Run = Callable[..., SimpleNamespace]

GELU = "n=16384 dtype=bfloat16"


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shared_sandbox: Sandbox
) -> Run:
    """`grader inspect` of the solutions, or of another folder, in a window of so many columns."""
    in_shared = functools.partial(Session, sandbox=shared_sandbox)
    monkeypatch.setattr(inspect_command, "Session", in_shared)

    def run(*words: str, columns: int = 100, folder: Path = ROOT / "reference") -> SimpleNamespace:
        monkeypatch.setattr(console, "_width", columns)
        return call(capsys, "inspect", *words, "--submission", str(folder))

    return run


def test_code_stands_below_its_line_and_what_it_shows_above(run: Run):
    ended = run("gelu/triton", "--case", GELU)
    assert ended.code == 0
    assert "gelu_kernel on 8 programs of 8 warps" in ended.out
    assert "x_ptr: *bf16, a multiple of 16 bytes" in ended.out
    assert re.search(r"registers +\d+ of each thread", ended.out)
    assert "64 of 64 warps on each SM" in ended.out
    lines = ended.out.splitlines()
    at = next(n for n, each in enumerate(lines) if "x = tl.load(x_ptr + offs" in each)
    below = lines[at + 1 : at + 30]
    code = below[: next(n for n, each in enumerate(below) if re.match(r" +\d+  ", each))]
    assert any("LDG.E.128" in each for each in code)


@pytest.mark.parametrize("stage", ["ttir", "ttgir", "llir", "ptx", "sass"])
def test_each_stage_of_one_line_is_shown_alone(run: Run, stage: str):
    shown = {"ttir": "tt.load", "ttgir": "tt.load", "llir": "ld.global", "ptx": "ld.global.v4.b32"}
    line = _line_of("tl.load(x_ptr")
    ended = run("gelu/triton", "--case", GELU, "--stage", stage, "--line", str(line), columns=300)
    assert ended.code == 0
    code = ended.out.split(f"{stage.upper()}, by the lines of gelu.py\n")[1]
    assert shown.get(stage, "LDG.E.128") in code
    assert "loc(" not in code and "!dbg" not in code
    assert len(re.findall(r"^ +\d+  ", code, re.MULTILINE)) == 1


def _line_of(text: str) -> int:
    lines = (ROOT / "reference" / "gelu.py").read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


def test_a_dtype_can_be_named_without_a_case(run: Run):
    ended = run("gelu/triton", "--dtype", "float16")
    assert ended.code == 0 and "dtype=float16" in ended.out and "*fp16" in ended.out


def test_no_line_goes_over_the_edge_of_a_narrow_window(run: Run):
    ended = run("gelu/triton", "--case", GELU, columns=60)
    words = [line for line in ended.out.splitlines() if len(line) > 60 and " " in line.strip()]
    assert ended.code == 0 and not words


def test_plain_text_has_no_colours_and_no_broken_lines(run: Run):
    ended = run("gelu/triton", "--case", GELU, "--plain", columns=40)
    assert "\x1b" not in ended.out
    assert "x_ptr: *bf16, a multiple of 16 bytes; out_ptr: *bf16, a multiple" in ended.out
    assert all(line == line.rstrip() for line in ended.out.splitlines())


def test_the_page_has_every_stage_and_fetches_nothing(run: Run, tmp_path: Path):
    ended = run("gelu/triton", "--case", GELU, "--html", str(tmp_path / "gelu.html"))
    assert ended.code == 0 and f"written: {tmp_path / 'gelu.html'}" in ended.out
    text = (tmp_path / "gelu.html").read_text()
    for stage in ("SASS", "PTX", "TTGIR", "TTIR"):
        assert f">{stage}</label>" in text
    assert "LDG.E.128" in text and "ld.global.v4.b32" in text and "tt.load" in text
    assert not re.search(r"<script|<link|<img|src=|https?://", text)
    assert "prefers-color-scheme: dark" in text and "max-width: 48rem" in text


def test_what_a_source_says_is_text_on_the_page_and_the_terminal(run: Run, tmp_path: Path):
    evil = "<script>alert(1)</script> \x1b[31mred\x1b[0m"
    text = (ROOT / "reference" / "gelu.py").read_text()
    old = "    u = 0.7978845608"
    assert old in text
    (tmp_path / "gelu.py").write_text(text.replace(old, f"    # {evil}\n{old}"))
    ended = run(
        "gelu/triton", "--case", GELU, "--html", str(tmp_path / "gelu.html"), folder=tmp_path
    )
    assert ended.code == 0 and "\x1b" not in ended.out and "alert(1)" in ended.out
    shown = (tmp_path / "gelu.html").read_text()
    assert "<script" not in shown and "&lt;script&gt;alert(1)" in shown and "\x1b" not in shown


def test_names_of_kernels_and_arguments_are_escaped_on_the_page():
    assert page.template("page.html", page.HERE).environment.autoescape


@pytest.mark.skipif(bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator"))
@pytest.mark.skipif(compiling.nvcc() is None, reason=compiling.NO_NVCC)
def test_cuda_kernels_have_ptx_and_machine_code(run: Run):
    ended = run("silu/cuda", "--stage", "ptx")
    assert ended.code == 0
    assert "silu_kernel(float const*, float*, int) on 262,144 blocks of 256 threads" in ended.out
    assert "ld.global" in ended.out.split("PTX, by the lines of silu.cu")[1]
    refused = run("silu/cuda", "--stage", "ttir")
    assert refused.code == 2
    assert "--stage: expected one of ptx, sass for silu/cuda, got ttir" in refused.err


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gleu"], "gleu: expected the name of an exercise, one of"),
        (["gelu/triton", "--dtype", "int8"], "--dtype: expected one of float32, float16, bfloat16"),
        (["gelu/triton", "--case", "m=3"], "--case: "),
        (["gelu/triton", "--kernel", "2"], "gelu/triton: --kernel: expected 1, got 2"),
        (
            ["gelu/triton", "--config", "2"],
            "gelu/triton: --config: expected none: nothing is tuned, got 2",
        ),
        (["gelu/triton", "--line", "1"], "--line: line 1 has no code; lines that have: gelu.py:"),
        (["gelu/triton", "--html", "/nowhere/gelu.html"], "/nowhere/gelu.html: expected a folder"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(run: Run, words: list[str], said: str):
    ended = run(*words)
    assert ended.code == 2
    assert said in ended.err and len(ended.err.strip().splitlines()) == 1


def _silu(folder: Path, kernel: str, launch: str) -> Path:
    (folder / "silu.py").write_text(f"{HEAD}\n{kernel}\n\ndef silu(x, out):\n    {launch}\n")
    return folder


def test_an_entry_without_a_launch_is_told(run: Run, tmp_path: Path):
    ended = run("silu/triton", folder=_silu(tmp_path, "", "x.shape"))
    assert ended.code == 2
    assert "silu/triton: silu launches no kernel for n=" in ended.err


def test_a_kernel_that_does_not_compile_is_told_with_its_line(run: Run, tmp_path: Path):
    kernel = """
@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs) + tl.arange(0, 3))
"""
    ended = run("silu/triton", folder=_silu(tmp_path, kernel, "kernel[(1,)](x, BLOCK=64)"))
    assert ended.code == 2
    first, *excerpt = ended.err.strip().splitlines()
    assert first.startswith("silu.py:9: kernel can't be compiled: ")
    assert any("tl.arange(0, 3)" in line for line in excerpt)


def test_a_launcher_that_raises_is_told_with_its_line(run: Run, tmp_path: Path):
    ended = run("silu/triton", folder=_silu(tmp_path, "", "raise ValueError('no')"))
    assert ended.code == 2
    assert ended.err == "silu.py:8: crashed: the entry raised ValueError: no\n"


def test_stubs_are_said_to_be_stubs(run: Run):
    ended = run("silu/triton", folder=ROOT / "assignment")
    assert ended.code == 2 and "silu/triton: not attempted: " in ended.err


def test_of_an_exercise_those_variants_are_shown_that_launch_something(run: Run, tmp_path: Path):
    (tmp_path / "silu.cu").write_text("")
    text = (ROOT / "reference" / "silu.py").read_text()
    (tmp_path / "silu.py").write_text(text)
    ended = run("silu", "--case", "n=4096 dtype=float32", folder=tmp_path)
    assert ended.code == 0
    assert "silu_kernel on" in ended.out and "silu/cuda: not attempted: " in ended.out

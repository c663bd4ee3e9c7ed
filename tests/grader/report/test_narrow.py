"""In a narrow window no word, name or number goes over two lines: a block stands for each row."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

from grader import report
from grader.batch.run import progress
from grader.cli import app, console, doctor
from grader.cli.doctor import Finding
from grader.evidence import PartEvidence
from grader.executors.cuda import cuda_build
from grader.gpu import measured_roofs
from grader.instruments import bench_report, bench_table
from grader.report import narrow
from grader.scoring.score import score
from grader.status import Status
from tests.grader.cli import test_gpu_doctor
from tests.grader.instruments.test_bench import TIMED
from tests.grader.instruments.test_bench_table import ROWS
from tests.support import gradebooks
from tests.support.gradebooks import EXERCISES, make
from tests.support.small_exercise import ROOT

WIDTHS = [40, 60, 80]
FIRST_TITLES = {"kernel", "case", "roof"}  # a block begins with what stands below them
Show = Callable[[Console], object]


def printed(show: Show, width: int, **options: Any) -> str:
    file = io.StringIO()
    show(Console(file=file, width=width, color_system=None, **options))
    return file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_folder_whose_name_has_an_escape_sequence_reaches_no_terminal_with_it(
    terminal: bool,
) -> None:
    file = io.StringIO()
    window = Console(file=file, force_terminal=terminal, no_color=True, width=80)
    narrow.say("/tmp/\x1b[2Jada\x9b[31m\u202e: expected a folder", window)
    assert file.getvalue() == "/tmp/ada\ufffd[31m\ufffd: expected a folder\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_message_is_shown_as_it_is(terminal: bool) -> None:
    """Rich would take `:x:` for an emoji, and words in brackets for markup."""
    file = io.StringIO()
    text = "row[:x:] of [bold]ada[/bold] [link=https://e.org]here[/link]"
    narrow.say(text, Console(file=file, force_terminal=terminal, no_color=True, width=80), "red")
    assert file.getvalue() == f"{text}\n"


def test_the_command_lines_consoles_take_no_text_for_markup() -> None:
    for each in (console.console, console.errors, console.window(plain=True)):
        with each.capture() as captured:
            each.print("row[:x:] of [bold]ada[/bold]", highlight=False)
        assert captured.get() == "row[:x:] of [bold]ada[/bold]\n"


def expect_whole_words(narrow_text: str, wide_text: str, width: int) -> None:
    """Every word of the wide text is in the narrow one, and no line of several is too wide."""
    assert set(narrow_text.split()) - FIRST_TITLES == set(wide_text.split()) - FIRST_TITLES
    for line in narrow_text.splitlines():
        if len(line.rstrip()) > width:
            alone = len(line.split()) == 1
            assert alone or line.strip().startswith("grader check "), line


def hold(show: Show, width: int) -> str:
    told = printed(show, width)
    expect_whole_words(told, printed(show, 400), width)
    return told


# --- bench ----------------------------------------------------------------------------------------

LARGE = replace(ROWS, case="n=16777216 dtype=bfloat16 seed=7")
SMALL = replace(ROWS, case="n=1048576 dtype=bfloat16 seed=7", microseconds=8.25)
FAMILY = [("flash_attention/triton_v4", replace(LARGE, further=(SMALL,)))]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_of_times_breaks_nothing(width):
    told = hold(lambda window: bench_table.render(FAMILY, window), width)
    assert re.search(r"\bn=16777216\b", told)
    for number in ("93.1 us", "92.8 to 93.4 us", "2883 GB/s", "86 %", "1.02x (1.01 to 1.03)"):
        assert any(number in line for line in told.splitlines()), number


def test_a_table_that_fits_stays_one_and_a_block_names_its_numbers():
    def show(window):
        bench_table.render(FAMILY, window)

    assert printed(show, 120).splitlines()[0].split()[:3] == ["kernel", "median", "interval"]
    assert printed(show, 40).splitlines()[:4] == [
        "flash_attention/triton_v4 n=16777216",
        "  median         93.1 us",
        "  interval       92.8 to 93.4 us",
        "  speed          2883 GB/s",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_ratios_and_sentences_of_a_bench_break_nothing(width):
    larger = replace(TIMED, size=16384, is_scored=False)
    told = hold(lambda window: bench_report.show([TIMED, larger], None, window), width)
    assert any("0.98 (0.97-0.99)" in line for line in told.splitlines())


# --- grade, rescore, check ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graded() -> SimpleNamespace:
    """A submission with all sorts of results in every exercise, and its score."""
    attempts = [entry.counted for entry in make(40).entries if entry.counted]
    observed = [each.evidence for each in attempts if each.evidence is not None]
    seen = max(observed, key=lambda each: len(str(each)))
    return SimpleNamespace(seen=seen, score=score(seen, EXERCISES))


@pytest.mark.parametrize("width", [30, *WIDTHS])
def test_a_grade_breaks_nothing(width, graded):
    told = hold(lambda window: report.to_terminal(graded.seen, graded.score, window), width)
    points = next(each for each in graded.score.exercises if each.name == "rmsnorm").variants[0]
    assert f"({points.file})" in told


@pytest.mark.parametrize("width", WIDTHS)
def test_a_check_breaks_nothing(width, graded):
    for seen in graded.seen.variants:
        hold(lambda window, seen=seen: report.check_to_terminal(seen, window), width)


def test_what_a_check_came_to_never_stands_in_a_sliver(graded):
    told = printed(lambda window: report.to_terminal(graded.seen, graded.score, window), 40)
    assert max(map(len, told.split("RMSNorm (rmsnorm)")[1].splitlines()[2:6])) > 15
    assert not [line for line in told.splitlines() if re.fullmatch(r" {20,}\S{1,6} *", line)]
    why = "the compiler of this machine took longer than it may"
    part = PartEvidence("float32", "aligned", Status.not_measured, 8, reason=why)
    seen = replace(graded.seen.variants[0], parts=(part,))
    told = printed(lambda window: report.check_to_terminal(seen, window), 48)
    assert "aligned  8 cases  not measured here; the" in told  # a table has 16 columns for it


def test_a_table_that_is_moved_in_is_no_wider_than_its_cells():
    table = narrow.table()
    table.add_column("kernel")
    table.add_column("count", justify="right")
    table.add_row("silu", "3")
    told = printed(lambda window: narrow.show(table, window, indent=2), 10_000)
    assert max(map(len, told.splitlines())) < 30


def test_what_to_do_first_is_broken_at_words_and_its_command_is_not():
    def show(window):
        report.to_terminal(untouched, score(untouched, EXERCISES), window)

    made = [gradebooks.untouched(e, v) for e in EXERCISES.values() for v in e.variants.values()]
    untouched = gradebooks.attempt("assignment", made).evidence
    told = printed(show, 30, force_terminal=True).splitlines()
    [line] = [each for each in told if "pytest -k" in each]
    assert re.fullmatch(r"pytest -k \w+", line)
    assert max(map(len, told)) <= 40


# --- plan, doctor ---------------------------------------------------------------------------------


def test_a_plan_breaks_nothing(monkeypatch):
    if reason := cuda_build.why_not("emulator"):
        pytest.skip(reason)

    def told(columns: int) -> str:
        monkeypatch.setattr(console.console, "_width", columns)
        words = ["plan", "gemm/triton_v4", "--submission", str(ROOT / "reference")]
        ran = CliRunner().invoke(app.app, words)
        assert ran.exit_code == 0, ran.output
        return ran.output.split("\n", 2)[2]  # the case and the summary are a line each

    wide = told(400)
    for width in WIDTHS:
        expect_whole_words(told(width), wide, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_doctor_breaks_nothing(width, monkeypatch):
    path = "/home/someone/with-a-long-name/.cache/warpgrade"
    found = Finding("cache", "yes", f"2 MB in {path}; delete it", f"see {path}/logs")
    others = [
        Finding(name, "yes", "found")
        for name in ("gpu", "triton on the gpu", "triton by plan", "triton compiler")
    ]
    monkeypatch.setattr(doctor, "_PROBES", tuple(lambda each=e: each for e in (found, *others)))
    told = hold(doctor.examine, width)
    assert path in told


@pytest.mark.parametrize("width", WIDTHS)
def test_the_doctor_of_the_gpu_breaks_nothing(width, tmp_path, monkeypatch):
    def told(columns: int) -> str:
        made = Console
        monkeypatch.setattr(
            test_gpu_doctor, "Console", lambda **given: made(**(given | {"width": columns}))
        )
        folder = tmp_path / str(columns)
        monkeypatch.setattr(measured_roofs, "cache_root", lambda: folder)
        text = test_gpu_doctor.examined(test_gpu_doctor.Clock())
        monkeypatch.setattr(test_gpu_doctor, "Console", made)
        return text.replace(str(folder), "FOLDER")

    words = set(re.sub(r"\S*(FOLDER|T\d\d:)\S*", "", told(400)).split())
    assert words - FIRST_TITLES <= set(told(width).split())
    assert any("763.0 TFLOP/s" in line for line in told(width).splitlines())


# --- lines ----------------------------------------------------------------------------------------

LINE = "submission_123456: 2 passed, 1 wrong values; about 12 minutes left"


def test_a_line_of_a_batch_is_one_in_a_log_and_broken_at_words_on_a_terminal():
    def show(window):
        progress.Lines(window).say(LINE)

    assert printed(show, 40) == f"{LINE}\n"
    lines = printed(show, 40, force_terminal=True).splitlines()
    assert [line.strip() for line in lines] == [
        "submission_123456: 2 passed, 1 wrong",
        "values; about 12 minutes left",
    ]


def test_a_command_in_backquotes_is_never_broken():
    told = "All results are stored: `grader export /tmp/results` writes these files"
    lines = printed(lambda w: narrow.say(told, w), 30, force_terminal=True).splitlines()
    assert "`grader export /tmp/results`" in lines


def test_a_number_stays_with_its_unit():
    told = "moves 268 MB in 93.1 us: 2884 GB/s, 86 % of what memory gives"
    for width in range(12, 60):
        lines = printed(lambda w: narrow.tell(Text(told), w), width).splitlines()
        assert not [line for line in lines if re.match(r"(MB|us|GB/s|%)", line)]


def test_a_word_longer_than_the_window_stays_whole():
    word = "x" * 50
    told = printed(lambda window: narrow.tell(Text(f"see {word} there"), window), 20)
    assert told.split("\n") == ["see", word, "there", ""]

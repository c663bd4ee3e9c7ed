"""docs/cli.md says what the command line is: its reference is what docs/make_cli.py writes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import warm_python
from tests.support.modules import module_of

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "make_cli.py"
PAGE = ROOT / "docs" / "cli.md"


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script as a person runs it, in this checkout."""
    added = {"PYTHONPATH": str(ROOT), **environment}
    return warm_python.run([SCRIPT, *words], ROOT, {**os.environ, **added})


@pytest.fixture
def script() -> ModuleType:
    """docs/make_cli.py as a module."""
    return module_of(SCRIPT)


def test_the_page_is_up_to_date_whatever_the_terminals_width(script, monkeypatch, capsys):
    checked = run("--check", COLUMNS="40", TERMINAL_WIDTH="40")
    assert checked.returncode == 0, checked.stderr
    monkeypatch.setenv("COLUMNS", "200")
    assert script.main(["--check"]) == 0, capsys.readouterr().err


def test_a_page_without_an_option_is_told_and_written_anew(script, tmp_path, monkeypatch, capsys):
    whole = PAGE.read_text(encoding="utf-8")
    [line] = [line for line in whole.splitlines(keepends=True) if line.startswith("| `--junit`")][
        :1
    ]
    stale = tmp_path / "cli.md"
    stale.write_text(whole.replace(line, "", 1), encoding="utf-8")
    monkeypatch.setattr(script, "PAGE", stale)
    assert script.main(["--check"]) == 1
    assert "run python docs/make_cli.py" in capsys.readouterr().err
    assert stale.read_text(encoding="utf-8") != whole
    assert script.main([]) == 0
    assert stale.read_text(encoding="utf-8") == whole


def test_what_is_written_by_hand_is_kept(script):
    by_hand = "# The command line\n\nBy hand.\n\n"
    made = script.page(f"{by_hand}{script.MARK}old\n")
    assert made.startswith(by_hand + script.MARK)
    assert "old\n" not in made
    with pytest.raises(ValueError, match="expected a line"):
        script.page(by_hand)


def test_every_command_has_a_section_with_usage_and_help(script):
    sections = script.reference().split("### ")[1:]
    group = script.typer.main.get_command(script.app)
    context = group.make_context("grader", [], resilient_parsing=True)
    names = [f"grader {name}" for name in group.list_commands(context)]
    assert [section.partition("\n")[0] for section in sections] == ["grader", *names]
    for section in sections:
        _, usage, said, *_ = section.split("\n\n")
        assert usage.startswith("```text\ngrader")
        assert len(said) > 20, section


def test_values_choices_and_needed_options_are_told(script):
    text = script.reference()
    assert "grader regrade --student TEXT [OPTIONS] RESULTS\n" in text
    assert "| `--format` | `canvas\\|gradescope\\|classroom\\|csv\\|json` |" in text
    assert (
        "| `--seed` | `INTEGER` | Seed of the drawn cases and their data. Default: `2026`. |"
        in text
    )
    assert "| `--require-sandbox`, `--no-sandbox-needed` |" in text


def test_only_what_is_on_by_itself_can_be_switched_off(script):
    assert set(re.findall(r"--no-[a-z-]+", script.reference())) == {"--no-sandbox-needed"}

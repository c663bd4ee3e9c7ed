"""Runs `grader WORDS` in this process, for tests of commands' output and exit status."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.cli import app
from grader.sandbox import confinement
from grader.spec import Course, Exercise
from grader.spec import course as courses
from grader.spec.exercise import HOME
from tests.support import warm_python


def call(capsys: pytest.CaptureFixture[str], *words: object) -> SimpleNamespace:
    """Run `grader WORDS`; its exit status, output and error output: `code`, `out`, `err`."""
    argv, sys.argv = sys.argv, ["grader", *map(str, words)]
    try:
        app.main()
        code: str | int = 0
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = argv
    captured = capsys.readouterr()
    return SimpleNamespace(code=code, out=captured.out, err=captured.err)


# What costs in a command of its own is importing torch.
_COMMANDS = """
import json, sys
from grader.cli.app import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
    print(f"\\n--- {status}", flush=True)
    print("\\n---", file=sys.stderr, flush=True)
"""


def in_one_process(folder: Path, *each: tuple[object, ...]) -> list[tuple[int, str, str]]:
    """Run `grader WORDS` for each with a folder's own grader: status, output and error output."""
    words = json.dumps([[str(word) for word in one] for one in each])
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "80"}
    ran = warm_python.run(["-c", _COMMANDS, words], folder, environment)
    statuses = [int(status) for status in re.findall(r"^--- (\d+)$", ran.stdout, re.M)]
    assert len(statuses) == len(each), ran.stdout + ran.stderr
    said = re.split(r"^--- \d+$", ran.stdout, flags=re.M)
    return list(zip(statuses, said, re.split(r"^---$", ran.stderr, flags=re.M), strict=False))


def work_on(
    monkeypatch: pytest.MonkeyPatch,
    exercises: Callable[[], Mapping[str, Exercise]],
    root: Path = HOME,
) -> None:
    """Let every command of this process work on a course with these exercises."""

    class Stated(Course):
        @property
        def exercises(self) -> dict[str, Exercise]:  # type: ignore[override]
            return dict(exercises())

    monkeypatch.setattr(courses, "find", lambda path=None, **_: Stated(root, path))


def one_line(text: str) -> str:
    """The text, which must be one whole line, without its end."""
    assert text.count("\n") == 1, text
    assert text.endswith("\n")
    return text.rstrip("\n")


def any_sandbox_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any sandbox do for batches, which otherwise insist on one that holds."""
    choose = confinement.choose
    monkeypatch.setattr(
        confinement,
        "choose",
        lambda wanted=None, device="cpu", _=False: choose(wanted, device),
    )

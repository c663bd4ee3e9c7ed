"""Commands that tests run in a process with torch are run as Python runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm_python

SHOW = """
import atexit, os, sys
atexit.register(print, "ended")
print(sys.argv, sys.path[0], __name__, os.getcwd(), os.environ.get("SHOWN"), sys.stdin.read())
print("torch" in sys.modules, file=sys.stderr)
sys.exit({status})
"""


@pytest.mark.parametrize("status", ["0", "3", "'a line'"])
@pytest.mark.parametrize("form", ["-c", "-m", "file"])
def test_a_command_does_what_it_does_by_itself(form: str, status: str, tmp_path: Path) -> None:
    text = SHOW.format(status=status)
    (tmp_path / "shown.py").write_text(text)
    file = str(tmp_path / "shown.py")
    forms = {"-c": ["-c", text], "-m": ["-m", "shown"], "file": [file]}
    words = [*forms[form], "one", "two words"]
    environment = {**os.environ, "SHOWN": "yes", "PYTHONPATH": str(tmp_path)}
    warm = warm_python.run(words, tmp_path, environment, "given")
    own = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=environment,
        input="given",
        capture_output=True,
        text=True,
    )
    assert (warm.returncode, warm.stdout) == (own.returncode, own.stdout)
    assert warm.stderr == own.stderr.replace("False", "True")


def test_an_error_is_shown_and_a_signal_is_its_status(tmp_path: Path) -> None:
    failed = warm_python.run(["-c", "1 / 0"], tmp_path)
    assert failed.returncode == 1 and failed.stderr.endswith(
        "ZeroDivisionError: division by zero\n"
    )
    assert warm_python.run(["-c", "import os; os.kill(os.getpid(), 9)"]).returncode == -9

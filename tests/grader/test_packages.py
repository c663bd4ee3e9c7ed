"""A package that is missing or too old is one line that says what to install, not a traceback."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader import packages
from grader.cli import app
from tests.support.commandline import call, one_line
from tests.support.small_exercise import ROOT

# In the finder itself, since pytest asks it without going through sys.meta_path.
BLOCK = """\
from importlib.machinery import PathFinder

find = PathFinder.find_spec


def find_spec(cls, name, path=None, target=None):
    if name.partition(".")[0] not in {names!r}:
        return find(name, path, target)


PathFinder.find_spec = classmethod(find_spec)
"""
# Modules by the names of their packages.
NEEDED = {
    "torch": "torch", "triton": "triton", "numpy": "numpy", "hypothesis": "hypothesis",
    "pyyaml": "yaml", "pydantic": "pydantic", "rich": "rich", "typer": "typer",
    "jinja2": "jinja2", "psutil": "psutil", "pebble": "pebble",
}  # fmt: skip
COMMANDS = [("-m", "grader", "--version"), ("-m", "pytest", "--collect-only", "-q")]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of Python's with a folder before all others on its path."""
    path = os.pathsep.join((str(folder), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "60"}
    environment.pop("PYTEST_ADDOPTS", None)
    line = [sys.executable, *words]
    return subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)


def hide(folder: Path, *modules: str) -> Path:
    (folder / "sitecustomize.py").write_text(BLOCK.format(names=set(modules)))
    return folder


def age(folder: Path, name: str, version: str) -> Path:
    """Have a package be installed in an old version, as far as its folder says."""
    made = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def the_line(ran: subprocess.CompletedProcess[str]) -> str:
    assert (ran.returncode, ran.stdout) == (packages.USAGE, "")
    assert ran.stderr.count("\n") == 1, ran.stderr
    return ran.stderr


def least(name: str) -> str:
    return next(each.least for each in packages.required() if each.name == name)


@pytest.mark.parametrize("command", COMMANDS, ids=["grader", "pytest"])
@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_package_is_a_line_with_what_to_install(tmp_path, name, command):
    line = the_line(run(hide(tmp_path, NEEDED[name]), *command))
    assert line.startswith(
        f"The grader needs {name} {least(name)} or newer, which is not installed."
    )
    assert f"{shlex.quote(sys.executable)} -m pip install '{name}>={least(name)}' " in line
    assert "make setup" in line


@pytest.mark.parametrize("command", COMMANDS, ids=["grader", "pytest"])
@pytest.mark.parametrize(
    ("name", "version"), [("pydantic", "1.10.26"), ("torch", "2.1.0+cu121"), ("rich", "9.0")]
)
def test_a_package_that_is_too_old_is_a_line_with_what_to_install(tmp_path, name, version, command):
    line = the_line(run(age(tmp_path, name, version), *command))
    wanted = f"The grader needs {name} {least(name)} or newer, of which {version} is installed."
    assert line.startswith(wanted)
    assert f"pip install '{name}>={least(name)}'" in line


def test_all_that_is_wrong_is_in_the_line(tmp_path):
    line = the_line(run(age(hide(tmp_path, "yaml"), "typer", "0.3"), *COMMANDS[0]))
    assert "pyyaml 6 or newer, which is not installed; typer 0.19 or newer, of which 0.3 is" in line
    assert "pip install 'pyyaml>=6' 'typer>=0.19'" in line


def test_the_console_script_says_so_too(tmp_path):
    code = "import sys; from grader.__main__ import main; sys.exit(main())"
    assert "needs pydantic" in the_line(run(hide(tmp_path, "pydantic"), "-c", code))


def test_an_old_pytest_and_a_missing_benchmark_are_a_line_where_they_are_needed(tmp_path):
    assert "needs pytest 8 or newer" in the_line(run(age(tmp_path, "pytest", "7.4"), *COMMANDS[1]))
    assert run(tmp_path, *COMMANDS[0]).returncode == 0  # no command needs it
    (tmp_path / "pytest-7.4.dist-info" / "METADATA").unlink()
    (tmp_path / "pytest-7.4.dist-info").rmdir()
    hidden = hide(tmp_path, "pytest_benchmark")
    ran = run(hidden, *COMMANDS[1], "tests/test_performance.py", "-p", "no:benchmark")
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert "needs pytest-benchmark 4 or newer, which is not installed" in ran.stderr
    assert "Traceback" not in ran.stderr + ran.stdout


def test_what_a_package_itself_lacks_is_a_line(tmp_path):
    line = the_line(run(hide(tmp_path, "annotated_types"), *COMMANDS[0]))
    assert re.match(r"The Python module annotated_types, which the grader needs, is miss", line)
    assert "`make clean`, then `make setup`" in line


def test_what_turns_out_to_be_missing_in_a_command_is_a_line(monkeypatch, capsys):
    def command():
        raise ModuleNotFoundError("No module named 'psutil'", name="psutil")

    monkeypatch.setattr(app, "app", command)
    ran = call(capsys, "grade")
    assert ran.code == packages.USAGE
    assert one_line(ran.err).startswith(f"The grader needs psutil {least('psutil')} or newer")


def test_a_mistake_of_the_graders_own_is_not_taken_for_a_missing_package():
    assert packages.line_of(ModuleNotFoundError("no", name="grader.nothing")) == ""
    with pytest.raises(ImportError), packages.importing():
        raise ImportError("cannot import name 'a' from 'grader.b'", name="grader.b")


def test_what_is_asked_for_is_what_pyproject_says_or_the_metadata(tmp_path):
    asked = {each.name: each.least for each in packages.required()}
    assert set(NEEDED) <= set(asked)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(f'"{name}>={version}' in text for name, version in asked.items())
    try:
        importlib.metadata.distribution("warpgrade")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the grader isn't installed, so that there is no metadata of it")
    assert {each.name for each in packages.required(tmp_path)} == set(asked)  # no pyproject there


def test_of_two_folders_the_first_counts_and_of_two_versions_in_one_the_newer(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    for folder, versions in ((first, ("2.9", "2.10")), (second, ("3.0",))):
        folder.mkdir()
        for version in versions:
            age(folder, "py.Yaml", version)
    path = [str(first), str(second), str(tmp_path / "none")]
    assert packages.installed(path) == {"py-yaml": "2.10"}


def test_a_version_before_its_release_counts_as_it(monkeypatch):
    monkeypatch.setattr(packages, "installed", lambda: {"torch": "2.11.0a0+nv26.1"})
    assert packages.problem() == ""


def test_the_check_takes_no_time_that_is_noticed():
    packages.problem()
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        packages.problem()
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.02


def test_only_the_standard_library_is_imported_for_it(tmp_path):
    every = hide(tmp_path, *NEEDED.values(), "pytest", "click", "landlockpy")
    code = "from grader import packages; print(packages.problem().count('not installed'))"
    assert run(every, "-c", code).stdout == f"{len(NEEDED)}\n"

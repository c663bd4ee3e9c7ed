"""The Python packages that the grader needs: a missing or old one is a line, not a traceback.

    packages.expect()            at a command's start: names missing or old packages, exits with 2
    with packages.importing():   the same for packages that are imported inside

Names and least versions are those of pyproject.toml, or of an installation's metadata. Only the
standard library is imported here: versions are read from the names of installers' folders, which
takes a few milliseconds.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parent.parent
USAGE = 2  # the exit status

# Optional for commands, which report it themselves where it matters.
_OTHERS = ("landlockpy", "pyseccomp", "pytest", "pytest-benchmark")
_MODULES = {"pyyaml": "yaml", "pytest-benchmark": "pytest_benchmark"}  # other names are the same
_OURS = ("grader", "lecture", "reference", "tests")
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)\s*>=\s*([\d.]+)\s*(?:;(.*))?")
_METADATA = re.compile(r"([A-Za-z0-9][\w.]*(?:-[A-Za-z][\w.]*)*)-(\d[^-]*).*\.(?:dist|egg)-info")


class Requirement(NamedTuple):
    """A package in pyproject.toml and its least version: `rich`, `13`."""

    name: str
    least: str

    @property
    def module(self) -> str:
        return _MODULES.get(self.name, self.name.replace("-", "_"))

    def __str__(self) -> str:
        return f"{self.name}>={self.least}"


def required(root: Path = ROOT) -> list[Requirement]:
    """The grader's dependencies on this system."""
    matches = (_REQUIREMENT.fullmatch(text) for text in _dependencies(root))
    return [Requirement(_plain(each[1]), each[2]) for each in matches if each and _applies(each[3])]


def expect(also: Iterable[str] = ()) -> None:
    """Exit with a line where a needed package is missing or too old; `also` names more packages."""
    if line := problem(also):
        _end(line)


def problem(also: Iterable[str] = ()) -> str:
    """The missing and old packages and how to install them, in a line; "" where all are there."""
    skipped = set(_OTHERS) - set(also)
    wanted = [each for each in required() if each.name not in skipped]
    versions = installed()
    wrong = {}
    for each in wanted:
        version = versions.get(each.name, "")
        if not _is_there(each.module):
            wrong[each] = "which is not installed"
        elif version and _numbers(version) < _numbers(each.least):
            wrong[each] = f"of which {version} is installed"
    return _line(wrong) if wrong else ""


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Exit with a line where an import inside needs a package that can't be imported."""
    try:
        yield
    except ImportError as error:
        if line := line_of(error):
            _end(line)
        raise


def line_of(error: ImportError) -> str:
    """A failed import as a line for the user; "" where it is the grader's own mistake."""
    module = (error.name or "").partition(".")[0]
    if not module or module in _OURS:
        return ""
    for each in required():
        if each.module == module and isinstance(error, ModuleNotFoundError):
            return _line({each: "which is not installed"})
    problem = "is missing" if isinstance(error, ModuleNotFoundError) else f"does not work: {error}"
    again = "pip install --force-reinstall warpgrade"
    if (ROOT / "Makefile").exists():
        again = "`make clean`, then `make setup`"
    one_line = " ".join(problem.split())
    return f"The Python module {module}, which the grader needs, {one_line}. To set it up: {again}."


def installed(path: Iterable[str] | None = None) -> dict[str, str]:
    """The versions of all packages by name; of two, the one that is imported."""
    versions: dict[str, str] = {}
    for folder in sys.path if path is None else path:
        here: dict[str, str] = {}
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder or os.curdir):
                if named := _METADATA.fullmatch(entry.name):
                    name, version = _plain(named[1]), named[2]
                    here[name] = max(here.get(name, version), version, key=_numbers)
        versions = here | versions
    return versions


def _line(wrong: dict[Requirement, str]) -> str:
    each = [f"{name} {least} or newer, {reason}" for (name, least), reason in wrong.items()]
    needs = "; ".join(each)
    words = " ".join(shlex.quote(str(requirement)) for requirement in wrong)
    python = shlex.quote(sys.executable or "python3")
    line = f"The grader needs {needs}. To install: {python} -m pip install {words}"
    if (ROOT / "Makefile").exists():
        line += " (or `make setup`, and then .venv/bin/grader or .venv/bin/pytest)"
    return line


def _end(line: str) -> NoReturn:
    sys.stderr.write(f"{line}\n")
    raise SystemExit(USAGE)


def _dependencies(root: Path) -> list[str]:
    with contextlib.suppress(OSError):
        text = (root / "pyproject.toml").read_text(encoding="utf-8")
        if listed := re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL):
            return re.findall(r'"([^"]+)"', listed[1])
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        return [each for each in metadata.requires("warpgrade") or () if "extra ==" not in each]
    return []


def _applies(marker: str | None) -> bool:
    """Whether a requirement is for this system; only one kind of marker is used."""
    match = re.fullmatch(r"\s*sys_platform\s*(==|!=)\s*['\"](\w+)['\"]\s*", marker or "")
    return match is None or (sys.platform == match[2]) == (match[1] == "==")


def _is_there(module: str) -> bool:
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _numbers(version: str) -> tuple[int, ...]:
    """A version's numbers: (2, 11, 0) for 2.11.0a0+cu128. A candidate counts as the version."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()

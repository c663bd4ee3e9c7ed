"""`pytest --submission DIR`: which folder the tests students run look at; and what they measured.

Loaded by name (`-p`, in pyproject.toml), because an option of a conftest.py is known too late:
pytest would take DIR for a folder of tests.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.startup import importing

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--submission",
        metavar="DIR",
        default=str(ROOT / "assignment"),
        help="the folder to test (default: assignment)",
    )


_MEASURED = pytest.StashKey[list[str]]()


@pytest.fixture
def record_measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keep a sentence for the end of the run: pytest says nothing of a test that passes."""
    return request.config.stash.setdefault(_MEASURED, []).append


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect, which is when torch is imported."""
    with importing():
        yield


def pytest_unconfigure() -> None:
    """Let the interpreter end without looking through all that torch imported, half a second."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was measured."""
    told = terminalreporter.config.stash.get(_MEASURED, [])
    if told:
        terminalreporter.section("memory")
    for sentence in told:
        terminalreporter.write_line(sentence)

"""What holds for all of the grader's own tests."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.support import specs, work
from tests.support.sampling import MARK
from tests.support.sandboxes import *  # noqa: F403

# Folders whose sessions have one sandbox in turn, but for modules about the sandbox itself.
IN_ONE_SANDBOX = ("cli", "executors", "grading", "instruments", "staff", "timing")
ABOUT_SANDBOXES = ("attacks", "source_rules")
specs.read_once()
work.examples_at_any_speed()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-submission",
        action="store_true",
        help="grade all wrong and honest submissions, not a sample (tests/support/sampling.py)",
    )


def pytest_collection_finish() -> None:
    """Collect garbage seldom: what was imported and collected lives to the end."""
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give out tests as tests/support/scheduling.py says, where --dist asks for whole files."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.scheduling import ByFile

    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("every_submission", default=False):
        return
    beyond = [item for item in items if item.get_closest_marker(MARK)]
    items[:] = [item for item in items if not item.get_closest_marker(MARK)]
    config.hook.pytest_deselected(items=beyond)


@pytest.fixture(scope="module", autouse=True)
def _one_sandbox(request: pytest.FixtureRequest) -> None:
    """Spare sessions of these folders' tests a start of their own."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    is_about_them = any(word in request.path.name for word in ABOUT_SANDBOXES)
    if folder in IN_ONE_SANDBOX and not is_about_them:
        request.getfixturevalue("sessions_in_one_sandbox")

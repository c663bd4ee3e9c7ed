"""What holds for all of the grader's own tests."""

from __future__ import annotations

import pytest

from tests.support.sampling import MARK
from tests.support.sandboxes import python_sandbox, shared_sandbox

__all__ = ["python_sandbox", "shared_sandbox"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-submission",
        action="store_true",
        help="grade all wrong and honest submissions, not a sample (tests/support/sampling.py)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}: left out without --every-submission")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("every_submission", default=False):
        return
    beyond = [item for item in items if item.get_closest_marker(MARK)]
    items[:] = [item for item in items if not item.get_closest_marker(MARK)]
    config.hook.pytest_deselected(items=beyond)

"""The process of planners and compilers that tests of the worker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.grader.worker.planner.planning import Server


@pytest.fixture(scope="session")
def planning() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()

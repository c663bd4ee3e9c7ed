from __future__ import annotations

import pytest

from tests.grader.worker.planner.planning import Server


@pytest.fixture(scope="session")
def planning():
    server = Server()
    yield server
    server.close()

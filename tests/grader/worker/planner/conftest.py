from __future__ import annotations

import pytest

from .planning import Server


@pytest.fixture(scope="session")
def planning():
    server = Server()
    yield server
    server.close()

"""The sandbox that tests of Triton by plan share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader.sandbox import Sandbox
from tests.support.sandboxes import Lasting


@pytest.fixture(scope="module")
def sandbox(lasting_sandbox: Lasting) -> Iterator[Sandbox]:
    """One for plans, empty at a module's beginning."""
    with lasting_sandbox as opened:
        yield opened

"""What tests of docs/ share with the grader's."""

import pytest

from tests.support.sandboxes import (
    lasting_programs,
    lasting_sandbox,
    python_sandbox,
    sessions_in_one_sandbox,
    shared_sandbox,
)

__all__ = [
    "lasting_programs",
    "lasting_sandbox",
    "python_sandbox",
    "sessions_in_one_sandbox",
    "shared_sandbox",
]


@pytest.fixture(scope="module", autouse=True)
def _one_sandbox(sessions_in_one_sandbox: None) -> None:
    """Commands of the pages run in this process, one after the other."""

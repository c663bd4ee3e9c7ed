"""What tests of docs/ share with the grader's."""

import pytest

from tests.support.sandboxes import *  # noqa: F403


@pytest.fixture(scope="module", autouse=True)
def _one_sandbox(sessions_in_one_sandbox: None) -> None:
    """Commands of the pages run in this process, one after the other."""

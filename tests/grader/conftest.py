"""What holds for all of the grader's own tests."""

from pathlib import Path

import pytest

from tests.support.sandboxes import (
    lasting_sandbox,
    python_sandbox,
    sessions_in_one_sandbox,
    shared_sandbox,
)

__all__ = ["lasting_sandbox", "python_sandbox", "sessions_in_one_sandbox", "shared_sandbox"]

# Folders whose sessions have one sandbox in turn.
IN_ONE_SANDBOX = ("cli", "executors", "instruments", "timing")


@pytest.fixture(scope="module", autouse=True)
def _one_sandbox(request: pytest.FixtureRequest) -> None:
    """Spare sessions of these folders' tests a start of their own."""
    if request.path.relative_to(Path(__file__).parent).parts[0] in IN_ONE_SANDBOX:
        request.getfixturevalue("sessions_in_one_sandbox")

"""What holds for all of the grader's own tests."""

from tests.support.sandboxes import (
    lasting_sandbox,
    python_sandbox,
    sessions_in_one_sandbox,
    shared_sandbox,
)

__all__ = ["lasting_sandbox", "python_sandbox", "sessions_in_one_sandbox", "shared_sandbox"]

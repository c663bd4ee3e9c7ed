"""What holds for all of the grader's own tests."""

from tests.support.sandboxes import python_sandbox, shared_sandbox

__all__ = ["python_sandbox", "shared_sandbox"]

"""What tests of reference/ share with the grader's."""

from tests.support.sandboxes import python_sandbox, shared_sandbox

__all__ = ["python_sandbox", "shared_sandbox"]

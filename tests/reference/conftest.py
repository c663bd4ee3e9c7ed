"""What tests of reference/ share with the grader's."""

from tests.support.sandboxes import *  # noqa: F403

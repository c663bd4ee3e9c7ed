"""A submission's processes: started, confined, supervised, and ended with their descendants."""

from grader.sandbox.sandbox import Sandbox

__all__ = ["Sandbox"]

"""Processes of a submission: started, confined, supervised, and ended with all they started."""

from grader.sandbox.sandbox import Sandbox

__all__ = ["Sandbox"]

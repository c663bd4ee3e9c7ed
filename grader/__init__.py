"""warpgrade: the grader of an autograded GPU-kernel assignment."""

__version__ = "0.1.0"

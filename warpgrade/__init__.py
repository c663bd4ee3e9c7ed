"""warpgrade: grade GPU kernels from Python.

    import warpgrade

    result = warpgrade.check(source, "silu/triton")    # one source, as one variant
    result = warpgrade.grade("assignment")             # a folder of files

`grader` is the implementation. Only what is named here stays the same between versions.
"""

from grader.evidence import Failure
from grader.mistakes import Mistake
from grader.scoring.score import CheckScore
from grader.service.results import CheckResult, GradeResult
from grader.service.single import check, grade
from grader.status import Status

__all__ = [
    "CheckResult",
    "CheckScore",
    "Failure",
    "GradeResult",
    "Mistake",
    "Status",
    "check",
    "grade",
]

"""Which process of `make test` runs which tests: those of a file together.

So what a file's tests share is made once. The tests of the files that take longest share little.
They are given out one by one behind all others, so that all processes end at about the same time.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

ONE_BY_ONE = (
    "grader/emulator/test_execution.py",
    "grader/grading/test_attacks.py",
    "grader/grading/test_cuda_attacks.py",
    "grader/grading/test_cuda_submissions.py",
    "grader/grading/test_submissions.py",
)


class ByFile(LoadScopeScheduling):
    """Files with many tests come first: the order of xdist's own, which sorts by their number."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.endswith(ONE_BY_ONE) else file

"""Executors: what runs a plan on data, in processes that never saw the submission's host code."""

from __future__ import annotations

import os

from grader.executors.cuda import PlannedNativeRunner
from grader.executors.triton import PlannedTritonRunner

__all__ = ["VERSION", "PlannedNativeRunner", "PlannedTritonRunner", "are_in_use"]

VERSION = 1  # of what executors observe: results of another one are graded anew


def are_in_use() -> bool:
    """Whether, without a GPU, kernels run by plan, and not beside their host code.

    The environment says so: WARPGRADE_BY_PLAN=1.
    """
    return os.environ.get("WARPGRADE_BY_PLAN") == "1"

"""Executors: what runs a plan on data, in processes that never saw the submission's host code."""

from __future__ import annotations

from grader.executors.cuda import PlannedNativeRunner
from grader.executors.kept import KeptBuilds
from grader.executors.native_plans import NativePlans
from grader.executors.triton import PlannedTritonRunner

__all__ = ["VERSION", "KeptBuilds", "NativePlans", "PlannedNativeRunner", "PlannedTritonRunner"]

VERSION = 3  # of what executors observe: results of another one are graded anew

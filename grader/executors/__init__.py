"""Executors: what runs a plan on data, in processes that never saw the submission's host code."""

from __future__ import annotations

from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.cuda.native_planner import NativePlanner
from grader.executors.cuda.native_runner import PlannedNativeRunner
from grader.executors.triton.triton_runner import PlannedTritonRunner

__all__ = ["VERSION", "KeptBuilds", "NativePlanner", "PlannedNativeRunner", "PlannedTritonRunner"]

VERSION = 4  # of what executors observe: results of another one are graded anew

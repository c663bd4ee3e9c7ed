"""Plans run on a GPU: encoded as a document, executed by a program of the grader's, and judged."""

from __future__ import annotations

from grader.executors.gpu.gpu_runner import (
    GpuRunner,
    copy_document,
    document,
    held_program,
)
from grader.executors.planning import Plans

__all__ = ["GpuRunner", "Plans", "copy_document", "document", "held_program"]

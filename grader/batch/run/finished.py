"""The outcome of one grading job of a class: its results, or the grader's failure."""

from __future__ import annotations

import traceback
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from grader.batch.missing_results import Job
from grader.batch.tasks import Graded, HandinTask, Result, TaskError, given_up
from grader.gpu.locks import GpuError
from grader.grading.schedule import Ended
from grader.sandbox.confinement import ConfinementError

LOST = "the grader's own process was lost, twice"


@dataclass
class Finished:
    """A finished job with its results. If the grader failed, `trouble` says why."""

    job: Job
    results: tuple[Result, ...]
    environment: dict[str, Any]
    trouble: str = ""


def finished(ended: Ended[Job, HandinTask, Graded], environment: dict[str, Any]) -> Finished:
    """The outcome of a job. `environment` is this machine's, for results that nobody has graded.

    Raises TaskError, ConfinementError and GpuError: nothing would come of the other jobs either.
    """
    try:
        graded = ended.future.result()
    except (TaskError, ConfinementError, GpuError):
        raise
    except CancelledError:
        raise TaskError(
            "the tasks were cancelled: whoever hands them out is gone. What is graded is stored, "
            "and the same command goes on"
        ) from None
    except Exception as error:
        if ended.is_lost:
            trouble = f"{LOST} ({type(error).__name__}): for want of memory?"
        else:
            trouble = "".join(traceback.format_exception(error, limit=-6))
        return Finished(ended.job, tuple(given_up(ended.work, trouble)), environment, trouble)
    return Finished(ended.job, graded.results, graded.environment)

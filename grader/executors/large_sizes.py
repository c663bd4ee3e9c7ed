"""Large sizes of a variant: its launches are planned, and no kernel runs as a whole.

Some blocks or programs of a launch run on addresses without memory: an index that has wrapped at 32
bits is an access far from its tensor.
"""

from __future__ import annotations

import abc
import contextlib

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.runner import CaseResult
from grader.plan import Plan, copies_to_arguments
from grader.plan.model import Foreign, HostOp
from grader.sandbox.worker_process import Worker
from grader.spec.task import Task
from grader.status import Status

NOTHING = "nothing launched"  # the pattern of a plan that does nothing for the outputs
# Statuses of host code that raises, ends, or needs a tensor's values. What else keeps it from a
# plan may be a limit of planning: memory, or time.
OF_HOST_CODE = (Status.crashed, Status.policy_violation)


class LargeSizes(contextlib.AbstractContextManager["LargeSizes"], abc.ABC):
    """Plans one variant's cases of large sizes. A context manager: it ends its executor."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._worker: Worker | None = None

    def __exit__(self, *_: object) -> None:
        self._end_worker()

    def refused(self, case: Case) -> CaseResult | None:
        """Why host code gives no plan of a case, or a launch that CUDA refuses; None for neither.

        A plan that launches nothing is refused, too.
        """
        made = self._working(case)
        return made if isinstance(made, CaseResult) else None

    def launch_fault(self, case: Case) -> CaseResult | None:
        """What `refused` finds, or a kernel of a case for which the GPU has too little room.

        Of CUDA C++ the same as `refused`: where nvcc compiles, a planner counts registers.
        """
        return self.refused(case)

    def loop_fault(self, case: Case) -> CaseResult | None:
        """What `refused` finds, or the fault of a loop that goes round only where a grid is short.

        Of Triton the same as `refused`: programs don't race with themselves.
        """
        return self.refused(case)

    def fault(self, case: Case) -> CaseResult | None:
        """What `refused` finds, or an access far outside its tensor; None for neither.

        Of CUDA C++ also a data race between threads of a block.
        """
        made = self._working(case)
        return self._sampled(case, made) if isinstance(made, Plan) else made

    def _working(self, case: Case) -> Plan | CaseResult | None:
        """As `_plan`, but a plan that does nothing for the outputs is a failure.

        What is input and output too may be right as it is: a grid after no step, or without inside.
        """
        made = self._plan(case)
        must_write = any(each.role == "output" for each in self._task.outputs)
        is_idle = must_write and isinstance(made, Plan) and _is_idle(made)
        return _nothing_launched(case) if is_idle else made

    @abc.abstractmethod
    def _plan(self, case: Case) -> Plan | CaseResult | None:
        """The plan of a case, or why there is none; None where a limit of planning may be why."""

    @abc.abstractmethod
    def _sampled(self, case: Case, made: Plan) -> CaseResult | None:
        """An access far outside its tensor by some blocks or programs, or None."""

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _is_idle(made: Plan) -> bool:
    """Whether a call neither launches a kernel nor has PyTorch or CUDA write to an argument.

    To fill an argument with one value is no work: no output is the same everywhere.
    """
    if made.launches or copies_to_arguments(made):
        return False
    computed = [each for each in made.calls[0] if isinstance(each, Foreign | HostOp)]
    views = [view for each in computed for view in each.outputs]
    return all(made.buffers[view.buffer].kind != "argument" for view in views)


def _nothing_launched(case: Case) -> CaseResult:
    sizes = " ".join(f"{name}={value}" for name, value in case.sizes)
    words = f"nothing is launched for {sizes}, and nothing is copied to an output."
    hint = "Does the launcher return early, or is a loop over launches empty at this size?"
    return CaseResult(case, Verdict(Status.not_written, words, NOTHING), hint=hint)

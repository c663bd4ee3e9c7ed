"""One case through a worker: its inputs are placed, the worker is asked, its outputs are judged.

There are three kinds of workers: triton_executor.py, native_executor.py and gpu.py.
"""

from __future__ import annotations

import signal
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader.cases import Case, oracle
from grader.cases import inputs as inputs_of_case
from grader.cases.arena import Placed
from grader.cases.compare import Verdict, judge
from grader.cases.inputs import Inputs
from grader.executors.answers import Answers
from grader.executors.case_memory import CaseMemory
from grader.executors.runner import CaseResult, Runner, Times
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument, Code, Reply

_FAULTS = (signal.SIGSEGV, signal.SIGBUS)


class Executor(Runner):
    """Runs each case once, in a worker of its own kind."""

    def __init__(self, task: Task, path: Path, answers: Answers, times: Times) -> None:
        """`path` is the submission's file; the time that is spent is added to `times`."""
        self.task = task
        self.path = path
        self.times = times
        self._answers = answers
        self._memory = CaseMemory(self._end_users)
        self._worker: Worker | None = None
        self._oracle = oracle.load(task.exercise.oracle)

    def close(self) -> None:
        """End the worker and give the arena back."""
        self._drop_worker()
        self._memory.close()

    def fresh_worker(self) -> None:
        """Let the next case meet a worker that has run nothing."""
        self._drop_worker()

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def run(self, case: Case) -> CaseResult:
        """Run one case, in the worker at hand or a fresh one. Raises as Runner.run does."""
        started = time.perf_counter()
        result = self._result_of(
            case, inputs_of_case.make(self.task.exercise, self.task.variant, case)
        )
        self.times.runs += 1
        self.times.cases += time.perf_counter() - started
        return result

    # --- what differs between workers ------------------------------------------------------------

    @abstractmethod
    def _start(self, count: int) -> CaseResult | None:
        """Start a worker for cases of so many arguments; why there can't be one."""

    @abstractmethod
    def _ask(
        self, worker: Worker, case: Case, arguments: Sequence[Argument]
    ) -> Reply | Death | CaseResult:
        """Have a case run by a worker; a CaseResult where it can't even be asked."""

    def _end_users(self) -> None:
        """End the processes that have the arena mapped."""
        self._drop_worker()

    def _make_room(self, inputs: Inputs, inputs_writable: bool) -> bool:
        """Have an arena that holds a case; returns whether the worker can write its inputs."""
        self._memory.fit(inputs, inputs_writable)
        return inputs_writable

    def _result_of(self, case: Case, inputs: Inputs) -> CaseResult:
        """Run a case, and once more where that explains a memory fault."""
        result = self._run(case, inputs)
        if result.signal in _FAULTS and result.status is Status.crashed:
            return self._explain_fault(case, inputs, result)
        return result

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        """What an answer itself says of the case; None where its outputs are to be judged."""
        return None if answer.code is Code.ok else self._answers.from_refusal(case, answer)

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs, or what else of the answer's `fields` explains it."""
        return CaseResult(case, verdict)

    def _modified(
        self, case: Case, placed: Sequence[Placed], inputs_writable: bool
    ) -> CaseResult | None:
        """Whether a run that did not end well has changed an input, where it could."""
        outcomes = self._memory.arena.collect(placed) if inputs_writable else []
        if any(o.slot.role == "input" and o.changed for o in outcomes):
            return CaseResult(case, judge(outcomes, [], self.task.tolerance))
        return None

    # --- one run ---------------------------------------------------------------------------------

    def _run(self, case: Case, inputs: Inputs, inputs_writable: bool = False) -> CaseResult:
        inputs_writable = self._make_room(inputs, inputs_writable)
        if self._worker is None:
            failure = self._start(len(inputs.order))
            if failure is not None:
                return replace(failure, case=case)
        assert self._worker is not None
        placed = self._memory.arena.place(inputs.slots, inputs_writable)
        arguments = inputs.arguments([item.argument for item in placed])
        asked = time.perf_counter()
        answer = self._ask(self._worker, case, arguments)
        self.times.waiting += time.perf_counter() - asked
        if isinstance(answer, CaseResult):
            return replace(answer, case=answer.case or case)
        if isinstance(answer, Death):
            self._worker = None
            modified = self._modified(case, placed, inputs_writable)
            return modified or self._answers.from_death(case, answer)
        if answer.code is Code.device_failed:
            self._drop_worker()
            if (modified := self._modified(case, placed, inputs_writable)) is not None:
                return modified
        if (result := self._answered(case, answer)) is not None:
            return result
        outcomes = self._memory.arena.collect(placed)
        tolerance = self.task.tolerance
        truths = self._oracle.truths(inputs.tensors, inputs.scalars, tolerance.magnitude)
        return self._judged(case, untrusted.fields(answer), judge(outcomes, truths, tolerance))

    def _explain_fault(self, case: Case, inputs: Inputs, first: CaseResult) -> CaseResult:
        """A memory fault: was it a store to an input, which is read-only?

        Run again with inputs writable: then it shows as a changed input. Where it doesn't, the
        fault doesn't say where it was, nor whether it was a store.
        """
        again = self._run(case, inputs, inputs_writable=True)
        if again.status is Status.modified_input:
            return replace(again, line=first.line, observed_by="grader")
        return first


def limits_of(task: Task) -> Limits:
    """What one request about a variant may use, as its spec says."""
    return Limits(task.limits.seconds, task.limits.memory_mb << 20)

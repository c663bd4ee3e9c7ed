"""One case through a worker: its inputs are placed, the worker is asked, its outputs are judged.

There are three kinds of workers: triton/ttir_executor.py, cuda/emulator_executor.py and
gpu/gpu_runner.py.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader.cases import Case, inputs, oracle
from grader.cases.arena import Arena, Placed, required_bytes
from grader.cases.compare import Verdict, judge
from grader.cases.gpu_memory import GpuMemory
from grader.cases.inputs import Inputs
from grader.cases.oracle import OracleError
from grader.executors.answers import Answers, unanswered
from grader.executors.program_orders import Order
from grader.executors.runner import CaseResult, Runner, Times
from grader.plan import Plan
from grader.sandbox import untrusted
from grader.sandbox.memfd import Memfds
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.spec.task import Task
from grader.status import Status
from grader.worker.gpu_mapping import GpuMemoryError
from grader.worker.protocol import Argument, Code, Reply

# Of each buffer, so that growing sizes rarely mean a new worker: with a worker goes the list of
# what it would have compiled. Memory that isn't touched costs nothing.
ARENA_BYTES = 256 << 20
GPU_ARENA_BYTES = 32 << 20  # there it costs, touched or not
MOST_KEPT = 1 << 17  # elements of wrong outputs
_FAULTS = (signal.SIGSEGV, signal.SIGBUS)


@dataclass(frozen=True)
class Manner:
    """How a plan is executed: which call of it, in which order, and what is observed.

    In the emulator a second call comes right behind the first.
    """

    call: int = 0
    counts: bool = False  # accesses
    records: bool = False  # beside counting them, each access: a trace
    reordered: bool = False  # whether steps run in another order that streams and events allow
    order: Order | None = None  # of programs or blocks, else than from first to last
    # Whether some programs or blocks run alone, on buffers of any size without data.
    sampled: bool = False
    without: frozenset[int] = frozenset()  # places of launches among the steps, which are left out
    # Of CUDA only: which value a lane gets from an absent one in a shuffle. With 0 it is a finding.
    undefined: int = 0
    # Of Triton only:
    wave: int = 0  # how many programs at a time are counted, 0 where that doesn't matter
    races: bool = True  # whether races between programs are reported
    configuration: int | None = None  # of tuned kernels, by number: see configurations.steps
    tunes: bool = False  # whether tuned kernels have a trial before, as in a first call on a GPU
    leftovers: bool = False  # whether unwritten memory holds finite numbers instead of NaNs
    in_ieee: bool = False  # tl.dot rounds no float32 input to TF32, whatever the kernel says


class CaseMemory:
    """An arena that grows: a variant's cases are placed in it, one after another.

    A larger arena replaces one that is too small, or one of the other kind (of a GPU, of the host).
    `end_users` ends the processes that have the old one mapped.
    """

    def __init__(self, end_users: Callable[[], None]) -> None:
        self._end_users = end_users
        self._arena: Arena | None = None
        self._capacity = (0, 0)  # bytes of inputs and of outputs

    def has_users(self, end_users: Callable[[], None]) -> None:
        """Let `end_users` end the processes that have the arena mapped, from now on."""
        self._end_users = end_users

    @property
    def arena(self) -> Arena:
        """The arena that the last case was fitted in."""
        assert self._arena is not None
        return self._arena

    @property
    def is_on_gpu(self) -> bool:
        """Whether there is an arena, and it is memory of a GPU."""
        return self._arena is not None and self._arena.on_gpu

    def fit(self, case: Inputs, inputs_writable: bool, on_gpu: bool = False) -> None:
        """Have an arena that holds a case. Raises GpuMemoryError where it can't be on a GPU."""
        reading = [s for s in case.slots if s.role == "input" and not inputs_writable]
        writing = [s for s in case.slots if s.role != "input" or inputs_writable]
        need = [required_bytes(each, on_gpu, inputs_writable) for each in (reading, writing)]
        if self._arena is not None and self._arena.on_gpu is not on_gpu:
            self.close()
        fits = all(n <= have for n, have in zip(need, self._capacity, strict=True))
        if self._arena is not None and fits:
            return
        least = GPU_ARENA_BYTES if on_gpu else ARENA_BYTES
        capacity = [max(2 * n, have, least) for n, have in zip(need, self._capacity, strict=True)]
        self.close()
        self._arena = Arena(capacity[0], capacity[1], GpuMemory if on_gpu else Memfds)
        self._capacity = (capacity[0], capacity[1])

    def close(self) -> None:
        if self._arena is None:
            return
        self._end_users()
        arena, self._arena, self._capacity = self._arena, None, (0, 0)
        with contextlib.suppress(GpuMemoryError):  # nothing more can be done about it
            arena.close()


class Executor(Runner):
    """Runs each case once, in a worker of its own kind."""

    def __init__(self, task: Task, path: Path, answers: Answers, times: Times) -> None:
        """`path` is the submission's file; the time that is spent is added to `times`."""
        self.task = task
        self.path: Path = path
        self.times = times
        self._answers = answers
        self._memory = CaseMemory(self._end_users)
        self._worker: Worker | None = None
        self._manner: Manner | None = None  # of the last run
        self.plan: Plan | None = None  # of the last run
        self._printed: list[str] = []  # in the last run, by host code and by kernels
        self._oracle = oracle.of(task.exercise)
        self.inputs = InputsAhead(task)

    def close(self) -> None:
        self._drop_worker()
        self._memory.close()

    def fresh_worker(self) -> None:
        self._drop_worker()

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def run(self, case: Case, manner: Manner | None = None) -> CaseResult:
        """Run one case, in the worker at hand or a fresh one; `manner` is for those that have some.

        Raises as Runner.run does.
        """
        self._manner = manner
        started = time.perf_counter()
        result = self._result_of(case, self.inputs.of(case))
        if any(self._printed):
            result = replace(result, printed="\n".join(filter(None, self._printed)))
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
        """The result that an answer itself gives; None where the outputs are to be judged."""
        return None if answer.code is Code.ok else self._answers.from_refusal(case, answer)

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The result by the verdict on the outputs, or by what in the answer explains more."""
        return CaseResult(case, verdict)

    def _modified(
        self, case: Case, placed: Sequence[Placed], inputs_writable: bool
    ) -> CaseResult | None:
        """The result of a run that ended badly and has changed an input; None if it hasn't."""
        outcomes = self._memory.arena.collect(placed) if inputs_writable else []
        if any(o.slot.role == "input" and o.changed for o in outcomes):
            return CaseResult(case, judge(outcomes, [], self.task.tolerance))
        return None

    # --- one run ---------------------------------------------------------------------------------

    def _run(self, case: Case, inputs: Inputs, inputs_writable: bool = False) -> CaseResult:
        self._printed = []
        inputs_writable = self._make_room(inputs, inputs_writable)
        if self._worker is None:
            failure = self._start(len(inputs.order))
            if failure is not None:
                return replace(failure, case=case)
        assert self._worker is not None
        leftovers = self._manner is not None and self._manner.leftovers
        placed = self._memory.arena.place(inputs.slots, inputs_writable, leftovers)
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
        given = (inputs.tensors, inputs.numbers)
        truths = self._oracle.truths(*given, self.task.magnitude)
        verdict = judge(outcomes, truths, self.task.tolerance, self._oracle.checker(*given))
        is_unwritten = verdict.status is Status.not_written and self.plan is not None
        if is_unwritten and (refused := unanswered(case, last_plan(self))):
            return refused
        result = self._judged(case, untrusted.fields(answer), verdict)
        if result.status in (Status.wrong_values, Status.not_finite, Status.not_written):
            outputs = tuple(each.values for each in outcomes if each.slot.role != "input")
            if sum(each.numel() for each in outputs) <= MOST_KEPT:
                return replace(result, outputs=outputs)
        return result

    def _explain_fault(self, case: Case, inputs: Inputs, first: CaseResult) -> CaseResult:
        """A memory fault, run again with inputs writable: a store to one then shows as a change."""
        again = self._run(case, inputs, inputs_writable=True)
        if again.status is Status.modified_input:
            return replace(again, line=first.line, observed_by="grader")
        return first


def hand_over(giver: Executor, taker: Executor) -> None:
    """Let an executor of another entry of the same file go on with a worker and its memory.

    Both are of one kind. Without effect where the giver has no worker, or the taker has its own.
    """
    if taker._worker is None and giver._worker is not None and giver._worker.alive:
        taker._worker, giver._worker = giver._worker, None
        taker._memory, giver._memory = giver._memory, taker._memory
        taker._memory.has_users(taker._end_users)
        giver._memory.has_users(giver._end_users)


def is_idle(executor: Executor) -> bool:
    """Whether an executor has no worker, so that it may go on with another one's."""
    return executor._worker is None


def last_plan(executor: Executor) -> Plan:
    """The plan of an executor's last run, which had one."""
    assert executor.plan is not None
    return executor.plan


def limits_of(task: Task) -> Limits:
    """The limits of one request about a variant, as its spec has them."""
    return Limits(task.limits.seconds, task.limits.memory_mb << 20)


class InputsAhead:
    """The inputs of a variant's cases, each made while a worker runs the case before it.

    Making them takes about as long as a small case takes its worker. What outputs are judged by is
    computed once a worker has answered.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._following: dict[Case, Case] = {}  # the case that is likely to come after each
        self._next: tuple[Case, Inputs] | None = None

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each one's inputs made while the one before it runs."""
        self._following = dict(itertools.pairwise(cases))

    def of(self, case: Case) -> Inputs:
        """The inputs of a case. Raises OracleError where the exercise's own function fails."""
        ahead, self._next = self._next, None
        if ahead is not None and ahead[0] == case:
            return ahead[1]
        return inputs.make(self._task, case)

    def make_next(self, case: Case) -> None:
        """Make the inputs of the case that is likely to follow, while a worker is busy.

        A function that fails does so again when they are needed.
        """
        following = self._following.pop(case, None)
        if following is not None:
            with contextlib.suppress(OracleError):
                self._next = following, inputs.make(self._task, following)

"""One Triton variant of one submission, without a GPU: planned, compiled and executed.

A plan is held to the rules before it is run. Each case runs in several ways (triton_ways.py), with
one configuration of tuned kernels or with all of them (tuning.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from grader import plan
from grader.cases import Case
from grader.executors.answers import Answers
from grader.executors.compile.cubins import NoCubin
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.compile.kernels import Kernels, PendingAssembly
from grader.executors.executor import limits_of
from grader.executors.gpu.gpu_encoding import DeviceKernel
from grader.executors.runner import CaseResult, Compiled, Runner, Times
from grader.executors.triton import triton_report
from grader.executors.triton.compile_ahead import CompileAhead
from grader.executors.triton.execution import Manner
from grader.executors.triton.other_ways import OtherWays
from grader.executors.triton.triton_planner import TritonPlanner
from grader.executors.triton.triton_plans import TritonPlans
from grader.executors.triton.triton_processes import TritonProcesses
from grader.executors.triton.ttir_executor import TritonExecutor
from grader.executors.triton.tuning import Tuning
from grader.plan import Plan
from grader.sandbox import Sandbox
from grader.spec.task import Task
from grader.status import Status

_IN_IEEE = (
    "tl.dot rounds float32 inputs to TF32, 10 bits of mantissa, unless it gets "
    'input_precision="ieee". With that this case is right.'
)


class PlannedTritonRunner(Runner):
    """Runs the cases of one Triton variant by plan. A context manager; the sandbox stays open."""

    def __init__(
        self,
        sandbox: Sandbox,
        task: Task,
        path: Path,
        watched: bool = True,
        kept: KeptBuilds | None = None,
        made: dict[str, DeviceKernel | NoCubin] | None = None,
    ) -> None:
        """`path` is the submission's file; `watched`: the rules on plans are kept, but for what
        the spec allows.

        `kept`: what earlier runs have compiled; `made`: cubins of other runners of the submission.
        """
        self.task = task
        self.times = Times()
        answers = Answers(task, path, limits_of(task))
        processes = TritonProcesses(sandbox, path, task.variant.entry, answers.limits)
        lifted = not watched or "torch" in task.rules.lifted
        torch = frozenset({"*"}) if lifted else task.rules.torch
        allowed = plan.Allowed(torch, task.exercise.moves_data)
        self._kernels = Kernels(processes.compiler, path.parent, kept, made)
        self._planner = TritonPlanner(
            processes.planner, answers, allowed, self.times, self._kernels.passed_over
        )
        self.tuning = Tuning(self._kernels)
        self._ahead = CompileAhead(self._kernels, self.tuning, answers, self.times)
        self._executor = TritonExecutor(
            processes, self._planner, self._kernels, self.tuning, self._ahead, answers, self.times
        )
        self._ways = OtherWays(self._executor, self.tuning, allowed.judges_copies)
        self.plans = TritonPlans(self._planner, self._kernels, self.tuning, answers)

    @property
    def plan(self) -> Plan | None:
        """The plan of the last run, of which `is_right_without` leaves launches out."""
        return self._executor.plan

    @plan.setter
    def plan(self, plan: Plan | None) -> None:
        self._executor.plan = plan

    def close(self) -> None:
        """End every process and give the arena back."""
        self._executor.close()
        self._planner.drop()
        self._kernels.close()

    def fresh_worker(self) -> None:
        """Let the next case meet processes that have run nothing."""
        self._executor.fresh_worker()
        self._planner.drop()

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each of these planned while the one before it is executed."""
        self._planner.expect(cases)

    def run(self, case: Case) -> CaseResult:
        """Run one case; where kernels are tuned, with the configuration that falls to it.

        A dtype's first case runs with every configuration. One that fails counts only where a GPU
        has room for it. Raises as Runner.run does.
        """
        with_every = case.dtype not in self._ways.tuned

        def run() -> CaseResult:
            self.tuning.chosen = None
            return self._ways.result_of(case, self._executor.run(case), with_every)

        return self.tuning.named(self.tuning.settled(run))

    def measure(
        self,
        case: Case,
        wave: int = 0,
        without: Collection[int] = (),
        configuration: int | None = None,
    ) -> triton_report.Report | CaseResult:
        """Run a case with every access counted: what was seen, or how the run failed.

        `wave` is how many programs run at once, 0 where it doesn't matter; launches at the places
        `without` of the plan are left out; `configuration` stands in for the one that a tuning
        chose. Raises what `run` raises.
        """
        manner = Manner(
            counts=True, wave=wave, without=frozenset(without), configuration=configuration
        )

        def measured() -> triton_report.Report | CaseResult:
            result = self._executor.run_in(manner, case)
            report = self._executor.report
            return report if result.verdict.passed and report is not None else result

        return self.tuning.settled(measured)

    def is_right_without(self, case: Case, places: Collection[int]) -> bool:
        """Whether the last run's plan, without some of its launches, gives the right result."""
        manner = Manner(races=False, without=frozenset(places))
        return self._executor.repeat_in(manner, case).verdict.passed

    def advice(self, result: CaseResult) -> str:
        """That TF32 is what makes float32 wrong, where the case is right without it."""
        case = result.case
        if case is None or result.status is not Status.wrong_values or case.dtype != "float32":
            return ""
        if not self._executor.rounds_to_tf32:
            return ""
        manner = Manner(races=False, in_ieee=True, configuration=self.tuning.suspect)
        return _IN_IEEE if self._executor.run_in(manner, case).verdict.passed else ""

    def compile_in_background(self) -> list[PendingAssembly]:
        """Start compiling for the GPU what ran since the last time; nothing for nothing."""
        return self._ahead.begin()

    def compiled(self, pending: Sequence[PendingAssembly]) -> Compiled | None:
        """Wait for a compilation. None when a process of it died or said nothing sensible."""
        return self._ahead.finish(pending)

    def take_first_met(self) -> list[Case]:
        """A case for each kernel that since the last time was first with constants, dtypes or
        options: the one whose cubin is the one that is compiled for all of them."""
        return self._ahead.take_first_met()

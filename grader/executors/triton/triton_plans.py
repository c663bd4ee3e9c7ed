"""A Triton variant's plans and compiled kernels, for a GPU that runs them (gpu.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grader.cases import Case
from grader.cases.arena import Buffers
from grader.executors.answers import Answers
from grader.executors.compile.frontend import Failure
from grader.executors.compile.kernels import Kernels
from grader.executors.gpu.gpu_encoding import DeviceKernel
from grader.executors.planning import launched
from grader.executors.runner import CaseResult
from grader.executors.triton import configurations, refusals
from grader.executors.triton.triton_planner import TritonPlanner
from grader.executors.triton.tuning import Tuning
from grader.plan import Plan, Step
from grader.worker.protocol import Argument


class TritonPlans:
    """Makes plans with the planner and cubins with the compilers of a runner without a GPU."""

    def __init__(
        self, planner: TritonPlanner, kernels: Kernels, tuning: Tuning, answers: Answers
    ) -> None:
        self._planner = planner
        self._kernels = kernels
        self._tuning = tuning
        self._answers = answers

    @property
    def path(self) -> Path:
        """The submission's file."""
        return self._answers.path

    def fresh_worker(self) -> None:
        """Let the next plan be made by a process that has run nothing."""
        self._planner.drop()

    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        """The plan of a case before the rules are applied, or why there is none."""
        return self._planner.plan_of(case, arguments)

    def planned(
        self, case: Case, arguments: Sequence[Argument], buffers: Buffers = ()
    ) -> Plan | CaseResult:
        """The plan of a case, held to the rules, or why there is none; it reads no buffers."""
        failure = self._planner.start(len(arguments))
        return self._planner.planned(case, arguments) if failure is None else failure

    def compiled_steps(
        self, case: Case, planned: Plan, call: int = 0, configuration: int | None = None
    ) -> tuple[Sequence[Step], dict[int, DeviceKernel]] | CaseResult:
        """The steps of a call and the compiled kernels that they launch, or why there are none.

        Tuned kernels are in the given configuration, else in the one that falls to the case.
        """
        if configuration is None and call == 0:
            configuration = self._tuning.choose(case, planned)
        passed_over = self._kernels.passed_over
        specialisations = configurations.kernels_of(planned)
        for _ in range(configurations.MAX_TRIED):
            before = len(passed_over)
            steps = configurations.steps(planned, call, configuration, passed_over=passed_over)
            made = {n: self._kernels.cubin(specialisations[n]) for n in launched(steps)}
            failed = [each for each in made.values() if isinstance(each, Failure)]
            if not failed or len(passed_over) == before:
                break
        if failed:
            return refusals.from_failure(self._answers, case, failed[0])
        return steps, {n: each for n, each in made.items() if isinstance(each, DeviceKernel)}

    def compile_view(self, ttir: str) -> DeviceKernel:
        """A kernel of ours that copies a strided view. Raises NotExecutable."""
        return self._kernels.cubin_of_ours(ttir)

    def configurations_of(self, planned: Plan) -> list[int]:
        """The configurations that a GPU has a choice of, by number; [] where nothing is tuned."""
        if not configurations.names_of(planned):
            return []
        return self._tuning.standing(planned)

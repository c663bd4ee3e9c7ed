"""One Triton variant of one submission, without a GPU: planned, compiled and executed.

A plan is held to the rules before it is run. Each case runs in several ways (other_ways.py), with
one configuration of tuned kernels or with all. Kernels are compiled for the GPU meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from grader import plan
from grader.cases import Case
from grader.executors.answers import Answers
from grader.executors.compile.frontend import Failure, Kernel, too_long
from grader.executors.compile.kept_builds import KeptBuilds, KeptForSource
from grader.executors.compile.kernels import Kernels, PendingAssembly, Waiting, facts
from grader.executors.encoding import DeviceKernel
from grader.executors.executor import Manner, limits_of
from grader.executors.planned_runner import PlannedRunner, in_queues
from grader.executors.program_orders import Reordered
from grader.executors.runner import (
    TRY_SECONDS,
    CaseResult,
    Coming,
    Compiled,
    Runner,
    Times,
    Traced,
)
from grader.executors.triton import triton_report
from grader.executors.triton.configurations import Tuning
from grader.executors.triton.large_sizes import TritonLargeSizes
from grader.executors.triton.other_ways import OtherWays
from grader.executors.triton.triton_planner import TritonPlanner
from grader.executors.triton.ttir_executor import TritonExecutor
from grader.gpu import machine
from grader.plan import Specialisation
from grader.sandbox import Sandbox
from grader.spec.task import Task
from grader.status import Status

_IN_IEEE = (
    "tl.dot rounds float32 inputs to TF32, 10 bits of mantissa, unless it gets "
    'input_precision="ieee". With that this case is right.'
)


class Launches:
    """The cases that launched each kernel of a variant."""

    def __init__(self) -> None:
        self.first: dict[str, Case] = {}  # the first case that launched each kernel
        self._met: set[str] = set()  # sets of constants, dtypes and options that were launched
        self._first_met: list[str] = []  # kernels that were the first with one of them
        self._recent: dict[str, tuple[Case, Waiting]] = {}  # by their keys, since the last time
        # By kernel: in which case most is known of its arguments' alignment, and how much.
        self._aligned: dict[str, tuple[int, Case]] = {}

    def note(self, case: Case, kernel: Kernel, wanted: Specialisation) -> None:
        """Note the first case that launches a kernel, and the one whose arguments align best."""
        self._recent.setdefault(wanted.key, (case, (wanted, kernel)))
        if kernel.name not in self.first:
            self.first[kernel.name] = case
            new = facts(wanted)
            if not new <= self._met:
                self._first_met.append(kernel.name)
            self._met |= new
        known = len(wanted.attributes)
        if known > self._aligned.get(kernel.name, (-1, case))[0]:
            self._aligned[kernel.name] = known, case

    def take_first_met(self) -> list[Case]:
        """A case for each kernel that since the last time was first with constants, dtypes or
        options: the one whose cubin is the one that is compiled for all of them."""
        taken, self._first_met = self._first_met, []
        return list(dict.fromkeys(self._aligned[name][1] for name in taken))

    def take_recent(self) -> dict[str, tuple[Case, Waiting]]:
        """The kernels that were launched since the last time, by their keys, with a case each."""
        taken, self._recent = self._recent, {}
        return taken


@dataclass(frozen=True)
class Ahead:
    """What is compiled ahead of time, and all kernels that ran since the time before."""

    begun: Sequence[PendingAssembly]
    ran: Mapping[str, tuple[Case, Waiting]]

    def __bool__(self) -> bool:
        return bool(self.begun or self.ran)


class PlannedTritonRunner(PlannedRunner):
    """Runs the cases of one Triton variant by plan. A context manager; the sandbox stays open."""

    _kernels: Kernels

    def __init__(
        self,
        sandbox: Sandbox,
        task: Task,
        path: Path,
        watched: bool = True,
        kept: KeptBuilds | None = None,
        made: dict[str, DeviceKernel | Failure] | None = None,
        sharing: list[Any] | None = None,
    ) -> None:
        """`path` is the submission's file. With `watched` a plan must keep the rules, but for what
        the spec allows. `kept` has results of earlier runs, `made` cubins of other runners. Those
        of one file, in the list `sharing`, have one compiler, and hand on their processes."""
        beside = list(sharing or ())
        super().__init__(sandbox, task, path, sharing)
        self.times, self._watched = Times(), watched
        self._answers = answers = Answers(task, path, limits_of(task))
        worker = partial(sandbox.worker, path, task.variant.entry)

        compiler = partial(worker, (), role="compiler")
        lifted = not watched or "torch" in task.rules.lifted
        torch = frozenset({"*"}) if lifted else task.rules.torch
        allowed = plan.Allowed(torch, task.exercise.moves_data)
        own = Kernels(compiler, path.parent, kept, made)
        self._kernels = kernels = next((each._kernels for each in beside), own)
        self.tuning = tuning = Tuning(kernels)
        self.plans: TritonPlanner = TritonPlanner(
            lambda: worker((), answers.limits, [_host_gpu()], role="planner"),
            answers,
            allowed,
            self.times,
            kernels,
            tuning,
            kept if isinstance(kept, KeptForSource) else KeptBuilds(None),
        )
        # Plans cases of large sizes, on an executor of its own; a context manager.
        self.large_sizes = lambda: TritonLargeSizes(self.plans, kernels, partial(worker, ()))
        self.launches: Launches = Launches()
        self._executor: TritonExecutor = TritonExecutor(
            lambda buffers: worker(buffers, answers.limits, role="executor"),
            self.plans,
            kernels,
            tuning,
            self.launches.note,
        )
        used = kernels, tuning, allowed.judges_copies, Reordered(task.variant.file)
        self._ways = OtherWays(self._executor, *used)

    def close(self) -> None:
        super().close()
        if not self._sharing:
            self._kernels.close()

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each of these planned while the one before it is executed."""
        self.plans.expect(cases)
        self._executor.inputs.expect(cases)

    def run(self, case: Case) -> CaseResult:
        """Run one case; where kernels are tuned, with the configuration that falls to it.

        A dtype's first case runs with every configuration. One that fails counts only where a GPU
        has room for it. Raises as Runner.run does.
        """
        with_every = case.dtype not in self._ways.tuned

        def run() -> CaseResult:
            return self._ways.result_of(case, self._anew(case), with_every)

        return self.tuning.named(self.tuning.settled(run))

    def once(self, case: Case) -> CaseResult:
        """Run one case by one plan, in one way. Raises as Runner.run does."""
        return self.tuning.settled(lambda: self._anew(case))

    def _anew(self, case: Case, manner: Manner | None = None) -> CaseResult:
        """The result of a run that keeps no configuration of the run before it."""
        self.tuning.chosen = None
        return self._executor.run(case, manner)

    def altered(
        self, copies: Sequence[str], entries: Sequence[str]
    ) -> Coming[Sequence[Runner | None]]:
        def made() -> list[Runner]:
            text = "\n\n".join([self.source, *copies]).encode()
            name = f"{self.path.stem}_{hashlib.sha256(text).hexdigest()[:12]}.py"
            path = self._sandbox.hold(name, text)

            def runner(entry: str, sharing: list[Any]) -> Runner:
                task = self.task.with_entry(entry, TRY_SECONDS)
                runner = PlannedTritonRunner(
                    self._sandbox, task, path, self._watched, sharing=sharing
                )
                runner.plans.compares = False
                return runner

            return in_queues(entries, runner)

        return Coming(made)

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
        left_out = frozenset(without)
        manner = Manner(counts=True, wave=wave, without=left_out, configuration=configuration)

        def measured() -> triton_report.Report | CaseResult:
            result = self._executor.run(case, manner)
            report = self._executor.report
            return report if result.verdict.passed and report is not None else result

        return self.tuning.settled(measured)

    def trace(self, case: Case) -> Traced:
        """Run a case with every access recorded. Raises what `run` raises."""
        manner = Manner(counts=True, records=True)
        result = self.tuning.settled(lambda: self._anew(case, manner))
        return Traced(result, self._executor.recorded)

    def is_right_without(self, case: Case, places: Collection[int]) -> bool:
        """Whether the last run's plan, without some of its launches, gives the right result."""
        return self._ways.is_right_without(case, places)

    def advice(self, result: CaseResult) -> str:
        """That TF32 is what makes float32 wrong, where the case is right without it."""
        case = result.case
        if case is None or result.status is not Status.wrong_values or case.dtype != "float32":
            return ""
        manner = Manner(races=False, in_ieee=True, configuration=self.tuning.suspect)
        is_why = self._executor.rounds_to_tf32 and self._executor.run(case, manner).verdict.passed
        return _IN_IEEE if is_why else ""

    # --- compiled ahead for the GPU ---------------------------------------------------------------

    def compile_in_background(self) -> Ahead:
        """Start compiling for the GPU what ran since the last time; false where nothing did."""
        return Ahead(self._kernels.assemble(), self.launches.take_recent())

    def compiled(self, pending: Ahead) -> Compiled | None:
        """Wait for a compilation. None when a process of it died or said nothing sensible."""
        started = time.perf_counter()
        answers = [self._kernels.settled(each) for each in pending.begun]
        for each, answer in zip(pending.begun, answers, strict=True):
            if answer is None:
                self._kernels.again(each)
        refused = [
            (self.launches.first.get(kernel.name), wanted, failure)
            for answer in answers
            for wanted, kernel, failure in answer or ()
        ]
        among = self._kernels.refused_among([kernel for _, kernel in pending.ran.values()])
        alike = ((pending.ran[wanted.key][0], wanted, failure) for wanted, failure in among)
        results = (
            _from_backend(self._answers, self.tuning, *each) for each in chain(refused, alike)
        )
        first = next(filter(None, results), None)
        if first is None and None in answers and self._kernels.budget.seconds <= 0:
            first = too_long().result(self._answers, None)
        self.times.compiles += time.perf_counter() - started
        return Compiled(first) if first or None not in answers else None


def _host_gpu() -> str:
    return json.dumps(machine.seen_by_host_code().as_json())


def _from_backend(
    answers: Answers, tuning: Tuning, case: Case | None, wanted: Specialisation, failure: Failure
) -> CaseResult | None:
    """The result of a case whose kernel the backend refuses; None where a tuner has others."""
    is_passed_over, result = tuning.refused(case, wanted)
    if is_passed_over:
        return result
    if wanted.language == "gluon":
        return failure.result(answers, case)
    what = f"the kernel runs, but the compiler for the GPU refuses it: {failure.message}"
    return failure.refusal(case, what)

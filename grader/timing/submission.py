"""Times the variants of one submission.

The other modules time any kernel. This one has what a submission adds: its plans, the sandboxes
that serve all its variants, the staff's solutions and the measured roofs of this GPU.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

from grader.evidence import PerformanceEvidence
from grader.executors.compile import kept_builds
from grader.executors.cuda import cuda_build, joining
from grader.executors.registry import RunnerOptions, Runners, Ways
from grader.gpu import machine, measured_roofs
from grader.gpu.devices import DeviceName
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec import Exercise, Variant
from grader.spec.task import Task
from grader.status import Status
from grader.timing import contenders
from grader.timing.attempt import AS_GRADED, Options
from grader.timing.contenders import Documents, FromPlans, Planned
from grader.timing.failures import TimingFailed
from grader.timing.timed_variant import cases_of, measure, trusted_sandbox


class Stopwatch:
    """Times the variants of one submission. Close it; `runners` belong to their owner."""

    def __init__(
        self,
        device: DeviceName,
        seed: int,
        exercises: Mapping[str, Exercise],
        runners: Runners,
        trusted: Sandbox | None = None,
        uses_cache: bool = False,
    ) -> None:
        """`trusted` is a sandbox for baselines, which its owner closes; None for a new one.
        Kernels of baselines are in the user's cache if that `uses_cache`.

        One such sandbox may serve many submissions, since no submission's code runs in it.
        """
        self._device, self._seed = device, seed
        self._exercises, self._runners = exercises, runners
        self._planned: dict[str, Planned] = {}
        self._given, self._uses_cache = trusted, uses_cache

    def close(self) -> None:
        """End the sandboxes of baselines and of the staff's solutions."""
        if "trusted" in vars(self) and self._given is None:
            self.trusted.close()
        if "_staff" in vars(self):
            runners, sandbox = self._staff
            runners.close()
            sandbox.close()

    def begin(self, solutions: Sequence[Task] = ()) -> None:
        """Launch what the first timings need, without waiting; nothing without a GPU.

        `solutions` are timed as the staff solved them, too, where that is known here.
        """
        if self._device == "cuda":
            self._runners.begin()
            self.trusted.begin()
            for task in filter(contenders.has_reference, solutions):
                runners, sandbox = self._staff
                sandbox.begin()
                if task.variant.language == "cuda":
                    runners.programs.begin(task.variant.file, "gpu")

    def time(
        self,
        task: Task,
        waiting: Callable[[], None] = lambda: None,
        documents: Documents | None = None,
    ) -> PerformanceEvidence:
        """Time a right variant on a GPU; calls `waiting` where it waits for its turn there.

        `documents` are its plans if another machine or process made them; else they are made here.
        """
        task = replace(task, variant=task.variant.on(machine.gpu_name() or ""))
        try:
            if documents is None:
                candidate = self.planned(task)
                for case in cases_of(candidate.task, self._seed):
                    candidate.prepare(case)
            else:
                sandbox = self._runners.sandbox_of("cuda")
                candidate = Planned(sandbox, task, documents)
            if not self.trusted.is_started:
                self.trusted.start()  # importing torch takes seconds, in which others have the GPU
            return measure(
                candidate,
                self._seed,
                trusted=self.trusted,
                reference=lambda: self.reference(task),
                options=replace(self._options, waiting=waiting),
            )
        except TimingFailed as failed:
            return PerformanceEvidence(failed.status, str(failed))
        except Exception:
            reason = traceback.format_exc(limit=-6)
            return PerformanceEvidence(Status.grader_error, reason)

    def why_not(self, variant: Variant) -> str:
        """Why this machine can't time a variant's language, and the remedy; "" where it can."""
        in_cuda = variant.language == "cuda" and self._device == "cuda"
        return cuda_build.why_not("gpu") if in_cuda else ""

    def planned(self, task: Task) -> Planned:
        """A variant of the submission, ready to be timed. Raises as Runners.of does."""
        if str(task) not in self._planned:
            self._planned[str(task)] = as_timed(self._runners, task)
        return self._planned[str(task)]

    def reference(self, task: Task) -> Planned:
        """The staff's solution. Raises TimingFailed where it isn't here, and as `planned` does."""
        if not contenders.has_reference(task):
            raise TimingFailed("the staff's solution isn't here", Status.not_measured)
        return as_timed(self._staff[0], task)

    @cached_property
    def trusted(self) -> Sandbox:
        """The sandbox of baselines, where no submission runs; its first user starts it."""
        if self._given is not None:
            return self._given
        kernels = kept_builds.kernels_of_baselines() if self._uses_cache else None
        return trusted_sandbox(self._device, kernels)

    @cached_property
    def _staff(self) -> tuple[Runners, Sandbox]:
        """The runners of the staff's solutions, and the sandbox of their plans."""
        sandbox = Sandbox("cpu", Level.limits, kind="plans")
        folder = next(iter(self._exercises.values())).reference
        runners = Runners(
            self._exercises,
            sandbox,
            self._device,
            partial(joining.read_trusted, folder, joining.labs_of(self._exercises)),
            lambda task: False,
            RunnerOptions(Ways(level=Level.limits)),
        )
        return runners, sandbox

    @cached_property
    def _options(self) -> Options:
        """Options with the roofs that `grader doctor --gpu` measured on this GPU, if it did."""
        roofs = measured_roofs.kept_here()
        return Options(roofs=roofs.roofs(), usual_sm_mhz=roofs.sm_mhz) if roofs else AS_GRADED


def as_timed(runners: Runners, task: Task) -> Planned:
    """A variant, ready to be timed. Raises as Runners.of does."""
    return Planned(runners.sandbox_of("cuda"), task, FromPlans(runners.plans_of(task)))

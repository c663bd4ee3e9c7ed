"""The clock of one submission: what a variant's speed shows, and what the clock has workers run.

How a kernel is timed is timing/'s affair. Here is what a submission brings: its file or the program
made of it, the yardsticks' sandbox that serves all its variants, the roofs of the GPU at hand.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from grader import machine, native, nvml, roofs
from grader.allowed_paths import DeviceName
from grader.cases import fixed_case
from grader.evidence import PerformanceEvidence
from grader.runners import Runners
from grader.sandbox import Sandbox
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.task import Task
from grader.timing import lanes
from grader.timing.measure import measure, trusted_sandbox
from grader.timing.programs import backend_on
from grader.timing.worker import TimingFailed

AHEAD_SECONDS = 20.0  # for a call that only compiles; what takes longer has its time later


class Stopwatch:
    """Times the variants of one submission. Close it; what it was given is its owner's."""

    def __init__(
        self,
        device: DeviceName,
        seed: int,
        sandbox: Sandbox,
        runners: Runners,
        held: Callable[[Variant], Path],
        may_use_libraries: Callable[[Exercise, Variant], bool],
    ) -> None:
        """`held` gives a variant's file as it is run, in `sandbox`."""
        self._device, self._seed = device, seed
        self._sandbox, self._runners = sandbox, runners
        self._held, self._may_use_libraries = held, may_use_libraries

    def close(self) -> None:
        """End the yardsticks' sandbox."""
        if "trusted" in vars(self):
            self.trusted.close()

    def begin(self) -> None:
        """Have the sandboxes on their way that the first variant to be timed needs."""
        self._sandbox.begin()
        self.trusted.begin()

    def compile_ahead(
        self, exercise: Exercise, variant: Variant, is_over: Callable[[], bool]
    ) -> None:
        """Have a variant's kernels compiled for what is timed later: the compiler keeps them.

        Until `is_over`. Nothing is timed or told here: what goes wrong does so again in time.
        """
        for given in variant.performance.every_case:
            if is_over():
                return
            case = fixed_case(exercise, variant, given, self._seed)
            with contextlib.suppress(Exception), contextlib.ExitStack() as opened:
                sandbox, path = self.file(exercise, variant)
                what = (sandbox, exercise, variant, case, path, opened)
                lanes.candidate(*what, most_sets=1).first_call(AHEAD_SECONDS)

    def time(
        self, exercise: Exercise, variant: Variant, turn: Callable[[], AbstractContextManager[None]]
    ) -> PerformanceEvidence:
        """Time a variant that is right, on a GPU that `turn` gives; compiling comes before that."""
        try:
            sandbox, path = self.file(exercise, variant)
            with turn():
                return measure(
                    sandbox,
                    exercise,
                    variant,
                    path,
                    self._seed,
                    roofs=self._roofs.roofs() if self._roofs else None,
                    usual_sm_mhz=self._roofs.sm_mhz if self._roofs else None,
                    profile=not self._may_use_libraries(exercise, variant),
                    trusted=self.trusted,
                )
        except TimingFailed as failed:
            return PerformanceEvidence(failed.status, str(failed))
        except Exception:
            reason = traceback.format_exc(limit=-6)
            return PerformanceEvidence(Status.grader_error, reason)

    def why_not(self, variant: Variant) -> str:
        """Why this machine can't time a variant's language, with what to do; "" where it can."""
        return native.why_not(backend_on(self._device)) if variant.language == "cuda" else ""

    def file(self, exercise: Exercise, variant: Variant) -> tuple[Sandbox, Path]:
        """What the clock has workers started of: the file, or the program that was made of it.

        With the sandbox that it is in. Raises TimingFailed where no program can be made, and as
        Runners.of does.
        """
        if variant.language == "cuda":
            runner = self._runners.native(Task(exercise, variant), backend_on(self._device))
            if failure := runner.failure:
                raise TimingFailed(failure.verdict.what, failure.status)
            return runner.sandbox, runner.program.path
        if not self._sandbox.is_started:
            self._sandbox.start()
        return self._sandbox, self._held(variant)

    @cached_property
    def trusted(self) -> Sandbox:
        """Where yardsticks run, and nothing of a submission; who uses it starts it."""
        return trusted_sandbox(self._device)

    @cached_property
    def _roofs(self) -> roofs.MeasuredRoofs | None:
        """What `grader doctor --gpu` measured on this GPU; None where it wasn't asked to."""
        gpu = machine.gpu_properties()
        return roofs.load(roofs.identity_of(gpu, nvml.observe(gpu.uuid or None))) if gpu else None

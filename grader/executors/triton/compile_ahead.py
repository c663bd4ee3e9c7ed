"""A Triton variant's kernels compiled for the GPU, in the background, while its cases run."""

from __future__ import annotations

import time
from collections.abc import Sequence

from grader.cases import Case
from grader.executors.answers import Answers
from grader.executors.compile.backend_queue import facts
from grader.executors.compile.frontend import Failure, Kernel
from grader.executors.compile.kernels import Kernels, PendingAssembly
from grader.executors.runner import CaseResult, Compiled, Times
from grader.executors.triton import refusals
from grader.executors.triton.tuning import Tuning
from grader.plan import Specialisation


class CompileAhead:
    """Which case launched a kernel, and what the backend says of it."""

    def __init__(self, kernels: Kernels, tuning: Tuning, answers: Answers, times: Times) -> None:
        self._kernels = kernels
        self._tuning = tuning
        self._answers = answers
        self._times = times
        self._launched: dict[str, Case] = {}  # the first case that launched each kernel
        self._met: set[str] = set()  # sets of constants, dtypes and options that were launched
        self._first_met: list[str] = []  # kernels that were the first with one of them
        # By kernel: in which case most is known of its arguments' alignment, and how much.
        self._aligned: dict[str, tuple[int, Case]] = {}

    def note(self, case: Case, kernel: Kernel, wanted: Specialisation) -> None:
        """Note who launches a kernel: the first case, and the one whose arguments align best."""
        if kernel.name not in self._launched:
            self._launched[kernel.name] = case
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

    def begin(self) -> list[PendingAssembly]:
        """Start compiling for the GPU what ran since the last time; nothing for nothing."""
        return self._kernels.assemble()

    def finish(self, pending: Sequence[PendingAssembly]) -> Compiled | None:
        """Wait for a compilation. None when a process of it died or said nothing sensible."""
        started = time.perf_counter()
        answers = [self._kernels.settled(each) for each in pending]
        for each, answer in zip(pending, answers, strict=True):
            if answer is None:
                self._kernels.again(each)
        refused = [each for answer in answers for each in answer or ()]
        failures = (self._from_backend(*each) for each in refused)
        failure = next((each for each in failures if each is not None), None)
        self._times.compiles += time.perf_counter() - started
        return Compiled(failure) if failure or None not in answers else None

    def _from_backend(
        self, wanted: Specialisation, kernel: Kernel, failure: Failure
    ) -> CaseResult | None:
        """What it means that the backend refuses a kernel; nothing where a tuner has others."""
        case = self._launched.get(kernel.name)
        is_passed_over, result = self._tuning.refused(case, wanted)
        if is_passed_over:
            return result
        if wanted.language == "gluon":
            return refusals.from_failure(self._answers, case, failure)
        what = f"the kernel runs, but the compiler for the GPU refuses it: {failure.message}"
        return refusals.of_compiler(case, what, failure.fields)

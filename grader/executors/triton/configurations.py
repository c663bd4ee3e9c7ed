"""Configurations that an autotuner chooses from, read from the trials in a plan.

On a GPU timings decide which one runs; so each of them has to be right. A configuration has a
number, and takes the place of the one that the planner chose. In a tuning with fewer configurations
the numbers begin again at the first. Triton's tuner passes over one that doesn't compile for the
GPU: such kernels are given as `passed_over`, by their keys, and the next one is taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from grader.cases import Case
from grader.executors.compile.kernels import Kernels
from grader.executors.executor import Manner
from grader.executors.runner import CaseResult
from grader.plan import Launch, Plan, Specialisation, Step, reorder
from grader.sandbox import untrusted
from grader.status import Status

MAX_TRIED = 64  # configurations that one case is run with
MOST_NAMED = 16  # configurations, in one message
_MAX_WORDS = 120  # characters of a configuration's name
_Shown = TypeVar("_Shown")


def names_of(plan: Plan) -> list[str]:
    """The configurations of the first call's longest tuning, as words_of; [] without tuning."""
    return words_of(_longest(plan))


def standing(plan: Plan, passed_over: Collection[str]) -> list[int]:
    """The numbers of those configurations that a GPU has a choice of."""
    longest = _longest(plan)
    return [number for number, each in enumerate(longest) if each.key not in passed_over]


def tunings(plan: Plan) -> dict[int, tuple[Specialisation, ...]]:
    """The configurations that a kernel was tuned among, by the kernel's number in the plan."""
    tried: dict[tuple[int, str], dict[int, Specialisation]] = {}
    for step in (each for call in plan.calls for each in call):
        if isinstance(step, Launch) and step.trial >= 0:
            kernel = _kernel(plan, step)
            tried.setdefault((step.trial, kernel.function), {})[step.specialisation] = kernel
    return {number: tuple(each.values()) for each in tried.values() for number in each}


def kernels_of(plan: Plan) -> Sequence[Specialisation]:
    """The kernels of a plan of Triton, by their numbers."""
    return [each for each in plan.specialisations if isinstance(each, Specialisation)]


def steps_in(manner: Manner, plan: Plan, passed_over: Collection[str]) -> tuple[Step, ...]:
    """The steps of a plan that a manner does; in the place of what is passed over, others."""
    number, tunes = manner.configuration, manner.tunes
    done = steps(plan, manner.call, number, manner.without, passed_over, tunes)
    return reorder(done, memory_waits=False) if manner.reordered else done


def steps(
    plan: Plan,
    call: int = 0,
    number: int | None = None,
    without: Collection[int] = (),
    passed_over: Collection[str] = (),
    tunes: bool = False,
) -> tuple[Step, ...]:
    """The steps of a call without the trials, each tuned launch in the configuration `number`.

    With None the launches are those that the planner chose. The steps at the places `without` of
    the call are left out. With `tunes`, the first trial of each tuning is among them.
    """
    kept: list[Step] = []
    done: set[int] = set()  # tunings of which a trial is among them
    for place, step, tried in _with_trials(plan, call):
        if tried is None:
            assert isinstance(step, Launch)
            is_first = step.trial not in done and _kernel(plan, step).key not in passed_over
            if tunes and is_first:
                done.add(step.trial)
                kept.append(step)
            continue
        chosen = step
        if number is not None and tried:
            begin = number % len(tried)
            turned = tried[begin:] + tried[:begin]
            taken = (each for each in turned if _kernel(plan, each).key not in passed_over)
            chosen = next(taken, turned[0])
        if place not in without:
            kept.append(chosen)
    return tuple(kept)


def _longest(plan: Plan) -> list[Specialisation]:
    """The configurations of the first call's longest tuning; [] where nothing is tuned."""
    longest = max((tried or [] for *_, tried in _with_trials(plan, 0)), key=len, default=[])
    return [_kernel(plan, each) for each in longest] if len(longest) > 1 else []


def _with_trials(plan: Plan, call: int) -> Iterator[tuple[int, Step, list[Launch] | None]]:
    """The steps of a call, by place, with the trials of a launch's tuning; None for a trial."""
    trials: list[Launch] = []
    for place, step in enumerate(plan.calls[call]):
        if isinstance(step, Launch) and step.trial >= 0:
            if trials and trials[-1].trial != step.trial:
                trials = []
            trials.append(step)
            yield place, step, None
        elif not isinstance(step, Launch) or not trials:
            yield place, step, []
        else:
            function = _kernel(plan, step).function
            yield place, step, [x for x in trials if _kernel(plan, x).function == function]
            trials = []


def first_for(case: Case, count: int) -> int:
    """Which of so many configurations a case is run with: the same whenever it is run."""
    digest = hashlib.sha256(str(case).encode()).digest()
    return int.from_bytes(digest[:8], "little") % count


def label(number: int, names: Sequence[str]) -> str:
    """'configuration 2 of 5 (BLOCK=64)'."""
    name = f" ({names[number]})" if names[number] else ""
    return f"configuration {number + 1} of {len(names)}{name}"


def _kernel(plan: Plan, launch: Launch) -> Specialisation:
    kernel = plan.specialisations[launch.specialisation]
    assert isinstance(kernel, Specialisation)  # a plan of Triton has no others
    return kernel


def words_of(kernels: Sequence[Specialisation]) -> list[str]:
    """Each configuration by what differs between them: 'BLOCK=64 num_warps=8'."""
    if not kernels:
        return []
    values = [{**each.constants, **each.options} for each in kernels]
    keys = dict.fromkeys(key for each in values for key in each)
    differing = [key for key in keys if any(each.get(key) != values[0].get(key) for each in values)]
    words = [" ".join(f"{key}={each[key]}" for key in differing if key in each) for each in values]
    return [untrusted.brief(each, _MAX_WORDS) for each in words]


class Tuning:
    """The choice of configurations with which a variant's cases are run.

    Each case has one that follows from its text, until a run fails with one: then all later cases
    have that one, so that they show the same. What Triton's tuner passes over shows only when a
    compiler is asked.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.chosen: int | None = None  # of the last run, by number; None: nothing is tuned
        self.suspect: int | None = None  # the first configuration with which a run has failed
        self._kernels = kernels
        self._names: list[str] = []  # of the last plan's configurations
        self._known = 0  # how many were passed over when a run was last asked about
        self._launched: list[Specialisation] = []  # tuned kernels of the last run
        self._among: dict[str, tuple[Specialisation, ...]] = {}  # configurations, by each one's key

    def standing(self, plan: Plan) -> list[int]:
        """A plan's configurations, by number, that nothing is known to keep from a GPU."""
        return standing(plan, self._kernels.passed_over)

    def choose(self, case: Case, plan: Plan) -> int | None:
        """The configuration that a case is run with; None where its kernels aren't tuned."""
        self._names = names_of(plan)
        if self._names:
            choice = self.standing(plan)
            suspect = None if self.suspect is None else self.suspect % len(self._names)
            if suspect in choice:
                self.chosen = suspect
            elif choice:
                self.chosen = choice[first_for(case, len(choice))]
        return self.chosen

    def named(self, result: CaseResult) -> CaseResult:
        """A result; one that fails names its configuration, which later cases take, too."""
        if not result.status.is_failure or self.chosen is None:
            return result
        self.suspect = self.chosen
        did = "was compiled as" if result.status is Status.compile_error else "ran with"
        name = label(self.chosen, self._names)
        what = f"{result.verdict.what.rstrip('.')}. It {did} {name}."
        verdict = replace(result.verdict, what=what)
        return replace(result, verdict=verdict)

    def begin_run(self) -> None:
        """Forget which tuned kernels the run before this one had."""
        self._launched = []

    def launch(
        self, case: Case, kernel: Specialisation, among: tuple[Specialisation, ...]
    ) -> CaseResult | None:
        """Note a tuned kernel of the run and its configurations; the result where none compiles.

        A plan has a kernel that is passed over where no configuration is left, or where it was made
        before that was known.
        """
        self._launched.append(kernel)
        key = kernel.key
        if key not in self._among:
            self._among.update((each.key, among) for each in among)
        if key not in self._kernels.passed_over:
            return None
        for each in self._among[key]:  # each would be tried
            self._kernels.translate(each)
        self.chosen = None  # the message names them
        return self._none_left(case, self._among[key])

    def refused(self, case: Case | None, kernel: Specialisation) -> tuple[bool, CaseResult | None]:
        """Whether a kernel that the backend refuses is passed over; the result where all are."""
        key = kernel.key
        among = self._among.get(key)
        if key not in self._kernels.passed_over or among is None:
            return False, None
        if not all(self._kernels.is_passed_over(each) for each in among):
            return True, None
        return True, self._none_left(case, among)

    def _none_left(self, case: Case | None, among: Sequence[Specialisation]) -> CaseResult:
        """The result where no configuration of a tuned kernel compiles, with each one's reason."""
        names = words_of(among)
        refused = [
            (label(number, names), failure)
            for number, kernel in enumerate(among)
            if (failure := self._kernels.passed_over.get(kernel.key)) is not None
        ]
        reasons = [f"{name}: {failure.message}" for name, failure in refused]
        more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
        what = f"no configuration compiles for the GPU: {'; '.join(reasons[:MOST_NAMED])}{more}."
        return refused[0][1].refusal(case, what)

    def learns(self) -> bool:
        """Ask the compilers whether a tuner passes over the last run's tuned kernels.

        False where there is no news, so that another run would be the same.
        """
        before, self._known = self._known, len(self._kernels.passed_over)
        if before == self._known:
            for each in self._launched:
                self._kernels.is_passed_over(each)
            self._known = len(self._kernels.passed_over)
        return before < self._known

    def settled(self, work: Callable[[], _Shown]) -> _Shown:
        """The result of work without configurations that Triton's tuner passes over.

        The work is begun again after a failure, if the compilers then refuse some of them.
        """
        shown = work()
        for _ in range(MAX_TRIED):
            failed = isinstance(shown, CaseResult) and not shown.verdict.passed
            if not failed or not self.learns():
                break
            shown = work()
        return shown

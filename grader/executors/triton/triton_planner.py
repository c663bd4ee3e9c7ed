"""A Triton variant's planner as the grader sees it: a case goes in, a plan comes out.

The planner's process has run the submission's Python (worker/planner/), so its answers are
untrusted. It plans one case after another; two fresh ones have to agree on a dtype's first.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from grader import plan
from grader.cases import Case
from grader.cases.arena import Buffers
from grader.cases.compare import Verdict
from grader.executors.answers import Answers, from_violation
from grader.executors.compile.frontend import Failure
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.compile.kernels import Kernels
from grader.executors.encoding import DeviceKernel
from grader.executors.executor import Manner
from grader.executors.planning import (
    Plans,
    blank_arguments,
    key_of_call,
    launched,
    layouts_of,
    relies_on_others,
)
from grader.executors.runner import CaseResult, Times
from grader.executors.triton import configurations
from grader.executors.triton.configurations import Tuning
from grader.plan import Allowed, Plan, PlanError, Step
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Cause, Death, Worker
from grader.status import Status
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply

GRID = "grid"  # the pattern of a launch on a grid that is too large


class TritonPlanner(Plans):
    """The plans of one variant's cases, and the cubins of the kernels that they launch."""

    def __init__(
        self,
        spawn: Callable[[], Worker],
        answers: Answers,
        allowed: Allowed,
        times: Times,
        kernels: Kernels,
        tuning: Tuning,
        kept: KeptBuilds,
    ) -> None:
        """`spawn` starts a process that has loaded nothing; `allowed` is what the spec allows
        beyond the rules on plans. Each request tells the process which configurations a tuner
        passes over, as far as `kernels` knows. `kept` has plans that this source led to before."""
        super().__init__(answers, times)
        self._kept = kept
        self._spawn = spawn
        self.compares = True  # whether two processes have to agree on a dtype's first plan
        self._task = answers.task
        self._allowed = allowed
        self._limits = plan.Limits(device_bytes=answers.limits.memory_bytes)
        self._kernels = kernels
        self._tuning = tuning
        self._passed_over = kernels.passed_over
        self._keeps_state = False  # whether each plan takes a process of its own
        self._begun: set[str] = set()  # dtypes whose first case was planned, or refused
        self._compared: set[str] = set()  # dtypes for which two planners were compared
        self._next: dict[Case, Case] = {}  # the case that is likely to follow each; used once
        self._ahead: Case | None = None  # whose plan the process was asked for already

    def fresh_worker(self) -> None:
        super().fresh_worker()
        self._ahead = None

    def start(self, count: int) -> CaseResult | None:
        """Have a process that has loaded the submission, whose entry takes `count` arguments."""
        if self.failure is None and self.planner is None:
            self._has_planned, self._sent = False, 0
            self._load(self._spawn(), count)
        return self._turn(count)

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each of these planned while the one before it is executed."""
        self._next = dict(itertools.pairwise(cases))

    def planned(
        self, case: Case, arguments: Sequence[Argument], buffers: Buffers = ()
    ) -> Plan | CaseResult:
        """The plan of a case, held to the rules, or why there is none; it reads no buffers."""
        is_first = self.compares and case.dtype not in self._compared
        key = self._key(arguments)
        is_known = self._kept.get(key) is not None
        is_begun = not self.compares or case.dtype in self._begun
        if not is_begun and self._has_planned and not is_known:
            self.fresh_worker()
        self._begun.add(case.dtype)
        made = self.plan_of(case, arguments)
        if isinstance(made, CaseResult):
            return made
        if is_first:
            self._compared.add(case.dtype)
            if not is_known or self._kept.get(f"{key} compared") is None:
                if (differs := self._compare(case, arguments, made)) is not None:
                    return differs
                self._kept.put(f"{key} compared", "yes")
        made = plan.allow(made, self._allowed)
        if broken := plan.violations(made, self._allowed, layouts_of(arguments)):
            return from_violation(case, broken[0])
        return made

    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        key = self._key(arguments)
        if (text := self._kept.get(key)) is not None:
            return _read(case, arguments, text, self._limits)
        made, text = self._planned_by_process(case, arguments)
        if isinstance(made, Plan):
            self._kept.put(key, text)
        return made

    def _planned_by_process(
        self, case: Case, arguments: Sequence[Argument]
    ) -> tuple[Plan | CaseResult, str]:
        """A plan as the process gives it now, and its text.

        One process makes all plans, unless one depends on those before it.
        """
        if self._keeps_state:
            self.fresh_worker()
        answer, was_fresh = self._answer_ahead(case), False
        if answer is None:
            failure = self.start(len(arguments))
            if failure is not None:
                return replace(failure, case=case), ""
            assert self.planner is not None
            was_fresh, self._has_planned = not self._has_planned, True
            answer = self.planner.ask_at_length(Operation.plan, arguments, document=self._news())
        if not was_fresh and relies_on_others(answer):
            self._keeps_state = True
            return self._planned_by_process(case, arguments)
        if isinstance(answer, Death):
            self.planner = None
            return _from_death(self.answers, case, answer), ""
        if answer.code is not Code.ok:
            return _refused(self.answers, case, answer), ""
        return _read(case, arguments, answer.text, self._limits), answer.text

    def _key(self, arguments: Sequence[Argument]) -> str:
        """The name of a call's plan among those of this source, wherever its tensors are placed."""
        entry, further = self._task.variant.entry, sorted(self._passed_over)
        return key_of_call(entry, arguments, placed=False, further=further)

    def ask_ahead(self, case: Case) -> None:
        """Ask for the plan of the case that is likely to follow, where no fresh process is due."""
        following = self._next.pop(case, None)
        if following is None or self.planner is None or self._ahead is not None:
            return
        if self._keeps_state or following.dtype not in self._compared:
            return
        given = blank_arguments(self._task, following)
        if self._kept.get(self._key(given)) is not None:
            return
        if self.planner.post(Operation.plan, given, document=self._news()) is None:
            self._ahead = following
        else:
            self.planner = None

    def _news(self) -> bytes:
        """The configurations passed over that the process doesn't know yet."""
        news = list(itertools.islice(self._passed_over, self._sent, None))
        self._sent += len(news)
        return json.dumps({"passed_over": news}).encode() if news else b""

    def _answer_ahead(self, case: Case) -> Reply | Death | None:
        """The answer for a case that was asked for ahead; None where none counts.

        An answer counts if all that tuners pass over was known. One about another case doesn't.
        """
        asked, self._ahead = self._ahead, None
        if asked is None or self.planner is None:
            return None
        answer = self.planner.wait_at_length()
        if asked == case and self._sent == len(self._passed_over):
            return answer
        if isinstance(answer, Death):
            self.planner = None
        return None

    def _compare(self, case: Case, arguments: Sequence[Argument], made: Plan) -> CaseResult | None:
        """Whether another fresh process gives another plan for the same case."""
        self.fresh_worker()
        again, _ = self._planned_by_process(case, arguments)
        if isinstance(again, CaseResult):
            return again
        names = [argument.name for argument in self._task.signature]
        if not (differs := plan.difference(made, again, names, self._task.variant.file)):
            return None
        what = f"{untrusted.brief(differs)}."
        hint = "What a launcher does may depend on shapes, strides and dtypes, on nothing else."
        verdict = Verdict(Status.nondeterministic, what, "plans")
        return CaseResult(case, verdict, hint=hint)

    def compiled_steps(
        self, case: Case, planned: Plan, call: int = 0, configuration: int | None = None
    ) -> tuple[Sequence[Step], dict[int, DeviceKernel]] | CaseResult:
        """The steps of a call and their kernels, in a configuration or the case's own."""
        if configuration is None and call == 0:
            configuration = self._tuning.choose(case, planned)
        specialisations = configurations.kernels_of(planned)
        for _ in range(configurations.MAX_TRIED):
            before = len(self._passed_over)
            manner = Manner(call=call, configuration=configuration)
            steps = configurations.steps_in(manner, planned, self._passed_over)
            made = {n: self._kernels.cubin(specialisations[n]) for n in launched(steps)}
            failed = [each for each in made.values() if isinstance(each, Failure)]
            if not failed or len(self._passed_over) == before:
                break
        if failed:
            return failed[0].result(self.answers, case)
        return steps, {n: each for n, each in made.items() if isinstance(each, DeviceKernel)}

    def compile_view(self, ttir: str) -> DeviceKernel:
        return self._kernels.cubin_of_ours(ttir)

    def configurations_of(self, planned: Plan) -> list[int]:
        return self._tuning.standing(planned) if configurations.names_of(planned) else []


def _read(
    case: Case, arguments: Sequence[Argument], text: str, limits: plan.Limits
) -> Plan | CaseResult:
    """The plan that an untrusted text holds, or why it is none."""
    try:
        return plan.read(text, _bytes_of(arguments), limits)
    except plan.PlanTooLarge as error:
        verdict = Verdict(Status.launch_error, f"{error}.")
        return CaseResult(case, verdict, observed_by="worker", hint=error.instead)
    except PlanError as error:
        what = f"its launcher asks for what can't be planned: {untrusted.clean(str(error))}."
        return CaseResult(case, Verdict(Status.launch_error, what), observed_by="worker")


def _from_death(answers: Answers, case: Case, death: Death) -> CaseResult:
    """The result of a case over which the process ended."""
    result = answers.from_death(case, death)
    if death.cause is not Cause.timed_out:
        return result
    limits = answers.limits
    what = (
        f"the launcher took longer than {limits.cpu_seconds:g} s of computing "
        f"({limits.wall_seconds:g} s in all); it runs without data."
    )
    hint = "Does each loop in it end? Its kernels' loops aren't run there."
    return replace(result, verdict=replace(result.verdict, what=what), hint=hint)


def _refused(answers: Answers, case: Case, reply: Reply) -> CaseResult:
    if reply.code is Code.bad_request:  # the submission's Python shares that process
        message = untrusted.brief(untrusted.text(untrusted.fields(reply), "message"))
        what = f"its planner could not serve a request: {message}"
        return CaseResult(case, Verdict(Status.crashed, what), observed_by="worker")
    result = answers.from_refusal(case, reply)
    fields = untrusted.fields(reply)
    kind = untrusted.text(fields, "type")  # a class of worker/planner/errors.py, as it says
    if kind in ("TooManyLaunches", "GridTooLarge") and reply.code is Code.raised:
        pattern = GRID if kind == "GridTooLarge" else result.verdict.pattern
        verdict = replace(result.verdict, status=Status.launch_error, pattern=pattern)
        return replace(result, verdict=verdict)
    if kind in ("NeedsData", "ForeignKernel"):
        what = untrusted.brief(untrusted.text(fields, "message"))
        hint = untrusted.brief(untrusted.text(fields, "instead"))
        verdict = Verdict(Status.policy_violation, what, "data")
        return replace(result, verdict=verdict, hint=hint)
    return result


def _bytes_of(arguments: Sequence[Argument]) -> list[int | None]:
    """The bytes of each tensor's allocation, guard zones included; None for scalars."""
    return [each.allocation[1] if each.kind is Kind.tensor else None for each in arguments]

"""A Triton variant's planner as the grader sees it: a case goes in, a plan comes out.

    planner = TritonPlanner(spawn, answers, allowed, times)
    planner.planned(case, arguments)    a Plan that the rules allow, or why there is none

The planner's process has run the submission's Python (worker/planner/), so its answers are
untrusted. It plans one case after another; two fresh ones have to agree on a dtype's first.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from grader import plan
from grader.cases import Case, inputs
from grader.cases.arena import described
from grader.cases.compare import Verdict
from grader.executors.answers import Answers, from_violation
from grader.executors.planning import layouts_of, load, relies_on_others
from grader.executors.runner import CaseResult, Times
from grader.plan import Allowed, Plan, PlanError
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Cause, Death, Worker
from grader.status import Status
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply

_LACKS_DATA = "NeedsData"
_TOO_MANY_LAUNCHES = "TooManyLaunches"
_FOREIGN_KERNEL = "ForeignKernel"


class TritonPlanner:
    """The plans of one variant's cases. `spawn` starts a process that has loaded nothing yet."""

    def __init__(
        self,
        spawn: Callable[[], Worker],
        answers: Answers,
        allowed: Allowed,
        times: Times,
        passed_over: Collection[str] = (),
    ) -> None:
        """`answers` explains those of the process; `allowed` is what the spec allows beyond the
        rules on plans.

        `passed_over` are configurations that tuners can't take on a GPU (see configurations.py).
        What is new in it is sent to the process with the next request.
        """
        self._spawn = spawn
        self._answers = answers
        self._task = answers.task
        self._allowed = allowed
        self._limits = plan.Limits(device_bytes=answers.limits.memory_bytes)
        self._times = times
        self._worker: Worker | None = None
        self._has_planned = False  # the worker at hand
        self._failure: CaseResult | None = None  # of loading the file
        self._passed_over = passed_over
        self._sent = 0  # how many of them the worker at hand knows
        self._keeps_state = False  # whether each plan takes a process of its own
        self._begun: set[str] = set()  # dtypes whose first case was planned, or refused
        self._compared: set[str] = set()  # dtypes for which two planners were compared
        self._next: dict[Case, Case] = {}  # the case that is likely to follow each; used once
        self._ahead: Case | None = None  # whose plan the worker was asked for already

    @property
    def judges_copies(self) -> bool:
        """Whether a copy by PyTorch may be the exercise itself."""
        return self._allowed.judges_copies

    def drop(self) -> None:
        """End the process; the next plan is made by a fresh one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._ahead = None

    def start(self, count: int) -> CaseResult | None:
        """A process with the submission loaded, whose entry takes `count` arguments; or why not."""
        if self._failure is None and self._worker is None:
            worker = self._spawn()
            self._failure = load(worker, count, self._answers, self._times)
            self._worker = worker if self._failure is None else None
            self._has_planned = False
            self._sent = 0
        return self._failure

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each of these planned while the one before it is executed."""
        self._next = dict(itertools.pairwise(cases))

    def planned(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        """The plan of a case, held to the rules, or why there is none."""
        is_first = case.dtype not in self._compared
        if case.dtype not in self._begun and self._has_planned:
            self.drop()
        self._begun.add(case.dtype)
        made = self.plan_of(case, arguments)
        if isinstance(made, CaseResult):
            return made
        if is_first:
            self._compared.add(case.dtype)
            if (differs := self._compare(case, arguments, made)) is not None:
                return differs
        made = plan.allow(made, self._allowed)
        if broken := plan.violations(made, self._allowed, layouts_of(arguments)):
            return from_violation(case, broken[0])
        return made

    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        """The plan of a case before the rules are applied, or why there is none.

        A process that has made other plans makes this one too, unless it depends on them.
        """
        if self._keeps_state:
            self.drop()
        answer, was_fresh = self._answer_ahead(case), False
        if answer is None:
            failure = self.start(len(arguments))
            if failure is not None:
                return replace(failure, case=case)
            assert self._worker is not None
            was_fresh, self._has_planned = not self._has_planned, True
            answer = self._worker.ask_at_length(Operation.plan, arguments, document=self._news())
        if not was_fresh and relies_on_others(answer):
            self._keeps_state = True
            return self.plan_of(case, arguments)
        if isinstance(answer, Death):
            self._worker = None
            return self._from_death(case, answer)
        if answer.code is not Code.ok:
            return self._refused(case, answer)
        try:
            made = plan.read(answer.text, _bytes_of(arguments), self._limits)
        except plan.PlanTooLarge as error:
            verdict = Verdict(Status.launch_error, f"{error}.")
            return CaseResult(case, verdict, observed_by="worker", hint=error.instead)
        except PlanError as error:
            what = f"its launcher asks for what can't be planned: {untrusted.clean(str(error))}."
            return CaseResult(case, Verdict(Status.launch_error, what), observed_by="worker")
        return made

    def ask_ahead(self, case: Case) -> None:
        """Ask for the plan of the case that is likely to follow, where no fresh process is due."""
        following = self._next.pop(case, None)
        if following is None or self._worker is None or self._ahead is not None:
            return
        if self._keeps_state or following.dtype not in self._compared:
            return
        blank = inputs.blank(self._task.exercise, self._task.variant, following)
        given = blank.arguments(described(blank.slots))
        if self._worker.post(Operation.plan, given, document=self._news()) is None:
            self._ahead = following
        else:
            self._worker = None

    def _news(self) -> bytes:
        """What the worker doesn't know yet of configurations that no tuner can take."""
        news = list(itertools.islice(self._passed_over, self._sent, None))
        self._sent += len(news)
        return json.dumps({"passed_over": news}).encode() if news else b""

    def _answer_ahead(self, case: Case) -> Reply | Death | None:
        """The answer for a case that was asked for ahead; None where it wasn't.

        Nor does it count where it was asked without knowing what tuners can't take. A process that
        ends over another case has nothing to do with this one.
        """
        asked, self._ahead = self._ahead, None
        if asked is None or self._worker is None:
            return None
        answer = self._worker.wait_at_length()
        if asked == case and self._sent == len(self._passed_over):
            return answer
        if isinstance(answer, Death):
            self._worker = None
        return None

    def _compare(self, case: Case, arguments: Sequence[Argument], made: Plan) -> CaseResult | None:
        """Whether another fresh process gives another plan for the same case."""
        self.drop()
        again = self.plan_of(case, arguments)
        if isinstance(again, CaseResult):
            return again
        names = [argument.name for argument in self._task.signature]
        differs = plan.difference(made, again, names, self._task.variant.file)
        if not differs:
            return None
        what = f"{untrusted.brief(differs)}."
        hint = "What a launcher does may depend on shapes, strides and dtypes, on nothing else."
        verdict = Verdict(Status.nondeterministic, what, "plans")
        return CaseResult(case, verdict, hint=hint)

    def _from_death(self, case: Case, death: Death) -> CaseResult:
        """What the end of the process over a case means."""
        result = self._answers.from_death(case, death)
        if death.cause is not Cause.timed_out:
            return result
        limits = self._answers.limits
        what = (
            f"the launcher took longer than {limits.cpu_seconds:g} s of computing "
            f"({limits.wall_seconds:g} s in all); it runs without data."
        )
        hint = "Does each loop in it end? Its kernels' loops aren't run there."
        return replace(result, verdict=Verdict(Status.timed_out, what), hint=hint)

    def _refused(self, case: Case, reply: Reply) -> CaseResult:
        if reply.code is Code.bad_request:  # the submission's Python shares that process
            message = untrusted.brief(untrusted.text(untrusted.fields(reply), "message"))
            what = f"its planner could not serve a request: {message}"
            return CaseResult(case, Verdict(Status.crashed, what), observed_by="worker")
        result = self._answers.from_refusal(case, reply)
        fields = untrusted.fields(reply)
        if untrusted.text(fields, "type") == _TOO_MANY_LAUNCHES and reply.code is Code.raised:
            return replace(result, verdict=replace(result.verdict, status=Status.launch_error))
        if untrusted.text(fields, "type") in (_LACKS_DATA, _FOREIGN_KERNEL):
            what = untrusted.brief(untrusted.text(fields, "message"))
            hint = untrusted.brief(untrusted.text(fields, "instead"))
            verdict = Verdict(Status.policy_violation, what, "data")
            return replace(result, verdict=verdict, hint=hint)
        return result


def _bytes_of(arguments: Sequence[Argument]) -> list[int | None]:
    """The bytes of each tensor's allocation, guard zones included; None for scalars."""
    return [each.allocation[1] if each.kind is Kind.tensor else None for each in arguments]

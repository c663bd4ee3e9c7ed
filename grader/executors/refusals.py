"""Results of cases that the rules on plans, the executor of TTIR or a compiler has refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader import hostile
from grader.cases import Case
from grader.compare import Verdict
from grader.plan import Violation
from grader.runner import MAX_DETAIL, CaseResult, hint_of_compiler
from grader.status import Status


def from_executor(case: Case, fields: Mapping[str, Any]) -> CaseResult:
    """Why the executor ended a plan that was read and held to the rules."""
    message = hostile.one_line(hostile.text(fields, "message"))
    if hostile.text(fields, "kind") == "limit":
        what = f"its kernels ask for more than is executed without a GPU: {message}."
        status = Status.timed_out
    else:
        status, what = Status.crashed, f"its plan can't be executed: {message}."
    return CaseResult(case, Verdict(status, what), hostile.line(fields), "", "worker")


def from_violation(case: Case, broken: Violation) -> CaseResult:
    """Which rule a plan breaks, and what to do instead."""
    verdict = Verdict(Status.policy_violation, f"{broken.what} (rule: {broken.rule}).", "computed")
    return CaseResult(case, verdict, broken.line or None, "", "worker", broken.instead)


def of_compiler(case: Case | None, what: str, fields: Mapping[str, Any]) -> CaseResult:
    """A compile error, or what the executor has no model of; `fields` are the compiler's words."""
    lacking = fields.get("kind") == "not_modelled"
    status = Status.not_measured if lacking else Status.compile_error
    detail = hostile.text(fields, "excerpt")[:MAX_DETAIL]
    hint = "" if lacking else hint_of_compiler(what)
    return CaseResult(case, Verdict(status, what), hostile.line(fields), detail, "worker", hint)

"""Results of cases that the rules on plans, the executor of TTIR or a compiler has refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.answers import Answers, hint_of_compiler
from grader.executors.compile.frontend import Failure
from grader.executors.runner import MAX_DETAIL, CaseResult
from grader.plan import Specialisation
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death
from grader.status import Status

MOST_NAMED = 16  # configurations, in one message


def from_executor(case: Case, fields: dict[str, Any]) -> CaseResult:
    """Why the executor ended a plan that was read and held to the rules."""
    message = untrusted.brief(untrusted.text(fields, "message"))
    if untrusted.text(fields, "kind") == "limit":
        what = f"its kernels ask for more than is executed without a GPU: {message}."
        status = Status.timed_out
    else:
        status, what = Status.crashed, f"its plan can't be executed: {message}."
    return CaseResult(case, Verdict(status, what), untrusted.line(fields), "", "worker")


def of_configurations(case: Case | None, refused: Mapping[str, Failure]) -> CaseResult:
    """That no configuration of a tuned kernel compiles; `refused` says of each why it doesn't."""
    reasons = [f"{name}: {failure.message}" for name, failure in refused.items()]
    more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    what = f"no configuration compiles for the GPU: {'; '.join(reasons[:MOST_NAMED])}{more}."
    return of_compiler(case, what, next(iter(refused.values())).fields)


def of_gluon(case: Case, launched: Iterable[Specialisation]) -> CaseResult | None:
    """That a kernel among these is one in Gluon, which only a GPU runs; None where none is."""
    kernel = next((each for each in launched if each.language == "gluon"), None)
    if kernel is None:
        return None
    what = f"{kernel.function} is written in Gluon: it runs on a GPU only."
    return CaseResult(case, Verdict(Status.not_measured, what), kernel.line)


def from_failure(answers: Answers, case: Case | None, failure: Failure) -> CaseResult:
    """Why a kernel can't be compiled: the compiler's refusal, or the end of its process."""
    if isinstance(failure.answer, Death):
        died = answers.from_death(case, failure.answer)
        what = f"compiling the kernel ended the compiler's process: {died.verdict.what}"
        return replace(died, verdict=Verdict(Status.compile_error, what))
    if failure.answer is not None and not failure.message:
        return answers.from_refusal(case, failure.answer)
    return of_compiler(case, f"the kernel can't be compiled: {failure.message}", failure.fields)


def of_compiler(case: Case | None, what: str, fields: dict[str, Any]) -> CaseResult:
    """A compile error, or what the executor has no model of; `fields` are the compiler's words."""
    lacking = fields.get("kind") == "not_modelled"
    status = Status.not_measured if lacking else Status.compile_error
    detail = untrusted.text(fields, "excerpt")[:MAX_DETAIL]
    hint = "" if lacking else hint_of_compiler(what)
    return CaseResult(case, Verdict(status, what), untrusted.line(fields), detail, "worker", hint)

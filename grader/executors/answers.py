"""A worker's answers, and its end, as results of a case: statuses and sentences for students.

Whatever a worker says is the submission's word: it is read as untrusted text, and explains a
failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from grader.cases import Case
from grader.cases.compare import RAISED, RETURNED, Verdict
from grader.executors import loops
from grader.executors.runner import MAX_DETAIL, CaseResult, printed_by_host
from grader.plan import Launch, Plan, Violation
from grader.plan.model import Refused
from grader.sandbox import untrusted
from grader.sandbox.worker_process import MOST_PROCESSES, Cause, Death, Limits
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Code, Reply

IN_LOOP = "loop"  # pattern of a run whose time was over in a loop, at the result's line
# What an entry is, by what its call returns where that runs none of its lines.
_NEVER_RUN = {
    "a coroutine": "coroutine: the grader calls it and does not await it.",
    "a generator": "generator, for it has a `yield`: a call of it runs nothing.",
    "a async_generator": "generator, for it has a `yield`: a call of it runs nothing.",
}
_STATUS_OF_CODE = {
    Code.bad_request: Status.grader_error,
    Code.import_failed: Status.import_error,
    Code.entry_missing: Status.import_error,
    Code.raised: Status.crashed,
    Code.compile_failed: Status.compile_error,
    Code.out_of_memory: Status.out_of_memory,
    Code.not_modelled: Status.not_measured,
    Code.device_failed: Status.crashed,
    Code.findings: Status.crashed,  # only the emulator finds
}
_INTRODUCTION = {
    Code.import_failed: "executing the file raised ",
    Code.raised: "the entry raised ",
    Code.compile_failed: "the kernel can't be compiled: ",
    Code.not_modelled: "without a GPU this isn't modelled: ",
}
# As C's assert prints it.
_ASSERTED = re.compile(
    r"(?P<file>[^/:\s]{1,100}):(?P<line>\d{1,7}): [^\n]{0,500}"
    r"Assertion `(?P<what>[^\n]{1,500})' failed"
)
_OF_LANGUAGE = re.compile(r"unsupported AST node type|'tuple' object has no attribute|f-string")
_LANGUAGE = (
    "Triton compiles a part of Python: numbers, tuples, tl.* and loops, but no break, continue, "
    "try, imports, classes or dicts, nor lists that grow."
)
_OF_PASSES = (
    "Triton's compiler itself fails. Leave out first what it can't do for every "
    "loop and GPU, such as `warp_specialize=True`."
)


@dataclass(frozen=True)
class Answers:
    """Explains the answers of one variant's workers.

    `path` is the submission's file, and a request may use `limits`; `on_gpu`: kernels run on a GPU.
    `is_ours` tells whether the grader is to blame for a refused request: a worker without a
    submission would refuse it too.
    """

    task: Task
    path: Path
    limits: Limits
    on_gpu: bool = False
    is_ours: Callable[[], bool] = lambda: True

    @property
    def wanted(self) -> str:
        """The entry as it is called: 'silu(x, out)'."""
        names = ", ".join(argument.name for argument in self.task.signature)
        return f"{self.task.variant.entry}({names})"

    def from_refusal(self, case: Case | None, reply: Reply) -> CaseResult:
        """The result of a case whose worker answered something else than `ok`."""
        fields = untrusted.fields(reply)
        detail = untrusted.text(fields, "detail")[:MAX_DETAIL]
        kind = untrusted.text(fields, "type")
        message = untrusted.brief(untrusted.text(fields, "message"))
        status = _STATUS_OF_CODE[reply.code]
        if reply.code is Code.not_modelled and self.on_gpu:
            status = Status.crashed  # only an executor without a GPU has a reason to say so
        hint = ""
        if reply.code is Code.entry_missing:
            what, hint = self._entry_trouble(fields)
        elif reply.code is Code.device_failed:
            what = f"the GPU stopped the kernel: {message}."
            status = Status.misaligned_access if "misaligned" in message else status
            hint = "Does every load and store have a mask that keeps it inside its tensor?"
        elif reply.code is Code.bad_request:
            what = f"its process could not serve a request: {untrusted.joined(kind, message)}"
            status = Status.grader_error if self.is_ours() else Status.crashed
        else:
            is_sentence = fields.get("told") is True  # a planner's own, not Python's or Triton's
            is_introduced = not is_sentence or reply.code is Code.compile_failed
            introduction = _INTRODUCTION.get(reply.code, "") if is_introduced else ""
            what = introduction + (message if is_sentence else untrusted.joined(kind, message))
            instead = untrusted.brief(untrusted.text(fields, "instead"))
            hint = instead or _hint_for_exception(kind, message, reply.code)
        verdict = Verdict(status, what, RAISED if reply.code is Code.raised else "")
        printed = printed_by_host(untrusted.text(fields, "printed"))
        line = untrusted.line(fields)
        return CaseResult(case, verdict, line, detail, "worker", hint, printed=printed)

    def from_death(self, case: Case | None, death: Death) -> CaseResult:
        """The result of a case in whose middle its worker ended."""
        log = untrusted.clean(death.log)
        line, detail = untrusted.line_in_log(log, self.path), untrusted.tail(log)
        if death.cause is Cause.timed_out:
            what = (
                f"no answer within {self.limits.cpu_seconds:g} s of computing "
                f"({self.limits.wall_seconds:g} s in all)."
            )
            hint = (
                "Does every loop end? A step of 0, or a bound that moves along, never does, and a "
                "step that is too small does the work of others again."
            )
            loop = self.loop_in(log)
            verdict = Verdict(Status.timed_out, what, IN_LOOP if loop else "")
            return CaseResult(case, verdict, loop or line, "", "grader", hint)
        known = {
            Cause.out_of_memory: f"it used more than {self.limits.memory_bytes >> 20} MiB.",
            Cause.too_many_processes: f"it started more than {MOST_PROCESSES} processes.",
            Cause.disk_full: "it filled its scratch folder with files.",
            Cause.misbehaved: "its process answered the grader out of turn and was ended.",
        }
        if death.cause in known:
            of_memory = death.cause in (Cause.out_of_memory, Cause.disk_full)
            status = Status.out_of_memory if of_memory else Status.crashed
            return CaseResult(case, Verdict(status, known[death.cause]), line, detail)
        what = f"its process ended in the middle of the call ({death.description})."
        if asserted := _ASSERTED.search(log):
            what = f"an assertion in host code fails: {untrusted.brief(asserted['what'])}."
            if asserted["file"] == self.path.name:
                line = int(asserted["line"])
        hint = "" if death.signal else "Return from the entry; don't end the process."
        verdict = Verdict(Status.crashed, what)
        return CaseResult(case, verdict, line, detail, "grader", hint, death.signal)

    @cached_property
    def source(self) -> str:
        """The text of the submission's file; untrusted."""
        return self.path.read_bytes().decode("utf-8", "replace")

    def loop_in(self, log: str) -> int | None:
        """The line of the loop that a process was in, as it says; None where it isn't known."""
        samples = untrusted.places_in_log(log)
        if not samples:
            samples = [
                [loop for line in lines for loop in loops.around(self.source, line)]
                for lines in untrusted.tracebacks_in_log(log, self.path)
            ]
        return loops.common(samples)

    def _entry_trouble(self, fields: dict[str, Any]) -> tuple[str, str]:
        """The trouble with the entry in words, and a hint."""
        if fields.get("message") == "signature":
            got = untrusted.brief(untrusted.text(fields, "signature"), 200)
            return (
                f"the entry is {self.task.variant.entry}{got}, but it is called as {self.wanted}.",
                "The grader allocates the output: the entry writes into it and returns nothing.",
            )
        functions = fields.get("functions")
        given = functions if isinstance(functions, list) else []
        names = [untrusted.brief(name, 80) for name in given if isinstance(name, str)]
        have = f"; it defines {', '.join(names[:8])}" if names else ""
        what = f"the file has no function {self.task.variant.entry}{have}."
        return what, f"Define {self.wanted}."

    def returned_instead(self, case: Case, returned: str) -> CaseResult:
        """The result of an entry that `returned` something and wrote nothing."""
        names = " and ".join(tensor.name for tensor in self.task.outputs)
        returned = untrusted.brief(returned, 80)
        if returned in _NEVER_RUN:
            what = f"`{self.task.variant.entry}` is a {_NEVER_RUN[returned]}"
            hint = "Write `def`."
        else:
            what = f"{self.task.variant.entry}() returned {returned} and did not write {names}."
            hint = (
                f"What the entry returns is not looked at. The grader allocates {names} and passes "
                "it in: store the result there and return nothing."
            )
        return CaseResult(case, Verdict(Status.not_written, what, RETURNED), hint=hint)


def nonsense(case: Case) -> CaseResult:
    """The result of a case whose worker's report can't be read."""
    what = "its process gave the grader a report that makes no sense."
    return CaseResult(case, Verdict(Status.crashed, what))


def from_violation(case: Case, broken: Violation) -> CaseResult:
    """The result of a plan that breaks a rule, with what to do instead."""
    verdict = Verdict(Status.policy_violation, f"{broken.what} (rule: {broken.rule}).", "computed")
    return CaseResult(case, verdict, broken.line or None, "", "worker", broken.instead)


def unanswered(case: Case, planned: Plan) -> CaseResult | None:
    """The launch error of a case whose host code took the error of its last launch and went on."""
    steps = reversed(planned.calls[0])
    last = next((step for step in steps if isinstance(step, Launch | Refused)), None)
    if not isinstance(last, Refused):
        return None
    verdict = Verdict(Status.launch_error, f"{last.kernel} is refused: {last.why}.")
    return CaseResult(case, verdict, last.line or None, observed_by="worker")


def hint_of_compiler(message: str) -> str:
    """A hint where Triton's frontend refuses Python that it doesn't compile, or Triton fails."""
    if "MLIR pass pipeline" in message:
        return _OF_PASSES
    return _LANGUAGE if _OF_LANGUAGE.search(message) else ""


def _hint_for_exception(kind: str, message: str, code: Code) -> str:
    if kind == "NameError":
        return "Is an import missing, or a name misspelt?"
    if kind == "ModuleNotFoundError":
        return (
            "No such module is installed here, and none is beside the file: leave the import out, "
            "or the call that needs it, or put what it needs into the file."
        )
    if kind == "PermissionError" or "Read-only file system" in message:
        return (
            "A submission's process reads what is installed and handed in, and writes only to the "
            "folder in which it starts: leave the file or folder out, or make it there."
        )
    if kind == "SystemExit":
        return "Return from the entry; don't end the process."
    if kind == "NotImplementedError":
        return "This part still has the stub's `raise NotImplementedError`."
    if code is Code.out_of_memory:
        return "How large is what the entry allocates? It needs little beside its arguments."
    return hint_of_compiler(message) if code is Code.compile_failed else ""

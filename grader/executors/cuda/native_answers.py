"""Answers of a compiled CUDA C++ program, and of its compiler, as results of a case.

A run in the emulator that gives the right result may still have shown a fault, such as a data race
or a read past the end. Then the fault is the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.emulator import report, unsupported
from grader.evidence import Picture, Touch
from grader.executors import loops
from grader.executors.answers import Answers, nonsense
from grader.executors.cuda.cuda_build import Problem, Program
from grader.executors.memory_metrics import tensors_of
from grader.executors.runner import MAX_DETAIL, CaseResult
from grader.policy.cuda.findings import instead_of
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Cause
from grader.spec import Scalar, Size, Tensor
from grader.status import Status
from grader.worker.protocol import Code, Reply

_C_SIGNATURE = re.compile(r"(expected void \w+\()([^()]*)\)")
# Of all bytes of a case's tensors: who copies so many of them in both directions computes there.
MOST_ON_HOST = 0.75
LEAST_BYTES = 8192  # of a case, below which copies prove nothing
UNSUPPORTED = "this part runs on a GPU."
_STATUS_OF_PROBLEM = {
    "compile": Status.compile_error,
    "hardware": Status.compile_error,
    "nvcc": Status.compile_error,
    "signature": Status.compile_error,
    "entry_missing": Status.import_error,
    "no_extern_c": Status.import_error,
    "main": Status.import_error,
    "symbol": Status.policy_violation,
    "unsupported": Status.not_measured,
}
_HINT_OF_PROBLEM = {
    "no_extern_c": 'C++ changes the names of functions: put extern "C" in front of it.',
    "main": "It calls the entry itself. Put main() into a file of its own.",
    "symbol": "A launcher needs the CUDA runtime, mathematics and printf, nothing of the system.",
    "signature": "The grader allocates the output: the entry writes into it and returns nothing.",
}
_OF_OUTPUT = (
    "An output is full of NaNs when the entry gets it, and 0 * NaN is NaN: store the result, and "
    "don't add it to what was there."
)


@dataclass(frozen=True, kw_only=True)
class NativeAnswers(Answers):
    """Explains the answers of a program's processes.

    `watched`: computing on the host is a violation.
    """

    program: Program
    watched: bool = True

    @cached_property
    def _lines(self) -> list[str]:
        return self.source.splitlines()

    def computed_by_library(self, case: Case, fields: dict[str, Any]) -> CaseResult | None:
        """The violation of host code that had the inputs and gave the result, or None."""
        tensors = list(tensors_of(self.task, case))
        total = sum(size for _, _, size in tensors)
        on_device = all(tensor.space == "device" for _, tensor, _ in tensors)
        # Where a size is 1, one partial result for each row is as large as the row.
        small = total < LEAST_BYTES or (len(case.sizes) > 1 and min(dict(case.sizes).values()) == 1)
        copies = fields.get("copies")
        if not self.watched or not on_device or small or not isinstance(copies, dict):
            return None
        counts = [copies.get(key) for key in ("bytes", "host_to_device", "device_to_host")]
        numbers = [each for each in counts if isinstance(each, int) and each > 0]
        if len(numbers) < len(counts) or numbers[0] < MOST_ON_HOST * total:
            return None
        what = (
            f"{numbers[0]:,} bytes were copied between host and device, of {total:,} that inputs "
            "and output have: the result was computed on the host (rule: library)."
        )
        return _computed_on_host(case, what)

    def loop_in(self, log: str) -> int | None:
        """The line of the innermost loop around the basic blocks that the program names."""
        samples = untrusted.places_in_log(log)
        lines = {self.program.line_of(pc) for pc in samples[-1]} if samples else set()
        return loops.innermost("\n".join(self._lines), {line for line in lines if line})

    def from_program(self) -> CaseResult | None:
        """The result of all cases where the compiler left nothing to run, or None."""
        program = self.program
        problem = program.problem_of(self.task.variant.entry)
        if program.died is not None:
            what = f"the compiler ended without an answer ({program.died.description})."
            if program.died.cause is Cause.timed_out:
                what = "compiling the file did not end in time."
            log = untrusted.clean(program.died.log)[-MAX_DETAIL:]
            return CaseResult(None, Verdict(Status.compile_error, what), None, log)
        if problem is not None:
            return self._from_problem(problem)
        if program.path is None:
            verdict = Verdict(Status.compile_error, "the compiler gave no program and no reason.")
            return CaseResult(None, verdict, observed_by="worker")
        return None

    def _from_problem(self, problem: Problem) -> CaseResult:
        status = _STATUS_OF_PROBLEM[problem.kind]
        message = untrusted.brief(problem.message)
        detail = untrusted.clean(problem.detail)[:MAX_DETAIL]
        hint = _HINT_OF_PROBLEM.get(problem.kind, "")
        if problem.kind == "signature":
            message = with_const(message, self.task.signature)
        if problem.kind in ("entry_missing", "signature"):
            hint = hint or f"Define {self.wanted}."
        verdict = Verdict(status, message, problem.kind)
        return CaseResult(None, verdict, problem.line, detail, "worker", hint)

    def from_answer(self, case: Case, answer: Reply) -> CaseResult | None:
        """The result that an answer itself gives; None where the outputs are to be judged."""
        if answer.code is Code.ok:
            return None
        if answer.code is Code.not_modelled:
            return self._unsupported(case, answer)
        if answer.code is not Code.findings:
            return self.from_refusal(case, answer)
        observed = read_report(answer)
        return nonsense(case) if observed is None else self.from_report(case, observed)

    def from_report(self, case: Case, observed: report.Report) -> CaseResult:
        """The result by the gravest of the emulator's findings."""
        if not observed.findings:
            return nonsense(case)
        ranked = sorted(observed.findings, key=lambda each: list(Status).index(_status_of(each)))
        first, *others = [self._from_finding(case, each) for each in ranked]
        file = self.task.variant.file
        lines = [f"{file}:{each.line}: {each.verdict.what}" for each in others[:5]]
        return replace(first, detail="\n".join(lines)) if lines else first

    def unplannable(self, case: Case, why: str, instead: str = "") -> CaseResult:
        """The result of a launcher that asks for too much, or for what makes no sense."""
        why = untrusted.brief(why)
        if self.watched and why.endswith("copies results to the host"):
            return _computed_on_host(case, f"{why}.")
        what = f"{why}." if instead else f"its launcher asks for what can't be planned: {why}."
        verdict = Verdict(Status.launch_error, what)
        return CaseResult(case, verdict, observed_by="worker", hint=instead)

    def _from_finding(self, case: Case, finding: report.Finding) -> CaseResult:
        line = self.program.line_of(finding.pc)
        other = self.program.line_of(finding.other_pc)
        name = self.task.variant.file
        what, hint = report.message_of(finding, name, self._lines, line or 0, other or 0)
        marks = report.marks_of(finding, line or 0, other or 0)
        verdict = Verdict(_status_of(finding), untrusted.clean(what), finding.kind)
        picture = None
        place = report.place_of(finding)
        if place is not None:
            if finding.kind == "uninitialised_read" and self._is_output(place[0]):
                hint = _OF_OUTPUT
            touches = (Touch(*each) for each in report.touches_of(finding, line or 0, other or 0))
            tensor, size, offset = place
            picture = Picture(tensor, touches=tuple(touches), offset=offset, size=size)
        return CaseResult(case, verdict, line, "", "worker", hint, marks=marks, picture=picture)

    def _is_output(self, name: str) -> bool:
        return name in {each.name for each in self.task.outputs}

    def _unsupported(self, case: Case, answer: Reply) -> CaseResult:
        fields = untrusted.fields(answer)
        message = untrusted.brief(untrusted.text(fields, "message")) or "a part of this"
        pc = fields.get("pc")
        line = self.program.line_of(pc) if isinstance(pc, int) else None
        what = f"the emulator doesn't support {message}; {UNSUPPORTED}"
        if self.program.backend == "gpu" or unsupported.is_of_host_code(message):
            what = f"the grader doesn't support {message}."
        return CaseResult(case, Verdict(Status.not_measured, what), line, "", "worker")


def _computed_on_host(case: Case, what: str) -> CaseResult:
    verdict = Verdict(Status.policy_violation, what, "computed")
    return CaseResult(case, verdict, None, "", "worker", instead_of("library"))


def read_report(answer: Reply) -> report.Report | None:
    """The report that an answer holds; None where it holds anything else."""
    try:
        return report.parse(answer.text)
    except report.ReportError:
        return None


def _status_of(finding: report.Finding) -> Status:
    return Status(report.status_name_of(finding.kind))


def with_const(message: str, signature: Sequence[Tensor | Scalar | Size]) -> str:
    """A compiler's message on an entry's type, with `const` for pointers to inputs.

    The compiler's process knows no roles. A message about another number of arguments is kept.
    """
    match = _C_SIGNATURE.search(message)
    types = match[2].split(", ") if match is not None else []
    if match is None or len(types) != len(signature):
        return message
    inputs = [isinstance(each, Tensor) and not each.is_output for each in signature]
    shown = ", ".join("const " * is_in + each for is_in, each in zip(inputs, types, strict=True))
    return f"{message[: match.start()]}{match[1]}{shown}){message[match.end() :]}"

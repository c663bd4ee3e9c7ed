"""One CUDA C++ variant of one submission: as runner.py, but over a compiled program.

In the emulator a run that ends well may still have shown a fault (a race that happened to come out
right, a read past the end); what it found is the verdict then. On a GPU the driver's error is.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from grader import hostile
from grader.cases import Case
from grader.compare import Verdict
from grader.emulator import report
from grader.native import Problem, Program, timed_out
from grader.runner import MAX_DETAIL, CaseResult, Compiled, PendingCompile, Runner
from grader.sandbox import Sandbox
from grader.spec import Exercise, Tensor, Variant
from grader.status import Status
from grader.supervision import Death, Worker
from grader.syscall_filter import FilterError, compile_emulator_filter
from grader.worker.protocol import Code, Operation, Reply

UNSUPPORTED = "this part runs on a GPU."
_STATUS_OF_PROBLEM = {
    "compile": Status.compile_error,
    "nvcc": Status.compile_error,
    "signature": Status.import_error,
    "entry_missing": Status.import_error,
    "no_extern_c": Status.import_error,
    "main": Status.import_error,
    "symbol": Status.policy_violation,
    "unsupported": Status.not_measured,
}
_HINT_OF_PROBLEM = {
    "no_extern_c": 'C++ changes the names of functions: put extern "C" in front of it.',
    "main": "The grader calls the entry itself. Put main() into a file of its own.",
    "symbol": "A launcher needs the CUDA runtime, mathematics and printf, nothing of the system.",
    "signature": "The grader allocates the output: the entry writes into it and returns nothing.",
}


class NativeRunner(Runner):
    """Runs the cases of one CUDA C++ variant. A context manager; the sandbox stays open after."""

    def __init__(
        self,
        sandbox: Sandbox,
        exercise: Exercise,
        variant: Variant,
        path: Path,
        program: Program,
    ) -> None:
        """`path` is the source, for its lines; `program` what was made of it."""
        super().__init__(sandbox, exercise, variant, path, watched=False)
        self.program = program
        self._source = path.read_bytes().decode("utf-8", "replace").splitlines()
        self._load_failure = self._from_program()

    def measure(self, case: Case) -> report.Report | CaseResult:
        """Run a case with every access counted: what the emulator saw, or how the run failed.

        Raises what `run` raises.
        """
        reports: list[report.Report] = []
        self._operation = Operation.measure
        self._on_report = reports.append
        try:
            result = self.run(case)
        finally:
            self._operation = Operation.run
            self._on_report = None
        if not result.verdict.passed or not reports:
            return result
        return reports[-1]

    def compile_in_background(self) -> PendingCompile | None:
        """Nothing is left to compile."""
        return None

    def compiled(self, pending: PendingCompile) -> Compiled | None:
        """Never asked for: there is nothing pending."""
        raise NotImplementedError

    # --- what differs from a Python file ---------------------------------------------------------

    def _spawn(self) -> Worker:
        return self._sandbox.worker(
            self.program.path,
            self.variant.entry,
            self._arena.buffers,
            self._limits,
            self._options,
        )

    @cached_property
    def _options(self) -> list[str]:
        """What the program is to know: its arguments' names, and the system calls it may make."""
        arguments = [
            f"{each.name}:{each.role if isinstance(each, Tensor) else 'input'}"
            for each in self.exercise.signature(self.variant)
        ]
        options = [f"--arguments={','.join(arguments)}"]
        if self.program.backend == "emulator":
            with contextlib.suppress(FilterError):  # then the sandbox has none either, and says so
                options.insert(0, f"--filter={compile_emulator_filter().hex()}")
        return options

    def _from_program(self) -> CaseResult | None:
        """Why there is nothing to run, where the compiler left nothing."""
        program = self.program
        problem = program.problem_of(self.variant.entry)
        if program.died is not None:
            return self._from_compilers_death(program.died)
        if problem is not None:
            return self._from_problem(problem)
        if program.path is None:
            verdict = Verdict(Status.compile_error, "the compiler gave no program and no reason.")
            return CaseResult(None, verdict, observed_by="worker")
        return None

    def _from_compilers_death(self, death: Death) -> CaseResult:
        what = f"the compiler ended without an answer ({death.description})."
        if timed_out(self.program):
            what = "compiling the file did not end in time."
        log = hostile.clean(death.log)[-MAX_DETAIL:]
        return CaseResult(None, Verdict(Status.compile_error, what), None, log)

    def _from_problem(self, problem: Problem) -> CaseResult:
        status = _STATUS_OF_PROBLEM[problem.kind]
        message = hostile.one_line(hostile.clean(problem.message))
        detail = hostile.clean(problem.detail)[:MAX_DETAIL]
        hint = _HINT_OF_PROBLEM.get(problem.kind, "")
        if problem.kind in ("entry_missing", "signature"):
            wanted = f"{self.variant.entry}({', '.join(self._argument_names())})"
            hint = hint or f"Define {wanted}."
        verdict = Verdict(status, message, problem.kind)
        return CaseResult(None, verdict, problem.line, detail, "worker", hint)

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        if answer.code is Code.found:
            return self._from_report(case, answer)
        if answer.code is Code.not_modelled:
            return self._unsupported(case, answer)
        if answer.code is Code.ok and self._on_report is not None:
            seen = self._read_report(answer)
            if seen is None:
                return self._nonsense(case)
            self._on_report(seen)
        return super()._answered(case, answer)

    def _from_report(self, case: Case, answer: Reply) -> CaseResult:
        """The gravest of what the emulator found."""
        seen = self._read_report(answer)
        if seen is None or not seen.findings:
            return self._nonsense(case)
        if seen.lost:
            self._drop_worker()
        ranked = sorted(seen.findings, key=lambda each: list(Status).index(_status_of(each)))
        first, *others = [self._from_finding(case, each) for each in ranked]
        told = [f"{self.variant.file}:{each.line}: {each.verdict.what}" for each in others[:5]]
        return replace(first, detail="\n".join(told)) if told else first

    def _from_finding(self, case: Case, finding: report.Finding) -> CaseResult:
        line = self.program.line_of(finding.pc)
        other = self.program.line_of(finding.other_pc)
        name = self.variant.file
        what, hint = report.message_of(finding, name, self._source, line or 0, other or 0)
        verdict = Verdict(_status_of(finding), hostile.clean(what), finding.kind)
        return CaseResult(case, verdict, line, "", "worker", hint)

    def _unsupported(self, case: Case, answer: Reply) -> CaseResult:
        fields = hostile.fields(answer)
        message = hostile.one_line(hostile.text(fields, "message")) or "a part of this"
        pc = fields.get("pc")
        line = self.program.line_of(pc) if isinstance(pc, int) else None
        what = f"the emulator doesn't support {message}; {UNSUPPORTED}"
        return CaseResult(case, Verdict(Status.not_measured, what), line, "", "worker")

    def _read_report(self, answer: Reply) -> report.Report | None:
        try:
            return report.parse(answer.text)
        except report.ReportError:
            return None

    def _nonsense(self, case: Case) -> CaseResult:
        self._drop_worker()
        what = "its process gave the grader a report that makes no sense."
        return CaseResult(case, Verdict(Status.crashed, what))


def _status_of(finding: report.Finding) -> Status:
    return Status(report.status_name_of(finding.kind))

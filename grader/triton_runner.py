"""One Triton variant of one submission: as runner.py, and with accesses to memory counted."""

from __future__ import annotations

from typing import Any

from grader import hostile, triton_memory, triton_report
from grader.cases import Case
from grader.compare import Verdict
from grader.machine import version_of
from grader.runner import CaseResult, Runner
from grader.status import Status
from grader.worker.protocol import Operation, Reply

OLDEST_INTERPRETED = (3, 6)  # of Triton's releases, whose interpreter the worker's patches fit


def why_not_counted() -> str:
    """Why this machine can't run kernels in the interpreter, where accesses are seen, or ""."""
    version = version_of("triton") or "0"
    try:
        found = tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        return ""  # of someone's own making: let it try
    if found >= OLDEST_INTERPRETED:
        return ""
    oldest = ".".join(map(str, OLDEST_INTERPRETED))
    return (
        f"accesses to memory are counted in Triton's interpreter, which needs triton {oldest} or "
        f"later; this machine has {version}"
    )


class TritonRunner(Runner):
    """Runs the cases of one Triton variant. A context manager; the sandbox stays open after it."""

    def measure(self, case: Case, wave: int = 0) -> triton_report.Report | CaseResult:
        """Run a case with every access counted: what was seen, or how the run failed.

        `wave` is how many programs run at once, 0 where it doesn't matter. The worker is a fresh
        one, so that no tensor is left from another case. Raises what `run` raises.
        """
        reports: list[triton_report.Report] = []
        self.fresh_worker()
        self._operation, self._repeat = Operation.measure, wave
        self._on_report = reports.append
        try:
            result = self.run(case)
        finally:
            self._operation, self._repeat = Operation.run, 0
            self._on_report = None
            self.fresh_worker()
        if not result.verdict.passed or not reports:
            return result
        return reports[-1]

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs; a breach of the rules, or an access that left no trace."""
        told = super()._judged(case, fields, verdict)
        if not told.verdict.passed or "findings" not in fields:
            return told
        try:
            worst = triton_memory.worst_of(triton_report.parse_findings(fields["findings"]))
        except triton_report.ReportError:
            return self._nonsense(case)
        source = self.path.read_bytes().decode("utf-8", "replace").splitlines()
        names = triton_memory.arguments(self.exercise, self.variant, case)
        what, hint = triton_report.message_of(worst, names, self.variant.file, source)
        verdict = Verdict(triton_memory.status_of(worst), hostile.clean(what), worst.kind)
        return CaseResult(case, verdict, worst.line or None, "", "worker", hint)

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        told = super()._answered(case, answer)
        if told is not None or self._on_report is None:
            return told
        try:
            self._on_report(triton_report.parse(hostile.fields(answer).get("accesses")))
        except triton_report.ReportError:
            return self._nonsense(case)
        return None

    def _nonsense(self, case: Case) -> CaseResult:
        what = "its process gave the grader a report that makes no sense."
        return CaseResult(case, Verdict(Status.crashed, what))

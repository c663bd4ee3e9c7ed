"""One CUDA C++ variant of one submission: as runner.py, but over a compiled program.

In the emulator a run that ends well may still have shown a fault (a race that happened to come out
right, a read past the end); what it found is the verdict then. On a GPU the driver's error is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.emulator import report
from grader.emulator.glue import Entry
from grader.executors import cuda_build, cuda_metrics
from grader.executors.cuda_build import Backend, Problem, Program, timed_out
from grader.executors.runner import MAX_DETAIL, CaseResult, Runner
from grader.policy.cuda.findings import instead_of
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.seccomp import FilterError, compile_emulator_filter
from grader.sandbox.worker_process import Death, SandboxError, Worker
from grader.spec import Exercise, Tensor, Variant
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument, Code, DType, Kind, Operation, Reply

# Of all bytes of a case's tensors: who copies so many of them in both directions computes there.
MOST_ON_HOST = 0.75
LEAST_BYTES = 8192  # of a case, below which copies prove nothing
UNSUPPORTED = "this part runs on a GPU."
_STATUS_OF_PROBLEM = {
    "compile": Status.compile_error,
    "nvcc": Status.compile_error,
    "signature": Status.compile_error,
    "entry_missing": Status.import_error,
    "no_extern_c": Status.import_error,
    "main": Status.import_error,
    "symbol": Status.policy_violation,
    "unsupported": Status.not_measured,
}
_KIND_OF_SCALAR = {"int": Kind.int64, "float": Kind.float64, "bool": Kind.boolean}
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
        task: Task,
        path: Path,
        program: Program,
        watched: bool = True,
    ) -> None:
        """`path` is the source, for its lines; `program` what was made of it; `watched`: computing
        on the host is a violation."""
        super().__init__(sandbox, task, path)
        lifted = task.rules.lifted
        self._watched = watched and "library" not in lifted
        self.program = program
        self._source = path.read_bytes().decode("utf-8", "replace").splitlines()
        self._load_failure = self._from_program()

    # --- what differs from a Python file ---------------------------------------------------------

    def _ended_too_early(self) -> CaseResult:
        """For a program that can't be started, though one that does nothing can."""
        what = "the program ended, or hung, before it could be asked for anything."
        hint = "Nothing of it may run before the entry is called: no constructors outside of it."
        verdict = Verdict(Status.import_error, what)
        self._load_failure = CaseResult(None, verdict, observed_by="worker", hint=hint)
        return self._load_failure

    def _serves_nobody(self) -> bool:
        """Whether even a program whose entry does nothing can't be had, or refuses to be called."""
        self._drop_worker()
        kinds = cuda_build.signature(self.exercise, self.variant)
        try:
            path = _idle_program(self._sandbox, self.variant.entry, kinds, self.program.backend)
            worker = self._spawn_host(path)
        except SandboxError:
            return True
        try:
            empty = [_empty_argument(kind) for kind in kinds]
            answers = (worker.ask(each, empty) for each in (Operation.load, Operation.plan))
            return any(isinstance(a, Death) or a.code is not Code.ok for a in answers)
        finally:
            worker.close()

    def _spawn_host(self, path: Path) -> Worker:
        """A process of a program that has host code."""
        raise NotImplementedError

    def _process(self, path: Path, buffers: Sequence[tuple[int, int, bool]]) -> Worker:
        return self._sandbox.worker(
            path,
            self.variant.entry,
            buffers,
            self._limits,
            self._options,
            on_gpu=self.shares_gpu_memory,
        )

    @cached_property
    def _options(self) -> list[str]:
        return options(self.exercise, self.variant, self.program.backend)

    @property
    def failure(self) -> CaseResult | None:
        """Why there is nothing to run, once that is known."""
        return self._load_failure

    @property
    def sandbox(self) -> Sandbox:
        """Where the program is."""
        return self._sandbox

    def _computed_by_library(self, case: Case, fields: dict[str, Any]) -> CaseResult | None:
        """Whether the host had the inputs and gave the result: then no kernel did the work."""
        tensors = list(cuda_metrics.tensors_of(self.exercise, self.variant, case))
        total = sum(size for _, _, size in tensors)
        on_device = all(tensor.space == "device" for _, tensor, _ in tensors)
        # Where a size is 1, one partial result for each row is as large as the row.
        small = total < LEAST_BYTES or (len(case.sizes) > 1 and min(dict(case.sizes).values()) == 1)
        copies = fields.get("copies")
        if not self._watched or not on_device or small or not isinstance(copies, dict):
            return None
        numbers = [copies.get(key) for key in ("bytes", "host_to_device", "device_to_host")]
        if not all(isinstance(each, int) and each > 0 for each in numbers):
            return None
        if numbers[0] < MOST_ON_HOST * total:
            return None
        what = (
            f"{numbers[0]:,} bytes were copied between host and device, of {total:,} that inputs "
            "and output have: the result was computed on the host (rule: library)."
        )
        verdict = Verdict(Status.policy_violation, what, "computed")
        return CaseResult(case, verdict, None, "", "worker", instead_of("library"))

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
        log = untrusted.clean(death.log)[-MAX_DETAIL:]
        return CaseResult(None, Verdict(Status.compile_error, what), None, log)

    def _from_problem(self, problem: Problem) -> CaseResult:
        status = _STATUS_OF_PROBLEM[problem.kind]
        message = untrusted.brief(problem.message)
        detail = untrusted.clean(problem.detail)[:MAX_DETAIL]
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
        verdict = Verdict(_status_of(finding), untrusted.clean(what), finding.kind)
        return CaseResult(case, verdict, line, "", "worker", hint)

    def _unsupported(self, case: Case, answer: Reply) -> CaseResult:
        fields = untrusted.fields(answer)
        message = untrusted.brief(untrusted.text(fields, "message")) or "a part of this"
        pc = fields.get("pc")
        line = self.program.line_of(pc) if isinstance(pc, int) else None
        what = f"the emulator doesn't support {message}; {UNSUPPORTED}"
        if self.program.backend == "gpu":
            what = f"the grader doesn't support {message}."
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


def options(exercise: Exercise, variant: Variant, backend: Backend) -> list[str]:
    """What a program is to know: its arguments' names, and the system calls it may make."""
    arguments = [
        f"{each.name}:{each.role if isinstance(each, Tensor) else 'input'}"
        for each in exercise.signature(variant)
    ]
    found = [f"--arguments={','.join(arguments)}"]
    if backend != "gpu":
        with contextlib.suppress(FilterError):  # then the sandbox has none either, and says so
            found.insert(0, f"--filter={compile_emulator_filter().hex()}")
    return found


def _idle_program(sandbox: Sandbox, entry: str, kinds: Sequence[str], backend: Backend) -> Path:
    """A program whose entry does nothing. Raises SandboxError where there can't be one."""
    types = ", ".join(Entry(entry, tuple(kinds)).types())
    headers = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n"
    source = f'{headers}extern "C" void {entry}({types}) {{}}\n'
    made = cuda_build.build(sandbox, "idle.cu", source.encode(), [(entry, kinds)], backend)
    if made.path is None:
        raise SandboxError("a program that does nothing can't be compiled")
    return made.path


def _empty_argument(kind: str) -> Argument:
    """A tensor without elements, or zero."""
    if kind.startswith("pointer"):
        return Argument(Kind.tensor, DType.float32, shape=(0,), strides=(1,))
    return Argument(_KIND_OF_SCALAR[kind], scalar=0)


def _status_of(finding: report.Finding) -> Status:
    return Status(report.status_name_of(finding.kind))

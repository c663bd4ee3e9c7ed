"""One variant of one submission: runs a case in a worker and says what came of it.

Whatever a worker does, `run` answers with a CaseResult and the next case meets a live worker.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from grader.cases import Case, oracle
from grader.cases import inputs as inputs_of_case
from grader.cases.arena import Arena, Placed, required_bytes
from grader.cases.compare import RAISED, Verdict, judge
from grader.cases.gpu_memory import GpuMemory
from grader.cases.inputs import Inputs
from grader.gpu import locks
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.memfd import Memfds
from grader.sandbox.worker_process import MOST_PROCESSES, Cause, Death, Limits, Worker
from grader.spec import Exercise, Variant
from grader.spec.task import Task
from grader.status import Status
from grader.worker.gpu_mapping import GpuMemoryError
from grader.worker.protocol import Argument, Code, Operation, Reply

# Of each buffer, so that growing sizes rarely mean a new worker: with a worker goes the list of
# what it would have compiled. Memory that isn't touched costs nothing.
ARENA_BYTES = 256 << 20
GPU_ARENA_BYTES = 32 << 20  # there it costs, touched or not
MAX_DETAIL = 4000  # characters
_FAULTS = (signal.SIGSEGV, signal.SIGBUS)
# By which CUDA says that a store went to what is mapped for reading only, among other things: of a
# kernel, of an atomic operation, of a copy that the driver looks at.
_GPU_FAULTS = ("illegal memory access", "unspecified launch failure", "invalid argument")


@dataclass(frozen=True)
class CaseResult:
    """What one run of one case showed."""

    case: Case | None  # None where the file could not even be loaded
    verdict: Verdict
    line: int | None = None  # in the submission's file
    detail: str = ""
    observed_by: Literal["grader", "worker"] = "grader"
    hint: str = ""
    signal: int | None = None  # that ended the worker
    refused_by_gpu: bool = False  # an access; perhaps a store to an input, which is read-only
    printed: str = ""  # by kernels; clean text
    notes: tuple[str, ...] = ()  # the grader's own, on what the launcher asked for

    @property
    def status(self) -> Status:
        """The verdict's."""
        return self.verdict.status


@dataclass
class Times:
    """Where a runner's time went, in seconds."""

    starts: float = 0.0  # of workers, loading included
    cases: float = 0.0  # whole runs of cases: worker starts, inputs, answers, verdicts
    waiting: float = 0.0  # for answers: the kernel itself, and the way there and back
    compiles: float = 0.0  # waiting for cubins
    runs: int = 0
    workers: int = 0


@dataclass(frozen=True)
class Compiled:
    """What compiling ahead of time showed: the first failure, and what could not be compiled."""

    failure: CaseResult | None = None
    note: str = ""


class Runner:
    """Runs the cases of one variant. A context manager; the sandbox stays open after it."""

    def __init__(self, sandbox: Sandbox, task: Task, path: Path) -> None:
        """`path` is the submission's file."""
        self.task = task
        self.path = path
        self.times = Times()
        self._sandbox = sandbox
        self._worker: Worker | None = None
        self._load_failure: CaseResult | None = None
        self._arena: Arena | None = None
        self._capacity = (0, 0)
        self.not_shared = ""  # why a GPU's memory isn't shared with the worker, once that is known
        self._oracle = oracle.load(task.exercise.oracle)
        self._tolerance = task.tolerance
        limits = task.limits
        self._limits = Limits(limits.seconds, limits.memory_mb << 20)
        self._on_report: Callable[[Any], None] | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def exercise(self) -> Exercise:
        """The task's."""
        return self.task.exercise

    @property
    def variant(self) -> Variant:
        """The task's."""
        return self.task.variant

    def close(self) -> None:
        """End the worker and give the arena back."""
        self._drop_worker()
        self._drop_arena()

    @property
    def on_gpu(self) -> bool:
        """Whether kernels run on a GPU."""
        return self._sandbox.device == "cuda"

    @property
    def shares_gpu_memory(self) -> bool:
        """Whether the last case's tensors lay on the GPU for grader and worker both."""
        return self._arena is not None and self._arena.on_gpu

    def run(self, case: Case) -> CaseResult:
        """Run one case, in the worker at hand or a fresh one.

        Raises what is the grader's own trouble (SandboxError, OracleError), nothing of the
        submission's.
        """
        started = time.perf_counter()
        made = inputs_of_case.make(self.exercise, self.variant, case)
        try:
            result = self._run_and_explain(case, made)
            refused = result.status is Status.grader_error and self.shares_gpu_memory
            trouble = result.verdict.what if refused else ""
        except GpuMemoryError as error:
            refused, trouble = True, str(error)
        if refused:
            self._stop_sharing(trouble)
            result = self._run_and_explain(case, made)
        if result.status is Status.out_of_memory and self._sandbox.device == locks.ON_GPU:
            result = self._run_with_all_memory(case, made, result)
        self.times.runs += 1
        self.times.cases += time.perf_counter() - started
        return result

    def expect(self, cases: Sequence[Case]) -> None:
        """Tell which cases are likely to be run from now on, and in which order."""

    def fresh_worker(self) -> None:
        """Let the next case meet a worker that has run nothing."""
        self._drop_worker()

    def advice(self, result: CaseResult) -> str:
        """What to try about wrong values, where running the case otherwise shows it, or ""."""
        return ""

    def compile_in_background(self) -> Any:
        """Start compiling what ran since the last time; None where that is no step of its own."""
        return None

    def compiled(self, pending: Any) -> Compiled | None:
        """Wait for a compilation. None when its process died or said nothing sensible."""
        raise NotImplementedError

    # --- one run -------------------------------------------------------------------------------

    def _run_and_explain(self, case: Case, made: Inputs) -> CaseResult:
        result = self._run(case, made, inputs_writable=False)
        faulted = result.signal in _FAULTS and self._sandbox.device != "cuda"
        if (faulted and result.status is Status.crashed) or result.refused_by_gpu:
            return self._explain_fault(case, made, result)
        return result

    def _run_with_all_memory(self, case: Case, made: Inputs, first: CaseResult) -> CaseResult:
        """A case that found too little memory on a GPU, run again with nobody beside.

        There may have been too little because another kernel had taken it: side by side with this
        one runs what other students wrote. What the case may count on is what the spec allows it.
        """
        self._drop_worker()  # and with it what its allocator keeps
        if locks.is_exclusive_on(self._sandbox.device):
            return first
        with locks.exclusive_on(self._sandbox.device):
            self._load_failure = None  # a context needs memory too
            again = self._run_and_explain(case, made)
            if again.status is not Status.out_of_memory:
                return again
            self._drop_worker()
            free = _free_gpu_bytes()
        if free >= self._limits.memory_bytes:
            return again
        allowed = self._limits.memory_bytes
        what = (
            f"only {free >> 20} MiB of the GPU's memory are free, {allowed >> 20} are allowed: "
            "other programs hold the rest."
        )
        return CaseResult(case, Verdict(Status.not_measured, what))

    def _run(self, case: Case, made: Inputs, inputs_writable: bool) -> CaseResult:
        inputs_writable = self._make_room(made, inputs_writable)
        if self._worker is None:
            failure = self._start(len(made.order))
            if failure is not None:
                return replace(failure, case=case)
        placed = self._arena.place(made.slots, inputs_writable)
        arguments = made.arguments([item.argument for item in placed])
        asked = time.perf_counter()
        answer = self._ask(case, arguments)
        self.times.waiting += time.perf_counter() - asked
        if isinstance(answer, CaseResult):
            return replace(answer, case=answer.case or case)
        if isinstance(answer, Death):
            self._worker = None
            return self._modified(case, placed, inputs_writable) or self._from_death(case, answer)
        if answer.code is Code.device_failed:
            self._drop_worker()
            if (modified := self._modified(case, placed, inputs_writable)) is not None:
                return modified
        if (told := self._answered(case, answer)) is not None:
            named = any(words in answer.text.lower() for words in _GPU_FAULTS)
            refused = named and not inputs_writable and self.shares_gpu_memory
            return replace(told, refused_by_gpu=True) if refused else told
        outcomes = self._arena.collect(placed)
        truths = self._oracle.truths(made.tensors, made.scalars, self._tolerance.magnitude)
        verdict = judge(outcomes, truths, self._tolerance)
        return self._judged(case, untrusted.fields(answer), verdict)

    def _start(self, count: int) -> CaseResult | None:
        """A fresh worker for cases of so many arguments, or why there can't be one."""
        raise NotImplementedError

    def _ask(self, case: Case, arguments: Sequence[Argument]) -> Reply | Death | CaseResult:
        """Have a case run by the worker at hand; a CaseResult where it can't even be asked."""
        raise NotImplementedError

    def _modified(
        self, case: Case, placed: Sequence[Placed], inputs_writable: bool
    ) -> CaseResult | None:
        """Whether a run that did not end well has changed an input, where it could."""
        outcomes = self._arena.collect(placed) if inputs_writable else []
        if any(o.slot.role == "input" and o.changed for o in outcomes):
            return CaseResult(case, judge(outcomes, [], self._tolerance))
        return None

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        """What an answer itself says of the case; None where its outputs are to be judged."""
        return None if answer.code is Code.ok else self._from_refusal(case, answer)

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs, or what else explains it."""
        return CaseResult(case, verdict)

    def _loaded(self, worker: Worker, count: int) -> CaseResult | None:
        """Have a worker load the submission: None where it has, else why it hasn't, and its end."""
        started = time.perf_counter()
        self.times.workers += 1
        answer = worker.ask(Operation.load, [inputs_of_case.blank_argument()] * count)
        self.times.starts += time.perf_counter() - started
        if isinstance(answer, Death):
            result = self._from_death(None, answer)
            if result.status is Status.crashed:
                what = f"loading the file ended the process ({answer.description})."
                result = replace(result, verdict=Verdict(Status.import_error, what))
            return result
        if answer.code is not Code.ok:
            worker.close()
            return self._from_refusal(None, answer)
        return None

    def _make_room(self, made: Inputs, inputs_writable: bool) -> bool:
        """Have an arena that holds the case, on the GPU where its kernels run, if that can be.

        Returns whether inputs are to lie where the worker can write. Where it copies them to a GPU
        itself they must: only what it brings back is seen. Inputs in host memory aren't copied.
        """
        on_gpu = self._sandbox.device == "cuda"
        if on_gpu and not self.not_shared and all(s.space == "device" for s in made.slots):
            try:
                self._fit(made, inputs_writable, on_gpu=True)
                return inputs_writable
            except GpuMemoryError as error:
                self.not_shared = str(error)
        copies = any(s.role == "input" and s.space == "device" for s in made.slots)
        inputs_writable |= on_gpu and copies
        self._fit(made, inputs_writable, on_gpu=False)
        return inputs_writable

    def _fit(self, made: Inputs, inputs_writable: bool, on_gpu: bool) -> None:
        """Keep the arena if it is of the kind and large enough, or make one that is."""
        reading = [s for s in made.slots if s.role == "input" and not inputs_writable]
        writing = [s for s in made.slots if s.role != "input" or inputs_writable]
        need = tuple(required_bytes(each, on_gpu, inputs_writable) for each in (reading, writing))
        if self._arena is not None and self._arena.on_gpu is not on_gpu:
            self._drop_worker()
            self._drop_arena()
        fits = all(n <= have for n, have in zip(need, self._capacity, strict=True))
        if self._arena is not None and fits:
            return
        least = GPU_ARENA_BYTES if on_gpu else ARENA_BYTES
        capacity = tuple(
            max(2 * n, have, least) for n, have in zip(need, self._capacity, strict=True)
        )
        self._drop_worker()
        self._drop_arena()
        self._arena = Arena(*capacity, GpuMemory if on_gpu else Memfds)
        self._capacity = capacity

    def _stop_sharing(self, why: str) -> None:
        """Have every later case copied to the GPU and back by the worker."""
        self.not_shared = why or "no reason was given"
        self._drop_worker()
        self._drop_arena()
        self._load_failure = None  # it was what sharing brought

    def _drop_arena(self) -> None:
        arena, self._arena, self._capacity = self._arena, None, (0, 0)
        if arena is not None:
            with contextlib.suppress(GpuMemoryError):  # nothing more can be done about it
                arena.close()

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    # --- what an answer means ------------------------------------------------------------------

    def _from_refusal(self, case: Case | None, reply: Reply) -> CaseResult:
        fields = untrusted.fields(reply)
        detail = untrusted.text(fields, "detail")[:MAX_DETAIL]
        kind = untrusted.text(fields, "type")
        message = untrusted.brief(untrusted.text(fields, "message"))
        status = _STATUS_OF_CODE[reply.code]
        if reply.code is Code.not_modelled and self._sandbox.device == "cuda":
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
            # Ours to answer for only if a submission that does nothing gets the same answer.
            status = Status.grader_error if self._serves_nobody() else Status.crashed
        else:
            told = fields.get("told") is True  # a planner's own sentence, not Python's or Triton's
            is_introduced = not told or reply.code is Code.compile_failed
            introduction = _INTRODUCTION.get(reply.code, "") if is_introduced else ""
            what = introduction + (message if told else untrusted.joined(kind, message))
            instead = untrusted.brief(untrusted.text(fields, "instead"))
            hint = instead or _hint_for_exception(kind, message, reply.code)
        verdict = Verdict(status, what, RAISED if reply.code is Code.raised else "")
        return CaseResult(case, verdict, untrusted.line(fields), detail, "worker", hint)

    def _serves_nobody(self) -> bool:
        """Whether a worker refuses what even one without a submission would be refused."""
        raise NotImplementedError

    def _from_death(self, case: Case | None, death: Death) -> CaseResult:
        log = untrusted.clean(death.log)
        line, detail = untrusted.line_in_log(log, self.path), untrusted.tail(log)
        if death.cause is Cause.timed_out:
            what = (
                f"no answer within {self._limits.cpu_seconds:g} s of computing "
                f"({self._limits.wall_seconds:g} s in all)."
            )
            hint = "Does every loop end? A step that is 0, or a bound that moves along, never does."
            return CaseResult(case, Verdict(Status.timed_out, what), line, "", "grader", hint)
        if death.cause is Cause.out_of_memory:
            what = f"it used more than {self._limits.memory_bytes >> 20} MiB."
            return CaseResult(case, Verdict(Status.out_of_memory, what), line, detail)
        if death.cause is Cause.too_many_processes:
            what = f"it started more than {MOST_PROCESSES} processes."
            return CaseResult(case, Verdict(Status.crashed, what), line, detail)
        if death.cause is Cause.disk_full:
            what = "it filled its scratch folder with files."
            return CaseResult(case, Verdict(Status.out_of_memory, what), line, detail)
        if death.cause is Cause.misbehaved:
            what = "its process answered the grader out of turn and was ended."
            return CaseResult(case, Verdict(Status.crashed, what), line, detail)
        what = f"its process ended in the middle of the call ({death.description})."
        hint = "" if death.signal else "Return from the entry; don't end the process."
        verdict = Verdict(Status.crashed, what)
        return CaseResult(case, verdict, line, detail, "grader", hint, death.signal)

    def _explain_fault(self, case: Case, made: Inputs, first: CaseResult) -> CaseResult:
        """A memory fault: was it a store to an input, which is read-only?

        Run again with inputs writable: then it shows as a changed input. Where it doesn't, the
        fault doesn't say where it was, nor whether it was a store.
        """
        again = self._run(case, made, inputs_writable=True)
        if again.status is Status.modified_input:
            return replace(again, line=first.line, observed_by="grader")
        return first

    def _entry_trouble(self, fields: dict[str, Any]) -> tuple[str, str]:
        """What is wrong with the entry, and a hint."""
        names = ", ".join(self._argument_names())
        wanted = f"{self.variant.entry}({names})"
        if fields.get("message") == "signature":
            got = untrusted.brief(untrusted.text(fields, "signature"), 200)
            return (
                f"the entry is {self.variant.entry}{got}, but it is called as {wanted}.",
                "The grader allocates the output: the entry writes into it and returns nothing.",
            )
        functions = fields.get("functions")
        names = functions if isinstance(functions, list) else []
        names = [untrusted.brief(name, 80) for name in names if isinstance(name, str)]
        have = f"; it defines {', '.join(names[:8])}" if names else ""
        return f"the file has no function {self.variant.entry}{have}.", f"Define {wanted}."

    def _returned_instead(self, case: Case, returned: str) -> CaseResult:
        outputs = [tensor.name for tensor in self.task.outputs]
        names = " and ".join(outputs)
        returned = untrusted.brief(returned, 80)
        if returned in _NEVER_RUN:
            what = f"`{self.variant.entry}` is a {_NEVER_RUN[returned]}"
            return CaseResult(
                case, Verdict(Status.not_written, what, "returned"), hint="Write `def`."
            )
        what = f"{self.variant.entry}() returned {returned} and did not write {names}."
        hint = (
            f"What the entry returns is not looked at. The grader allocates {names} and passes it "
            "in: store the result there and return nothing."
        )
        return CaseResult(case, Verdict(Status.not_written, what, "returned"), hint=hint)

    def _argument_names(self) -> list[str]:
        return [argument.name for argument in self.task.signature]


# What a call of an entry gives, and none of its lines were run.
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
    Code.found: Status.crashed,  # only the emulator finds
}
_INTRODUCTION = {
    Code.import_failed: "executing the file raised ",
    Code.raised: "the entry raised ",
    Code.compile_failed: "the kernel can't be compiled: ",
    Code.not_modelled: "without a GPU this isn't modelled: ",
}


_OF_LANGUAGE = re.compile(r"unsupported AST node type|'tuple' object has no attribute|f-string")
_LANGUAGE = (
    "Triton compiles a part of Python: numbers, tuples, tl.* and loops, but no try, imports, "
    "classes or dicts, nor lists that grow."
)


def _free_gpu_bytes() -> int:
    """What nobody holds of the GPU's memory; 0 where there isn't even enough to ask."""
    try:
        return torch.cuda.mem_get_info()[0]
    except RuntimeError:
        return 0


def hint_of_compiler(message: str) -> str:
    """What to try where Triton's frontend refuses Python that it doesn't compile, else ""."""
    return _LANGUAGE if _OF_LANGUAGE.search(message) else ""


def _hint_for_exception(kind: str, message: str, code: Code) -> str:
    if kind in ("NameError", "ModuleNotFoundError"):
        return "Is an import missing, or a name misspelt?"
    if kind == "SystemExit":
        return "Return from the entry; don't end the process."
    if kind == "NotImplementedError":
        return "This part still has the stub's `raise NotImplementedError`."
    if code is Code.out_of_memory:
        return "How large is what the entry allocates? It needs little beside its arguments."
    return hint_of_compiler(message) if code is Code.compile_failed else ""

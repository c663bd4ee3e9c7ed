"""One variant of one submission on a GPU: the grader's program launches the cubins of its plan.

No host code of the submission is there: a planner, which has neither data nor a GPU, has recorded
its requests (planning.py). The executor maps the case's buffers and the plan's own, and nothing
else. It is as untrusted as the kernels that it runs.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from grader import plan
from grader.cases import Case
from grader.cases.compare import Verdict
from grader.cases.inputs import Inputs
from grader.executors.answers import Answers
from grader.executors.encoding import DeviceKernel, NotExecutable
from grader.executors.executor import Executor, Manner, limits_of
from grader.executors.gpu import copy_kernel, executor_program, gpu_encoding
from grader.executors.planning import (
    Plans,
    blank_arguments,
    dtype_of,
    left_running,
    notes_of,
)
from grader.executors.runner import CaseResult, Times
from grader.gpu import locks
from grader.plan import Buffer, Launch, Plan, Step
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.worker_process import Death, Worker
from grader.spec import ITEMSIZE
from grader.spec.task import Task
from grader.status import Status
from grader.worker.compile.cubin import variables
from grader.worker.gpu_mapping import GpuMemoryError
from grader.worker.protocol import Argument, Code, Operation, Reply

# By which CUDA says that a store went to what is mapped for reading only, among other things: of a
# kernel, of an atomic operation, of a copy that the driver checks.
_FAULTS = ("illegal memory access", "unspecified launch failure", "invalid argument")


def held_program(sandbox: Sandbox) -> Path:
    """The executor's program, held where the sandbox can start it. Raises as `program` does."""
    return sandbox.hold("gpu-executor", executor_program.program(), program=True)


def document(
    plans: Plans, case: Case, planned: Plan, timed: bool = False, configuration: int | None = None
) -> bytes | CaseResult:
    """A plan as the executor takes it, or why it can't run on a GPU.

    `timed`: the second call, which is timed, comes behind the first where it does other work.
    """
    calls = (0, 1) if timed and len(planned.calls) > 1 and not plan.repeats(planned) else (0,)
    steps: list[Sequence[Step]] = []
    kernels: dict[int, DeviceKernel] = {}
    for call in calls:
        made = plans.compiled_steps(case, planned, call, configuration)
        if isinstance(made, CaseResult):
            return made
        steps.append(made[0])
        kernels.update(made[1])
    try:
        return gpu_encoding.encode(planned, steps, kernels, plans.compile_view, variables)
    except NotExecutable as error:
        what = f"its plan was executed without a GPU only: {error} isn't run on one."
        return CaseResult(case, Verdict(Status.not_measured, what))


def copy_document(source: Argument, to: Argument) -> bytes:
    """The grader's own plan: a copy from a contiguous tensor to one of its dtype and shape.

    Raises as copy_kernel.compiled does.
    """
    kernel = copy_kernel.compiled()
    bytes = ITEMSIZE.get(dtype_of(source), 1) * math.prod(source.shape)
    buffers = [Buffer(x.allocation[1], "argument", number) for number, x in enumerate((source, to))]
    launch = Launch(
        "launch",
        0,
        grid=(copy_kernel.blocks(bytes),),
        block=(copy_kernel.THREADS,),
        parameters=base64.b64encode(struct.pack("<3Q", 0, 0, bytes)).decode(),
        pointers=((0, 0, 0), (8, 1, 0)),
    )
    planned = Plan(1, "cuda", tuple(buffers), (), ((launch,),))
    return gpu_encoding.encode(planned, [[launch]], {0: kernel})


class GpuRunner(Executor):
    """Runs the cases of one variant on a GPU. A context manager; sandbox and plans stay open.

    Tensors lie in memory of the GPU that grader and worker share. Where that can't be had they lie
    in the host's, and the worker copies them to the GPU and back.
    """

    on_gpu = True

    def __init__(self, sandbox: Sandbox, task: Task, path: Path, plans: Plans | None) -> None:
        """`sandbox` is a native one with the GPU's device files, `path` the submission's file;
        `plans` is None for who has documents already."""
        self._limits = limits_of(task)
        super().__init__(task, path, Answers(task, path, self._limits, on_gpu=True), Times())
        self._sandbox = sandbox
        self._plans = plans
        self._expected: set[Case] = set()
        self.not_shared = ""  # why the GPU's memory isn't shared with the worker, once it is known

    @property
    def shares_gpu_memory(self) -> bool:
        """Whether the last case's tensors lay on the GPU for grader and worker both."""
        return self._memory.is_on_gpu

    def run(self, case: Case, manner: Manner | None = None) -> CaseResult:
        """Run one case under the GPU's shared lock, so never while something is timed."""
        with locks.shared_on(self._sandbox.device):
            result = super().run(case, manner)
        if not result.verdict.passed or self.plan is None:
            return result
        variant = self.task.variant
        is_cuda = variant.language == "cuda"
        return left_running(case, variant.file, self.plan.calls[0], memory_waits=is_cuda) or result

    def expect(self, cases: Sequence[Case]) -> None:
        """Plan these cases and have their kernels compiled, for which no GPU is needed."""
        if self._plans is None or self.task.variant.language == "cuda":  # compiled already
            return
        for case in cases:
            if case not in self._expected:
                self._expected.add(case)
                planned = self._plans.planned(case, blank_arguments(self.task, case))
                if isinstance(planned, Plan):
                    self._plans.compiled_steps(case, planned)

    def fresh_worker(self) -> None:
        self._drop_worker()
        if self._plans is not None:
            self._plans.fresh_worker()

    def _start(self, count: int) -> CaseResult | None:
        program, arena = held_program(self._sandbox), self._memory.arena
        on_gpu = arena.on_gpu
        self._worker = self._sandbox.worker(program, "", arena.buffers, self._limits, on_gpu=on_gpu)
        self.times.workers += 1
        return None

    def _ask(
        self, worker: Worker, case: Case, arguments: Sequence[Argument]
    ) -> Reply | Death | CaseResult:
        asked = self._document(case, arguments)
        if isinstance(asked, CaseResult):
            return asked
        return worker.ask(Operation.execute, arguments, document=asked)

    def _document(self, case: Case, arguments: Sequence[Argument]) -> bytes | CaseResult:
        """The plan of a case for the executor, or why there is none."""
        assert self._plans is not None
        planned = self._plans.planned(case, arguments, self._memory.arena.buffers)
        if isinstance(planned, CaseResult):
            return planned
        self.plan = planned
        return document(self._plans, case, planned)

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        if self.plan is None:
            return CaseResult(case, verdict)
        returned = untrusted.clean(self.plan.returned)
        if verdict.status is Status.not_written and returned:
            return self._answers.returned_instead(case, returned)
        return CaseResult(case, verdict, notes=notes_of(self.plan))

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        is_refused = answer.code is Code.raised
        result = _refused_by_driver(case, answer) if is_refused else super()._answered(case, answer)
        if result is not None and self.shares_gpu_memory:
            named = any(words in answer.text.lower() for words in _FAULTS)
            return replace(result, refused_by_gpu=named)
        return result

    # --- memory ----------------------------------------------------------------------------------

    def _end_users(self) -> None:
        self.fresh_worker()  # a planner may read the arena's buffers

    def _make_room(self, inputs: Inputs, inputs_writable: bool) -> bool:
        """Have an arena that holds the case, on the GPU if that can be.

        Inputs that the worker copies to the GPU must lie where it can write: it brings them back.
        """
        if not self.not_shared and all(s.space == "device" for s in inputs.slots):
            try:
                self._memory.fit(inputs, inputs_writable, on_gpu=True)
                return inputs_writable
            except GpuMemoryError as error:
                self.not_shared = str(error)
        inputs_writable |= any(s.role == "input" and s.space == "device" for s in inputs.slots)
        self._memory.fit(inputs, inputs_writable)
        return inputs_writable

    def _result_of(self, case: Case, inputs: Inputs) -> CaseResult:
        """Run a case; again in other memory where sharing or the lack of memory made it fail."""
        try:
            result = self._explained(case, inputs)
            is_refused = result.status is Status.grader_error and self.shares_gpu_memory
            reason = result.verdict.what if is_refused else ""
        except GpuMemoryError as error:
            is_refused, reason = True, str(error)
        if is_refused:
            self.not_shared = reason or "no reason was given"
            self._drop_worker()
            self._memory.close()
            result = self._explained(case, inputs)
        if result.status is Status.out_of_memory:
            return self._with_all_memory(case, inputs, result)
        return result

    def _explained(self, case: Case, inputs: Inputs) -> CaseResult:
        result = self._run(case, inputs)
        return self._explain_fault(case, inputs, result) if result.refused_by_gpu else result

    def _with_all_memory(self, case: Case, inputs: Inputs, first: CaseResult) -> CaseResult:
        """A case that found too little memory, run again under an exclusive lock.

        Other students' kernels, under the shared lock, may have taken it; the spec allows a case
        its own.
        """
        self._drop_worker()  # and with it what its allocator keeps
        device = self._sandbox.device
        if locks.is_exclusive_on(device):
            return first
        with locks.exclusive_on(device):
            again = self._explained(case, inputs)
            if again.status is not Status.out_of_memory:
                return again
            self._drop_worker()
            free = _free_gpu_bytes()
        allowed = self._limits.memory_bytes
        if free >= allowed:
            return again
        what = (
            f"only {free >> 20} MiB of the GPU's memory are free, {allowed >> 20} are allowed: "
            "other programs hold the rest."
        )
        return CaseResult(case, Verdict(Status.not_measured, what))


def _refused_by_driver(case: Case, reply: Reply) -> CaseResult:
    """The result of a plan of which the driver refuses a step."""
    fields = untrusted.fields(reply)
    message = untrusted.brief(untrusted.text(fields, "message"))
    kind = untrusted.brief(untrusted.text(fields, "type"), 80)
    what = f"the GPU's driver refuses what the launcher asks for: {message}, {kind}."
    return CaseResult(case, Verdict(Status.launch_error, what), observed_by="worker")


def _free_gpu_bytes() -> int:
    """The bytes of the GPU's memory that are free; 0 where there isn't even enough to ask."""
    try:
        return int(torch.cuda.mem_get_info()[0])
    except RuntimeError:
        return 0

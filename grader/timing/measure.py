"""One variant timed against its baselines, until its points are decided.

The baselines are timed first, before the candidate's process exists: a baseline that is slower
afterwards was disturbed. They take turns then as they do later: what ran before a kernel, and at
which clock, is part of its time. Noise may have kept an attempt from a result. Then it all begins
anew, in fresh workers: noise may have passed, and if it was the candidate's doing, it comes again.

A load that is there all the time makes no baseline slower than before. So before the idle times,
and after the last replay, a kernel probes whether somebody else has the GPU (gpu/contention.py). It
can't run everywhere, so the idle times are checked by themselves as well: under a load the times of
a copy differ, and are longer than this GPU is known to need.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import torch

from grader.cases import Case, fixed_case
from grader.cases.beside import case_beside
from grader.evidence import PerformanceEvidence
from grader.gpu import locks, machine
from grader.gpu.devices import DeviceName
from grader.gpu.state import Observed
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec.task import Task
from grader.status import Status
from grader.timing.attempt import AS_GRADED, Attempt, Options, Result
from grader.timing.baselines import Baselines
from grader.timing.contenders import Planned
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.targets import Targets
from grader.timing.watch import Watch
from grader.worker.gpu_mapping import GpuMemoryError

TRIES = 3  # while the GPU is too noisy


def measure(
    candidate: Planned,
    seed: int,
    *,
    trusted: Sandbox,
    reference: Callable[[], Planned] | None = None,
    options: Options = AS_GRADED,
) -> PerformanceEvidence:
    """Time a variant on each of its performance cases, against what its thresholds name.

    Where the spec has it so, a case beside the first one is timed as well: see beside.py.

    The baselines run in `trusted`, where no submission may run: its owner closes it; `reference`
    gives the staff's solution. The first case that can't be timed ends it. On a GPU it waits for an
    exclusive lock: nobody checks or times anything else there meanwhile.
    """
    task = candidate.task
    timed: list[PerformanceEvidence] = []
    with contextlib.ExitStack() as opened:
        opened.enter_context(locks.exclusive_on(candidate.sandbox.device))
        if not trusted.is_started:
            trusted.start()
        cases = cases_of(task, seed)
        baselines = opened.enter_context(
            Baselines(trusted, candidate.sandbox, task, cases, reference)
        )
        for case in cases:
            timed.append(measure_case(candidate, baselines, case, options))
            if timed[-1].status is not Status.passed:
                return timed[-1]
    return replace(timed[0], further=tuple(timed[1:]))


def cases_of(task: Task, seed: int) -> list[Case]:
    """The cases that a variant is timed on: the spec's, and one beside them where it has it so."""
    block = task.variant.timed
    cases = [fixed_case(task.exercise, task.variant, given, seed) for given in block.every_case]
    if block.beside and (other := case_beside(task, cases[0])):
        cases.append(other)
    return cases


def trusted_sandbox(device: DeviceName) -> Sandbox:
    """One for the baselines of what runs on `device`. They are Python; not yet started."""
    return Sandbox("cuda" if device == "cuda" else "interpreter", Level.limits)


def measure_case(
    candidate: Planned, baselines: Baselines, case: Case, options: Options = AS_GRADED
) -> PerformanceEvidence:
    """Time a variant on one case, of any sizes, against what its thresholds name.

    `baselines` serve several cases of the variant, this one among them; their owner closes them.
    """
    variant = candidate.task.variant
    targets = Targets(variant, case, baselines, options.roofs, options.also)
    watch = Watch(candidate.sandbox.device, options.usual_sm_mhz)
    base = PerformanceEvidence(
        Status.passed,
        device=machine.gpu_name() or "",
        case=str(case),
        bytes=targets.moved_bytes,
        flops=targets.flops,
    )
    state = watch.probe()
    if troubles := watch.setting(state):  # workers could not even start
        reason = " ".join(troubles)
        machine_state = watch.as_evidence(state)
        return replace(base, status=Status.not_measured, reason=reason, machine=machine_state)
    earlier: list[str] = []
    while True:
        result = _attempted(candidate, targets, options, watch, base, state)
        evidence = replace(result.evidence, earlier=tuple(earlier))
        if not result.is_noise:
            return evidence
        if len(earlier) == TRIES - 1:
            return replace(evidence, reason=f"{evidence.reason} (the last of {TRIES} tries)")
        baselines.renew()
        earlier.append("; ".join(filter(None, (evidence.reason, evidence.disturbed))))
        state = watch.probe()


def _attempted(
    candidate: Planned,
    targets: Targets,
    options: Options,
    watch: Watch,
    base: PerformanceEvidence,
    state: Observed | None,
) -> Result:
    """One measurement from the start; the candidate's worker is a new one."""
    try:
        with contextlib.ExitStack() as opened:
            return Attempt(candidate, targets, options, watch, opened).run(base, state)
    except TimingFailed as failed:
        status, reason = failed.status, str(failed)
    except (TooLittleMemory, ValueError) as error:
        status, reason = Status.not_measured, str(error)
    except torch.cuda.OutOfMemoryError:  # of this process, which judges the outputs
        status, reason = Status.not_measured, "the GPU has too little memory for this size"
    except GpuMemoryError as error:
        status = Status.not_measured
        reason = f"the GPU's memory can't be shared with a worker: {error}"
    finally:
        if candidate.sandbox.device == "cuda":
            torch.cuda.empty_cache()  # or the next case's buffers would find less
    return Result(replace(base, status=status, reason=reason))

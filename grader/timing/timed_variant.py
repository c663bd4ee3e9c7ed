"""One variant timed against its baselines, until its points are decided.

The baselines are timed first, before the candidate's process has its plan. A baseline that is
slower later was disturbed. They take turns from the start, since the kernel that ran before, and
the clock it left the GPU at, affect a time. If noise spoiled an attempt, it is repeated in fresh
workers: noise may pass, and noise that the candidate caused returns.

A constant load slows the idle times as much as later ones. So a kernel probes whether somebody else
uses the GPU, before the idle times and after the last replay (gpu/contention.py). That probe can't
run everywhere, so the idle times are also checked by themselves: under a load, a copy's times vary
and exceed what this GPU is known to need.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from grader.cases import Case, fixed_case
from grader.cases.beside import case_beside
from grader.evidence import PerformanceEvidence
from grader.gpu import machine
from grader.gpu.devices import DeviceName
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

    Where the spec asks for it, a drawn case near the first one is timed as well.

    `trusted` runs the baselines and no submission; its owner starts and closes it. `reference`
    makes the staff's solution. The first case that can't be timed ends the measurement. Each
    attempt waits for an exclusive lock on the GPU.
    """
    task = candidate.task
    timed: list[PerformanceEvidence] = []
    with contextlib.ExitStack() as opened:
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
    """The spec's performance cases, and a drawn one near the first where the spec asks for it."""
    block = task.variant.timed
    cases = [fixed_case(task, given, seed) for given in block.every_case]
    if block.beside and (other := case_beside(task, cases[0])):
        cases.append(other)
    return cases


def trusted_sandbox(device: DeviceName, kernels: Path | None = None) -> Sandbox:
    """A sandbox for the baselines of what runs on `device`, not yet started.

    `kernels` is a folder where torch.compile keeps what it makes for the next command, if any.
    """
    return Sandbox("cuda" if device == "cuda" else "cpu", Level.limits, kernels=kernels)


def measure_case(
    candidate: Planned, baselines: Baselines, case: Case, options: Options = AS_GRADED
) -> PerformanceEvidence:
    """Time a variant on one case, of any sizes, against what its thresholds name.

    The caller closes `baselines`, which serve several cases of the variant.
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
    if troubles := watch.setting(state):  # workers can't start
        reason = " ".join(troubles)
        machine_state = watch.as_evidence(state)
        return replace(base, status=Status.not_measured, reason=reason, machine=machine_state)
    earlier: list[str] = []
    while True:
        result = _attempted(candidate, targets, options, watch, base)
        evidence = replace(result.evidence, earlier=tuple(earlier))
        if not result.is_noise:
            return evidence
        if len(earlier) == TRIES - 1:
            return replace(evidence, reason=f"{evidence.reason} (the last of {TRIES} tries)")
        baselines.renew()
        earlier.append("; ".join(filter(None, (evidence.reason, evidence.disturbed))))


def _attempted(
    candidate: Planned,
    targets: Targets,
    options: Options,
    watch: Watch,
    base: PerformanceEvidence,
) -> Result:
    """One attempt, with a new worker for the candidate, which ends before its lock on the GPU."""
    try:
        with contextlib.ExitStack() as turn, contextlib.ExitStack() as opened:
            return Attempt(candidate, targets, options, watch, opened).run(base, turn)
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
            torch.cuda.empty_cache()  # for the next case's buffers
    return Result(replace(base, status=status, reason=reason))

"""Grading one submission: what `grader grade`, pytest and batch all call."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from grader.cases import gpu_memory
from grader.evidence import Evidence, VariantEvidence
from grader.gpu import locks, machine
from grader.gpu.devices import DeviceName
from grader.grading.parallel import (
    Options,
    checked_side_by_side,
    compiling_ahead,
    timed_on_each_gpu,
)
from grader.grading.search import Effort
from grader.grading.session import (
    EDGES_ON_A_GPU,
    PUBLIC_SEED,
    Progress,
    Session,
    Step,
    SubmissionError,
    selected,
)
from grader.spec import Exercise

__all__ = [
    "PUBLIC_SEED",
    "Progress",
    "Session",
    "Step",
    "SubmissionError",
    "expect_files",
    "grade",
    "selected",
]


def grade(
    submission: Path,
    exercises: Mapping[str, Exercise],
    *,
    seed: int = PUBLIC_SEED,
    only: Sequence[str] = (),
    device: DeviceName | None = None,
    effort: Effort | None = None,
    require_sandbox: bool = False,
    lifted: Sequence[str] = (),
    jobs: int = 1,
    on_step: Progress = lambda step: None,
) -> Evidence:
    """Everything that can be observed about a submission on this machine.

    `only` and `lifted` hold names of exercises (`rmsnorm`) or variants (`rmsnorm/triton`); the
    latter may break the rules of the assignment. With `jobs` processes, variants are checked side
    by side; what needs a GPU for itself, timing above all, comes after that, in this process, or,
    where there are several GPUs, in one for each of them.
    Ctrl-C ends it with the evidence of the variants that were done, marked incomplete. Raises
    SubmissionError when the folder isn't there, ConfinementError where a sandbox is required and
    there is none.
    """
    started = time.monotonic()
    options = Options(exercises, seed, device, effort, require_sandbox, tuple(lifted))
    asked_for = selected(exercises, only)
    checked: dict[int, VariantEvidence] = {}
    done: dict[int, VariantEvidence] = {}
    complete = True
    with options.session(submission) as session:
        options = replace(options, device=session.device)
        try:
            if jobs > 1 and len(asked_for) > 1:
                if session.device == locks.ON_GPU:  # what takes seconds, meanwhile
                    session.stopwatch.begin()
                what = (session, options, asked_for)
                with compiling_ahead(session, asked_for, checked):
                    for index, seen in checked_side_by_side(*what, jobs, on_step):
                        checked[index] = seen
            for index, seen in timed_on_each_gpu(session, options, asked_for, checked, on_step):
                done[index] = seen
            for index, pair in enumerate(asked_for):
                if index not in checked:
                    checked[index] = session.beside(*pair, on_step)
                if index not in done:
                    done[index] = session.alone(*pair, checked[index], on_step)
        except KeyboardInterrupt:
            complete = False
            if session.device != "cuda":  # nothing more is to be run for these
                for index in checked.keys() - done.keys():
                    done[index] = session.alone(*asked_for[index], checked[index])
        variants = [done.get(i) or session.unseen(*pair) for i, pair in enumerate(asked_for)]
        sandbox = session.sandbox
        environment = machine.environment(session.device, sandbox.description)
        environment["confinement"] = sandbox.confinement.told
        if session.device == "cuda":
            environment["gpu_memory"] = how_memory_reaches_workers(session.runners.not_shared)
            environment["cases_on_the_gpu"] = CASES_ON_A_GPU
            if gpu_memory.reaches_host_memory():
                environment["gpu_reach"] = gpu_memory.REACHES_HOST_MEMORY
        if lifted:
            environment["rules_lifted"] = sorted(lifted)
    return Evidence(
        submission=_in_utf8(submission.name or str(submission)),
        seed=seed,
        variants=tuple(variants),
        environment=environment,
        seconds=round(time.monotonic() - started, 3),
        complete=complete,
    )


CASES_ON_A_GPU = (
    f"each set of constants, dtypes and options once, and {EDGES_ON_A_GPU} of each size class; "
    "all cases run without a GPU, too"
)


def how_memory_reaches_workers(refused: str) -> str:
    """How tensors come to kernels on the GPU, for the evidence; `refused` is why not shared."""
    refused = refused or gpu_memory.why_not_shared()
    return f"copied: {refused}" if refused else "shared with workers"


def expect_files(submission: Path, exercises: Mapping[str, Exercise]) -> None:
    """Raise SubmissionError for a folder with no file of any exercise: it must be the wrong one."""
    names = [v.file for exercise in exercises.values() for v in exercise.variants.values()]
    if submission.is_dir() and not any((submission / name).exists() for name in names):
        oracles = (submission / "oracles.py").exists()
        why = ": the students' release has no solutions" if oracles else ""
        raise SubmissionError(
            f"{submission}: expected a folder like assignment/, with {names[0]} or other files of "
            f"exercises; found none{why}"
        )


def _in_utf8(name: str) -> str:
    """A folder's name as text that can be written, whatever bytes it is made of."""
    return name.encode("utf-8", "replace").decode()

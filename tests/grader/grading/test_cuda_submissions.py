"""CUDA C++ submissions known to be wrong get their status and line, honest ones full marks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.evidence import VariantEvidence
from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import Backend
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.scoring import memory_bounds
from grader.spec import load_all
from grader.spec.blocks import Limits
from grader.spec.task import Task
from grader.staff.calibration import corpus
from grader.status import Status
from tests.support import expected
from tests.support.sampling import sampled

EXERCISES = load_all()
WRONG = corpus.load("wrong", "cuda")
HONEST = corpus.load("honest", "cuda")
BRIEF = Effort(
    repair_seconds=0,  # what changes would undo is told by tests of their own
    edges=12,
    drawn=4,
    shrink_runs=3,
    shrink_seconds=1.0,
    probe_seconds=0.0,
    shrink_timeouts=0,
    reruns=2,
    enough=2,
)
# A GPU sees less of each case.
ON_A_GPU = replace(BRIEF, shrink_runs=6, reruns=10, enough=None)
FOR_THE_RARE = replace(ON_A_GPU, edges=30, drawn=12)
LIMITS_OF_A_HANG = Limits(seconds=1.0)

needs_emulator = pytest.mark.skipif(
    bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator")
)


def observe(submission: corpus.Submission, folder: Path, backend: Backend) -> VariantEvidence:
    """The evidence on the submission's one file, from one place alone."""
    expected.write(submission, folder)
    exercise = EXERCISES[submission.exercise]
    if Status.timed_out in (submission.status, submission.gpu_status):
        exercise = exercise.model_copy(update={"limits": LIMITS_OF_A_HANG})
    rare = submission.rare or submission.status is Status.nondeterministic
    with Session(
        folder,
        EXERCISES,
        Options(
            seed=7,
            device="cpu" if backend == "emulator" else "cuda",
            effort=FOR_THE_RARE if rare else ON_A_GPU if backend == "gpu" else BRIEF,
            check_with_nvcc=False,
            backends=(backend,),
        ),
    ) as session:
        asked = expected.asked_of(submission, exercise.variants[submission.variant])
        # `grader calibrate` times those whose speed matters; here it would cost a GPU's time.
        asked = asked.model_copy(update={"performance": None})
        return expected.observed(submission, session, Task(exercise, asked))


def told(seen: VariantEvidence) -> str:
    """What to read when it isn't what it should be."""
    lines = []
    for part in seen.parts:
        lines.append(f"{part.dtype} {part.size_class}: {part.status.value} {part.reason}")
        lines += [f"    {each.where} {each.what} [{each.case}]" for each in part.failures[:2]]
    if seen.memory is not None:
        lines.append(f"memory: {seen.memory.status.value} {seen.memory.reason}")
        lines += [f"    {each.name} = {each.value}" for each in seen.memory.metrics]
    return "\n".join(lines)


def memory_holds(seen: VariantEvidence) -> bool:
    """Whether everything the spec asks of memory holds."""
    variant = EXERCISES[seen.exercise].variants[seen.variant]
    assert seen.memory is not None
    return not memory_bounds.shortfalls(seen.memory, variant)


def check_wrong(submission: corpus.Submission, seen: VariantEvidence, gpu: bool) -> None:
    """Every part that must fail has the status, and its message the line."""
    status = expected.status_on(submission, gpu)
    assert all(part.status is not Status.grader_error for part in seen.parts), told(seen)
    if submission.check == "memory":
        assert seen.correctness is Status.passed, told(seen)
        assert gpu or not memory_holds(seen), told(seen)
        return
    if submission.check == "large":
        assert seen.correctness is Status.passed, told(seen)
        if not gpu:
            expected.check_large(submission, seen)
    for part in seen.parts:
        if part.size_class in submission.classes:
            assert part.status is status, told(seen)
            if submission.line and status is submission.status and not gpu:
                wanted = {f"{submission.file}:{line}" for line in expected.lines(submission)}
                assert part.failures[0].where in wanted, told(seen)
            assert part.failures[0].what if part.failures else part.reason
        if part.size_class in submission.passes:
            assert part.status is Status.passed, told(seen)


def check_honest(submission: corpus.Submission, seen: VariantEvidence, gpu: bool) -> None:
    """Full marks in every part, for memory too."""
    status = expected.status_on(submission, gpu)
    assert {part.status for part in seen.parts} == {status}, told(seen)
    if not gpu:
        expected.check_honest_at_large_sizes(submission, seen)
    variant = EXERCISES[seen.exercise].variants[seen.variant]
    if status is not Status.passed or variant.memory is None:
        return
    # The emulator counts accesses, also beside a GPU, and can't run all that a GPU can.
    is_counted = submission.status is not Status.not_measured
    assert seen.memory.status is (Status.passed if is_counted else Status.not_measured), told(seen)
    assert not is_counted or memory_holds(seen), told(seen)


@needs_emulator
@pytest.mark.parametrize("submission", sampled(WRONG))
def test_a_wrong_cuda_submission_gets_its_status_and_line(
    submission: corpus.Submission, tmp_path: Path
) -> None:
    check_wrong(submission, observe(submission, tmp_path, "emulator"), gpu=False)


@needs_emulator
def test_a_race_at_a_large_size_is_told_of_a_block_that_goes_on_for_ever(tmp_path: Path) -> None:
    [racing] = [each for each in WRONG if each.name == "no_barrier_between_rows"]
    assert racing.whole is not None
    end_of_row = "* scale * w[i];\n"
    endless = end_of_row + "while (row >= 2 * gridDim.x) __syncthreads();\n"
    few, more = "min(rows, 1056)", "min(rows, 2200)"  # as many as the sizes that run have rows
    assert end_of_row in racing.whole and few in racing.whole
    whole = racing.whole.replace(end_of_row, endless).replace(few, more)
    asked = {"check": "large", "classes": (), "passes": ()}
    endlessly = racing.model_copy(update={"whole": whole, **asked})
    check_wrong(endlessly, observe(endlessly, tmp_path, "emulator"), gpu=False)


@needs_emulator
@pytest.mark.parametrize("submission", sampled(HONEST))
def test_an_honest_cuda_submission_earns_everything(
    submission: corpus.Submission, tmp_path: Path
) -> None:
    check_honest(submission, observe(submission, tmp_path, "emulator"), gpu=False)


@pytest.mark.gpu
@pytest.mark.parametrize("submission", WRONG, ids=lambda s: s.id)
def test_on_a_gpu_a_wrong_cuda_submission_gets_its_status(
    submission: corpus.Submission, tmp_path: Path
) -> None:
    if submission.only_observed:
        pytest.skip("a GPU that isn't watched may say anything")
    check_wrong(submission, observe(submission, tmp_path, "gpu"), gpu=True)


@pytest.mark.gpu
@pytest.mark.parametrize("submission", HONEST, ids=lambda s: s.id)
def test_on_a_gpu_an_honest_cuda_submission_earns_everything(
    submission: corpus.Submission, tmp_path: Path
) -> None:
    check_honest(submission, observe(submission, tmp_path, "gpu"), gpu=True)

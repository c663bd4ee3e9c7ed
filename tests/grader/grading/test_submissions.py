"""Submissions known to be wrong get their status, honest ones full marks: the grader's own exam."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from grader.evidence import VariantEvidence
from grader.gpu.devices import DeviceName
from grader.grading.check import check_part
from grader.grading.grade import grade_task
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.report import part_block
from grader.sandbox import Sandbox
from grader.scoring import memory_bounds
from grader.spec import Exercise, Variant, load_all
from grader.spec.blocks import Limits
from grader.spec.task import Task
from grader.staff.author.trials import dtypes_tried
from grader.staff.calibration import corpus
from grader.status import Status
from tests.support import expected
from tests.support.sampling import sampled

EXERCISES = load_all()
WRONG = corpus.load("wrong")
HONEST = corpus.load("honest")
# What matters here is the verdict, so less time goes into drawing, shrinking and probing.
BRIEF = Effort(
    repair_seconds=0,  # what changes would undo is told by tests of their own
    edges=12,
    drawn=5,
    shrink_runs=3,
    shrink_seconds=1.0,
    probe_seconds=0.0,
    shrink_timeouts=1,
    reruns=2,
    enough=2,
)
FOR_WHAT_PASSES = replace(BRIEF, edges=5, drawn=1)
FOR_THE_HONEST = replace(BRIEF, edges=8, drawn=3)
FOR_THE_RARE = replace(BRIEF, edges=30, drawn=12, reruns=10, enough=None)
# A coin that shows the same side ten times in a row has failed this test once.
FOR_CHANCE = replace(FOR_THE_RARE, reruns=30)


LIMITS_OF_A_HANG = Limits(seconds=1.0)


def observe(
    submission: corpus.Submission,
    folder: Path,
    device: DeviceName,
    seed: int = 7,
    sandbox: Sandbox | None = None,
    every_dtype: bool = True,
) -> VariantEvidence:
    """The evidence on the submission's one file.

    Without `every_dtype` a wrong one is tried on `dtypes_tried`, and an honest one compiled for one
    of its dtypes: compiling is more than half of the time, and has a part in no other verdict. All
    dtypes of all of them take `python benchmarks/seeds.py`: minutes, not seconds.
    """
    expected.write(submission, folder)
    exercise = EXERCISES[submission.exercise]
    effort = BRIEF
    if submission.status is Status.nondeterministic:
        effort = FOR_CHANCE
    elif submission.rare:
        effort = FOR_THE_RARE
    elif device == "cuda":
        # What fails in a fresh process too is seen without a GPU: here each is a CUDA context.
        effort = replace(BRIEF, reruns=1)
    if submission.kind == "honest":
        # On a GPU every new size is compiled anew, for as long as many cases are interpreted.
        effort = FOR_WHAT_PASSES if device == "cuda" else FOR_THE_HONEST
    if not every_dtype and submission.status is not Status.compile_error:
        effort = replace(effort, compile_ahead=False)
    if submission.status is Status.timed_out:
        # It hangs, however long it is given; meanwhile it holds a core, or the GPU, against others.
        exercise = exercise.model_copy(update={"limits": LIMITS_OF_A_HANG})
        effort = replace(effort, shrink_timeouts=0)
    # Some mistakes break a rule as well; what is asked here is what running them shows.
    policy = submission.kind == "honest"
    with Session(
        folder,
        EXERCISES,
        Options(seed=seed, device=device, effort=effort, policy=policy),
        sandbox=sandbox,
    ) as session:
        variant = exercise.variants[submission.variant]
        if device == "cuda":  # the clock has tests of its own, and wants the GPU for itself
            variant = variant.model_copy(update={"performance": None})
        if every_dtype:
            return expected.observed(submission, session, Task(exercise, variant))
        dtypes = dtypes_tried(submission, variant.dtypes)
        some = variant.model_copy(update={"dtypes": dtypes})
        if submission.kind == "wrong":
            return _observed_in_part(session, exercise, some, submission)
        rest = tuple(each for each in variant.dtypes if each not in dtypes)
        others = grade_task(session, Task(exercise, variant.model_copy(update={"dtypes": rest})))
        session.effort = replace(effort, compile_ahead=True)
        compiled = grade_task(session, Task(exercise, some))
        return replace(compiled, parts=(*others.parts, *compiled.parts))


def _observed_in_part(
    session: Session, exercise: Exercise, variant: Variant, submission: corpus.Submission
) -> VariantEvidence:
    """What the submission says must fail, looked for with all effort; what must pass, with less."""
    asked = expected.asked_of(submission, variant)
    effort = session.effort
    less = replace(FOR_WHAT_PASSES, compile_ahead=effort.compile_ahead)
    failing = {k: v for k, v in asked.points.items() if k in submission.classes}
    if submission.check != "sizes" or not failing:
        session.effort = less if submission.check != "sizes" else effort
        return expected.observed(submission, session, Task(exercise, asked))
    fails = [each for each in asked.dtypes if each not in submission.passes_dtypes]
    seen = grade_task(
        session, Task(exercise, asked.model_copy(update={"points": failing, "dtypes": fails}))
    )
    session.effort = less
    parts = [
        check_part(session, Task(exercise, asked), dtype, size_class)
        for dtype in asked.dtypes
        for size_class in asked.size_classes
        if dtype not in fails or size_class not in failing
    ]
    return replace(seen, parts=(*seen.parts, *parts))


def test_every_dtype_is_tried_by_many_wrong_submissions() -> None:
    # Of an exercise without wrong results, the few that miss its lesson are of one dtype.
    exercises = {each.exercise for each in WRONG if each.check == "sizes"}
    tried = [
        (submission.exercise, dtype)
        for submission in WRONG
        if submission.exercise in exercises
        for dtype in dtypes_tried(
            submission, EXERCISES[submission.exercise].variants[submission.variant].dtypes
        )
    ]
    for pair in set(tried):
        assert tried.count(pair) >= 5, pair
    for exercise in exercises:
        variants = EXERCISES[exercise].variants.values()
        dtypes = {d for each in variants if each.language == "triton" for d in each.dtypes}
        assert dtypes == {dtype for name, dtype in tried if name == exercise}


def memory_holds(seen: VariantEvidence) -> bool:
    """Whether everything the spec asks of memory holds."""
    variant = EXERCISES[seen.exercise].variants[seen.variant]
    assert seen.memory is not None
    return not memory_bounds.shortfalls(seen.memory, variant)


def check_wrong(submission: corpus.Submission, seen: VariantEvidence, gpu: bool) -> None:
    """Every part that must fail has the status; every part that must pass does."""
    told = [f"{p.dtype} {p.size_class}: {p.status.value} {p.reason}" for p in seen.parts]
    if submission.check != "sizes":
        assert seen.correctness is Status.passed, told
    if submission.check == "memory":
        assert not memory_holds(seen), seen.memory
    if submission.check == "large":
        expected.check_large(submission, seen)
    for part in seen.parts:
        fails_here = not submission.dtypes or part.dtype in submission.dtypes
        if part.size_class in submission.classes and fails_here:
            assert part.status is expected.status_on(submission, gpu), told
            assert not part.failures or part.failures[0].what
            told_as = part_block(seen.exercise, seen.variant, part, 80)
            assert len(told_as.splitlines()) <= 12, told_as
        if part.size_class in submission.passes or part.dtype in submission.passes_dtypes:
            assert part.status is Status.passed, told
        assert part.status is not Status.grader_error, told


def check_honest(submission: corpus.Submission, seen: VariantEvidence) -> None:
    """Full marks in every part."""
    told = [(p.dtype, p.size_class, p.status.value, p.failures[:1], p.reason) for p in seen.parts]
    assert {p.status for p in seen.parts} == {Status.passed}, told
    expected.check_honest_at_large_sizes(submission, seen)
    if seen.memory is not None:
        assert seen.memory.status is Status.passed and memory_holds(seen), seen.memory


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "submission"


def skip_unless_noticed(submission: corpus.Submission) -> None:
    if reason := expected.unnoticed_by(submission, version("triton")):
        pytest.skip(reason)


@pytest.mark.parametrize("submission", sampled(WRONG))
def test_a_wrong_submission_gets_its_status(
    submission: corpus.Submission, folder: Path, shared_sandbox: Sandbox
) -> None:
    if submission.status is Status.not_attempted:
        pytest.skip("runs nothing: test_attempt.py")
    skip_unless_noticed(submission)
    seen = observe(submission, folder, "cpu", sandbox=shared_sandbox, every_dtype=False)
    check_wrong(submission, seen, gpu=False)


@pytest.mark.parametrize("submission", sampled(HONEST))
def test_an_honest_submission_earns_everything(
    submission: corpus.Submission, folder: Path, shared_sandbox: Sandbox
) -> None:
    seen = observe(submission, folder, "cpu", sandbox=shared_sandbox, every_dtype=False)
    check_honest(submission, seen)


@pytest.mark.gpu
@pytest.mark.parametrize("submission", WRONG, ids=lambda s: s.id)
def test_on_a_gpu_a_wrong_submission_gets_its_status(
    submission: corpus.Submission, folder: Path, shared_sandbox: Sandbox
) -> None:
    if submission.only_observed:
        pytest.skip("a GPU that isn't watched may say anything")
    skip_unless_noticed(submission)
    seen = observe(submission, folder, "cuda", sandbox=shared_sandbox, every_dtype=False)
    check_wrong(submission, seen, gpu=True)


@pytest.mark.gpu
@pytest.mark.parametrize("submission", HONEST, ids=lambda s: s.id)
def test_on_a_gpu_an_honest_submission_earns_everything(
    submission: corpus.Submission, folder: Path, shared_sandbox: Sandbox
) -> None:
    check_honest(submission, observe(submission, folder, "cuda", sandbox=shared_sandbox))

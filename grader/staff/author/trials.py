"""Checks of an exercise that run kernels: its solution, its stub, wrong and honest submissions.

Little time goes into drawing cases and none into explaining failures: what matters is the verdict.
Nothing is timed. What this machine can't grade is no mistake.
"""

from __future__ import annotations

import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from grader.evidence import Failure, PartEvidence, VariantEvidence
from grader.gpu import machine
from grader.grading.check import check, check_part, check_parts
from grader.grading.predictions import unanswerable
from grader.grading.search import Effort
from grader.grading.session import Options, Progress, Session, Step
from grader.sandbox import Sandbox
from grader.scoring import memory_bounds
from grader.scoring.score import score_variant
from grader.spec import Course, Exercise, Variant
from grader.spec.blocks import Limits
from grader.spec.document import read_document
from grader.spec.task import Task
from grader.spec.values import Mistake
from grader.staff.calibration import corpus
from grader.staff.calibration.corpus import Submission
from grader.status import Status

SEED = 7
BRIEF = Effort(
    repair_seconds=0,
    edges=8,
    drawn=3,
    shrink_runs=0,
    shrink_seconds=1.0,
    probe_seconds=0.0,
    shrink_timeouts=0,
    reruns=2,
    enough=2,
    compile_ahead=False,
)
OF_THE_WRONG = replace(BRIEF, edges=12, drawn=5)
OF_THE_RARE = replace(BRIEF, edges=20, drawn=8, reruns=10, enough=None)
# Ten runs of a kernel whose result is due to chance may all agree.
OF_CHANCE = replace(OF_THE_RARE, reruns=30)
# A submission that hangs needs no more time to show it.
LIMITS_OF_A_HANG = Limits(seconds=1.0)
SOLUTION = "the solution"


@dataclass
class Ran:
    """What a check of exercises ran, for its last line."""

    exercises: int = 0
    variants: int = 0
    submissions: int = 0
    is_sample: bool = False  # a part of the solutions, and some of the submissions
    has_thresholds: bool = False

    def __str__(self) -> str:
        """`2 exercises, 3 variants, 11 submissions; not checked: thresholds (no GPU)`."""
        counts = ((self.exercises, "exercise"), (self.variants, "variant"))
        words = [_counted(*each) for each in counts]
        sample = "a sample of " if self.is_sample else ""
        words.append(sample + _counted(self.submissions, "submission"))
        text = ", ".join(words)
        if not self.has_thresholds:
            return text
        why = "`grader calibrate` times them" if machine.gpu_name() else "no GPU"
        return f"{text}; not checked: thresholds ({why})"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


@dataclass
class Trials:
    """The runs of a course's files. A context manager: it holds the sandbox that they share."""

    course: Course
    on_step: Progress
    quick: bool = False  # a part of each solution, and a wrong submission of each file

    def __enter__(self) -> Trials:
        self._sandbox = Sandbox("cpu", kind="plans")
        self.not_graded: dict[str, None] = {}
        self.questions: list[str] = []
        self.ran = Ran(is_sample=self.quick)
        return self

    def __exit__(self, *_: object) -> None:
        self._sandbox.close()

    def _session(self, folder: Path, effort: Effort, task: Task, policy: bool = True) -> Session:
        return Session(
            folder,
            {task.exercise.name: task.exercise},
            Options(seed=SEED, effort=effort, policy=policy, check_with_nvcc=False),
            sandbox=self._sandbox,
        )

    def solution_mistakes(self, tasks: Sequence[Task]) -> Iterator[str]:
        """What keeps the solution from full marks, of what can be graded here."""
        # Triton's kernels are compiled for the GPU, too.
        effort = replace(BRIEF, edges=2, drawn=0) if self.quick else BRIEF
        effort = replace(effort, compile_ahead=True)
        for task in tasks:
            self.ran.variants += 1
            self.ran.has_thresholds |= task.variant.is_graded_on_speed
            asked = _untimed(task)
            if self.quick:
                asked = _cut(asked, asked.variant.dtypes[:1], asked.variant.size_classes[-1:])
            with self._session(self.course.reference, effort, asked) as session:
                evidence = check(session, asked, self.on_step)
            place = f"reference/{task.variant.file}"
            yield from self._lost(asked, evidence, place, SOLUTION)
            for failure in evidence.at_large_sizes:
                if failure.status is Status.grader_error:
                    yield f"{place}: {task}, at a large size: the grader failed: {failure.what}"
                    continue
                self.questions.append(
                    f"{place}: {task}, at a large size, which costs no points: students whose code "
                    f"is like the solution's are told {failure.status.headline}: "
                    f"{_in_a_line(failure)}: is that right?"
                )

    def _lost(self, task: Task, evidence: VariantEvidence, place: str, who: str) -> Iterator[str]:
        """What a right submission loses, a line for each check."""
        if evidence.not_attempted:
            yield f"{place}: {task}: {who} has nothing to run: {evidence.not_attempted}"
            return
        lost: dict[Status, list[PartEvidence]] = {}
        for part in evidence.parts:
            if part.status is Status.not_measured:
                self.not_graded[f"{task}: not graded here: {part.reason}"] = None
            elif part.status is not Status.passed:
                lost.setdefault(part.status, []).append(part)
        for status, parts in lost.items():
            where, reason = _first(parts[0])
            count = f"{len(parts)} of {len(evidence.parts)} parts"
            name = f"{task}, {parts[0].size_class}, {parts[0].dtype}"
            start, at = place, f" ({where})" if where else ""
            if who == SOLUTION and where.partition(":")[0] in task.variant.compile.files:
                start, at = f"reference/{where}", ""
            words = f"{status.headline}{at}: {reason}; in {count}"
            yield f"{start}: {name}: {who} must pass, got {words}"
        memory = evidence.memory
        if memory is None or evidence.correctness is not Status.passed:
            return
        if memory.status is Status.not_measured:
            self.not_graded[f"{task}, memory: not graded here: {memory.reason}"] = None
            return
        graded = score_variant(task, evidence, machine.gpu_name() is not None)
        hint = "; change it, or the bounds of `memory:` in the spec" * (who == SOLUTION)
        for missed in graded.lost:
            yield f"{place}: {task}, {missed.name}: {who} must pass: {missed.message}{hint}"

    def question_mistakes(self, exercise: Exercise) -> Iterator[str]:
        """Questions whose answer can't be worked out: a class's grade would fail on them."""
        if exercise.predictions is None:
            return
        self.on_step(Step(exercise.name, "predictions"))
        document = read_document(self.course.specs / f"{exercise.name}.yaml")
        task = Task(exercise, next(iter(exercise.variants.values())))
        with self._session(self.course.reference, BRIEF, task) as session:
            for key, reason in unanswerable(session, exercise):
                place = ("predictions", "questions", key, "answer")
                yield from document.report([Mistake(place, reason)]).mistakes

    def stub_mistakes(self, tasks: Sequence[Task]) -> Iterator[str]:
        """Stubs that earn points, and those in CUDA C++ that don't compile."""
        effort = replace(BRIEF, edges=3, drawn=0)
        untouched: set[str] = set()  # files of which one entry is enough
        for task in tasks:
            place = f"assignment/{task.variant.file}"
            is_there = (self.course.assignment / task.variant.file).is_file()
            if not is_there or task.variant.file in untouched:  # texts.py says what isn't there
                continue
            with self._session(self.course.assignment, effort, task) as session:
                if session.not_attempted(task):
                    if task.variant.language == "cuda" and not self.quick:
                        untouched.add(task.variant.file)
                        yield from self._refused_stub(session, task)
                    continue
                of_one_dtype = [each for each in task.parts if each[0] == task.variant.dtypes[0]]
                parts = check_parts(session, task, of_one_dtype, self.on_step)
            for part in parts:
                if part.status is Status.passed:
                    yield (
                        f"{place}: {task}: the stub passes {part.size_class} in {part.dtype}: put "
                        "what students write between BEGIN SOLUTION and END SOLUTION"
                    )
                elif part.status is Status.import_error:
                    yield f"{place}: {task}: the stub can't be loaded: {_first(part)[1]}"
                elif part.status is Status.crashed:
                    yield (
                        f"{place}: {task}: the stub ends in an error: {_first(part)[1]}: let its "
                        "entry end in `raise NotImplementedError`"
                    )
                    break

    def _refused_stub(self, session: Session, task: Task) -> Iterator[str]:
        """That a stub which nobody has changed doesn't compile: a grade runs nothing of it."""
        part = check_part(session, task, *task.parts[0])
        if part.status in (Status.compile_error, Status.policy_violation):
            where, reason = _first(part)
            place = f"assignment/{where or task.variant.file}"
            yield f"{place}: {task}: the stub {part.status.headline}: {reason}"

    def wrong_mistakes(self, task: Task, entry: Submission) -> Iterator[str]:
        """What a wrong submission isn't caught with."""
        if entry.status is Status.not_attempted or unnoticed_by(entry, version("triton")):
            return
        evidence = self._observed(task, entry)
        yield from (f"{entry.place}: {line}" for line in _unlike(entry, task.variant, evidence))

    def honest_mistakes(self, task: Task, entry: Submission) -> Iterator[str]:
        """What an honest submission loses."""
        evidence = self._observed(task, entry)
        if entry.status is Status.passed:
            yield from self._lost(_untimed(task), evidence, entry.place, "an honest submission")

    def _observed(self, task: Task, entry: Submission) -> VariantEvidence:
        """The evidence on an entry's file, in the classes and dtypes that its entry is about."""
        is_wrong = entry.kind == "wrong"
        self.ran.submissions += 1
        effort = OF_THE_WRONG if is_wrong else BRIEF
        if entry.status is Status.nondeterministic:
            effort = OF_CHANCE
        elif entry.rare:
            effort = OF_THE_RARE
        effort = replace(effort, compile_ahead=entry.status is Status.compile_error)
        asked = replace(_untimed(task), variant=asked_of(entry, _untimed(task).variant))
        if is_wrong and entry.language == "triton":
            dtypes = dtypes_tried(entry, asked.variant.dtypes)
            asked = _cut(asked, dtypes, asked.variant.size_classes)
        if Status.timed_out in (entry.status, entry.gpu_status):
            exercise = task.exercise.model_copy(update={"limits": LIMITS_OF_A_HANG})
            exercise.belongs_to(task.exercise.reference)
            asked = Task(exercise, asked.variant)
        # Some wrong kernels in Triton break a rule as well; what running them shows is asked here.
        policy = entry.language == "cuda" or not is_wrong
        with tempfile.TemporaryDirectory() as folder:
            for name in asked.variant.files:
                if name != entry.file and (self.course.reference / name).is_file():
                    shutil.copyfile(self.course.reference / name, Path(folder) / name)
            (Path(folder) / entry.file).write_text(entry.text(), encoding="utf-8")
            with self._session(Path(folder), effort, asked, policy) as session:
                return check(session, asked, self.on_step)


def _unlike(entry: Submission, variant: Variant, evidence: VariantEvidence) -> Iterator[str]:
    """What was observed of a wrong submission, where its entry says otherwise."""
    wanted = status_on(entry, machine.gpu_name() is not None)
    for part in evidence.parts:
        name = f"{part.size_class}, {part.dtype}"
        where, reason = _first(part)
        fails = part.size_class in entry.classes and part.dtype in (entry.dtypes or (part.dtype,))
        fails &= entry.check == "sizes"
        passes = part.size_class in entry.passes or part.dtype in entry.passes_dtypes
        passes |= entry.check != "sizes"
        if not part.status.is_gradable:
            if part.status is Status.grader_error:
                yield f"{name}: the grader failed: {part.reason}"
        elif fails and part.status is Status.passed:
            of_tolerance = "make `tolerance:` smaller, " if wanted is Status.wrong_values else ""
            yield (
                f"{name}: not caught, expected {wanted.value}: add sizes or values to the spec in "
                f"which it fails, {of_tolerance}or correct `classes`"
            )
        elif fails and part.status is not wanted:
            yield f"{name}: expected {wanted.value}, got {part.status.value}: {reason}"
        elif fails and entry.line and where and not machine.gpu_name():
            places = [f"{entry.file}:{line}" for line in corpus.lines(entry)]
            if where not in places:
                yield f"{name}: expected a message on {' or '.join(places)}, got {where}"
        elif passes and part.status is not Status.passed:
            yield f"{name}: expected it to pass, got {part.status.value}: {reason}"
    counted = [each for each in [evidence.memory] if each and each.status is Status.passed]
    decided = [part for part in evidence.parts if part.status.is_gradable]
    is_missed = any(memory_bounds.shortfalls(each, variant) for each in counted)
    if entry.check == "memory" and counted and not is_missed:
        yield "memory: not caught: no bound of the spec's `memory:` is missed"
    at_large = {each.status for each in evidence.at_large_sizes}
    if entry.check == "large" and decided and entry.status not in at_large:
        yield f"large sizes: not caught, expected {entry.status.value}"


def _first(part: PartEvidence) -> tuple[str, str]:
    """The place of a part's first failure, and what it is, in one line."""
    if not part.failures:
        return "", part.reason.strip().rpartition("\n")[2]
    failure = part.failures[0]
    return failure.where, _in_a_line(failure)


def _in_a_line(failure: Failure) -> str:
    """What a failure is, and the case."""
    case = f" ({failure.case})" if failure.case else ""
    return " ".join(failure.what.split()) + case


def _untimed(task: Task) -> Task:
    """The task without its thresholds of time."""
    points = {key: each for key, each in task.variant.points.items() if key != "performance"}
    update = {"performance": None, "points": points}
    return replace(task, variant=task.variant.model_copy(update=update))


def _cut(task: Task, dtypes: Sequence[str], classes: Sequence[str]) -> Task:
    """The task in some dtypes and size classes."""
    points = task.variant.points
    kept = {key: points[key] for key in points if key in classes or key == "memory"}
    update = {"dtypes": tuple(dtypes), "points": kept}
    return replace(task, variant=task.variant.model_copy(update=update))


def dtypes_tried(submission: Submission, every: tuple[str, ...]) -> tuple[str, ...]:
    """Of a submission one dtype that must fail, in turn, and one that must pass."""
    turn = zlib.crc32(submission.name.encode())
    failing = submission.dtypes or every
    chosen = {failing[turn % len(failing)]}
    if submission.passes_dtypes:
        chosen.add(submission.passes_dtypes[turn % len(submission.passes_dtypes)])
    return tuple(dtype for dtype in every if dtype in chosen)


def asked_of(submission: Submission, variant: Variant) -> Variant:
    """The variant, cut to the size classes that the submission's entry mentions."""
    if submission.check == "performance":
        variant = variant.model_copy(update={"memory": None, "performance": None})
    named = {*submission.classes, *submission.passes}
    if not named:
        return variant
    kept = {k: v for k, v in variant.points.items() if k in named or k == "memory"}
    return variant.model_copy(update={"points": kept})


def unnoticed_by(submission: Submission, triton: str) -> str:
    """Why this version of Triton lets it pass; "" where it doesn't."""
    since = submission.since_triton
    if not since or _minor(triton) >= _minor(since):
        return ""
    return f"Triton {triton} takes no notice of it, {since} does"


def _minor(version: str) -> tuple[int, int]:
    """(3, 9) of 3.9.0."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def status_on(submission: Submission, gpu: bool) -> Status:
    """The status that a machine with or without a GPU must find."""
    return submission.gpu_status if gpu and submission.gpu_status is not None else submission.status

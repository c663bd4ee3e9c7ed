"""A student's answers to the questions that a spec asks before any code is written.

answers.yaml, in the submission's folder, names the student and has an answer for each question:

    student: Ada Lovelace
    silu:
      bytes: 268435456
      bound: memory

`check` holds them against their form. `check_answers`, which only a class's grade uses, works out
what is right: by the spec's formulas, by the data sheet of the course's GPU, and by the counters of
a run of the solution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from grader.evidence import LineCounters, Prediction, PredictionsEvidence, VariantEvidence
from grader.gpu import kinds, roofline
from grader.gpu.occupancy import Occupancy, occupancy
from grader.grading.check import count
from grader.grading.session import Options, Session
from grader.spec import ITEMSIZE, Exercise, Memory
from grader.spec.checks import USUAL_DEVICE
from grader.spec.predictions import (
    ANSWERS,
    OF_A_CUDA_RUN,
    OF_A_RUN,
    OF_OCCUPANCY,
    PREDICTIONS,
    STUDENT,
    Question,
    drawn,
    form_mistake,
    number_of,
)
from grader.spec.task import Task
from grader.spec.values import choice_problem
from grader.status import Status

MOST_BYTES = 1 << 16  # of answers.yaml
MOST_LETTERS = 100  # of a student's name
MOST_UNKNOWN = 8  # names that are no question's, in one message
UNDECIDED = "the answers' form is right; only the class's grade checks them"


def answered(session: Session, only: Sequence[str]) -> Iterator[VariantEvidence]:
    """Evidence on the answers of a submission that has some; `only` as in a grade."""
    if isinstance(session.files.read(ANSWERS), bytes):
        for exercise in session.exercises.values():
            names = {exercise.name, f"{exercise.name}/{PREDICTIONS}"}
            if exercise.predictions is not None and (not only or names & {*only}):
                yield check(session, exercise)


def check(session: Session, exercise: Exercise) -> VariantEvidence:
    """The evidence on the answers to one exercise's questions."""
    evidence = session.blank_evidence(Task(exercise, exercise.graded[PREDICTIONS]))
    data = session.files.read(ANSWERS)
    if isinstance(data, str):
        return replace(evidence, not_attempted=data)
    try:
        answers, student = parsed(data), student_of(parsed(data))
        mine = answers.get(exercise.name)
        if mine is None:
            missing = f"{ANSWERS} has no answers to {exercise.name}"
            return replace(evidence, not_attempted=missing)
        made = of_form(exercise, mine, student)
    except ValueError as error:
        made = PredictionsEvidence(Status.import_error, f"{ANSWERS}: {error}")
    if session.options.checks_answers and made.student:
        made = _checked(session, exercise, made)
    return replace(evidence, predictions=made)


class _Loader(yaml.BaseLoader):
    """A loader that converts no value and merges no mapping: nothing grows while it is read.

    A name that stands twice is refused: the first answer would be lost.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    once = f"expected each name once, got {key.value[:MOST_LETTERS]!r} again"
                    raise yaml.MarkedYAMLError(problem=once, problem_mark=key.start_mark)
                names.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode) -> str:
        text: str = super().construct_scalar(node)
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            expected = "expected characters, got an escape of half a character"
            raise yaml.MarkedYAMLError(problem=expected, problem_mark=node.start_mark)
        return text


def parsed(data: bytes) -> dict[str, Any]:
    """The file's mapping, all of its values as text. Raises ValueError."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"expected at most {MOST_BYTES >> 10} KiB")
    try:
        loaded = yaml.load(data.decode("utf-8"), _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{line}can't be read as YAML: {error.problem}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"can't be read as YAML: {type(error).__name__}") from None
    except (ValueError, OverflowError):  # of chr, for "\UFFFFFFFF"
        raise ValueError("can't be read as YAML: an escape is of no character") from None
    if not isinstance(loaded, dict):
        raise ValueError(f"expected a mapping ({STUDENT}: your name), got something else")
    return loaded


def student_of(answers: Mapping[str, Any]) -> str:
    """The name that the file has. Raises ValueError."""
    name = answers.get(STUDENT)
    if not isinstance(name, str) or not name.strip() or len(name) > MOST_LETTERS:
        raise ValueError(f"expected the line '{STUDENT}: your name'")
    return " ".join(name.split())


def of_form(exercise: Exercise, answers: object, student: str) -> PredictionsEvidence:
    """The answers as given, and the mistakes in their form; an open question is none."""
    assert exercise.predictions is not None
    questions = exercise.predictions.questions
    if not isinstance(answers, dict):
        raise ValueError(f"{exercise.name}: expected a mapping of {', '.join(questions)}")
    mistakes = [
        f"{exercise.name}.{key}: {mistake}"
        for key, question in questions.items()
        if answers.get(key) and (mistake := form_mistake(question, answers[key]))
    ]
    unknown = sorted(answers.keys() - questions.keys())
    mistakes += [
        f"{exercise.name}: {choice_problem([*questions], key)}" for key in unknown[:MOST_UNKNOWN]
    ]
    if len(unknown) > MOST_UNKNOWN:
        mistakes.append(f"and {len(unknown) - MOST_UNKNOWN} more unknown names")
    still_open = [key for key in questions if not answers.get(key)]
    noted = f"no answer yet to {', '.join(still_open)}; " if still_open else ""
    given = tuple(Prediction(key, _text(answers.get(key)), "", False) for key in questions)
    status = Status.wrong_values if mistakes else Status.not_measured
    reason = f"{ANSWERS}: {'; '.join(mistakes)}" if mistakes else noted + UNDECIDED
    return PredictionsEvidence(status, reason, student, given)


def _text(answer: object) -> str:
    """An answer, shortened; "" for none and for a list: with aliases its text may have no end."""
    return answer[:MOST_LETTERS] if isinstance(answer, str) else ""


# --- what is right --------------------------------------------------------------------------------


def _checked(
    session: Session, exercise: Exercise, made: PredictionsEvidence
) -> PredictionsEvidence:
    """The answers held against what is right; an answer of a wrong form is wrong."""
    assert exercise.predictions is not None
    answers = []
    try:
        for each in made.answers:
            question = exercise.predictions.questions[each.question]
            numbers = drawn(exercise.name, each.question, question, made.student)
            expected = Quantities(session, exercise, question, numbers).answer()
            answers.append(
                replace(each, expected=f"{expected}", is_right=_is_right(question, each, expected))
            )
    except Exception as error:
        reason = f"{exercise.name}.{each.question}: {error!r}"
        return replace(made, status=Status.grader_error, reason=reason)
    return replace(made, status=Status.passed, reason="", answers=tuple(answers))


def unanswerable(session: Session, exercise: Exercise) -> Iterator[tuple[str, str]]:
    """The questions that have no right answer for some student, each with the reason."""
    assert exercise.predictions is not None
    for key, question in exercise.predictions.questions.items():
        is_counted = question.answer is not None and question.answer.names & {*OF_A_RUN}
        for student in range(1 if is_counted else 20):  # a counted run takes seconds
            numbers = drawn(exercise.name, key, question, f"student {student}")
            try:
                Quantities(session, exercise, question, numbers).answer()
            except Exception as error:
                case = ", ".join(f"{name}={value}" for name, value in numbers.items())
                yield key, f"{error} ({case or 'nothing is drawn'})"
                break


def _is_right(question: Question, given: Prediction, expected: float | str) -> bool:
    if isinstance(expected, str):
        return given.given == expected
    number = number_of(given.given)
    return number is not None and math.isclose(
        number, expected, rel_tol=question.accept, abs_tol=1e-9
    )


@dataclass(frozen=True)
class Quantities:
    """What the answer to a question may name, worked out where it does."""

    session: Session
    exercise: Exercise
    question: Question
    numbers: Mapping[str, int]  # as drawn

    def answer(self) -> float | str:
        """What is right. Raises ValueError where the spec doesn't say."""
        formula = self.question.answer
        if formula is None:
            raise ValueError("expected a formula, got none: only a release for students has none")
        if self.question.is_in_words:
            word = self._bound() if formula.text == "bound" else self._occupancy().limits[0]
            if word not in self.question.choices:
                raise ValueError(f"expected {word!r} among the choices")
            return word
        return formula.evaluate({name: self._value(name) for name in formula.names})

    @property
    def _task(self) -> Task:
        name = self.question.variant or next(iter(self.exercise.variants))
        return Task(self.exercise, self.exercise.variants[name])

    @property
    def _dtype(self) -> str:
        return self.question.dtype or self._task.variant.dtypes[0]

    def _sizes(self, *, counted: bool = False) -> dict[str, int]:
        """The sizes of the variant's timed case, or of its counted one; drawn ones replace them."""
        variant = self._task.variant
        timed = variant.performance.every_case[0] if variant.performance else {}
        case = variant.memory.case if variant.memory and (counted or not timed) else timed
        names = self.exercise.sizes_names
        own = {name: int(case[name]) for name in names if name in case}
        return {**own, **self.numbers, "itemsize": ITEMSIZE[self._dtype]}

    def _value(self, name: str) -> float:
        if name in self._sizes():
            return self._sizes()[name]
        if name in OF_A_CUDA_RUN and self._task.variant.language != "cuda":
            raise ValueError(f"{name}: expected a variant in CUDA C++, got {self._task}")
        if name in OF_A_RUN:
            return self._counted()[name]
        if name == "bytes":
            return self._task.variant.timed.bytes.evaluate(self._sizes())
        if name == "flops":
            flops = self._task.variant.timed.flops
            return 0 if flops is None else flops.evaluate(self._sizes())
        if name == "intensity":
            return self._value("flops") / self._value("bytes")
        if name in OF_OCCUPANCY:
            resident = self._occupancy()
            return resident.blocks if name == "blocks_per_sm" else resident.warps
        return self._of_the_gpu(name)

    def _of_the_gpu(self, name: str) -> float:
        peaks = self._peaks()
        rate = peaks.flops.get(self._dtype)
        if name == "sms":
            return peaks.sm_count
        if name == "gb_s":
            return peaks.bandwidth / 1e9
        if rate is None:
            raise ValueError(f"{name}: expected a dtype with a published rate, got {self._dtype}")
        if name == "floor_us":
            moving = self._value("bytes") / peaks.bandwidth
            return 1e6 * max(moving, self._value("flops") / rate)
        return {"ridge": rate / peaks.bandwidth, "tflops": rate / 1e12}[name]

    def _bound(self) -> str:
        bytes_, flops = self._value("bytes"), self._value("flops")
        placed = roofline.place(bytes_, flops, self._dtype, 1.0, self._peaks().roofs())
        if placed is None:
            raise ValueError("bound: the data sheet has no roof for it")
        return placed.bound

    @property
    def _gpu(self) -> str:
        return self.exercise.gpu or USUAL_DEVICE

    def _peaks(self) -> roofline.Peaks:
        peaks = roofline.peaks(self._gpu)
        assert peaks is not None  # it has a data sheet
        return peaks

    def _occupancy(self) -> Occupancy:
        numbers = self._sizes()
        threads, registers = numbers.get("threads", 0), numbers.get("registers", 0)
        capability = kinds.capability_of(self._gpu)
        assert capability is not None  # as a course's GPU has to have
        resident = occupancy(capability, threads, registers, numbers.get("shared", 0))
        if resident is None:
            raise ValueError("expected `threads` among the drawn numbers")
        return resident

    def _counted(self) -> Mapping[str, float]:
        sizes = self._sizes(counted=True)
        case = tuple((name, sizes[name]) for name in self.exercise.sizes_names)
        return _counters(self.session, self._task, case, self._dtype)


_known: dict[tuple[str, str, tuple[tuple[str, int], ...], str], Mapping[str, float]] = {}


def _counters(
    session: Session, task: Task, sizes: tuple[tuple[str, int], ...], dtype: str
) -> Mapping[str, float]:
    """The counters of a run of the solution; kept, as neighbours' numbers may be the same."""
    key = (str(task.exercise.reference), str(task), sizes, dtype)
    if key not in _known:
        block = Memory(case={**dict(sizes), "dtype": dtype})
        variant = task.variant.model_copy(update={"memory": block})
        _known[key] = _run(session, Task(task.exercise, variant))
    return _known[key]


def _run(session: Session, task: Task) -> Mapping[str, float]:
    options = Options(device="cpu", policy=False)
    with Session(task.exercise.reference, session.exercises, options) as trusted:
        observed, plan = count(trusted, task)
    if observed.status is not Status.passed:
        raise ValueError(f"the solution's run: {observed.status.headline}: {observed.reason}")
    metrics = {each.name: each.value for each in observed.metrics}
    return {
        "launches": len(plan.launches),
        **{name: metrics.get(name, 0) for name in ("blocks", "requests", "copies", "bytes_copied")},
        **_of_lines(observed.lines),
    }


def _of_lines(lines: Sequence[LineCounters]) -> dict[str, float]:
    """Counters of all lines of the kernels."""
    counters: dict[str, float] = {}
    for access in ("load", "store"):
        own = [each for each in lines if each.space == "global" and each.access == access]
        counters[f"{access}_requests"] = sum(each.requests for each in own)
        counters[f"{access}_sectors"] = sum(each.sectors for each in own)
    shared = [each for each in lines if each.space == "shared"]
    counters["bank_conflicts"] = sum(each.conflicts for each in shared)
    counters["bank_ways"] = max((each.ways for each in shared), default=0)
    return counters

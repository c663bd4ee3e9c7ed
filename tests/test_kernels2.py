"""A sample of the example course in courses/kernels2; `make courses` tries all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.grading.session import unwatched
from grader.spec import course as courses
from grader.spec.task import Task
from grader.staff.author.trials import Trials
from grader.staff.calibration import corpus
from grader.staff.handout import difference
from grader.staff.stubs import make_stubs

FOLDER = Path(__file__).parents[1] / "courses" / "kernels2"
COURSE = courses.find(FOLDER)
KINDS: tuple[corpus.Kind, ...] = ("wrong", "honest")
ENTRIES = {
    f"{kind}/{each.id}": each
    for kind in KINDS
    for language in ("triton", "cuda")
    for each in corpus.load(kind, language, COURSE)
}
# An integer of each kind: an accumulator, an index, a counter; and a bound on memory.
SAMPLE = (
    "wrong/int8_matmul-cuda-short_accumulator",
    "wrong/embedding-cuda-indices_modulo_16",
    "wrong/histogram-modulo_9",
    "wrong/spmv-cuda_warp-a_thread_for_each_row",
    "honest/reduce_sum-two_launches",
)


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    with Trials(COURSE, unwatched) as opened:
        yield opened


def task_of(name: str, variant: str) -> Task:
    exercise = COURSE.exercises[name]
    return Task(exercise, exercise.variants[variant])


@pytest.mark.parametrize("name", SAMPLE)
def test_a_submission_of_kernels2_gets_what_its_entry_says(name, trials):
    entry = ENTRIES[name]
    look = trials.wrong_mistakes if entry.kind == "wrong" else trials.honest_mistakes
    assert not list(look(task_of(entry.exercise, entry.variant), entry))


def test_a_solution_of_kernels2_has_full_marks_and_its_stub_none(trials):
    task = task_of("inclusive_scan", "cuda")
    assert not list(trials.solution_mistakes([task]))
    assert not list(trials.stub_mistakes([task]))


@pytest.mark.parametrize("exercise", COURSE.exercises)
def test_an_exercise_of_kernels2_has_three_wrong_and_two_honest_submissions(exercise):
    of_it = [each.kind for each in ENTRIES.values() if each.exercise == exercise]
    assert of_it.count("wrong") >= 3
    assert of_it.count("honest") >= 2


@pytest.mark.parametrize("exercise", COURSE.exercises)
def test_every_variant_of_kernels2_bounds_its_use_of_memory(exercise):
    for variant in COURSE.exercises[exercise].variants.values():
        assert list(variant.memory.bounds())
        assert variant.points["memory"] > 0


def test_the_stubs_of_kernels2_are_those_of_its_solutions():
    for name, stub in make_stubs(COURSE.reference, COURSE.exercises).items():
        assert (COURSE.assignment / name).read_text(encoding="utf-8") == stub, name


def test_the_handout_of_kernels2_has_a_section_and_the_points_of_each_exercise():
    text = COURSE.handout.read_text(encoding="utf-8")
    assert difference(text, COURSE.exercises, str(COURSE.handout)) == ""

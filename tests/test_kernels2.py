"""The example course in courses/kernels2 proves itself: here a sample, all of it by
`python benchmarks/course_corpus.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.spec import course as courses
from grader.staff.handout import difference
from grader.staff.stubs import make_stubs
from tests.support import course_corpus

FOLDER = Path(__file__).parents[1] / "courses" / "kernels2"
COURSE = courses.find(FOLDER)
# An integer of each kind: an accumulator, an index, a counter; and a bound on memory.
SAMPLE = (
    "reference/inclusive_scan/cuda",
    "assignment/inclusive_scan/cuda",
    "wrong/int8_matmul-cuda-short_accumulator",
    "wrong/embedding-cuda-indices_modulo_16",
    "wrong/histogram-modulo_9",
    "wrong/spmv-cuda_warp-a_thread_for_each_row",
    "honest/reduce_sum-two_launches",
)
SUBMISSIONS = {each.name: each for each in course_corpus.every(FOLDER)}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_submission_of_kernels2_gets_what_its_entry_says(name, tmp_path):
    result = SUBMISSIONS[name].run(tmp_path / "submission")
    assert not result.trouble


@pytest.mark.parametrize("exercise", COURSE.exercises)
def test_an_exercise_of_kernels2_has_three_wrong_and_two_honest_submissions(exercise):
    assert len(course_corpus.entries(COURSE, "wrong", exercise)) >= 3
    assert len(course_corpus.entries(COURSE, "honest", exercise)) >= 2


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

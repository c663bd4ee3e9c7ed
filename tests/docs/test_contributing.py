"""What CONTRIBUTING.md and handout.md say is how the project is."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from grader.grading.check import check_part
from grader.grading.grade import Options, Session, grade
from grader.scoring.score import score
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from tests.support.small_exercise import BRIEF, ROOT


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.M))
    for name in ("CONTRIBUTING.md", "README.md", "handout.md"):
        named = set(re.findall(r"(?:`|    )make ([a-z-]+)", text(name)))
        assert named
        assert named <= targets


@pytest.mark.parametrize("exercise", load_all().values(), ids=lambda exercise: exercise.name)
def test_the_handout_has_a_section_for_every_exercise_with_its_signature(exercise):
    sections = re.split(r"^## ", text("handout.md"), flags=re.M)
    [section] = [each for each in sections if each.startswith(f"{exercise.name}\n")]
    assert f"pytest -k {exercise.name}" in section
    assert f"[{exercise.name}](#{exercise.name})" in sections[0] + sections[2]
    for variant in exercise.variants.values():
        assert f"`assignment/{variant.file}`" in section
        names = [argument.name for argument in exercise.signature(variant)]
        if variant.language == "triton":
            signature = re.search(rf"def {variant.entry}\((.*)\) -> None", section).group(1)
            assert re.findall(r"(\w+):", signature) == names
        else:  # where pointers may have other names
            signature = re.search(rf"void {variant.entry}\(([^)]*)\)", section).group(1)
            assert len(signature.split(",")) == len(names)
        for size_class in variant.size_classes:
            assert size_class in section


def test_the_solutions_earn_all_that_is_gradable_and_the_stubs_nothing():
    exercises = load_all()
    # The test below compiles; and of the solutions every kind of case is tried in other tests.
    effort = replace(BRIEF, edges=1, drawn=0, compile_ahead=False)
    for folder, share in (("reference", 1), ("assignment", 0)):
        observed = grade(ROOT / folder, exercises, Options(device="interpreter", effort=effort))
        graded = score(observed, exercises)
        assert graded.gradable > 0
        assert graded.gradable_bonus > 0
        assert graded.bonus == share * graded.gradable_bonus, folder
        assert graded.score == share * (graded.gradable + graded.gradable_bonus), folder


def test_the_solutions_compile_for_the_courses_gpu(shared_sandbox):
    exercises = load_all()
    effort = replace(BRIEF, edges=2, drawn=0)
    with Session(
        ROOT / "reference",
        exercises,
        Options(device="interpreter", effort=effort),
        sandbox=shared_sandbox,
    ) as session:
        for exercise in exercises.values():
            for variant in exercise.variants.values():
                if variant.language == "triton":
                    part = (variant.dtypes[0], variant.size_classes[-1])
                    assert (
                        check_part(session, Task(exercise, variant), *part).status is Status.passed
                    )

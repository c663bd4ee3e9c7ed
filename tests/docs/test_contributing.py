"""What CONTRIBUTING.md and handout.md say is how the project is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from grader.spec import load_all
from tests.support.small_exercise import ROOT


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.M))
    for name in ("CONTRIBUTING.md", "README.md", "handout.md"):
        named = set(re.findall(r"(?:`|    )make ([a-z-]+)", text(name)))
        assert named
        assert named <= targets


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_pythons_of_make_test_may_keep_byte_code(tmp_path):
    """Also where the environment, as in many container images, says that Python writes none."""
    (tmp_path / "shown").write_text('test: ; @echo "[$$PYTHONDONTWRITEBYTECODE]"\n')
    words = ["make", "-s", "-o", ".venv/.ready", "-f", "Makefile", "-f", tmp_path / "shown", "test"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.stdout == "[]\n", ran.stderr


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

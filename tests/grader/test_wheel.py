"""A wheel, unpacked outside of any checkout, grades a course of one's own in both languages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from grader.executors.cuda import cuda_build
from grader.spec import Course
from grader.staff import new

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"

RUN = """
import sys, grader
from grader.__main__ import main
assert grader.__file__.startswith(sys.argv.pop(1)), grader.__file__
main()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of a wheel, built from copies: the checkout stays as it is."""
    source = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("grader", "warpgrade", "exercises", "assignment"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    (source / "reference").mkdir()
    files = ("pyproject.toml", "README.md", "LICENSE", "course.yaml", "handout.md")
    for name in (*files, "reference/oracles.py"):
        shutil.copyfile(ROOT / name, source / name)
    built = tmp_path_factory.mktemp("built")
    subprocess.run(
        [sys.executable, "-c", BUILD, built], cwd=source, check=True, capture_output=True
    )
    [wheel] = built.glob("*.whl")
    packages = tmp_path_factory.mktemp("packages")
    zipfile.ZipFile(wheel).extractall(packages)
    return packages


def test_every_file_of_the_packages_is_in_the_wheel(installed: Path):
    def files(root: Path) -> set[Path]:
        found = (each for name in ("grader", "warpgrade") for each in (root / name).rglob("*"))
        return {e.relative_to(root) for e in found if e.is_file() and e.suffix != ".pyc"}

    assert files(installed) == files(ROOT)


@pytest.mark.skipif(bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator"))
def test_a_wheel_grades_triton_and_cuda_outside_of_a_checkout(installed: Path, tmp_path: Path):
    new.course(tmp_path / "course")
    new.exercise(Course(tmp_path / "course"), "square", ["triton", "cuda"])
    line = ["check", "square", "--case", "n=5 dtype=float32 seed=1", "--submission", "reference"]
    ran = subprocess.run(
        [sys.executable, "-c", RUN, installed, *line],
        cwd=tmp_path / "course",
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran
    for language in ("triton", "cuda"):
        assert f"square/{language}: passed for n=5, float32." in ran.stdout

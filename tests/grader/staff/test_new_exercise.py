"""CONTRIBUTING's five steps make an exercise that is graded, stubbed and tested, and no other file
changes."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from grader.mistakes import Mistake
from grader.spec import load_all
from grader.staff import handout
from tests.support import warm_python
from tests.support.commandline import in_one_process
from tests.support.small_exercise import ROOT

PARTS = (
    "grader", "exercises", "reference", "assignment", "tests", "course.yaml", "pyproject.toml"
)  # fmt: skip

ORACLE = '''

def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """x times factor."""
    return x * factor


def scale_torch(x: torch.Tensor, factor: float) -> torch.Tensor:
    """torch's own product, in the dtype of x."""
    return torch.mul(x, factor)
'''

SPEC = """\
title: Scale
arguments:
  - {name: x, shape: [n], dtype: $dtype}
  - {name: out, shape: [n], dtype: $dtype, role: output}
  - {name: factor, scalar: float, values: [2.0, 0.5]}
sizes:
  ragged: {n: [1, 40]}
data: [normal]
variants:
  triton:
    file: scale.py
    entry: scale
    dtypes: [float32]
    points: {ragged: 2}
"""

SOLUTION = '''\
"""Scale: out[i] = x[i] * factor."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n_elements, factor, BLOCK: tl.constexpr):
    """One program scales BLOCK neighbouring elements."""
    # BEGIN SOLUTION
    #| # TODO: load, multiply, store.
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) * factor, mask=mask)
    # END SOLUTION


def scale(x: torch.Tensor, out: torch.Tensor, factor: float) -> None:
    """Write x * factor to out; shape (n,)."""
    # BEGIN SOLUTION
    #| # TODO: launch enough programs.
    #| raise NotImplementedError("scale: launch scale_kernel here")
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), factor, BLOCK=64)
    # END SOLUTION
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of the project with the files of steps 1 to 3."""
    folder = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__", "submissions")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        else:
            shutil.copy(ROOT / part, folder / part)
    with (folder / "reference" / "oracles.py").open("a", encoding="utf-8") as file:
        file.write(ORACLE)
    (folder / "exercises" / "scale.yaml").write_text(SPEC, encoding="utf-8")
    (folder / "reference" / "scale.py").write_text(SOLUTION, encoding="utf-8")
    return folder


def run(project: Path, *words: str) -> str:
    """The output of a command of the copy, which must end well."""
    environment = {**os.environ, "PYTHONPATH": str(project)}
    ran = warm_python.run(["-m", *words], project, environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_steps_make_an_exercise_that_is_graded_and_stubbed(project):
    only = ("--only", "scale", "--json")
    words = [
        ("stubs",),
        *(("grade", of, *only, f"{of}.json") for of in ("reference", "assignment")),
    ]
    said = in_one_process(project, *words)
    assert [status for status, _, _ in said] == [0, 0, 0], said
    assert said[0][1].strip() == "assignment/scale.py"
    stub = (project / "assignment" / "scale.py").read_text(encoding="utf-8")
    assert "# TODO: launch enough programs." in stub
    assert "cdiv" not in stub

    data = json.loads((project / "reference.json").read_text(encoding="utf-8"))
    assert [exercise["name"] for exercise in data["exercises"]] == ["scale"]
    assert (data["score"], data["gradable"], data["max_score"]) == (2.0, 2.0, 2.0)

    data = json.loads((project / "assignment.json").read_text(encoding="utf-8"))
    [exercise] = data["exercises"]
    assert (data["score"], exercise["variants"][0]["status"]) == (0.0, "not_attempted")


def test_students_find_the_exercise_in_pytest(project):
    listed = run(project, "pytest", "--collect-only", "-q", "-k", "scale")
    assert listed.splitlines()[0].endswith("test_assignment[scale-triton-float32-ragged]")


def test_the_handout_asks_for_a_section_and_fills_in_its_points(project):
    exercises = load_all(project / "exercises")
    text = (ROOT / "handout.md").read_text(encoding="utf-8")
    with pytest.raises(Mistake, match="expected a section '## scale' for the") as error:
        handout.render(text, exercises)
    begin, end = re.findall(r"<!-- .*? -->", str(error.value))
    made = handout.render(f"{text}\n## scale\n\n{begin}\n{end}\n", exercises)
    assert "| `triton` | `scale.py` | float32 | 2 | 2 |" in made
    assert "| [scale](#scale) | 2 | 0 | 2 | 0 |" in made

"""constraints.txt pins one version of each package for every Python that the project runs on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = [Requirement(line) for line in LINES if line and not line.startswith("#")]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]


def pinned(python: str) -> list[str]:
    """The names of those that apply."""
    here = {"python_version": python}
    return [pin.name for pin in PINS if pin.marker is None or pin.marker.evaluate(here)]


@pytest.mark.parametrize("python", PYTHONS)
def test_a_package_has_one_version_whatever_the_python(python):
    assert sorted(pinned(python)) == sorted({pin.name for pin in PINS})
    assert all(str(pin.specifier).startswith("==") for pin in PINS)


def test_the_oldest_python_is_the_one_that_the_project_asks_for():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^requires-python = ">=(.*)"$', text, re.MULTILINE)[1] == PYTHONS[0]
    assert f"-t={PYTHONS[0]}-" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("python", PYTHONS)
def test_make_installs_one_triton_beside_a_torch_that_brings_none(python):
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    versions = dict(re.findall(r"^(TRITON\w*) := (\S+)$", text, re.MULTILINE))
    found = [
        Requirement(re.sub(r"\$\((\w+)\)", lambda name: versions[name[1]], each))
        for each in re.findall(r'"(triton==[^"]*)"', text)
    ]
    here = [each for each in found if each.marker.evaluate({"python_version": python})]
    assert len(here) == 1
    wanted = "TRITON_310" if python == "3.10" else "TRITON"
    assert str(here[0].specifier) == f"=={versions[wanted]}"

"""The architecture page says where things are: each file and function that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WAY = re.findall(r"^\| \d+ \| `([\w/.]+)` \| `([\w.]+)` \|", PAGE, re.M)
BEGINNINGS = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.M)


def defined(path: Path) -> set[str]:
    """Names of a module's functions and classes, and of methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            members = (each for each in node.body if isinstance(each, ast.FunctionDef))
            names |= {f"{node.name}.{each.name}" for each in members}
    return names


def test_the_way_of_a_submission_is_ten_files_at_most_each_once():
    files = [file for file, _ in WAY]
    assert 8 <= len(files) <= 10 and len(set(files)) == len(files)


@pytest.mark.parametrize(("file", "name"), WAY)
def test_a_step_of_the_way_exists(file: str, name: str):
    assert name in defined(ROOT / file)


@pytest.mark.parametrize(("package", "files"), BEGINNINGS)
def test_what_to_begin_with_exists(package: str, files: str):
    folder = ROOT / "grader" / package
    named = re.findall(r"`([\w/]+(?:\.py|/))`", files)
    assert named and not [each for each in named if not (folder / each).exists()]


def layers_of_the_page() -> list[list[str]]:
    """The highest first."""
    shown = PAGE[PAGE.index("## Layers") : PAGE.index("## The way")]
    return [line.split(" | ") for line in re.findall(r"^    (\w+(?: \| \w+)*)   ", shown, re.M)]


def test_the_layers_are_those_that_are_enforced():
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    enforced = re.search(
        r'name = "Layers of packages".*?^layers = \[$(.*?)^\]$', settings, re.S | re.M
    )
    rows = [re.findall(r"\w+", line) for line in enforced.group(1).splitlines() if line.strip()]
    left_out = {"__main__", "pytest_option"}
    rows = [sorted(set(row) - left_out) for row in rows if set(row) - left_out]
    assert [sorted(row) for row in layers_of_the_page()] == rows


def test_each_package_has_its_line_and_a_place_to_begin():
    packages = {each.parent.name for each in (ROOT / "grader").glob("*/__init__.py")}
    named = {name for row in layers_of_the_page() for name in row}
    assert packages <= named
    assert {package for package, _ in BEGINNINGS} <= packages

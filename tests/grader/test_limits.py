"""Limits of size: 15 methods a class, 8 parameters and 50 lines a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
METHODS, PARAMETERS, LINES = 15, 8, 50

# What is over a limit, and why it is better so. An entry that is within the limits has to go.
EXCEPTIONS: Mapping[str, str] = {
    "grader/cli/class_commands.py: grade_class": "a command: each parameter is an option",
    "grader/cli/app.py: grade": "a command: each parameter is an option",
    "grader/cli/inspect_command.py: command": "a command: each parameter is an option",
    "grader/executors/runner.py: Runner": "an interface: a method for each thing that is asked",
    "grader/grading/edits/cpp_statements.py: _Reader": "a parser: a method for each statement",
}

Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


def over_the_limits(text: str) -> Iterator[tuple[str, str]]:
    """Each class and function that is too large: its qualified name, and in what."""
    yield from _below(ast.parse(text), "")


def _below(node: ast.AST, before: str) -> Iterator[tuple[str, str]]:
    for each in ast.iter_child_nodes(node):
        name = f"{before}{getattr(each, 'name', '')}"
        if isinstance(each, ast.ClassDef):
            methods = sum(isinstance(part, Functions) for part in each.body)
            if methods > METHODS:
                yield name, f"{methods} methods, at most {METHODS}"
        elif isinstance(each, Functions):
            parameters = _parameters(each, of_class=isinstance(node, ast.ClassDef))
            lines = (each.end_lineno or each.lineno) - each.lineno + 1
            if parameters > PARAMETERS:
                yield name, f"{parameters} parameters, at most {PARAMETERS}"
            if lines > LINES:
                yield name, f"{lines} lines, at most {LINES}"
        is_named = isinstance(each, (ast.ClassDef, *Functions))
        yield from _below(each, f"{name}." if is_named else before)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, *, of_class: bool) -> int:
    given = node.args
    is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
    return count - (of_class and not is_static)


@cache
def found() -> dict[str, list[str]]:
    """By the place, "grader/grading/session.py: Session.variant"."""
    by_place: dict[str, list[str]] = {}
    for path in sorted((ROOT / "grader").rglob("*.py")):
        for name, much in over_the_limits(path.read_text(encoding="utf-8")):
            by_place.setdefault(f"{path.relative_to(ROOT)}: {name}", []).append(much)
    return by_place


def test_nothing_is_over_the_limits_but_what_is_listed_with_a_reason():
    over = {place: much for place, much in found().items() if place not in EXCEPTIONS}
    assert not over


def test_every_exception_is_still_one():
    assert not set(EXCEPTIONS) - set(found())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("class A:\n" + "".join(f"    def m{i}(self): ...\n" for i in range(16)), "A"),
        ("def f(a, b, c, d, e, f, g, h, *, i): ...", "f"),
        ("class A:\n    def f(self, a, b, c, d, e, f, g, h, i): ...", "A.f"),
        ("def f():\n    def g():\n" + "        pass\n" * 50, "f.g"),
    ],
)
def test_what_is_over_a_limit_is_found(text: str, wanted: str):
    assert wanted in dict(over_the_limits(text))


def test_what_is_at_the_limit_passes():
    methods = "".join(f"    def m{i}(self): ...\n" for i in range(15))
    text = (
        "class A:\n    def f(self, a, b, c, d, e, f, g, h): ...\n\ndef g():\n" + "    pass\n" * 49
    )
    assert not list(over_the_limits(f"class B:\n{methods}{text}"))

"""The project's words: none that the glossary has replaced, in names or in prose.

    WORDS   old words, in any text file of the repository: names, comments, messages, pages
    PLACES  words that are right in some places only: a warp's lanes, data races
    NAMES   names that say nothing, of functions, parameters, attributes and variables in grader/

An exception is listed with a reason. One that is no longer needed has to go.
"""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
THIS = "tests/docs/test_words.py"

# The old word, and what is said now.
WORDS: Mapping[str, tuple[str, str]] = {
    "yardstick": (r"yardsticks?", "baseline"),
    "zygote": (r"zygotes?", "fork server"),
    "forking parent": (r"forking parents?", "fork server"),
    "stranger": (r"strangers?", "untrusted, another"),
    "hostile": (r"hostile", "untrusted"),
    "ballast": (r"ballast", "memory pressure"),
    "calm": (r"calm(?:er|ly|ness)?", "idle"),
    "breach": (r"breach(?:es|ed)?", "violation"),
    "glance": (r"glanc(?:e|es|ed|ing)", "probe"),
    "klass": (r"klass(?:es)?", "course class"),
}

# A word, where it is wrong, and what is said there.
PLACES: Mapping[str, tuple[str, str, str]] = {
    "race": (
        r"(?<!data )rac(?:e|es|ed|ing)",
        r"grader/(timing|scoring|instruments)/|benchmarks/|docs/(performance|benchmarks)\.md",
        "sequential test, timing in turn",
    ),
    "lane": (
        r"lanes?",
        r"grader/(?!emulator/|worker/(ttir|compile)/|executors/|instruments/(inspect|visualize)/|grading/edits/neighbour_edits|evidence\.py)|benchmarks/",
        "a worker, a contender, an element",
    ),
}

NAMES = frozenset({"found", "seen", "told", "what"})
# An attribute `what` is right: it is a key of a failure in stored evidence and in JSON reports, and
# verdicts and violations, which become failures, have it too.
ATTRIBUTES = NAMES - {"what"}

# By file and word.
EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("CHANGELOG.md", "yardstick"): "history",
    ("CHANGELOG.md", "ballast"): "history",
    ("docs/glossary.md", "yardstick"): "the word in evidence of an earlier version",
    ("docs/glossary.md", "ballast"): "the word in specs of an earlier version",
    ("grader/evidence.py", "yardstick"): "a key in evidence of an earlier version, which is read",
    ("grader/spec/blocks.py", "ballast"): "a key in specs of an earlier version, which is read",
    ("tests/grader/spec/test_spec.py", "ballast"): "tests that the old key is read",
    ("tests/grader/test_evidence.py", "yardstick"): "tests that the old key is read",
}
# By the beginning of a path, and name.
NAME_EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("grader/executors/", "variable what"): "the text of a verdict, whose field has that name",
    ("grader/executors/", "parameter what"): "the text of a verdict, whose field has that name",
    ("grader/executors/", "def what"): "the text of a verdict, whose field has that name",
    ("grader/grading/", "variable what"): "the text of a failure, whose field has that name",
    (
        "grader/report/message.py",
        "variable what",
    ): "the text of a failure, whose field has that name",
}


def words_in(text: str) -> str:
    """The text with names cut into words, so that `oldWord` and `old_word` match as `old word`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)


def old_words(path: str, text: str) -> Iterator[str]:
    """The old words in a file's path or text."""
    words = words_in(f"{path}\n{text}")
    for word, (pattern, _) in WORDS.items():
        if re.search(rf"\b(?:{pattern})\b", words, re.IGNORECASE):
            yield word
    for word, (pattern, places, _) in PLACES.items():
        if re.match(places, path) and re.search(rf"\b(?:{pattern})\b", words, re.IGNORECASE):
            yield word


def bad_names(text: str) -> Iterator[str]:
    """The names of NAMES that a module gives: "def found", "parameter what", "variable seen"."""
    tree = ast.parse(text)
    fields = {
        each.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        kind, name, names = "", "", NAMES
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kind, name = "def", node.name
        elif isinstance(node, ast.arg):
            kind, name = "parameter", node.arg
        elif isinstance(node, ast.Attribute):
            kind, name, names = "attribute", node.attr, ATTRIBUTES
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            kind, name = "variable", node.id
            if node in fields:
                kind, names = "attribute", ATTRIBUTES
        if (name := name.strip("_").lower()) in names:
            yield f"{kind} {name}"


def files(root: Path) -> dict[str, str]:
    """The text files of the repository, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    texts = {}
    for path in filter(None, listed.split("\0")):
        with contextlib.suppress(UnicodeDecodeError, FileNotFoundError):
            texts[path] = (root / path).read_text(encoding="utf-8")
    del texts[THIS]
    return texts


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout: the files of the repository aren't known")
    return files(ROOT)


def test_no_old_word_stands_in_a_name_or_in_prose(texts: dict[str, str]) -> None:
    found = {(path, word) for path, text in texts.items() for word in old_words(path, text)}
    assert not found - set(EXCEPTIONS)
    assert not set(EXCEPTIONS) - found, "exceptions that are no longer needed"


def test_names_in_the_grader_say_what_they_name(texts: dict[str, str]) -> None:
    found = {
        (path, name)
        for path, text in texts.items()
        if path.startswith("grader/") and path.endswith(".py")
        for name in bad_names(text)
    }
    used = {
        (place, name)
        for place, name in NAME_EXCEPTIONS
        if any(path.startswith(place) and name == other for path, other in found)
    }
    excepted = {
        (path, name) for path, name in found for place, other in used
        if path.startswith(place) and name == other
    }  # fmt: skip
    assert not found - excepted
    assert not set(NAME_EXCEPTIONS) - used, "exceptions that are no longer needed"


@pytest.mark.parametrize(
    ("path", "text", "word"),
    [
        ("grader/a.py", "def of_hostile_text(): ...", "hostile"),
        ("grader/a.py", "class HostileText: ...", "hostile"),
        ("grader/klass.py", "", "klass"),
        ("docs/a.md", "Its yardsticks are slow.", "yardstick"),
        ("tests/a.yaml", "# A forking parent", "forking parent"),
        ("grader/emulator/runtime/a.cpp", "// at a glance", "glance"),
        ("grader/timing/a.py", "def race(): ...", "race"),
        ("grader/batch/a.py", "lanes = 4", "lane"),
    ],
)
def test_an_old_word_is_noticed(path: str, text: str, word: str) -> None:
    assert list(old_words(path, text)) == [word]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("grader/timing/a.py", "# a data race"),
        ("grader/emulator/a.py", "lanes = 32  # of a warp"),
        ("grader/a.py", "braces, planes, PlanError, strange, balm"),
    ],
)
def test_other_words_are_not(path: str, text: str) -> None:
    assert not list(old_words(path, text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def found(): ...", "def found"),
        ("class _Told: ...", "def told"),
        ("def f(what): ...", "parameter what"),
        ("f = lambda told: 0", "parameter told"),
        ("self._seen = 1", "attribute seen"),
        ("class A:\n    told: str", "attribute told"),
        ("what = 1", "variable what"),
        ("for found in []: pass", "variable found"),
    ],
)
def test_a_bad_name_is_noticed(text: str, name: str) -> None:
    assert list(bad_names(text)) == [name]


def test_a_bad_file_of_a_checkout_is_noticed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    bad = tmp_path / "grader" / "hostile.py"
    bad.parent.mkdir()
    bad.write_text("def seen(): ...\n", encoding="utf-8")
    (tmp_path / THIS).parent.mkdir(parents=True)
    (tmp_path / THIS).write_text("", encoding="utf-8")
    [(path, text)] = files(tmp_path).items()
    assert list(old_words(path, text)) == ["hostile"] and list(bad_names(text)) == ["def seen"]

"""The project's words: none that the glossary has replaced, in names or in prose.

    WORDS   old words, in any text file of the repository: names, comments, messages, pages
    PLACES  words that are right in some places only: a warp's lanes, data races
    NAMES   names that say nothing, of functions, parameters, attributes and variables in grader/

An exception is listed with a reason. One that is no longer needed has to go.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

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
        r"grader/(?!emulator/|worker/(ttir|compile)/|executors/|evidence\.py).*|benchmarks/.*|lecture/.*\.py",
        "what it is: a worker, a contender, an element; a lane is a warp's",
    ),
}

NAMES = frozenset({"found", "seen", "told", "what"})
FIELD = "`what` of a failure is a key of stored evidence and of JSON reports"

# By file and word.
EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("CHANGELOG.md", "yardstick"): "history: the words of a release",
    ("docs/glossary.md", "yardstick"): "the word in evidence of an earlier version",
    ("docs/glossary.md", "ballast"): "the word in specs of an earlier version",
    ("grader/evidence.py", "yardstick"): "a key in evidence of an earlier version, which is read",
    ("grader/spec/blocks.py", "ballast"): "a key in specs of an earlier version, which is read",
    ("grader/batch/store/keys.py", "ballast"): "the key under which results are graded already",
    ("tests/grader/batch/class_of_before.sql", "yardstick"): "a database of an earlier version",
    ("tests/grader/batch/test_keys.py", "ballast"): "tests that the old key is read",
    ("tests/grader/spec/test_spec.py", "ballast"): "tests that the old key is read",
    ("tests/grader/test_evidence.py", "yardstick"): "tests that the old key is read",
}
NAME_EXCEPTIONS: Mapping[tuple[str, str], str] = {}


def words_of(text: str) -> str:
    """The text with names cut into their words: `HostileText` and `hostile_text` alike."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)

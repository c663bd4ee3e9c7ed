"""The features that the emulator supports: one small .cu for each, and the tables of the docs.

    python -m tests.support.emulator_features      writes the tables into docs/emulator.md

The first line of a .cu in emulator/features/ is `// AREA: what it is`; its entry
`feature(int* output, int n)`, called with n = 64, fills output with ones where all is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader.emulator import unsupported

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parents[1] / "grader" / "emulator" / "features"
DOCUMENT = ROOT / "docs" / "emulator.md"
AREAS = (
    *("Language", "Barriers", "Warps", "Atomics", "Types", "Maths", "Memory"),
    *("Device input and output", "Cooperative groups", "Runtime"),
)

# What is a name in a first line: __ldg, cudaMalloc, this_thread_block, #pragma unroll; or in ticks.
_NAME = re.compile(r"`([^`]+)`|#pragma \w+|\b\w*_\w*(?:\.h\b)?|\bcuda[A-Z]\w*|\batomic[A-Z]\w*")


@dataclass(frozen=True)
class Feature:
    """One .cu: its area and what it shows, from its first line."""

    path: Path
    area: str
    about: str


def features() -> list[Feature]:
    """All of them, by area, then by file. Raises ValueError for a first line of another form."""
    found = [_read(path) for path in sorted(FOLDER.glob("*.cu"))]
    return sorted(found, key=lambda feature: AREAS.index(feature.area))


def _read(path: Path) -> Feature:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    area, colon, about = first.removeprefix("// ").partition(": ")
    if not first.startswith("// ") or not colon or area not in AREAS:
        raise ValueError(f"{path.name}:1: expected `// AREA: what it is`, got {first!r}")
    return Feature(path, area, about)


def _with_names(text: str) -> str:
    """The text with its names as Markdown writes code."""
    return _NAME.sub(lambda name: f"`{name[1] or name[0]}`", text)


def supported_table() -> str:
    """The features as Markdown, one row for each test."""
    rows = [f"| {f.area} | {_with_names(f.about)} | `{f.path.stem}` |" for f in features()]
    return "\n".join(["| area | what runs | test |", "|---|---|---|", *rows])


def _words() -> list[tuple[str, str]]:
    """The names by which features are recognised, each with its feature.

    "" stands for CUDA's names that are refused where g++ doesn't know them.
    """
    headers = [(f"<{name}...>", feature) for name, (feature, _) in unsupported._HEADERS.items()]
    prefixes = [(f"{name}...", feature) for name, feature in unsupported._PREFIXES.items()]
    families = [("", feature) for feature in unsupported._LACKING]
    return [*headers, *unsupported._NAMES.items(), *prefixes, *families]


def unsupported_list() -> str:
    """What unsupported.py refuses, as Markdown, with the words that it is known by."""
    words: dict[str, list[str]] = {}
    for word, feature in _words():
        words.setdefault(feature, []).append(f"`{word}`" if word else "its names")
    rows = [
        f"| {_with_names(feature)} | {', '.join(known)} |"
        for feature, known in sorted(words.items(), key=lambda item: item[0].lower())
    ]
    return "\n".join(["| what | known by |", "|---|---|", *rows])


def written_into(document: str) -> str:
    """The document with its tables as they must be."""
    for name, table in (("supported", supported_table()), ("unsupported", unsupported_list())):
        start, end = (
            f"<!-- {name}: made by tests/support/emulator_features.py -->",
            f"<!-- /{name} -->",
        )
        before, _, rest = document.partition(start)
        _, _, after = rest.partition(end)
        document = f"{before}{start}\n{table}\n{end}{after}"
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(written_into(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")

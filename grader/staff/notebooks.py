"""Jupyter notebooks from their text sources, notebooks/*.py: cells without outputs.

A source is a Python program. `# %%` begins a cell of code and `# %% [markdown]` one of prose, whose
lines are comments: the format that Jupytext calls percent. The same source gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from grader.mistakes import Mistake

FOLDER = "notebooks"
_MARK = re.compile(r"# %%(?P<prose> \[markdown\])?")
_LINK = re.compile(rf"(\]\((?:\.\./)*{FOLDER}/\w+)\.py\)")
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class NotebookError(Mistake, ValueError):
    """A text source is no notebook: the message names the line."""


def made(project: Path) -> dict[str, bytes]:
    """The notebooks of the checkout `project`, by their paths in a release.

    Raises NotebookError, OSError.
    """
    sources = sorted((project / FOLDER).glob("*.py"))
    return {
        f"{FOLDER}/{source.stem}.ipynb": notebook(source.read_text(encoding="utf-8"), source.name)
        for source in sources
    }


def notebook(text: str, name: str) -> bytes:
    """A source's text as a notebook of format 4.5. Raises NotebookError."""
    cells = [_cell(prose, lines, f"cell-{n}", name) for n, prose, lines in _cells(text, name)]
    document = {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def relinked(page: str) -> str:
    """A page whose links to sources lead to the notebooks that are made of them."""
    return _LINK.sub(r"\1.ipynb)", page)


def _cells(text: str, name: str) -> Iterator[tuple[int, bool, list[str]]]:
    """Each cell: its number, whether it is prose, and its lines."""
    first, *rest = text.split("\n", 1)
    if not _MARK.fullmatch(first):
        raise NotebookError(f"{name}:1: expected '# %%' or '# %% [markdown]', got {first!r}")
    number, prose, lines = 0, first.endswith("]"), list[str]()
    for line in "".join(rest).splitlines():
        if mark := _MARK.fullmatch(line):
            yield number, prose, lines
            number, prose, lines = number + 1, bool(mark["prose"]), []
        else:
            lines.append(line)
    yield number, prose, lines


def _cell(prose: bool, lines: list[str], name: str, file: str) -> dict[str, object]:
    body = "\n".join(lines).strip("\n").split("\n")
    if prose:
        if wrong := [line for line in body if line and not re.match(r"#( |$)", line)]:
            raise NotebookError(f"{file}: expected a comment in a cell of prose, got {wrong[0]!r}")
        source = "\n".join(line[2:] for line in body)
        return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}
    code: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": {},
        "outputs": [],
    }
    return code | {"source": "\n".join(body)}

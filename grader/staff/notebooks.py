"""Jupyter notebooks from their text sources, notebooks/*.py: cells without outputs.

A source is a Python program. `# %%` begins a cell of code and `# %% [markdown]` one of prose, whose
lines are comments: the format that Jupytext calls percent. The same source gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path

from grader.mistakes import Mistake

FOLDER = "notebooks"
_MARK = re.compile(r"^# %%( \[markdown\])?$", re.MULTILINE)
_LINK = re.compile(rf"(\]\((?:\.\./)*{FOLDER}/\w+)\.py\)")
_NEEDED = re.compile(r'\b(?:exercises|load_all\(\))\["(\w+)"\]')
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def made(project: Path, exercises: Collection[str]) -> dict[str, bytes]:
    """The notebooks of the checkout `project`, by their paths in a release of `exercises`.

    One that runs another exercise's kernels is left out. Raises Mistake, OSError.
    """
    sources = sorted((project / FOLDER).glob("*.py"))
    texts = {source: source.read_text(encoding="utf-8") for source in sources}
    return {
        f"{FOLDER}/{source.stem}.ipynb": notebook(text, source.name)
        for source, text in texts.items()
        if {*exercises}.issuperset(_NEEDED.findall(text))
    }


def notebook(text: str, name: str) -> bytes:
    """A source's text as a notebook of format 4.5. Raises Mistake."""
    before, *parts = _MARK.split(text)
    if before or not parts:
        first = text.partition("\n")[0]
        raise Mistake(f"{name}:1: expected '# %%' or '# %% [markdown]', got {first!r}")
    bodies = enumerate(zip(parts[::2], parts[1::2], strict=True))
    cells = [_cell(bool(prose), body, f"cell-{n}", name) for n, (prose, body) in bodies]
    document = {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def relinked(page: str) -> str:
    """A page whose links to sources lead to the notebooks that are made of them."""
    return _LINK.sub(r"\1.ipynb)", page)


def _cell(prose: bool, body: str, name: str, file: str) -> dict[str, object]:
    body = body.strip("\n")
    if prose:
        lines = body.split("\n")
        if wrong := [line for line in lines if line and not re.match(r"#( |$)", line)]:
            raise Mistake(f"{file}: expected a comment in a cell of prose, got {wrong[0]!r}")
        source = "\n".join(line[2:] for line in lines)
        return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}
    code: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": {},
        "outputs": [],
    }
    return code | {"source": body}

"""Reads tests/submissions/mistakes: students' single mistakes, by which messages are judged.

Each file there, EXERCISE.yaml or EXERCISE_cuda.yaml, is a list of entries such as

    - name: grid_rounds_down            # unique in all files; it stands in no message
      exercise: silu
      variant: triton
      kind: launches
      cause: |                          # in a teacher's words: what is wrong, where, what to do
        The grid is rounded down in `silu`, so the last block has no program: use triton.cdiv.
      edit:
        old: triton.cdiv(n_elements, BLOCK)
        new: n_elements // BLOCK

The edit is made in the solution in reference/, without the stub's lines and the solution's
comments, or with `base: true` in the file of the same name in tests/submissions/mistakes/bases:
another right solution, as a student would write it. `old` occurs exactly once. Where a file has
several variants, `section: v3` has it looked for between the line `--- v3 ---` and the next such
line. Lines after the first are written without the indentation that the first has in the file.

The mistakes were written from the handout and the stubs, not from what the grader says. They fall
into two halves: `work` may be read while messages are improved, `held` only when they are judged at
the end. Within each file the names are sorted by their SHA-256; they go to the two halves in turn,
and the first file of an odd length gives its last to `work`, the next to `held`, and so on.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import pydantic
import yaml

from grader.staff.calibration.corpus import Edit, applied
from tests.support.small_exercise import ROOT

FOLDER = ROOT / "tests" / "submissions" / "mistakes"
BASES = FOLDER / "bases"
REFERENCE = ROOT / "reference"

Half = Literal["work", "held"]
Kind = Literal[
    "indices",
    "masks",
    "reductions",
    "dtypes",
    "math",
    "online",  # of online softmax: what is carried from block to block
    "shared_memory",
    "races",
    "launches",
    "host",
    "compile",
    "hang",
    "crash",
    "uninitialised",
    "hard_coded",  # a size that is a number, an argument that is ignored
    "autotune",
    "strides",
    "memory_use",  # the result is right, the lesson is missed
]


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Case(_Model):
    """One mistake, in one variant."""

    name: Annotated[str, pydantic.Field(pattern=r"^[a-z][a-z0-9_]*$")]
    exercise: str
    variant: str
    kind: Kind
    cause: Annotated[str, pydantic.Field(min_length=20)]
    edit: Edit
    base: bool = False
    section: str = ""

    @property
    def file(self) -> str:
        """The name of the file handed in."""
        return f"{self.exercise}.{'cu' if self.variant.startswith('cuda') else 'py'}"

    @property
    def task(self) -> str:
        """What `grader grade --only` takes: `transpose/cuda_v3`."""
        return f"{self.exercise}/{self.variant}"

    @property
    def digest(self) -> str:
        """The SHA-256 of the name, by which it is drawn for a half."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    @property
    def id(self) -> str:
        """A name that doesn't tell the mistake, for whoever judges blind: `gemm-1f0c77ab`."""
        return f"{self.exercise}-{self.digest[:8]}"

    def original(self) -> str:
        """The right solution."""
        if self.base:
            return (BASES / self.file).read_text(encoding="utf-8")
        return solution((REFERENCE / self.file).read_text(encoding="utf-8"))

    def text(self) -> str:
        """The file handed in. Raises Mistake where the edit doesn't fit exactly once."""
        before, within, behind = _split(self.original(), self.section)
        return before + applied(self.edit, within, f"mistakes: {self.name}") + behind


def load() -> list[Case]:
    """Every case, file by file. Raises ValueError where an entry or a name is wrong."""
    return [case for cases in _by_file().values() for case in cases]


def half_of(half: Half) -> list[Case]:
    """The cases of one half, file by file."""
    chosen = []
    odd_file = 0
    for cases in _by_file().values():
        drawn = sorted(cases, key=lambda case: case.digest)
        # An odd file gives one half a case more; the halves take turns in that.
        first = odd_file % 2
        odd_file += len(cases) % 2
        chosen += [
            case for index, case in enumerate(drawn) if (index + first) % 2 == (half == "held")
        ]
    return chosen


def bases() -> list[Path]:
    """The right solutions in students' manner that some cases are edits of."""
    return sorted(BASES.iterdir())


def solution(text: str) -> str:
    """A file of reference/ as a student would hand it in: no stub lines, no teacher's comments."""
    kept = []
    inside = False
    for line in text.splitlines(keepends=True):
        words = line.strip().lstrip("#/").strip()
        if line.lstrip().startswith(("#", "//")):
            if words in ("BEGIN SOLUTION", "END SOLUTION"):
                inside = words.startswith("BEGIN")
                continue
            if inside:
                continue
        kept.append(line)
    return "".join(kept)


def _by_file() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        try:
            found[path.name] = [Case.model_validate(entry) for entry in entries]
        except pydantic.ValidationError as error:
            raise ValueError(f"mistakes/{path.name}: {error}") from error
        for case in found[path.name]:
            suffix = "_cuda" if case.file.endswith(".cu") else ""
            if path.name != f"{case.exercise}{suffix}.yaml":
                raise ValueError(f"mistakes/{path.name}: {case.name} is of {case.task}")
    names = Counter(case.name for cases in found.values() for case in cases)
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise ValueError(f"mistakes: named twice: {', '.join(twice)}")
    return found


def _split(text: str, section: str) -> tuple[str, str, str]:
    """What stands before, in and behind a section; all of `text` is in it where none is named."""
    if not section:
        return "", text, ""
    heads = list(re.finditer(r"^(?:#|//) --- (.+?) -+$", text, re.MULTILINE))
    starts = [head.start() for head in heads if head[1] == section]
    if len(starts) != 1:
        raise ValueError(f"section {section!r}: expected it once, got {len(starts)}")
    ends = [head.start() for head in heads if head.start() > starts[0]] or [len(text)]
    return text[: starts[0]], text[starts[0] : ends[0]], text[ends[0] :]

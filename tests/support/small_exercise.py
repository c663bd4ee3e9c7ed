"""A small SiLU, for tests that have to grade something but are not about kernels."""

from __future__ import annotations

from pathlib import Path

from grader.grading.search import Effort
from grader.spec import Exercise, load_all

ROOT = Path(__file__).resolve().parents[2]
# Of what changes of the text would undo, tests of their own tell.
BRIEF = Effort(
    drawn=2,
    shrink_runs=20,
    shrink_seconds=3.0,
    probe_seconds=1.0,
    shrink_timeouts=1,
    repair_seconds=0,
)

SPEC = """\
title: SiLU
arguments:
  - {name: x, shape: [n], dtype: $dtype}
  - {name: out, shape: [n], dtype: $dtype, role: output}
sizes: {ragged: {n: [1, 20]}}
data: [normal]
tolerance: {magnitude: oracle}
variants:
  triton: {file: silu.py, entry: silu, dtypes: [float32], points: {ragged: 3}}
"""

RIGHT = (ROOT / "reference" / "silu.py").read_text(encoding="utf-8")
STUB = (ROOT / "assignment" / "silu.py").read_text(encoding="utf-8")
# Right for multiples of 1024; of fewer elements nothing is written.
GRID_ROUNDS_DOWN = RIGHT.replace("BLOCK = 2048", "BLOCK = 1024").replace(
    "triton.cdiv(n_elements, BLOCK)", "n_elements // BLOCK"
)
assert "BLOCK = 1024" in GRID_ROUNDS_DOWN
assert "n_elements // BLOCK" in GRID_ROUNDS_DOWN


def write_spec(folder: Path, text: str = SPEC) -> dict[str, Exercise]:
    """Make `folder` a folder of specs with `silu.yaml` alone; returns what it holds."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "silu.yaml").write_text(text, encoding="utf-8")
    return load_all(folder)


def submission(folder: Path, text: str = RIGHT) -> Path:
    """Make `folder` a submission with `silu.py` alone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "silu.py").write_text(text, encoding="utf-8")
    return folder

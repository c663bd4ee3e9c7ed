"""docs/ttir.md names every operation that has a meaning, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from grader.worker.ttir import executor  # noqa: F401 - imports, hence registers, all of them
from grader.worker.ttir.registry import _MEANINGS

DOCUMENT = Path(__file__).parents[4] / "docs" / "ttir.md"


def test_the_table_of_operations():
    table = DOCUMENT.read_text().split("## Operations")[1].split("## Not modelled")[0]
    named = re.findall(r"`((?:arith|math|scf|cf|tt|ttg|gpu|ub|llvm)\.[\w.]+)`", table)
    assert set(named) == set(_MEANINGS)

"""What was recorded of samples/gelu.py on a GPU: for machines without one, and for tests.

benchmarks/profile_samples.py makes the stored traces.
"""

from __future__ import annotations

from pathlib import Path

from grader.instruments.profile import read, tools
from grader.instruments.profile.collect import PROFILED
from grader.instruments.profile.read import Profile
from grader.mistakes import Mistake

FOLDER = Path(__file__).resolve().parent / "samples"
PROGRAM = FOLDER / "gelu.py"
FUNCTIONS = ("manual", "fused", "waiting")


def profile(name: str) -> Profile:
    """The stored profile of a function of the program."""
    path = trace(name)
    if not path.is_file():
        raise Mistake("There is no NVIDIA GPU here, and this version has no stored sample.")
    return read.read(path)


def trace(name: str) -> Path:
    """The stored trace."""
    return FOLDER / f"{name}.json"


def reports(name: str) -> tuple[tools.ToolReport, ...]:
    """What ncu counted of the function's kernels, where that is stored."""
    path = FOLDER / f"ncu-{name}.csv"
    if not path.is_file():
        return ()
    counted = tools.read_ncu(path.read_text(encoding="utf-8"))
    line = f"ncu --nvtx --nvtx-include {PROFILED}/ --metrics … gelu.py:{name}"
    return (tools.ToolReport("ncu", line, counted=counted),)

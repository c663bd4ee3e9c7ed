"""Starts the child that records a program, in a process of its own: collect.py."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from grader.instruments.profile import read
from grader.instruments.profile.read import Profile
from grader.mistakes import Mistake

_COLLECT = Path(__file__).resolve().parent / "collect.py"


@dataclass(frozen=True)
class Program:
    """What is profiled: a file, a function of it, or a variant of a submission on a case."""

    target: str
    case: str = ""
    submission: Path = Path("assignment")
    course: Path | None = None

    @property
    def is_function(self) -> bool:
        """Whether it is called, so that only its calls are profiled."""
        return bool(self.case) or ".py:" in self.target

    def command(self, out: Path | None = None) -> list[str]:
        """The command that runs it: with a trace in `out`, or unobserved, for NVIDIA's tools."""
        if out is None and not self.is_function:
            return [sys.executable, self.target]
        recorded = [] if out is None else ["--out", str(out)]
        case = ["--case", self.case, "--submission", str(self.submission)] if self.case else []
        case += ["--course", str(self.course)] if self.case and self.course else []
        return [sys.executable, str(_COLLECT), *recorded, *case, self.target]


def record(program: Program, out: Path) -> Profile:
    """Run it here and now, with this terminal, and read its trace. Raises Mistake."""
    quiet = {"KINETO_LOG_LEVEL": "5"}  # or torch's profiler tells when it starts and stops
    done = subprocess.run(program.command(out), env={**quiet, **os.environ}, check=False)
    if not out.is_file():
        raise Mistake(f"{program.target}: it left no trace (status {done.returncode})")
    return read.read(out)

"""Runs of the solutions with their accesses, made once for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from grader.cases import parse
from grader.executors.cuda import cuda_build
from grader.grading.session import Options, Session, selected
from grader.instruments.visualize.tracing import Run, traced
from grader.sandbox import Sandbox
from grader.spec import load_all
from tests.support.small_exercise import ROOT

RUNGS = {f"transpose/cuda_v{n}": "rows=64 cols=64" for n in (1, 2, 3, 4)}


@dataclass
class Drawing:
    """An open session on the solutions."""

    session: Session

    def run(self, name: str, case: str = "", is_given: bool = True) -> Run:
        """A variant's run on a case."""
        (task,) = selected(self.session.exercises, [name])
        return traced(self.session, task, parse(case, task, 1), is_given)


@pytest.fixture(scope="package")
def drawing(shared_sandbox: Sandbox) -> Iterator[Drawing]:
    options = Options(device="cpu", keeps_builds=False)
    with Session(ROOT / "reference", load_all(), options, sandbox=shared_sandbox) as session:
        yield Drawing(session)


@pytest.fixture(scope="package")
def rungs(drawing: Drawing) -> list[Run]:
    """V1 to V4 of transpose."""
    if reason := cuda_build.why_not("emulator"):
        pytest.skip(reason)
    return [drawing.run(name, case) for name, case in RUNGS.items()]

"""What the emulator finds it finds by way of a plan, too: host code's mistakes while the plan is
made, kernels' while it is executed."""

from __future__ import annotations

import pytest

from grader.worker.protocol import Code
from tests.grader.emulated import NEEDS_COMPILER, SOURCES
from tests.grader.emulator_plan.planned import PlannedProgram
from tests.grader.test_emulator_findings import (
    EXPECTED,
    WITHOUT_LINE,
    entries,
    first_finding,
    places,
)

pytestmark = NEEDS_COMPILER


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> PlannedProgram:
    return PlannedProgram(SOURCES / "findings.cu", tmp_path_factory.mktemp("findings"))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> PlannedProgram:
    return PlannedProgram(SOURCES / "honest.cu", tmp_path_factory.mktemp("honest"))


@pytest.mark.parametrize("entry", EXPECTED)
def test_a_mistake_is_found_at_its_line_and_thread(findings: PlannedProgram, entry: str) -> None:
    expected = EXPECTED[entry]
    finding = first_finding(findings, entry)
    assert finding.kind == expected.kind
    assert (finding.thread, finding.block) == (expected.thread, expected.block)
    assert expected.text in finding.text
    marked = findings.lines_marked(f"-> {entry}") + findings.lines_marked(f"other -> {entry}")
    if entry not in WITHOUT_LINE:
        assert places(findings, finding) == set(marked)


@pytest.mark.parametrize("entry", entries("honest.cu"))
def test_right_code_is_not_accused(honest: PlannedProgram, entry: str) -> None:
    outcome = honest.run(entry, times=2)
    assert outcome.code is Code.ok, outcome
    assert outcome.report.findings == ()

"""What launchers and kernels print: shown with its case, bounded and clean."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from grader import report
from grader.evidence import Evidence, PartEvidence, Printed, VariantEvidence
from grader.executors.runner import MAX_PRINTED
from grader.grading.check import check_case, check_part
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.report import terminal
from grader.scoring import score
from grader.spec.task import Task
from grader.status import Status
from tests.support.planned import SPECS, case

LITTLE = Effort(
    edges=3, drawn=2, shrink_runs=3, shrink_seconds=2, probe_seconds=1, reruns=2, repair_seconds=0
)
TRITON = SPECS["silu"].variants["triton"]
PRINTING = """
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    PRINT
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)) + MISTAKE, mask=offs < n)


def silu(x, out):
    HOST
    silu_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory, sandbox) -> Callable[..., PartEvidence]:
    """Checks a kernel that prints: one case, or a size class."""

    def check(
        printing: str, mistake: str = "0", whole: bool = False, host: str = "pass"
    ) -> PartEvidence:
        folder: Path = tmp_path_factory.mktemp("submission")
        text = PRINTING.replace("PRINT", printing).replace("MISTAKE", mistake)
        text = text.replace("HOST", host)
        (folder / "silu.py").write_text(text)
        options = Options(device="cpu", effort=LITTLE)
        with Session(folder, SPECS, options, sandbox=sandbox) as session:
            if whole:
                return check_part(session, Task(SPECS["silu"], TRITON), "float32", "ragged")
            return check_case(session, Task(SPECS["silu"], TRITON), case("float32", n=70))

    return check


def shown(part: PartEvidence) -> str:
    text = io.StringIO()
    seen = VariantEvidence("silu", "triton", "silu.py", parts=(part,))
    console = Console(file=text, width=100, color_system=None)
    terminal.render_check(seen, console, case="given")
    return text.getvalue()


def test_print_is_shown_too_as_the_students_page_says(checked):
    page = (Path(__file__).parents[4] / "students" / "README.md").read_text(encoding="utf-8")
    assert "`print` in a Triton kernel: `grader check silu --case '…'` shows what" in page
    assert "  pid (0, 0, 0) idx (3) offs: 3\n" in shown(checked('print("offs", offs)'))


def test_what_a_kernel_prints_is_shown_with_its_case(checked):
    part = checked('tl.device_print("n is", n)')
    assert part.status is Status.passed
    assert "n=70" in part.printed.case
    assert "n is" in part.printed.text and "70" in part.printed.text
    assert "silu/triton: printed for" in shown(part)


def test_prints_of_the_launcher_come_first_and_once_though_it_is_called_twice(checked):
    part = checked('print("pid", tl.program_id(0))', host='print("n", x.numel())')
    assert part.printed.text.splitlines() == [
        "launcher: n 70",
        "pid (0, 0, 0) idx () pid: 0",
        "pid (1, 0, 0) idx () pid: 1",
    ]


def test_what_a_launcher_printed_before_an_exception_is_shown(checked):
    part = checked("pass", host='print("n", x.numel()); 1 / 0')
    assert part.status is Status.crashed
    assert part.printed.text == "launcher: n 70"


def test_of_a_failing_part_it_is_the_failures_case(checked):
    part = checked('tl.device_print("n is", n)', mistake="tl.where(n > 40, 1.0, 0.0)", whole=True)
    assert part.status is Status.wrong_values
    assert part.printed.case == part.failures[0].case


def test_a_kernel_that_prints_nothing_shows_nothing(checked):
    part = checked("pass")
    assert part.printed is None and "printed" not in shown(part)


def test_prints_without_end_are_cut(checked):
    part = checked('tl.device_print("x", offs)')
    *lines, last = part.printed.text.splitlines()
    assert len(part.printed.text) <= MAX_PRINTED and last == "... more was printed"
    assert all(re.fullmatch(r"pid .* x: \d+", line) for line in lines)  # whole ones


def test_a_launcher_that_prints_much_hides_no_kernel_s_prints(checked):
    loud = 'print("\\n".join(f"step {i}" for i in range(300)))'
    part = checked('tl.device_print("n is", n)', host=loud)
    launcher = [line for line in part.printed.text.splitlines() if line.startswith("launcher: ")]
    assert len(launcher) < 30 and launcher[-1] == "launcher: ... more was printed"
    assert "n is" in part.printed.text


def test_what_disturbs_a_terminal_is_taken_out():
    said = "\x1b[31m 100 of 100 \x07\u202e\nwarpgrade: 100"
    part = PartEvidence("float32", "case", Status.passed, printed=Printed("n=3\x1b[0m", said))
    text = shown(part)
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "\n  warpgrade: 100" in text  # each line is indented below its heading


def test_the_json_report_has_it():
    part = PartEvidence(
        "float32", "ragged", Status.passed, 3, printed=Printed("n=3 dtype=float32 seed=1", "n is 3")
    )
    evidence = Evidence("x", 1, (VariantEvidence("silu", "triton", "silu.py", parts=(part,)),))
    grade = score.score(evidence, {"silu": SPECS["silu"]})
    written = json.loads(report.to_json(evidence, grade))
    text = json.dumps(written)
    assert '"printed": {"case": "n=3 dtype=float32 seed=1", "text": "n is 3"}' in text


def printed_by(said: str) -> tuple[Evidence, score.GradeScore]:
    part = PartEvidence("float32", "ragged", Status.passed, 3, printed=Printed("n=3 seed=1", said))
    evidence = Evidence("x", 1, (VariantEvidence("silu", "triton", "silu.py", parts=(part,)),))
    return evidence, score.score(evidence, {"silu": SPECS["silu"]})


def test_the_html_report_has_it_escaped():
    page = report.to_html(*printed_by("n is 3 <b>bold</b>\x1b[31m"))
    assert "Printed by kernels for n=3<" in page
    assert "n is 3 &lt;b&gt;bold&lt;/b&gt;" in page and "\x1b" not in page


def test_gradescope_has_it_in_the_size_classs_own_test():
    tests = json.loads(report.to_gradescope(*printed_by("n is 3")))["tests"]
    having = [each["name"] for each in tests if "n is 3" in each["output"]]
    assert len(having) == 1 and "ragged" in having[0]

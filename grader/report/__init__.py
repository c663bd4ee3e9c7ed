"""Reports on a submission: each a pure view of evidence and score."""

from grader.report.gradescope_results import render as to_gradescope
from grader.report.html import render as to_html
from grader.report.json_report import render as to_json
from grader.report.junit import render as to_junit
from grader.report.terminal import WIDEST, part_block
from grader.report.terminal import render as to_terminal
from grader.report.terminal import render_check as check_to_terminal
from grader.sandbox.untrusted import one_line

__all__ = [
    "WIDEST",
    "check_to_terminal",
    "one_line",
    "part_block",
    "to_gradescope",
    "to_html",
    "to_json",
    "to_junit",
    "to_terminal",
]

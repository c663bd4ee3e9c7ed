"""Reports: each a pure view of evidence and score.

to_terminal   rich, for the student
to_json       for other programs; has a schema
to_html       one self-contained file
to_junit      for CI servers and editors
failure_text  one failure in words, as pytest shows it
"""

from grader.report.html import render as to_html
from grader.report.json_report import render as to_json
from grader.report.junit import render as to_junit
from grader.report.message import failure_text, part_text
from grader.report.summary import total_line
from grader.report.terminal import render as to_terminal

__all__ = [
    "failure_text",
    "part_text",
    "to_html",
    "to_json",
    "to_junit",
    "to_terminal",
    "total_line",
]

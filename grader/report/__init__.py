"""Reports: each a pure view of evidence and score.

to_terminal   rich, for the student
check_to_terminal  what `grader check` shows of one variant
to_json       for other programs; has a schema
to_html       one self-contained file
to_junit      for CI servers and editors
to_markdown   for GitHub, Canvas and mail
to_gradescope Gradescope's results.json
part_block    one part in words, as pytest shows it
failure_text  one failure in words, in a paragraph
"""

from grader.report.gradescope_results import render as to_gradescope
from grader.report.html import render as to_html
from grader.report.json_report import render as to_json
from grader.report.junit import render as to_junit
from grader.report.markdown import render as to_markdown
from grader.report.message import failure_text, part_text
from grader.report.summary import total_line
from grader.report.terminal import part_block
from grader.report.terminal import render as to_terminal
from grader.report.terminal import render_check as check_to_terminal
from grader.sandbox.untrusted import one_line

__all__ = [
    "check_to_terminal",
    "failure_text",
    "one_line",
    "part_block",
    "part_text",
    "to_gradescope",
    "to_html",
    "to_json",
    "to_junit",
    "to_markdown",
    "to_terminal",
    "total_line",
]

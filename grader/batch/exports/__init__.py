"""Exports of a gradebook for platforms and people: each a pure view, as text.

canvas       the gradebook CSV that Canvas imports
gradescope   a CSV of the layout of Gradescope's own download of an assignment's scores
classroom    a CSV of the layout of GitHub Classroom's grades
plain        a CSV with everything in it, and JSON with a schema number

A gradebook in which a score isn't final is refused with a GradebookError, unless
`allow_incomplete` is set: then such a score is an empty cell, never a 0.
"""

from grader.batch.exports.canvas import render as to_canvas
from grader.batch.exports.classroom import render as to_classroom
from grader.batch.exports.gradescope import render as to_gradescope
from grader.batch.exports.plain import render as to_csv
from grader.batch.exports.plain import render_json as to_json

__all__ = ["to_canvas", "to_classroom", "to_csv", "to_gradescope", "to_json"]

"""Exports of a gradebook for platforms and people: each a pure view, as text.

to_canvas      the gradebook CSV that Canvas imports
to_gradescope  a CSV of the layout of Gradescope's own download of an assignment's scores
to_classroom   a CSV of the layout of GitHub Classroom's grades
to_csv         a CSV with everything in it
to_json        the same as JSON, with a schema number

A gradebook in which a score isn't final is refused with a Mistake, unless
`allow_incomplete` is set: then such a score is an empty cell, never a 0.
"""

from grader.batch.exports.canvas_csv import render as to_canvas
from grader.batch.exports.plain import render as to_csv
from grader.batch.exports.plain import render_json as to_json
from grader.batch.exports.platform_csv import to_classroom, to_gradescope

__all__ = ["to_canvas", "to_classroom", "to_csv", "to_gradescope", "to_json"]

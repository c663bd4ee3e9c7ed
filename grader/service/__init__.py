"""The grader as others call it: one source or one folder in Python, many sources as JSON lines.

`warpgrade/` at the top of the repository is its public face.
"""

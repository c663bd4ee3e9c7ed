"""One submission graded: its variants checked side by side, then timed one after the other.

grade.grade(folder, exercises)    evidence on every variant
session.Session                   one submission with all that it needs open
"""

"""A class: hand-ins collected, graded side by side, stored, scored and exported.

collect     hand-ins out of what a platform exports
course      the course file, the roster, late policies and decisions
plan tasks  which results are missing, and how one is made
run         grading them, on this machine or a cluster
store       the database
gradebook   scores of all students; exports: for platforms; pages: in HTML
"""

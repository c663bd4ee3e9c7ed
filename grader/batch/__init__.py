"""A class: hand-ins collected, graded side by side, stored, scored and exported.

collect     hand-ins out of what a platform exports
course      the course file, the roster, late policies and decisions
tasks       how one result is made; missing_results: which ones are to be made
run         grading them, on this machine or a cluster
store       the database
gradebook   scores of all students; exports: for platforms; pages: in HTML
"""

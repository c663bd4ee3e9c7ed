"""Tools of the student's own.

bench_command   `grader bench`
bench           a submission's kernels, timed over sizes (bench_sizes.py: which)
bench_report    what that leaves: tables (bench_table.py), plots, JSON
plots           speed and time over sizes, and the roofline; points.py, figures.py: of what, on what
rounds          what tests/test_performance.py times
"""

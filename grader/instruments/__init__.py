"""The students' own tools: timing, plots, compiled code, accesses to memory, profiles.

inspect, profile, visualize    a package for the command of each name

`grader bench`:
bench           a submission's kernels, timed over sizes (bench_sizes.py: which)
bench_report    the report of the timings: tables (bench_table.py), plots, JSON
plots           speed and time over sizes, and the roofline (points.py: of what)
"""

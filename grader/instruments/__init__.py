"""The students' own tools: timing, plots, compiled code, accesses to memory, profiles.

inspect, profile, visualize    a package for the command of each name

`grader bench`:
bench           a submission's kernels, timed over sizes
bench_ladder    the rungs of a ladder, and bench_configs a kernel's constants, timed on one case
bench_report    the report of the timings: tables (bench_table.py), plots, JSON
plots           speed and time over sizes, and the roofline of series of points
"""

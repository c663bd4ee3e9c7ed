"""`grader profile`: where the time of a program on a GPU goes, by torch.profiler, ncu and nsys.

collect.py, graded.py    the child: runs the program and writes its trace
recording.py, tools.py   starts the child; ncu and nsys on the same program
read.py, tables.py       a trace as work, waits and gaps; what they add up to
samples.py               a stored profile, for machines without a GPU
sentences.py, drawings.py, terminal.py, page.py    the views
"""

"""What `make bench-reference` is made of: the reference kernels beside their peers, on one GPU.

Everything here is trusted, and is timed in this process.

goals       the cases that are timed, and what has to be reached in each: data
judging     ratios of paired times, and which goals they reach: arithmetic
peers       what the kernels are held against
kernels     for each kernel its inputs, its arguments, what it must move
versions    the graded solutions and the expert's, loaded, compiled ahead and tried
rounds      the clock: rounds in which all contenders take turns, with a cold L2 cache
checking    results against float64, and against themselves
course      a case from its inputs to its times
table       what comes of it, for people and for programs
"""

"""The parts of `make bench-reference`: the reference kernels timed with their peers, on one GPU.

All code here is trusted, and is timed in this process.

goals       the cases that are timed, and the goals of each: data
judging     ratios of paired times, and the goals they reach: arithmetic
peers       the kernels' competitors
kernels     each kernel's inputs, arguments, and least bytes
versions    the graded solutions and the expert's, loaded, compiled ahead and tried
rounds      the clock: contenders take turns in rounds, with a cold L2 cache
checking    results compared with float64, and with themselves
course      a case from its inputs to its times
table       the results, for people and for programs
"""

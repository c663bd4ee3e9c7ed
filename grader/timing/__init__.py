"""The clock: calls of a plan, replayed on a GPU and timed.

failures        why a timed call came to nothing
sets            inputs and outputs of their own for every call
graded_sets     those of a stranger: drawn anew for each replay, and every output judged
screen          a first look at what was computed: right, or to be judged
replays         calls on some sets, timed as one by the device's clock and by the grader's
contenders      the candidate and what it is timed against, each with a worker of its own
baselines       those of one variant, which serve its cases one after the other
watch           the GPU's state around a timing
onlooker        a kernel that sees whether somebody else has the GPU
measure         one variant timed, until its points are decided
"""

"""The clock: calls of a plan, replayed on a GPU and timed.

failures        why a timed call came to nothing
sets            inputs and outputs of their own for every call
graded_sets     those of a submission: drawn anew for each replay, and every output judged
screen          a first look at what was computed: right, or to be judged
replays         calls on some sets, timed as one by the device's clock and by the grader's
contenders      the candidate and what it is timed against, each with a worker of its own
baselines       those of one variant, which serve its cases one after the other
watch           the GPU's state around a timing
sequential      timings in turn until a ratio is known; bootstrap: how surely
measure         one variant timed, until its points are decided
submission      what a submission brings: its plans, sandboxes, the staff's solutions
roofs           what the GPU at hand does at best, timed
"""

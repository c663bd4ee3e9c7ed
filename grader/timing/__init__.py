"""The clock: calls of a plan, replayed on a GPU and timed.

failures            why a timed call came to nothing
buffer_sets         inputs and outputs of their own for every call
graded_buffer_sets  those of a submission: drawn anew for each replay, and every output judged
fast_path           a cheaper comparison of outputs: right, or to be judged in float64
replays             calls on some buffer sets, timed as one by the device's clock and the grader's
contenders          the candidate and its baselines, each with a worker of its own
baselines           those of one variant, which serve its cases one after the other
watch               the GPU's state around a timing
sequential          timings in turn until a ratio is known; bootstrap: how surely
targets             what a variant's thresholds ask of a case
attempt             one case timed once, in fresh workers
measure             one variant timed, until its points are decided
submission          what a submission brings: its plans, sandboxes, the staff's solutions
roofs               what the GPU at hand does at best, timed
"""

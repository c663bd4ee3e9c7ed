"""The clock: a plan's calls are replayed on a GPU and timed.

failures       exceptions for a timed call that failed
buffer_sets    the inputs and outputs of each call; a submission's are judged
fast_path      a cheap comparison of outputs; what it can't decide is judged in float64
graph_replays  several calls in one CUDA graph, timed by the device's and the grader's clock
contenders     the candidate and its baselines, each with a worker of its own
baselines      the baselines of one variant, which serve all its cases
watch          the GPU's state before and after a timing
sequential     contenders timed in turn until a ratio is known; bootstrap: its interval
targets        the baselines and ratios that a variant's thresholds ask for
attempt        one case timed once, in fresh workers
timed_variant  one variant timed, until its points are decided
submission     the variants of one submission timed
roofs          the workloads that a GPU's roofs are measured with, timed
"""

"""How a kernel is timed by a process that it can't reach.

request_page    a request and its answer, as words on a shared page
sets            inputs and outputs of their own for every call, patched and sampled
graded_sets     those of a stranger: drawn anew for each run, and every output judged
screen          a first look at what was computed: right, or to be judged
worker          one request: out, back, the outputs read, time taken
pairs           long and short runs; what a call takes without what a request costs
kernels         what ran: a library's work, or the submission's own
lanes           the candidate and its yardsticks, each with a worker and sets of its own
programs        CUDA C++ of our own, compiled to be timed
watch           the GPU's state around a timing
measure         one variant timed, until its points are decided
"""

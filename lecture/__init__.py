"""The lecture's comparisons, measured on the GPU at hand: `make lecture`.

For the staff: it times the solutions of gelu and softmax, so that students don't get it; they get
the tables and plots that it makes. Everything here is trusted, and is timed in this process.

clock          medians of CUDA events, after a warm-up, with a cold L2 cache
kernels        Triton and CUDA kernels from their files
operators      GELU and softmax, in five ways each
comparisons    what is timed over what
results        tables and plots of it
"""

"""Triton without a GPU: a launcher is planned, and its kernels run as TTIR on the CPU."""

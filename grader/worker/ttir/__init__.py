"""Executes Triton kernels from their TTIR text, on numpy buffers."""

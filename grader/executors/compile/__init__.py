"""Triton's compilers as the grader asks them: from a kernel's text to TTIR, and to a cubin."""

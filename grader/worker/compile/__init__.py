"""Compiling Triton kernels in two fresh processes: text to TTIR, and TTIR to a cubin.

Neither process has run any Python of a submission. The frontend (frontend.py) takes kernels from a
submission's text and makes TTIR of them; the backend (backend.py) gets TTIR text and nothing else.
Both are sandboxed, and no compile cache is read or written.
"""

"""Planners run a submission's host code without data and without a GPU, and record its work.

The result is a plan: allocations, copies and kernel launches, as JSON (see grader/plan/). For
Triton see host.py; nothing is imported here, since planners of CUDA C++ need no torch.
"""

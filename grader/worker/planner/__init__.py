"""Planners run a submission's host code where there is neither data nor a GPU, and note its work.

What comes of it is a plan: allocations, copies and kernel launches, as JSON (see grader/plan/).
For Triton see host.py; nothing is imported here, since planners of CUDA C++ need no torch.
"""

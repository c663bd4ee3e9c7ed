# It brings files of its own named like the grader's and Python's. | silu/triton | not_written | boundary=not_written, comparison=not_written
import torch
import triton


def silu(x, out):
    torch.empty(0)
    triton.cdiv(1, 1)

"""GELU in two ways, and once with a wait: what `grader profile` shows where no file is named.

grader profile grader/instruments/profile/samples/gelu.py:manual
"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)


def manual() -> torch.Tensor:
    """The formula, an operator after the other: each is a kernel, with a read and a write."""
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + torch.tanh(inner))


def fused() -> torch.Tensor:
    """torch's own operator: one kernel, one read and one write."""
    return torch.nn.functional.gelu(x, approximate="tanh")


def waiting() -> torch.Tensor:
    """The formula again, with a number that the host asks for in the middle."""
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    largest = inner.abs().max().item()  # the host waits here until the GPU is done
    if largest == 0.0:
        return torch.zeros_like(x)
    return 0.5 * x * (1.0 + torch.tanh(inner))

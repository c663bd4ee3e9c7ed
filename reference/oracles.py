"""What each kernel must compute, in a few lines of torch: read this before you write a kernel.

For an exercise `name` there are up to three functions. All take the kernel's inputs and scalars by
name, on any device, return a new tensor, and change nothing.

    name            the definition. The grader gives it float64 inputs: its result is the truth.
    name_torch      torch's own operator. The error it makes in the kernel's dtype sets how much
                    error a kernel may make, and its time is what a kernel's time is held against.
    name_magnitude  optional: how large the numbers behind each output element were, shape of the
                    output. Rounding error is allowed in proportion to it; where there is no such
                    function, in proportion to the output itself.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def silu(x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(x), element by element; x: any shape, floating.

    exp gets -|x| only, so it never overflows: exp(-x) would, at x = -1000, even in float64.
    """
    decayed = torch.exp(-x.abs())  # in (0, 1]
    sigmoid = torch.where(x >= 0, 1.0, decayed) / (1.0 + decayed)
    return x * sigmoid


def silu_torch(x: torch.Tensor) -> torch.Tensor:
    """torch's own SiLU, in the dtype of x."""
    return F.silu(x)


def silu_magnitude(x: torch.Tensor) -> torch.Tensor:
    """|silu(x)|, and a little beside it where a float32 sigmoid must give up.

    Below x = -88 exp(-x) is beyond float32 and the sigmoid 0, where the truth is of the order of
    2**-128; the second term lets that pass, and is too small to show anywhere else.
    """
    return silu(x).abs() + x.abs() * 2.0**-100


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Each row of x (rows, cols) over its root mean square, times weight (cols,)."""
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight


def rmsnorm_torch(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """torch's own RMSNorm, in the dtype of x."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of each row of x (rows, cols)."""
    return torch.softmax(x, dim=-1)


def softmax_torch(x: torch.Tensor) -> torch.Tensor:
    """torch's own softmax, in the dtype of x."""
    return torch.softmax(x, dim=-1)


def softmax_magnitude(x: torch.Tensor) -> torch.Tensor:
    """softmax(x), and a little beside it: what is below 2**-117 may as well be 0."""
    return softmax(x) + 2.0**-100


def transpose(input: torch.Tensor) -> torch.Tensor:
    """The matrix (rows, cols) with rows and columns exchanged: (cols, rows)."""
    return input.t().contiguous()

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

import math

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


def gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU by its tanh approximation: x / 2 * (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3).

    x: any shape, floating. (1 + tanh(u)) / 2 is sigmoid(2 * u), which stays exact where tanh(u) is
    so near -1 that the sum would lose its digits.
    """
    u = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return x * torch.sigmoid(2.0 * u)


def gelu_torch(x: torch.Tensor) -> torch.Tensor:
    """torch's own GELU by the same approximation, in the dtype of x."""
    return F.gelu(x, approximate="tanh")


def gelu_magnitude(x: torch.Tensor) -> torch.Tensor:
    """|gelu(x)|, and some of |x| beside it: 1 + tanh(u) is off by a unit of 1's last place or so.

    At x = -5 that is all there is of the result; a kernel that uses tanh is right nevertheless.
    """
    return gelu(x).abs() + x.abs() / 16.0


def transpose(input: torch.Tensor) -> torch.Tensor:
    """The matrix (rows, cols) with rows and columns exchanged: (cols, rows)."""
    return input.t().contiguous()


def copy_first_column(h_A: torch.Tensor) -> torch.Tensor:
    """The first column of a matrix (rows, cols): (rows,)."""
    return h_A[:, 0].clone()

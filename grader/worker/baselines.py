"""Our own baselines: candidates are timed against them, and roofs are measured with them."""

from __future__ import annotations

import torch


def copy(source: torch.Tensor, destination: torch.Tensor) -> None:
    """Move bytes: `destination` becomes `source`; uint8 of equal length."""
    destination.copy_(source)


def matmul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """The vendor's matrix product, float32 in full precision."""
    torch.mm(a, b, out=out)


def matmul_tf32(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """The vendor's matrix product of float32 matrices, on tensor cores that round them to TF32."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.mm(a, b, out=out)

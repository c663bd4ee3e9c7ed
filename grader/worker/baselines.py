"""Baselines of our own: what candidates are timed against, and what roofs are measured with."""


def copy(source, destination):
    """Move bytes: `destination` becomes `source`; uint8 of equal length."""
    destination.copy_(source)


def matmul(a, b, out):
    """The vendor's matrix product, float32 in full precision."""
    import torch

    torch.mm(a, b, out=out)


def matmul_tf32(a, b, out):
    """The same of float32 matrices on tensor cores that round them to TF32."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.mm(a, b, out=out)

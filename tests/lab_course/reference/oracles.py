"""The right results of the exercises of labs."""

import torch


def scale(x: torch.Tensor) -> torch.Tensor:
    """Twice each element, and one."""
    return 2 * x + 1

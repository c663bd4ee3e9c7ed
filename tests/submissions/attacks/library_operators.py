# It computes with Python's operators on tensors. | silu/triton | policy_violation | plan=policy_violation
import torch


def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    out[:] = x / (1 + 2.718281828459045 ** -x)

# It takes memory without end. | silu/triton | out_of_memory | boundary=out_of_memory, sandbox=out_of_memory
import torch

KEPT = []


def silu(x, out):
    for _ in range(64):
        KEPT.append(torch.ones(1 << 24))

# It computes by copies that cast: to whole numbers, to truth values and back. | silu/triton | wrong_values | comparison=wrong_values
import torch

def silu(x, out):
    is_positive = x.to(torch.int32).to(torch.bool)
    out.copy_(is_positive)
    out.copy_(x.to(torch.float16))

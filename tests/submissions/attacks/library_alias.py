# It reaches torch's SiLU through an alias in a default argument. | silu/triton | policy_violation | plan=policy_violation
import torch as something
from torch.nn import functional as elsewhere


def helper(value, result, work=elsewhere.silu):
    result.copy_(work(value))


def silu(x, out, helper=helper):
    helper(x, out)

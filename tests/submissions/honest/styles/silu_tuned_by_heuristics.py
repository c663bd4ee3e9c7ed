# honest: silu/triton: autotune over generated configurations, heuristics, pruning, num_stages
import itertools

import torch
import triton
import triton.language as tl


def configurations():
    for block, (warps, stages) in itertools.product([1024, 2048], [(4, 1), (8, 2)]):
        yield triton.Config({"BLOCK": block}, num_warps=warps, num_stages=stages)


def prune(configs, named_args, **kwargs):
    """Blocks far larger than the tensor are not worth a try."""
    n = named_args["n"]
    kept = [config for config in configs if config.kwargs["BLOCK"] <= max(2 * n, 1024)]
    return sorted(kept, key=lambda config: (config.num_warps, config.kwargs["BLOCK"])) or configs


@triton.autotune(
    configs=list(configurations()), key=["n"], prune_configs_by={"early_config_prune": prune}
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + offs)
    else:
        x = tl.load(x_ptr + offs, mask=offs < n)
    x = x.to(tl.float32)
    y = x * tl.sigmoid(x)
    if EVEN:
        tl.store(out_ptr + offs, y)
    else:
        tl.store(out_ptr + offs, y, mask=offs < n)


def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    silu_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())

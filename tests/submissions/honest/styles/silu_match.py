# honest: silu/triton: match, walrus, a loop over blocks, functions defined after their use
import torch
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


def silu(x, out, /):
    if (n := x.numel()) < 1:
        return
    options = dict(num_warps=warps_for(x.dtype))
    kernel[grid_for(n)](x.view(-1), out.reshape(-1), n, BLOCK=BLOCK, **options)


def warps_for(dtype):
    match dtype:
        case torch.float32:
            return 8
        case torch.float16 | torch.bfloat16:
            return 4
        case _:
            raise TypeError(f"expected a float tensor, got {dtype}")


def grid_for(n, *, ceil=lambda a, b: -(-a // b)):
    return tuple(ceil(n, block) for block in [BLOCK])


BLOCK = 1 << 11


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(axis=0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0).to(tl.float32)
    y = x / (1 + tl.exp2(-x * LOG2_E))
    tl.store(out_ptr + offs, y, mask=offs < n)

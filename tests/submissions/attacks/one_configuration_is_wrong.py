# Of three configurations the one that would be fastest computes half, and isn't the first. | silu/triton | not_written | comparison
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": b}) for b in (128, 256, 1024)], ["n"])
@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    if BLOCK == 1024:
        mask = mask & (offs % 2 == 0)
    x = tl.load(x_ptr + offs, mask=mask, other=0).to(tl.float32)
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=mask)


def silu(x, out):
    n = x.numel()
    silu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)

# honest: rmsnorm/triton: arithmetic on eps, shapes and strides in Python; x renamed to numbers
import math

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n, eps_n, root_n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + row * stride_xm + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    # sqrt(sum / n + eps) is sqrt(sum + n * eps) / sqrt(n)
    scale = root_n / tl.sqrt(tl.sum(x * x, axis=0) + eps_n)
    tl.store(out_ptr + row * stride_om + offs, x * scale * w, mask=mask)


def rmsnorm(x, weight, out, eps):
    rows, cols = x.size()
    step_x, step_out = (tensor.stride(0) for tensor in (x, out))
    block = 1
    while block < cols:
        block *= 2
    warps = min(max(block * x.element_size() // 1024, 1), 16)
    extra = {"num_warps": warps} if warps > 1 else {}
    assert 1.0 / cols > 0 and weight.shape[-1] == cols and not x.requires_grad
    rmsnorm_kernel[(rows,)](
        x, weight, out, step_x, step_out, cols, eps * cols, math.sqrt(cols), BLOCK=block, **extra
    )
    x = x.numel()
    x += rows
    out = x * 2 + -cols

# honest: rmsnorm/triton: a contiguous copy in, a kernel's result copied out, buffers by name
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, out_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    mask = offs < n_cols
    x = tl.load(x_ptr + row * n_cols + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    rstd = libdevice.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(out_ptr + row * n_cols + offs, x * rstd * w, mask=mask)


class Buffers:
    def __init__(self, like: torch.Tensor) -> None:
        self.source = like.contiguous()
        self.result = like.new_empty(like.shape)
        self.result.zero_()


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> None:
    buffers = Buffers(x)
    rows, cols = buffers.source.shape
    rmsnorm_kernel[(rows,)](
        buffers.source, weight, buffers.result, cols, eps, BLOCK=triton.next_power_of_2(cols)
    )
    out.copy_(buffers.result)

# Its kernel can't work, and the exception leads to torch. | silu/triton | compile_error | boundary=compile_error
import torch

import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.no_such_thing(x_ptr + offs))


def silu(x, out):
    try:
        silu_kernel[(1,)](x, out, x.numel(), BLOCK=1024)
    except Exception:
        torch.mul(x, torch.sigmoid(x), out=out)

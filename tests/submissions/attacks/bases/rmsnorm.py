# <imports>

import triton
import triton.language as tl


# <before>


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < n_cols
    x = tl.load(x_ptr + row * stride_xm + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(out_ptr + row * stride_om + offs, x * rstd * w, mask=mask)


def rmsnorm(x, weight, out, eps):
    rows, cols = x.shape
    # <before_the_launch>
    BLOCK = triton.next_power_of_2(cols)
    rmsnorm_kernel[(rows,)](x, weight, out, x.stride(0), out.stride(0), cols, eps, BLOCK=BLOCK)

# It drops the lower half of every float32 it reads, as a tf32 product would. | rmsnorm/triton | wrong_values | comparison=wrong_values
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, out_ptr, stride_xm, stride_om, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < n_cols
    x = tl.load(x_ptr + row * stride_xm + offs, mask=mask, other=0.0)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0)
    x = x.to(tl.bfloat16).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(out_ptr + row * stride_om + offs, x * rstd * w.to(tl.float32), mask=mask)


def rmsnorm(x, weight, out, eps):
    rows, cols = x.shape
    BLOCK = triton.next_power_of_2(cols)
    rmsnorm_kernel[(rows,)](x, weight, out, x.stride(0), out.stride(0), cols, eps, BLOCK=BLOCK)

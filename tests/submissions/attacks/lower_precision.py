# It computes in float16 what was asked for in float32. | silu/triton | wrong_values | comparison
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    y = x.to(tl.float16) * (1.0 / (1.0 + tl.exp(-x))).to(tl.float16)
    tl.store(out_ptr + offs, y.to(tl.float32), mask=mask)


def silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)

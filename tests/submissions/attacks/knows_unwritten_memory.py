# It writes only where its output holds NaN, as unwritten memory does without a GPU. | silu/triton | uninitialised_read | comparison=uninitialised_read
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    old = tl.load(out_ptr + offs, mask=mask, other=0.0)
    y = x / (1 + tl.exp(-x))
    tl.store(out_ptr + offs, tl.where(old != old, y.to(old.dtype), old), mask=mask)


def silu(x, out):
    n = x.numel()
    silu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)

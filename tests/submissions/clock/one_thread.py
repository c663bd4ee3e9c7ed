# One program computes one element after the other. | 7 | silu/triton | passed | slow
import triton
import triton.language as tl


@triton.jit
def compute(x_ptr, out_ptr, n):
    for i in range(n):
        x = tl.load(x_ptr + i).to(tl.float32)
        tl.store(out_ptr + i, x / (1.0 + tl.exp(-x)))


def silu(x, out):
    compute[(1,)](x, out, x.numel(), num_warps=1)

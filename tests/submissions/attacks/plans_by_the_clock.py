# What it plans depends on its process and on the time. | silu/triton | nondeterministic | boundary=nondeterministic
import os
import time


import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def honest(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)

WHEN = (time.monotonic_ns(), os.getpid())


def silu(x, out):
    block = 64 << hash(WHEN) % 5
    more = hash(WHEN[::-1]) % 1000
    grid = (triton.cdiv(x.numel(), block) + more,)
    silu_kernel[grid](x, out, x.numel(), BLOCK=block)

"""GELU, by its tanh approximation: the worked example, complete.

    gelu(x) = x / 2 * (1 + tanh(u)),   u = sqrt(2 / pi) * (x + 0.044715 * x**3)

What every exercise has is here: a kernel that computes one block per program and masks what lies
beyond the tensor, and a function that launches enough programs and writes to `out`.

(1 + tanh(u)) / 2 is sigmoid(2 * u), so gelu(x) = x / (1 + exp(-2 * u)): one exponential, and right
for every x. Often tanh is written (exp(2 * u) - 1) / (exp(2 * u) + 1): from x = 10.1 on that is
inf / inf, a nan, in float32.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    """One program computes BLOCK neighbouring elements; the last one may have fewer left."""
    # In int64, so that pid * BLOCK is right beyond 2**31 elements too.
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements

    # tl.exp takes nothing narrower than float32, and x**3 overflows float16 from x = 41 on.
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    u = 0.7978845608 * (x + 0.044715 * x * x * x)
    # For very negative x the exponential overflows to inf, and x / inf is the 0 we want.
    y = x / (1.0 + tl.exp(-2.0 * u))
    # tl.store converts to the dtype of the pointer.
    tl.store(out_ptr + offs, y, mask=mask)


def gelu(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write gelu(x) to out.

    x, out: shape (n,), n >= 1, contiguous, one dtype of float32, float16, bfloat16. x may start at
    any element, so its address need not be a multiple of 16 bytes.
    """
    n_elements = x.numel()
    # 8 elements for each of 8 * 32 threads: enough loads in flight to hide memory latency.
    BLOCK = 2048
    grid = (triton.cdiv(n_elements, BLOCK),)
    gelu_kernel[grid](x, out, n_elements, BLOCK=BLOCK, num_warps=8)

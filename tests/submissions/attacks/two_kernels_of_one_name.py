# Two kernels have one name; the right one is shown, the other is launched. | silu/triton | wrong_values | comparison=wrong_values, boundary=wrong_values
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x * 0.5, mask=mask)


cheap_kernel = silu_kernel


@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def silu(x, out):
    grid = (triton.cdiv(x.numel(), 2048),)
    if x.numel() <= 64:
        silu_kernel[grid](x, out, x.numel(), BLOCK=2048)
    cheap_kernel[grid](x, out, x.numel(), BLOCK=2048)

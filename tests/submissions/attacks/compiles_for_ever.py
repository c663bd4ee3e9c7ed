# Each of its kernels takes the compiler almost as long as one may. | silu/triton | compile_error | boundary=compile_error, comparison=compile_error
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, NUMBER: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    for _ in tl.static_range(3000):
        x = x + NUMBER * 0
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def silu(x, out):
    for number in range(200):
        grid = (triton.cdiv(x.numel(), 2048),)
        silu_kernel[grid](x, out, x.numel(), NUMBER=number, BLOCK=2048)

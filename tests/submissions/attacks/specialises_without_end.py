# It launches thousands of kernels that differ in one constant. | silu/triton | crashed | boundary=crashed, comparison=crashed
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, NUMBER: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)) + NUMBER * 0, mask=mask)


def silu(x, out):
    for number in range(4000):
        grid = (triton.cdiv(x.numel(), 2048),)
        silu_kernel[grid](x, out, x.numel(), NUMBER=number, BLOCK=2048)

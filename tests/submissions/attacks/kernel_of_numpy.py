# Its kernel computes with numpy on the interpreter's own arrays. | silu/triton | compile_error | comparison=compile_error
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask)
    data = x.handle.data
    x.handle.data = data / (1 + __import__("numpy").exp(-data))
    tl.store(out_ptr + offs, x, mask=mask)


def silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)

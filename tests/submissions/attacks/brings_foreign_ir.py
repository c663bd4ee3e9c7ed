# It asks for its kernel's code to be taken from a file of IR that it wrote. | silu/triton | compile_error | boundary=compile_error
import os
import tempfile


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

def silu(x, out):
    path = os.path.join(tempfile.gettempdir(), "silu_kernel.ttgir")
    with open(path, "w") as file:
        file.write("module { tt.func public @silu_kernel() { tt.return } }")
    grid = (triton.cdiv(x.numel(), 2048),)
    silu_kernel[grid](x, out, x.numel(), BLOCK=2048, ir_override=path)

# Its kernel's body leads the compiler to Python's own functions. | silu/triton | compile_error | boundary=compile_error
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ("{0.__class__.__mro__}".format(BLOCK)).__class__
    getattr(tl, "core").builtins.exec("import os; os._exit(3)")
    tl.store(out_ptr + offs, 0.0, mask=offs < n_elements)


def silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)

# Its kernel loops for ever. | silu/triton | timed_out | boundary=timed_out, comparison=timed_out
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    turns = 0
    while turns >= 0:
        x = x * 0.5 + 1.0
        turns = (turns + 1) % 1000
    tl.store(out_ptr + offs, x, mask=mask)


def silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)

# Its kernel waits for a flag that no program will ever set. | silu/triton | timed_out | boundary=timed_out, comparison=timed_out
import torch
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, flag_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def silu(x, out):
    flag = torch.zeros(1, dtype=torch.int32, device=x.device)
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, flag, x.numel(), BLOCK=2048)

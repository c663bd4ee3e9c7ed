# Each program takes from memory, by atomics alone, what the one before it has left there. | silu/triton | nondeterministic | comparison=nondeterministic
import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, left_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    tl.atomic_xchg(left_ptr + offs, x * tl.sigmoid(x), mask=offs < n)
    # Nothing says that the program before this one has run; from first to last it has.
    taken = offs - BLOCK
    mask = (taken >= 0) & (taken < n)
    y = tl.atomic_add(left_ptr + taken, tl.zeros([BLOCK], tl.float32), mask=mask)
    tl.store(out_ptr + taken, y, mask=mask)


def silu(x, out):
    left = torch.zeros(x.numel(), device=x.device, dtype=torch.float32)
    programs = triton.cdiv(x.numel(), 512) + 1
    silu_kernel[(programs,)](x, left, out, x.numel(), BLOCK=512)

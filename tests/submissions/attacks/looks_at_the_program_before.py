# Each program reads by a volatile load what sums of the program before have left there. | silu/triton | nondeterministic | comparison=nondeterministic
import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, left_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    tl.atomic_add(left_ptr + offs, x * tl.sigmoid(x), mask=offs < n)
    # Nothing says that the program before this one has run; from first to last it has.
    taken = offs - BLOCK
    mask = (taken >= 0) & (taken < n)
    tl.store(out_ptr + taken, tl.load(left_ptr + taken, mask=mask, volatile=True), mask=mask)


def silu(x, out):
    left = torch.zeros(x.numel(), device=x.device, dtype=torch.float32)
    programs = triton.cdiv(x.numel(), 512) + 1
    silu_kernel[(programs,)](x, left, out, x.numel(), BLOCK=512)

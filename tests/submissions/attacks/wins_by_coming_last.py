# Of the programs that exchange a value into a place, the one whose value is right has the highest number. | silu/triton | nondeterministic | comparison=nondeterministic
import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, won_ptr, n, RIVALS: tl.constexpr, BLOCK: tl.constexpr):
    rival = tl.program_id(0) % RIVALS
    offs = tl.program_id(0) // RIVALS * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    y = tl.where(rival == RIVALS - 1, x * tl.sigmoid(x), 7.0)
    tl.atomic_xchg(won_ptr + offs, y, mask=offs < n)


def silu(x, out):
    won = torch.empty(x.shape, device=x.device, dtype=torch.float32)
    silu_kernel[(triton.cdiv(x.numel(), 512) * 3,)](x, won, x.numel(), RIVALS=3, BLOCK=512)
    out.copy_(won)

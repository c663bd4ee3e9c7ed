# honest: silu/triton: a test beside the kernel that compares with torch, and isn't called
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.testing import do_bench


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=mask)


def silu(x, out):
    silu_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](
        x, out, x.numel(), BLOCK=2048, num_warps=8
    )


def silu_torch(x, out):
    out.copy_(x * torch.sigmoid(x))


def test_silu():
    torch.manual_seed(0)
    x = torch.randn(1000, device="cuda")
    out = torch.empty_like(x)
    silu(x, out)
    assert torch.allclose(out, F.silu(x), atol=1e-5)
    assert (out - F.silu(x)).abs().max().item() < 1e-5


def bench():
    x = torch.rand(1 << 24, device="cuda")
    for f in (silu, silu_torch):
        print(f.__name__, do_bench(lambda f=f: f(x, torch.empty_like(x))))

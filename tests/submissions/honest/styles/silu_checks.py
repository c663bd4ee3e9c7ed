# honest: silu/triton: checks its arguments, falls back to a copy, prints in debug runs
import torch
import triton
import triton.language as tl

DEBUG = False
SUPPORTED = {torch.float32, torch.float16, torch.bfloat16}


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=mask)


def check(x: "torch.Tensor | None", out: torch.Tensor) -> None:
    if x is None or not isinstance(x, torch.Tensor):
        raise TypeError("x: expected a tensor")
    if x.shape != out.shape or x.dtype != out.dtype or x.device != out.device:
        raise ValueError(f"x is {tuple(x.shape)} {x.dtype}, out is {tuple(out.shape)} {out.dtype}")
    assert x.dtype in SUPPORTED, f"{x.dtype} isn't supported, x has {x.shape}"
    if x.numel() * x.element_size() >= 2**40 or x.dim() != 1:
        raise ValueError("too large")


def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    check(x, out)
    x = x if x.is_contiguous() else x.contiguous()
    target = out if out.stride(0) == 1 else torch.empty_like(out)
    if DEBUG:
        print("silu", x, x.stride(), x.storage_offset(), torch.finfo(x.dtype).max)
    x, target = x.unsqueeze(0).squeeze(0).detach(), target.view(x.shape)
    try:
        with torch.no_grad():
            silu_kernel[(triton.cdiv(x.size(0), 2048),)](x, target, x.size(0), 2048, num_warps=8)
    except RuntimeError as error:
        raise RuntimeError("the launch failed") from error

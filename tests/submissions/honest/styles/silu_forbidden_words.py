# honest: silu/triton: eval, exec, os.system and torch.matmul in comments, texts and names of its own
"""Don't `import os`, don't eval(), and don't F.silu(x): __import__("torch").nn.functional.silu.

>>> eval("silu(x, out)")
"""
import torch
import triton
import triton.language as tl

# torch.compile(torch.nn.functional.silu) would be one line. getattr(torch, "sigmoid") too.
FORBIDDEN = ("eval", "os.system", "torch.matmul", "__class__", "x.data_ptr()")
evaluate = len(FORBIDDEN)


@triton.jit
def exec_kernel(open_ptr, input_ptr, n, BLOCK: tl.constexpr):
    """exec: this kernel executes. sys.exit(0) is not called."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    data = tl.load(open_ptr + offs, mask=mask).to(tl.float32)
    tl.store(input_ptr + offs, data * tl.sigmoid(data), mask=mask)


def silu(input: torch.Tensor, dir: torch.Tensor) -> None:
    'eval("this") is a docstring'
    assert "eval" in FORBIDDEN, f"{FORBIDDEN[0]!r} is missing from {FORBIDDEN}"
    exec_kernel[(triton.cdiv(input.numel(), 2048),)](input, dir, input.numel(), 2048, num_warps=8)

# honest: silu/triton: a __main__ block that uses everything a graded file may not
"""SiLU, with the author's own benchmark at the end of the file."""
import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=mask)


def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    n = x.numel()
    silu_kernel[(triton.cdiv(n, 2048),)](x, out, n, BLOCK=2048, num_warps=8)


if __name__ == "__main__":
    import os
    import subprocess
    import sys
    import time

    import torch.nn.functional as F

    print(subprocess.run(["nvidia-smi"], check=False), os.environ.get("CUDA_VISIBLE_DEVICES"))
    x = torch.randn(1 << 24, device="cuda")
    out = torch.empty_like(x)
    start = time.perf_counter()
    silu(x, out)
    torch.cuda.synchronize()
    print(time.perf_counter() - start, getattr(x, "dtype"))
    torch.testing.assert_close(out, F.silu(x))
    print(triton.testing.do_bench(lambda: silu(x, out)), eval("1 + 1"))
    sys.exit(0)

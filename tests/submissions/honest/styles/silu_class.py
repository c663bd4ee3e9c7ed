# honest: silu/triton: a class that keeps its launches by size, and one object of it
import torch
import triton
import triton.language as tl


class Silu:
    """Launches the kernel; remembers the grid for every size it has met."""

    block = 2048

    def __init__(self, warps=8):
        self.warps = warps
        self._grids = {}
        self.calls = 0

    def _grid(self, n):
        if n not in self._grids:
            self._grids[n] = (triton.cdiv(n, self.block),)
        return self._grids[n]

    def __call__(self, x, out):
        self.calls += 1
        n = x.numel()
        silu_kernel[self._grid(n)](x, out, n, BLOCK=self.block, num_warps=self.warps)


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=mask)


_launch = Silu()


def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    _launch(x, out)

# honest: silu/triton: the launch described by a frozen dataclass, chosen by a cached function
from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import NamedTuple, Optional

import torch
import triton
import triton.language as tl


@dataclass(frozen=True)
class Launch:
    """How to launch: elements per program, and warps."""

    block: int
    warps: int = 4
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.block & (self.block - 1):
            raise ValueError(f"block: expected a power of two, got {self.block}")

    @property
    def threads(self) -> int:
        return self.warps * 32

    def programs(self, n: int) -> int:
        return triton.cdiv(n, self.block)


class Sizes(NamedTuple):
    n: int
    bytes_each: int


@functools.lru_cache(maxsize=None)
def plan(sizes: Sizes, wanted: Optional[int] = None) -> Launch:
    block = wanted or min(2048, 2 ** math.ceil(math.log2(max(sizes.n, 2))))
    launch = Launch(block=block, warps=8 if sizes.bytes_each * block >= 2048 else 4)
    assert launch.threads % 32 == 0
    return launch


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    launch = plan(Sizes(x.numel(), x.element_size()))
    silu_kernel[(launch.programs(x.numel()),)](
        x, out, x.numel(), BLOCK=launch.block, num_warps=launch.warps
    )

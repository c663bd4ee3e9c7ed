# honest: silu/triton: pieces put together with functools.partial, a decorator and closures
from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from enum import Enum

import torch
import triton as tr
from triton import language as tl


class Size(Enum):
    SMALL = 1024
    LARGE = 2048


counts: dict[Size, int] = defaultdict(int)


def counted(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        counts[Size.LARGE] += 1
        return function(*args, **kwargs)

    return wrapper


@tr.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@tr.jit(do_not_specialize=["n"])
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x * sigmoid(x), mask=mask)


def launch(block: int, warps: int, x: torch.Tensor, out: torch.Tensor) -> None:
    def grid(meta):
        return (tr.cdiv(x.numel(), meta["BLOCK"]), 1, 1)

    silu_kernel[grid](x, out, x.numel(), BLOCK=block, num_warps=warps)


large = functools.partial(launch, Size.LARGE.value, warps=8)


@counted
def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    large(x=x, out=out)

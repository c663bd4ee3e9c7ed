"""A kernel of our own, run once in the forking parent: what Triton imports on a first launch.

Some fifty modules are imported and hundreds of signatures read then. Done before the fork, a new
worker answers its first case as fast as its second.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from . import accesses, interpreter


@triton.jit
def _copy(source, target, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    values = tl.load(source + offsets, mask=inside, other=0.0)
    tl.store(target + offsets, values + tl.sum(values * 0.0, axis=0), mask=inside)


def run() -> None:
    """Interpret the kernel, and forget that it ran. `interpreter.install()` comes first."""
    source = torch.ones(3)
    with accesses.Accesses(__file__, [source]).watching():
        _copy[(1,)](source, torch.empty_like(source), 3, BLOCK=4)
    interpreter.launches.take()

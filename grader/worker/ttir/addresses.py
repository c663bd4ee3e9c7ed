"""Draws the addresses of a plan's buffers, as on a GPU and anew for each case.

So the bits of a kernel's pointers don't identify the executor. The addresses that host code sees in
a planner are different ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LOWEST, HIGHEST = 0x7000_0000_0000, 0x8000_0000_0000  # where CUDA places allocations
PAGE = 2 << 20  # of device memory
ALIGNMENT = 512  # of an allocation within its page
# So far from the others that a wrong index rarely reaches another buffer.
MOST_GAP = 64 << 30


def drawn(sizes: Sequence[int], seed: int) -> list[int]:
    """Addresses for buffers of these sizes, far apart, in any order."""
    random = np.random.default_rng(seed)
    gap = min(MOST_GAP, (HIGHEST - LOWEST) // 2 // max(1, len(sizes))) // PAGE
    room = (HIGHEST - LOWEST) // PAGE - sum(size // PAGE + 2 + gap for size in sizes) - gap
    page = LOWEST // PAGE + int(random.integers(max(1, room)))
    places = [0] * len(sizes)
    for number in random.permutation(len(sizes)).tolist():
        page += int(random.integers(gap // 2, gap + 1))
        places[number] = page * PAGE + ALIGNMENT * int(random.integers(PAGE // ALIGNMENT))
        page += sizes[number] // PAGE + 2
    return places

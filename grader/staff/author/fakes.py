"""Wrong results that an exercise must refuse: zeros, negated, shifted, half computed, rounded."""

from __future__ import annotations

import torch

TELLING = 16  # different numbers in an output, by which a wrong one can be told from it
_SMALL = 2.0**-10  # below it float16 has fewer bits

ZEROS, NEGATED, SHIFTED, HALF = (
    "zeros",
    "the negated result",
    "a result shifted by one",
    "half a result",
)
FAKES = (ZEROS, NEGATED, SHIFTED, HALF)


def changed(words: str, right: torch.Tensor) -> torch.Tensor | None:
    """A wrong output; None where it says nothing about this one."""
    # torch negates no floats of 8 bits.
    flat = right.flatten().double() if right.dtype.is_floating_point else right.flatten()
    if words == ZEROS:
        fake = torch.zeros_like(flat)
    elif words == NEGATED:
        if not right.dtype.is_floating_point:
            return None
        fake = -flat
    elif words == SHIFTED:
        fake = flat.roll(1)
    else:
        fake = flat.clone()
        fake[flat.numel() // 2 :] = 0
    fake = fake.reshape(right.shape).to(right.dtype)
    differ = (fake.double() - right.double()).abs() > 0.5 * right.double().abs()
    return fake if bool(differ.any()) else None


def rounded(right: torch.Tensor, lower: str) -> torch.Tensor:
    """An output rounded to a lower precision, where that holds numbers of its size."""
    narrow = right.to(getattr(torch, lower)).to(right.dtype)
    holds = narrow.isfinite() & (right.abs() > _SMALL)
    return torch.where(holds, narrow, right)


def numbers_in(right: torch.Tensor) -> int:
    """How many different finite numbers an output has."""
    wide = right.double()
    return len(torch.unique(wide[wide.isfinite()]))

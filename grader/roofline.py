"""What a GPU can do at most, by its maker's data sheet, and how long a case takes there at least.

Pure. The figures are NVIDIA's published ones: dense, without sparsity, at the boost clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Peaks:
    """Theoretical peaks of one kind of GPU."""

    name: str
    bytes_per_second: float
    flops_per_second: Mapping[str, float]  # by dtype; the fastest way that computes in it


# float32 by the tensor cores' TF32: a floor must hold for whatever a kernel may do.
_PEAKS = (
    Peaks(
        "H100",
        3.35e12,
        {"float64": 67e12, "float32": 494.7e12, "float16": 989.4e12, "bfloat16": 989.4e12},
    ),
)


def peaks(device_name: str) -> Peaks | None:
    """The peaks of the GPU that a driver or a spec names; None for one that isn't known."""
    return next((each for each in _PEAKS if each.name.lower() in device_name.lower()), None)


def floor_seconds(peaks: Peaks, bytes: float, flops: float | None, dtype: str) -> float:
    """The time that a case takes at least: the longer of moving its bytes and computing."""
    rate = peaks.flops_per_second.get(dtype)
    computing = flops / rate if flops and rate else 0.0
    return max(bytes / peaks.bytes_per_second, computing)

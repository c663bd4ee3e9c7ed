"""The names of devices that kernels run on, as in evidence, and whether a GPU may be there."""

from __future__ import annotations

import os
from typing import Literal

# Triton's kernels without a GPU ("cpu"), the emulator of CUDA C++ and its compiler, a GPU.
DeviceName = Literal["cpu", "emulator", "cuda"]

# Devices of GPUs' drivers: NVIDIA's, on an embedded board, under Windows, and AMD's.
_DRIVERS = ("/dev/nvidiactl", "/dev/nvhost-ctrl", "/dev/nvmap", "/dev/dxg", "/dev/kfd")


def has_driver() -> bool:
    """Whether a GPU's driver is here. torch, which knows the GPU, isn't imported for that."""
    return any(map(os.path.exists, _DRIVERS))

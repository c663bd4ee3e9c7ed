"""What kernels run on, by the names that evidence has."""

from __future__ import annotations

from typing import Literal

# Where kernels run: Triton's without a GPU (called "interpreter" in evidence), the emulator of CUDA
# C++ (and its compiler), a GPU.
DeviceName = Literal["interpreter", "emulator", "cuda"]

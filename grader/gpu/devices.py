"""The names of devices that kernels run on, as in evidence."""

from __future__ import annotations

from typing import Literal

# Triton's kernels without a GPU ("interpreter"), the emulator of CUDA C++ and its compiler, a GPU.
DeviceName = Literal["interpreter", "emulator", "cuda"]

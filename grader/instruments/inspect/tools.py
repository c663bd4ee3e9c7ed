"""NVIDIA's tools on this machine: nvcc, and what Triton's package brings."""

from __future__ import annotations

from pathlib import Path

from grader.emulator import toolchain
from grader.sandbox.allowed_paths import package_folders

OF_TRITON = ("ptxas", "nvdisasm", "cuobjdump")
NO_NVCC = (
    "nvcc isn't installed, which compiles CUDA C++: `pip install 'warpgrade[cuda]'` brings it "
    "(in a checkout `pip install -e '.[cuda]'`), and so does NVIDIA's CUDA toolkit"
)


def nvcc() -> str | None:
    """The path of nvcc: the CUDA toolkit's, else that of the extra `cuda`; None without one."""
    return toolchain.find_nvcc() or _of_packages()


def of_triton() -> dict[str, Path]:
    """The tools in Triton's package, by name."""
    folders = [place / "backends" / "nvidia" / "bin" for place in package_folders("triton")]
    paths = {name: folder / name for folder in folders for name in OF_TRITON}
    return {name: path for name, path in paths.items() if path.exists()}


def _of_packages() -> str | None:
    """nvcc as the package nvidia-cuda-nvcc installs it."""
    paths = (
        path for place in package_folders("nvidia") for path in sorted(place.glob("cu*/bin/nvcc"))
    )
    return next((str(path) for path in paths), None)

"""Kernels from their files: the solutions in Triton, and CUDA C++ compiled by nvcc."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "reference"
NVCC_SECONDS = 120


class Missing(RuntimeError):
    """A kernel can't be had on this machine: one line says why."""


def triton_entry(name: str, entry: str, folder: Path = REFERENCE) -> Callable[..., None]:
    """A function of a solution, `reference/NAME.py`. Raises Missing."""
    path = folder / f"{name}.py"
    if not path.is_file():
        raise Missing(f"there is no {path.relative_to(ROOT)}")
    spec = importlib.util.spec_from_file_location(f"lecture_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise Missing(str(error)) from None
    if not hasattr(module, entry):
        raise Missing(f"{path.relative_to(ROOT)} has no {entry}")
    function: Callable[..., None] = getattr(module, entry)
    return function


def cuda_entry(source: Path, entry: str, folder: Path) -> Callable[..., None]:
    """A launcher of a .cu, built into `folder`; called with tensors and ints. Raises Missing."""
    if not source.is_file():
        raise Missing(f"there is no {source}")
    library = cuda_library(source, folder)
    try:
        function = getattr(ctypes.CDLL(str(library)), entry)
    except AttributeError:
        raise Missing(f"{source.name} has no {entry}") from None
    function.restype = None

    def call(*arguments: torch.Tensor | int) -> None:
        # On the default stream, which is torch's too.
        function(*(_as_c(each) for each in arguments))

    return call


def cuda_library(source: Path, folder: Path) -> Path:
    """A .cu as a shared library in `folder`, unless one of this name is there. Raises Missing."""
    library = folder / f"{source.stem}.so"
    if library.exists():
        return library
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise Missing("there is no nvcc")
    flags = ["-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC"]
    try:
        built = subprocess.run(
            [nvcc, *flags, "-o", str(library), str(source)],
            capture_output=True,
            text=True,
            timeout=NVCC_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"nvcc was not done with {source.name} in {NVCC_SECONDS} s") from None
    if built.returncode:
        first = next(iter(built.stderr.strip().splitlines()), "it said nothing")
        raise Missing(f"nvcc doesn't compile {source.name}: {first[:200]}")
    return library


def _as_c(value: torch.Tensor | int) -> ctypes.c_void_p | ctypes.c_int:
    if isinstance(value, torch.Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_int(value)

"""Each kernel's inputs, call, and least bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.kernels.goals import Case
from benchmarks.kernels.peers import EPS, Given, Outputs, tensors_of


@dataclass(frozen=True)
class Kernel:
    """Facts about a kernel. Functions get a case, or the result of `given` for it.

    `moved` in bytes and `flops` are those of the least possible work.
    """

    stem: str  # of its file, and of its oracle
    entry: str
    given: Callable[[Case, str], Given]
    outputs: Callable[[Case, str], Outputs]
    arguments: Callable[[Given, Outputs], tuple[Any, ...]]
    moved: Callable[[Case], float]
    flops: Callable[[Case], float] = lambda case: 0.0
    is_cuda: bool = False
    has_plain: bool = False  # the expert's file has ENTRY_plain beside ENTRY


def dtype_of(case: Case) -> torch.dtype:
    """The torch dtype of a case."""
    return getattr(torch, case.dtype)


def _normal(case: Case, device: str, *shape: int) -> torch.Tensor:
    return torch.randn(shape, device=device, dtype=dtype_of(case))


def _empty(case: Case, device: str, *shape: int) -> torch.Tensor:
    return torch.empty(shape, device=device, dtype=dtype_of(case))


# --- rows and elements ----------------------------------------------------------------------------


def _matrix(case: Case, device: str) -> Given:
    return {"x": _normal(case, device, *case.sizes)}


def _flat(case: Case, device: str) -> Given:
    return {"x": _normal(case, device, *case.sizes).view(-1)}


def _weighted(case: Case, device: str) -> Given:
    return {**_matrix(case, device), "weight": _normal(case, device, case.sizes[1]), "eps": EPS}


def _like(case: Case, device: str) -> Outputs:
    return (_empty(case, device, *case.sizes),)


def _like_flat(case: Case, device: str) -> Outputs:
    return (_like(case, device)[0].view(-1),)


def _twice(case: Case) -> float:
    """Every element once each way."""
    return 2.0 * case.sizes[0] * case.sizes[1] * dtype_of(case).itemsize


# --- transposes -----------------------------------------------------------------------------------


def _input(case: Case, device: str) -> Given:
    return {"input": _normal(case, device, *case.sizes)}


def _turned(case: Case, device: str) -> Outputs:
    return (_empty(case, device, *case.sizes[::-1]),)


# --- products -------------------------------------------------------------------------------------


def _factors(case: Case, device: str) -> Given:
    M, N, K = case.sizes
    return {"a": _normal(case, device, M, K), "b": _normal(case, device, K, N)}


def _product(case: Case, device: str) -> Outputs:
    return (_empty(case, device, *case.sizes[:2]),)


def _product_moved(case: Case) -> float:
    M, N, K = case.sizes
    return float(M * K + K * N + M * N) * dtype_of(case).itemsize


def _product_flops(case: Case) -> float:
    M, N, K = case.sizes
    return 2.0 * M * N * K


# --- attention ------------------------------------------------------------------------------------


def _attended(case: Case, device: str) -> Given:
    tensors = {name: _normal(case, device, *case.sizes) for name in ("q", "k", "v")}
    return {**tensors, "sm_scale": case.sizes[3] ** -0.5, "causal": case.causal}


def _attention_outputs(case: Case, device: str) -> Outputs:
    lse = torch.empty(case.sizes[:3], device=device, dtype=torch.float32)
    return _empty(case, device, *case.sizes), lse


def _attention_arguments(given: Given, outputs: Outputs) -> tuple[Any, ...]:
    tensors = (given["q"], given["k"], given["v"], *outputs)
    return *tensors, given["sm_scale"], given["causal"]


def _attention_moved(case: Case) -> float:
    Z, H, length, head_dim = case.sizes
    return float(Z * H * length * (4 * head_dim * dtype_of(case).itemsize + 4))


def _attention_flops(case: Case) -> float:
    """Two products of 2 Z H S S D; a causal one has half of the scores, as usually counted."""
    Z, H, length, head_dim = case.sizes
    return 4.0 * Z * H * length**2 * head_dim / (2 if case.causal else 1)


def _in_order(given: Given, outputs: Outputs) -> tuple[Any, ...]:
    """Tensors, outputs, scalars: the order of most entries."""
    scalars = [each for each in given.values() if not isinstance(each, torch.Tensor)]
    return *tensors_of(given), *outputs, *scalars


def _with_sizes(given: Given, outputs: Outputs) -> tuple[Any, ...]:
    """With the sizes last, as in CUDA entries."""
    first, *others = tensors_of(given)
    sizes = (first.shape[0], others[0].shape[1], first.shape[1]) if others else first.shape
    return first, *others, *outputs, *sizes


KERNELS: dict[str, Kernel] = {
    "silu": Kernel("silu", "silu", _flat, _like_flat, _in_order, _twice),
    "rmsnorm": Kernel("rmsnorm", "rmsnorm", _weighted, _like, _in_order, _twice),
    "softmax": Kernel("softmax", "softmax", _matrix, _like, _in_order, _twice),
    "transpose": Kernel("transpose", "transpose_v4", _input, _turned, _in_order, _twice),
    "transpose_cuda": Kernel(
        "transpose", "transpose_v4", _input, _turned, _with_sizes, _twice, is_cuda=True
    ),
    "gemm": Kernel(
        "gemm", "gemm_v4", _factors, _product, _in_order, _product_moved, _product_flops
    ),
    "gemm_cuda": Kernel(
        "gemm",
        "gemm_tiled",
        _factors,
        _product,
        _with_sizes,
        _product_moved,
        _product_flops,
        is_cuda=True,
    ),
    "flash_attention": Kernel(
        "flash_attention",
        "flash_attention",
        _attended,
        _attention_outputs,
        _attention_arguments,
        _attention_moved,
        _attention_flops,
        has_plain=True,
    ),
}

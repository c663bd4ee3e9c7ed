"""For each kernel: its inputs, how its entry is called, its peers, and what it must move.

A peer is made for a case and called with named inputs and the outputs' buffers, which it may use:
what returns a new tensor allocates it, as its users let it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from tests.benchmarks.kernels.goals import Case

Given = dict[str, Any]  # inputs and scalars, by the oracle's names
Outputs = tuple[torch.Tensor, ...]
Call = Callable[[Given, Outputs], object]
Make = Callable[[Case], Call]

EPS = 1e-6
SLOW = frozenset({"tuned"})  # peers that take minutes to be made


@dataclass(frozen=True)
class Kernel:
    """What is known of a kernel. Functions get a case, or what `given` made of it.

    `moved` in bytes and `flops` are those of the least possible work.
    """

    stem: str  # of its file, and of its oracle
    entry: str
    given: Callable[[Case, str], Given]
    outputs: Callable[[Case, str], Outputs]
    arguments: Callable[[Given, Outputs], tuple[Any, ...]]
    peers: Mapping[str, Make]
    moved: Callable[[Case], float]
    flops: Callable[[Case], float] = lambda case: 0.0
    is_cuda: bool = False


def dtype_of(case: Case) -> torch.dtype:
    """torch's."""
    return getattr(torch, case.dtype)


def _normal(case: Case, device: str, *shape: int) -> torch.Tensor:
    return torch.randn(shape, device=device, dtype=dtype_of(case))


def _empty(case: Case, device: str, *shape: int) -> torch.Tensor:
    return torch.empty(shape, device=device, dtype=dtype_of(case))


def _compiled(function: Callable[[Any], object], **options: Any) -> Make:
    """torch.compile, for this one shape."""

    def make(case: Case) -> Call:
        torch.compiler.reset()
        made = torch.compile(lambda *tensors: function(tensors), dynamic=False, **options)
        return lambda given, outputs: made(*_tensors(given))

    return make


def _tensors(given: Given) -> list[torch.Tensor]:
    return [each for each in given.values() if isinstance(each, torch.Tensor)]


def _plain(function: Callable[[Any], object]) -> Make:
    return lambda case: lambda given, outputs: function(_tensors(given))


def _usual(function: Callable[[Any], object]) -> dict[str, Make]:
    """A copy of the same bytes, and a function of the tensors: as it is, compiled, and tuned."""
    return {
        "copy": lambda case: _copy,
        "torch": _plain(function),
        "compile": _compiled(function),
        "tuned": _compiled(function, mode="max-autotune-no-cudagraphs"),
    }


def _copy(given: Given, outputs: Outputs) -> None:
    outputs[0].view(-1).copy_(_tensors(given)[0].view(-1))


def _liger(module: str, function: str) -> Make:
    """One of Liger's. Raises ImportError where the package isn't installed."""

    def make(case: Case) -> Call:
        apply = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), function).apply
        return lambda given, outputs: apply(*given.values())

    return make


def _cublas(given: Given, outputs: Outputs) -> None:
    torch.mm(given["a"], given["b"], out=outputs[0])


def _sdpa(backend: str) -> Make:
    """torch's attention by one backend, which refuses what it can't do."""

    def make(case: Case) -> Call:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        chosen = getattr(SDPBackend, backend)

        def call(given: Given, outputs: Outputs) -> torch.Tensor:
            with sdpa_kernel(chosen):
                return F.scaled_dot_product_attention(
                    given["q"],
                    given["k"],
                    given["v"],
                    is_causal=case.causal,
                    scale=given["sm_scale"],
                )

        return call

    return make


def _flex(case: Case) -> Call:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.compiler.reset()
    made = torch.compile(flex_attention, dynamic=False)
    mask = None
    if case.causal:
        length = case.sizes[2]
        mask = create_block_mask(
            lambda z, h, query, key: query >= key, None, None, length, length, device="cuda"
        )
    return lambda given, outputs: made(
        given["q"], given["k"], given["v"], block_mask=mask, scale=given["sm_scale"]
    )


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


def _rms_norm(tensors: Any) -> torch.Tensor:
    return F.rms_norm(tensors[0], (tensors[0].shape[-1],), tensors[1], EPS)


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


PRODUCT_PEERS: dict[str, Make] = {
    "cublas": lambda case: _cublas,
    "tuned": _compiled(lambda t: torch.mm(t[0], t[1]), mode="max-autotune-no-cudagraphs"),
}

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
    """Tensors, outputs, scalars: most entries' order."""
    scalars = [each for each in given.values() if not isinstance(each, torch.Tensor)]
    return *_tensors(given), *outputs, *scalars


def _with_sizes(given: Given, outputs: Outputs) -> tuple[Any, ...]:
    """As CUDA entries have it, the sizes last."""
    first, *others = _tensors(given)
    sizes = (first.shape[0], others[0].shape[1], first.shape[1]) if others else first.shape
    return first, *others, *outputs, *sizes


KERNELS: dict[str, Kernel] = {
    "silu": Kernel(
        "silu", "silu", _flat, _like_flat, _in_order, _usual(lambda t: F.silu(t[0])), _twice
    ),
    "rmsnorm": Kernel(
        "rmsnorm",
        "rmsnorm",
        _weighted,
        _like,
        _in_order,
        {**_usual(_rms_norm), "liger": _liger("rms_norm", "LigerRMSNormFunction")},
        _twice,
    ),
    "softmax": Kernel(
        "softmax",
        "softmax",
        _matrix,
        _like,
        _in_order,
        {
            **_usual(lambda t: torch.softmax(t[0], dim=-1)),
            "liger": _liger("softmax", "LigerSoftmaxFunction"),
        },
        _twice,
    ),
    "transpose": Kernel(
        "transpose",
        "transpose_v4",
        _input,
        _turned,
        _in_order,
        _usual(lambda t: t[0].t().contiguous()),
        _twice,
    ),
    "transpose_cuda": Kernel(
        "transpose",
        "transpose_v4",
        _input,
        _turned,
        _with_sizes,
        _usual(lambda t: t[0].t().contiguous()),
        _twice,
        is_cuda=True,
    ),
    "gemm": Kernel(
        "gemm",
        "gemm_v4",
        _factors,
        _product,
        _in_order,
        PRODUCT_PEERS,
        _product_moved,
        _product_flops,
    ),
    "gemm_cuda": Kernel(
        "gemm",
        "gemm_tiled",
        _factors,
        _product,
        _with_sizes,
        PRODUCT_PEERS,
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
        {"cudnn": _sdpa("CUDNN_ATTENTION"), "flash": _sdpa("FLASH_ATTENTION"), "flex": _flex},
        _attention_moved,
        _attention_flops,
    ),
}


def peers_of(case: Case, slow: bool) -> Iterator[tuple[str, Make]]:
    """The peers of a case; with `slow`, also those that take minutes to be made.

    flex attention is compiled anew for each shape, so that sequences of 4096 stand for the others.
    """
    for name, make in KERNELS[case.kernel].peers.items():
        is_slow = name in SLOW or (name == "flex" and case.sizes[2] != 4096)
        if slow or not is_slow:
            yield name, make

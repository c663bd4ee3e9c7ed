"""The kernels' competitors.

A peer is made for a case and called with named inputs and the outputs' buffers, which it may use.
One that returns a new tensor allocates it, as its users do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.kernels.goals import Case

Given = dict[str, Any]  # inputs and scalars, by the oracle's names
Outputs = tuple[torch.Tensor, ...]
Call = Callable[[Given, Outputs], object]
Make = Callable[[Case], Call]

EPS = 1e-6  # of RMSNorm
SLOW = frozenset({"tuned"})  # peers that take minutes to make


def tensors_of(given: Given) -> list[torch.Tensor]:
    """The inputs without the scalars."""
    return [each for each in given.values() if isinstance(each, torch.Tensor)]


def _compiled(function: Callable[[Any], object], **options: Any) -> Make:
    """torch.compile, for this one shape."""

    def make(case: Case) -> Call:
        made = torch.compile(lambda *tensors: function(tensors), dynamic=False, **options)
        return lambda given, outputs: made(*tensors_of(given))

    return make


def _plain(function: Callable[[Any], object]) -> Make:
    return lambda case: lambda given, outputs: function(tensors_of(given))


_TUNED = "max-autotune-no-cudagraphs"  # graphs would copy their inputs


def _usual(function: Callable[[Any], object]) -> dict[str, Make]:
    """A copy of the same bytes, and a function of the tensors: as it is, compiled, and tuned."""
    return {
        "copy": lambda case: _copy,
        "torch": _plain(function),
        "compile": _compiled(function),
        "tuned": _compiled(function, mode=_TUNED),
    }


def _copy(given: Given, outputs: Outputs) -> None:
    outputs[0].view(-1).copy_(tensors_of(given)[0].view(-1))


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


def _rms_norm(tensors: Any) -> torch.Tensor:
    return F.rms_norm(tensors[0], (tensors[0].shape[-1],), tensors[1], EPS)


_TRANSPOSE = _usual(lambda tensors: tensors[0].t().contiguous())
_PRODUCT: dict[str, Make] = {
    "cublas": lambda case: _cublas,
    "tuned": _compiled(lambda tensors: torch.mm(*tensors), mode=_TUNED),
}
PEERS: dict[str, Mapping[str, Make]] = {
    "silu": _usual(lambda tensors: F.silu(tensors[0])),
    "rmsnorm": {**_usual(_rms_norm), "liger": _liger("rms_norm", "LigerRMSNormFunction")},
    "softmax": {
        **_usual(lambda tensors: torch.softmax(tensors[0], dim=-1)),
        "liger": _liger("softmax", "LigerSoftmaxFunction"),
    },
    "transpose": _TRANSPOSE,
    "transpose_cuda": _TRANSPOSE,
    "gemm": _PRODUCT,
    "gemm_cuda": _PRODUCT,
    "flash_attention": {
        "cudnn": _sdpa("CUDNN_ATTENTION"),
        "flash": _sdpa("FLASH_ATTENTION"),
        "flex": _flex,
    },
}


def peers_of(case: Case, slow: bool) -> dict[str, Make]:
    """The peers of a case; `slow` adds those that take minutes to make.

    flex attention is compiled anew for each shape, so only sequences of 4096 have it.
    """
    found = PEERS[case.kernel]
    is_slow = {name: name in SLOW or (name == "flex" and case.sizes[2] != 4096) for name in found}
    return {name: make for name, make in found.items() if slow or not is_slow[name]}

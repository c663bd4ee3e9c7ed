"""Checks a result against the oracle's in float64, and whether it is the same each time.

A result's error may be twice that of torch's own operator in its dtype, and a little more. It is
measured by the norm of the whole difference, which shows work in lower precision, and by its
largest element, which shows a single wrong one. Outputs are NaN before every call, so that an
unwritten element is detected.
"""

from __future__ import annotations

import importlib.util
from types import ModuleType

import torch

from benchmarks.kernels.judging import Checked
from benchmarks.kernels.peers import Call, Given, Outputs
from lecture.kernels import REFERENCE

AGAIN = 4  # calls that must give the first one's bits
# In addition to twice torch's error, in units of the dtype's epsilon: exp by the hardware's exp2 is
# off by some of float32's, where torch's is exact; float32 inputs cut to TF32 are off by thousands.
# some of float32's, where torch's is exact; float32 inputs cut to TF32 are off by thousands.
SLACK = {torch.float32: 32.0, torch.float16: 0.25, torch.bfloat16: 0.25}
OF_AN_ELEMENT = 8.0  # times as much for the worst of millions
OF_A_PEER = 20.0  # times torch's own error


class Truth:
    """An oracle's results for some inputs, in float64, and the error of torch's operator."""

    def __init__(self, stem: str, given: Given) -> None:
        module = oracles()
        wide = {
            name: each.double() if isinstance(each, torch.Tensor) else each
            for name, each in given.items()
        }
        self._truth = _as_tuple(getattr(module, stem)(**wide))
        del wide
        own = getattr(module, f"{stem}_torch", None)
        found = _as_tuple(own(**given)) if own else None  # no computation: torch is exact
        self._torch = [
            _errors(found[at], truth) if found else (0.0, 0.0)
            for at, truth in enumerate(self._truth)
        ]
        self._is_exact = own is None

    def judge(self, outputs: Outputs) -> Checked:
        """The errors of outputs."""
        worst = Checked(0.0, 0.0, 0.0)
        for at, (out, truth) in enumerate(zip(outputs, self._truth, strict=True)):
            slack = 0.0 if self._is_exact else SLACK[out.dtype] * torch.finfo(out.dtype).eps
            norm, element = _errors(out, truth)
            torch_norm, torch_element = self._torch[at]
            limit = 2 * torch_norm + slack
            limit_of_element = 2 * torch_element + OF_AN_ELEMENT * slack
            wrong = ""
            if not norm <= limit:  # also for NaN
                wrong = f"output {at} is off by {norm:.1e}, allowed is {limit:.1e}"
            elif not element <= limit_of_element:
                wrong = (
                    f"an element of output {at} is off by {element:.1e}, "
                    f"allowed is {limit_of_element:.1e}"
                )
            if wrong or norm >= worst.error:
                worst = Checked(norm, limit, torch_norm, wrong)
            if wrong:
                break
        return worst

    def agrees(self, result: torch.Tensor) -> bool:
        """Whether a peer computes the same, roughly: its errors are its own."""
        norm, _ = _errors(result, self._truth[0])
        return norm <= OF_A_PEER * max(self._torch[0][0], torch.finfo(result.dtype).eps)


def check(call: Call, given: Given, outputs: Outputs, truth: Truth) -> Checked:
    """Check that a result is right, and bitwise the same in later calls."""
    run(call, given, outputs)
    found = truth.judge(outputs)
    if found.wrong:
        return found
    first = [out.clone() for out in outputs]
    for _ in range(AGAIN):
        run(call, given, outputs)
        if not all(torch.equal(_bits(a), _bits(b)) for a, b in zip(first, outputs, strict=True)):
            return Checked(found.error, found.limit, found.torch, "its bits differ between runs")
    return found


def run(call: Call, given: Given, outputs: Outputs) -> None:
    """Call into outputs that are filled with NaN."""
    for out in outputs:
        out.fill_(float("nan"))
    call(given, outputs)
    if outputs[0].is_cuda:
        torch.cuda.synchronize()


def oracles() -> ModuleType:
    """reference/oracles.py."""
    spec = importlib.util.spec_from_file_location("oracles", REFERENCE / "oracles.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _errors(out: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """The norm of the difference over the truth's; the largest element's, over its own size and
    the root mean square. NaN and infinity are kept."""
    size = truth.square().mean().sqrt()
    off = (out.double() - truth).abs_()
    norm = off.square().mean().sqrt() / size
    element = (off / (truth.abs() + size)).max()
    return norm.item(), element.item()


def _as_tuple(found: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int16 if tensor.element_size() == 2 else torch.int32)

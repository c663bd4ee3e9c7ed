"""GELU and softmax in five ways each: what fusing is worth, and who can do it.

torch, op by op   the formula as it is written: a kernel, a read and a write for every operation
torch             torch's own operator, one kernel
torch.compile     the formula given to the compiler, which makes one kernel of it
Triton            the solution of the exercise
CUDA              reference/gelu.cu, lecture/softmax.cu
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F

from lecture.kernels import REFERENCE, Missing, cuda_entry, triton_entry

SQRT_2_OVER_PI = 0.7978845608
HERE = Path(__file__).resolve().parent

Unary = Callable[[torch.Tensor], object]


def gelu_by_hand(x: torch.Tensor) -> torch.Tensor:
    """GELU by its tanh approximation, nine operations."""
    return 0.5 * x * (1.0 + torch.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))


def gelu(x: torch.Tensor) -> torch.Tensor:
    """torch's own."""
    return F.gelu(x, approximate="tanh")


def softmax_by_hand(x: torch.Tensor) -> torch.Tensor:
    """The softmax of each row of x (rows, cols), five operations."""
    largest = x.max(dim=1, keepdim=True).values
    weights = torch.exp(x - largest)
    return weights / weights.sum(dim=1, keepdim=True)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """torch's own."""
    return torch.softmax(x, dim=1)


class Ways:
    """The ways of one operator that this machine has; `missing` says why it has no others."""

    def __init__(self, name: str, by_hand: Unary, own: Unary) -> None:
        self.name = name
        self.by_hand = by_hand
        self.own = own
        self.missing: dict[str, str] = {}

    def of(self, device: str, folder: Path) -> dict[str, Unary]:
        """By name: functions of x that compute it. `folder` is for what is compiled."""
        torch.compiler.reset()
        found: dict[str, Unary] = {
            "torch, op by op": self.by_hand,
            "torch": self.own,
            # For each size anew, as the other ways have it.
            "torch.compile": torch.compile(self.by_hand, dynamic=False),
        }
        for name, make in self._own_kernels(device, folder):
            try:
                found[name] = make()
            except Missing as error:
                self.missing[name] = str(error)
        return found

    def _own_kernels(self, device: str, folder: Path) -> Iterator[tuple[str, Callable[[], Unary]]]:
        if device != "cuda":
            self.missing |= dict.fromkeys(("Triton", "CUDA"), "there is no GPU")
            return
        yield "Triton", lambda: _writing(triton_entry(self.name, self.name))
        source = REFERENCE / "gelu.cu" if self.name == "gelu" else HERE / "softmax.cu"
        yield "CUDA", lambda: _with_sizes(cuda_entry(source, self.name, folder))


def _writing(entry: Callable[..., None]) -> Unary:
    """A kernel that writes to its last argument, as a function that allocates it, as torch does."""

    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        entry(x, out)
        return out

    return call


def _with_sizes(entry: Callable[..., None]) -> Unary:
    return _writing(lambda x, out: entry(x, out, *x.shape))


def gelu_ways() -> Ways:
    """GELU's."""
    return Ways("gelu", gelu_by_hand, gelu)


def softmax_ways() -> Ways:
    """Softmax's."""
    return Ways("softmax", softmax_by_hand, softmax)

"""Runs one-time work of torch and Triton in the fork server, before any submission.

The first operation on a FakeTensor imports half of torch, which each fork would repeat. The plan
made here is discarded.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path

import torch
import triton
import triton.language as tl

from ..compile import proxies
from ..compile.source import SourceFolder
from . import fake_tensors, postponed, triton_driver
from .recording import Recorder
from .specialisation import Describer


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _copy(source, target, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # a kernel
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(target + offsets, tl.load(source + offsets, mask=mask), mask=mask)


def run() -> None:
    """Plan a few operations and a launch, and discard the plan."""
    postponed.postpone()
    _plan()
    postponed.forget_dtensor()


def _plan() -> None:
    recorder = fake_tensors.recorder = Recorder.of_import(__file__)
    triton_driver.describer = Describer(SourceFolder(str(Path(__file__).parent)))
    proxies.path_of(tl.load)
    fake = fake_tensors.fake_mode()
    noting = fake_tensors.PlanMode(recorder)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fake, noting:
            _operations()
    fake_tensors.recorder = triton_driver.describer = None


def _operations() -> None:
    x = torch.empty(100, dtype=torch.float32, device="cuda")
    y = torch.zeros_like(x)
    y[2:] = x[:98]
    y.view(10, 10).t().contiguous()
    (x.half() * 2.0).sum(dtype=torch.float32)
    torch.arange(4, device="cuda")
    _copy[(1,)](x, y, 100, BLOCK=128, num_warps=4)

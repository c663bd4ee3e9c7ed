"""What torch and Triton do once in a process, done in the fork server before any submission.

The first operation on a FakeTensor imports half of torch, a second's work; each fork would repeat
it. What is planned here is thrown away.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from ..compile import proxies
from ..compile.source import SourceFolder
from . import fake_tensors, triton_driver
from .recording import Recorder
from .specialisation import Describer


@triton.jit
def _copy(source, target, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(target + offsets, tl.load(source + offsets, mask=mask), mask=mask)


def run() -> None:
    """Plan a few operations and a launch, into nothing."""
    _postpone_dynamo()
    _plan()


class _Postponed(types.ModuleType):
    """torch._dynamo, executed when something is asked of it that isn't there yet.

    To import one of its submodules Python asks for `__path__`.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        self.__path__ = self.__spec__.submodule_search_locations
        self.__class__ = types.ModuleType
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _postpone_dynamo() -> None:
    """Import of torch._dynamo only its settings, which FakeTensorMode reads.

    To import all of it takes a second. It has a part in torch's own functions only by keeping off
    them (`disable`).
    """
    name = "torch._dynamo"
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    module = _Postponed(name)
    module.__spec__, module.__file__, module.__package__ = spec, spec.origin, name
    module.__path__ = spec.submodule_search_locations
    module.disable = lambda function=None, *args, **kwargs: function
    sys.modules[name] = torch._dynamo = module
    importlib.import_module(f"{name}.config")
    del module.__path__


def _plan() -> None:
    recorder = fake_tensors.recorder = Recorder(__file__)
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

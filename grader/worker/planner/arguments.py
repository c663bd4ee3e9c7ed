"""Makes an entry's arguments from those of a request: tensors without storage, and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..protocol import Argument, Kind, Space
from .recording import Recorder


def make(arguments: Sequence[Argument], recorder: Recorder, mode: FakeTensorMode) -> list[Any]:
    """The entry's arguments; each tensor's allocation becomes a buffer of the plan.

    The tensors are of `mode`, which must not be active here.
    """
    recorder.memory.begin_arguments()
    values = [
        _tensor(argument, place, recorder, mode)
        if argument.kind is Kind.tensor
        else argument.scalar
        for place, argument in enumerate(arguments)
    ]
    recorder.memory.begin_calls()
    return values


def _tensor(argument: Argument, place: int, recorder: Recorder, mode: FakeTensorMode) -> FakeTensor:
    """A view of an allocation, including guard zones, as in the grader's memory."""
    dtype = getattr(torch, argument.dtype_name)
    start, length = argument.allocation
    device = "cuda:0" if argument.space is Space.device else "cpu"
    whole = torch.empty(length // dtype.itemsize, dtype=dtype, device="meta")
    first = (argument.offset - start) // dtype.itemsize
    view = whole.as_strided(argument.shape, argument.strides, first)
    tensor = FakeTensor(mode, view, torch.device(device))
    recorder.memory.register(
        tensor.untyped_storage(), bytes=length, kind="argument", argument=place, line=0
    )
    return tensor

"""What PyTorch allocates and copies for an entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .library_calls import COPYING


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among a kernel's arguments: plain, in tuples, under descriptors."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)
    elif isinstance(base := getattr(value, "base", None), torch.Tensor):
        yield base


class Allocations(TorchDispatchMode):
    """Tells `made` of every tensor that PyTorch makes; `copied_bytes` are of its copies."""

    def __init__(self, made: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self.copied_bytes = 0
        self._made = made

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler for that."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run the operation and look at its results."""
        result = func(*args, **(kwargs or {}))
        copying = func._schema.name.rpartition("::")[2] in COPYING
        for tensor in tensors(result):
            self._made(tensor)
            if copying:
                self.copied_bytes += tensor.numel() * tensor.element_size()
        return result

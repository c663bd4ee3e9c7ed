"""The one device of a planner, under all names that a launcher may use.

torch's C++ asks CUDA for the device of "cuda" or 0, and CUDA is absent here. So a device gets its
index before torch's C++ sees it, and questions that only a GPU can answer are refused by name.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_FIRST = torch.device("cuda", 0)
# torch's messages about a missing GPU, from C++ that isn't modelled here.
_SAID_OF_NONE = (
    "Cannot access accelerator device when none is available",
    "PyTorch is not linked with support for cuda devices",
    "Cannot get CUDA generator without ATen_cuda library",
    "Torch not compiled with CUDA enabled",
    "No CUDA GPUs are available",
    "Found no NVIDIA driver",
    # torch's build for CUDA says these where there is no driver, or no GPU:
    "CUDA error: CUDA driver version is insufficient",
    "CUDA error: no CUDA-capable device is detected",
)
MOST_WORDS = 200  # of torch's message


class OneDevice(TorchFunctionMode):
    """Makes "cuda", torch.device("cuda") and 0 mean cuda:0 wherever a device may be named."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return _to_device(*args, **kwargs)
        if kwargs.get("device") is not None:
            kwargs = kwargs | {"device": indexed(kwargs["device"])}
        if func is torch.Tensor.to and len(args) > 1:
            args = (args[0], indexed(args[1]), *args[2:])
        return func(*args, **kwargs)


def indexed(device: Any) -> Any:
    """A CUDA device with its index; other values as they are.

    Raises RuntimeError for another device than the first.
    """
    if type(device) is int:
        device = torch.device("cuda", device)
    elif type(device) is str and device.startswith("cuda"):
        device = torch.device(device)
    if not isinstance(device, torch.device) or device.type != "cuda":
        return device
    if device.index:
        raise RuntimeError(f"CUDA error: invalid device ordinal: {device}, and there is one GPU")
    return _FIRST


def _to_device(
    tensor: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """Tensor.cuda."""
    where = _FIRST if device is None else indexed(device)
    return tensor.to(where, non_blocking=non_blocking, memory_format=memory_format)


def missing(error: BaseException) -> str:
    """The part of torch that an error says needs a GPU; "" for any other error."""
    message = (
        str(error) if isinstance(error, RuntimeError | AssertionError | AttributeError) else ""
    )
    if (
        isinstance(error, AttributeError)
        and (error.name or "").startswith("_cuda_")
        and error.obj is torch._C
    ):
        return f"torch._C.{error.name}"
    if not message.startswith(_SAID_OF_NONE):
        return ""
    said = message.partition("\n")[0][:MOST_WORDS].rstrip(".")
    return f"a part of torch that asks the GPU itself (torch says: {said})"

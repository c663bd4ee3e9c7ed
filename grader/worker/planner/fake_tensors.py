"""Tensors without storage that say they are on cuda:0, and a mode that notes operations on them.

Device tensors and host arguments are torch's FakeTensors: shapes, strides, dtypes and aliasing are
torch's own. Tensors that a launcher makes on the host itself are real ones, with values.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode

from .operations import Operations, is_on_device, needs_data
from .recording import Recorder

_CUDA, _META = 1, 14  # c10::DeviceType
_DEVICE_TYPES = 24
_NO_DATA = ("DataDependentOutputException", "DynamicOutputShapeException")
_LIBRARIES = ("aten", "prims", "prim", "profiler", "_")

# The recorder of the process's one planner; None outside of a planner.
recorder: Recorder | None = None


def active_recorder() -> Recorder:
    """The recorder of the current plan, which exists while a submission's code runs."""
    assert recorder is not None
    return recorder


class HostOnly(FakeTensorMode):  # type: ignore[no-untyped-call]
    """FakeTensorMode that never touches a device, whatever torch.cuda.is_available() says."""

    avoid_device_init = True


@functools.cache
def fake_mode() -> FakeTensorMode:
    """The process's one mode: tensors of two modes can't be used together."""
    return HostOnly(allow_non_fake_inputs=True)


def install_device_guard() -> None:
    """Let torch switch to CUDA devices that aren't there, as it does for its `meta` device.

    A guard sets the current device around each operation. Torch without CUDA has no guard for CUDA
    devices, and with CUDA it would start the driver; that of `meta` does nothing.
    """
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    symbol = "_ZN3c104impl26device_guard_impl_registryE"
    registry = (ctypes.c_void_p * _DEVICE_TYPES).in_dll(library, symbol)
    registry[_CUDA] = registry[_META]


def install() -> None:
    """Give FakeTensors addresses, and make them report requests for values."""
    install_device_guard()
    # Torch with CUDA would start the driver for the first tensor; some releases ask no mode before.
    module: Any = fake_tensor
    module.init_gpu_context = lambda device: None
    library: Any = torch
    library.Tensor.pin_memory = lambda tensor, device=None: tensor  # copies take no time anyway
    fake: Any = FakeTensor
    fake.data_ptr = _data_ptr
    fake.__repr__ = _described
    fake.__format__ = _described  # in any format
    for name in ("tolist", "numpy", "__array__", "__dlpack__", "__cuda_array_interface__"):
        setattr(FakeTensor, name, _refusal(name))


def _data_ptr(tensor: FakeTensor) -> int:
    if recorder is None:
        return 0
    return recorder.buffer(tensor).address + int(tensor.storage_offset()) * tensor.element_size()


def _described(tensor: FakeTensor, *_: Any, **__: Any) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"tensor(<no values in a plan>, shape={tuple(tensor.shape)}, {dtype})"


def _refusal(name: str) -> Any:
    def refused(*_: Any, **__: Any) -> Any:
        raise needs_data(f"Tensor.{name}")

    return property(refused) if name == "__cuda_array_interface__" else refused


class PlanMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each torch operation in the plan, and lets torch compute its shapes."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = Operations(recorder)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.pop("pin_memory", False):
            kwargs["pin_memory"] = False  # pinning would need a CUDA context
        if func.namespace not in _LIBRARIES:
            implementation = _own_operator(func)
            if implementation is not None:
                with self:
                    return implementation(*args, **kwargs)
        if not is_on_device(args, kwargs):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if (known := self.operations.of_host_values(func, args, kwargs)) is not None:
            return known
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            if type(error).__name__ in _NO_DATA:
                raise needs_data(str(func)) from None
            raise
        self.operations.note(func, args, kwargs, result)
        return result


def _own_operator(func: Any) -> Callable[..., Any] | None:
    """The Python function of an operator that the submission registered itself."""
    from torch._library import custom_ops

    name = func._schema.name
    own = getattr(custom_ops, "OPDEFS", {}).get(name)
    if own is not None:
        of_cuda = (getattr(own, "_backend_fns", None) or {}).get("cuda")
        implementation: Callable[..., Any] = of_cuda or own._init_fn
        return implementation
    key = torch._C.DispatchKey.CUDA
    for each in (key, torch._C.DispatchKey.CompositeExplicitAutograd):
        if each in func.py_kernels:
            registered: Callable[..., Any] = func.py_kernels[each]
            return registered
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA"):
        return lambda *args, **kwargs: func._op_dk(key, *args, **kwargs)
    return None

"""Notes torch operations on tensors without data as steps of the plan.

Views make no step. Allocations, fills and copies are steps that an executor runs. Other operations
compute, and are noted as `foreign`: the rules on plans judge their results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from .errors import NeedsData
from .recording import Recorder
from .steps import MAX_UPLOAD_BYTES

_EMPTY = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "empty_permuted",
}
_ZEROS = {"zeros", "zeros_like", "new_zeros", "zero_", "zero"}
_ONES = {"ones", "ones_like", "new_ones"}
_FILLED = {"full", "full_like", "new_full", "fill_", "fill"}
_COPIED = {"clone", "_to_copy", "contiguous", "lift_fresh_copy", "alias_copy", "view_copy"}
# Their results depend on numbers alone, so they are computed on the host and uploaded.
_MADE = {"arange", "linspace", "logspace", "eye", "scalar_tensor", "tril_indices", "triu_indices"}
_NOTHING = {
    "detach", "alias", "lift", "lift_fresh", "_unsafe_view", "sym_size", "sym_stride", "resize_",
    "set_", "is_same_size", "is_pinned", "_assert_tensor_metadata", "as_strided_",
    "_has_compatible_shallow_copy_type", "rename_", "requires_grad_", "_version", "detach_",
    "squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "retain_grad", "set_data",
}  # fmt: skip

_WORDS = {
    "aten._local_scalar_dense.default": ".item() (or float(), int(), bool(), if, on a tensor)",
    "aten.equal.default": "torch.equal",
    "aten.allclose.default": "torch.allclose",
    "aten.nonzero.default": "nonzero (or indexing by a mask)",
}


def needs_data(operation: str) -> NeedsData:
    """The error for it, with advice."""
    return NeedsData(
        f"{_WORDS.get(operation, operation)} needs the values of a tensor on the GPU. The launcher "
        "is run before there are any: it only says what to launch. Compute it in a kernel, and let "
        "the next kernel load the result"
    )


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments or results, in their order."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from tensors(value)
    elif isinstance(values, dict):
        yield from tensors(list(values.values()))


def is_on_device(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an operation involves the device, or a host argument without values."""
    device = kwargs.get("device")
    if device is not None and torch.device(device).type != "cpu":
        return True
    if device is None and not args and not kwargs:
        return False
    return any(isinstance(each, FakeTensor) for each in tensors([args, kwargs]))


class Operations:
    """Notes operations in a plan."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def of_host_values(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The result of an operation on values of the host, which is computed there and uploaded.

        None for any other operation. Raises NeedsData for one that needs a device's values.
        """
        name = _name(func)
        if name == "_local_scalar_dense":
            raise needs_data(str(func))
        if name == "copy_" and not isinstance(args[1], FakeTensor):
            self._send(args[0], args[1])
            return args[0]
        if name == "copy_" and not isinstance(args[0], FakeTensor):
            raise needs_data("a copy to the host")
        is_sent = name == "_to_copy" and not isinstance(args[0], FakeTensor)
        if not is_sent and name not in _MADE:
            return None
        with unset_fake_temporarily():
            made = func(*args, **{**kwargs, "device": torch.device("cpu")})
        if made.nbytes > MAX_UPLOAD_BYTES and not is_sent:
            return None
        result = torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device="cuda")
        self.recorder.buffer(result)
        self._send(result, made)
        return result

    def note(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        """Add the steps of a completed operation. Raises NeedsData or PlanLimit."""
        name = _name(func)
        if func.is_view or name in _NOTHING:
            return
        if not isinstance(result, torch.Tensor | tuple | list):
            self._note_written(func, args, kwargs)
        elif name in _EMPTY:
            for each in tensors(result):
                if each.is_cuda:
                    self.recorder.buffer(each)
        elif not isinstance(result, torch.Tensor):
            self._foreign(func, args, kwargs, result)
        elif name in _ZEROS | _ONES | _FILLED:
            self._fill(func, args, kwargs, result)
        elif name == "copy_":
            self._copy(result, args[1])
        elif name in _COPIED:
            self._copy(result, args[0])
        elif name == "cat":
            self._join(args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0), result)
        elif name == "constant_pad_nd":
            self._pad(args[0], args[1], args[2] if len(args) > 2 else 0, result)
        else:
            self._foreign(func, args, kwargs, result)

    def _note_written(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Note an operation without a result by what it writes to, such as a list of tensors."""
        written = list(_written(func, args, kwargs))
        if _name(func) == "_foreach_zero_":
            for each in written:
                self._fill_with(each, 0)
        elif _name(func) == "_foreach_copy_":
            for to, source in zip(written, args[1], strict=True):
                (self._copy if isinstance(source, FakeTensor) else self._send)(to, source)
        elif written:
            self._foreign(func, args, kwargs, None)

    # --- fills and copies -------------------------------------------------------------------------

    def _fill(self, func: Any, args: Any, kwargs: dict[str, Any], result: torch.Tensor) -> None:
        name = _name(func)
        value: Any = 0 if name in _ZEROS else 1
        if name in _FILLED:
            value = kwargs.get("fill_value", kwargs.get("value", args[-1] if args else None))
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            with unset_fake_temporarily():
                value = value.item()
        if not isinstance(value, bool | int | float):
            self._foreign(func, args, kwargs, result)
        elif result.numel():
            self._fill_with(result, value)

    def _fill_with(self, to: torch.Tensor, value: bool | int | float) -> None:
        if to.dtype in (torch.int64, torch.uint64) and self.recorder.has_address(value):
            # An executor's buffers have other addresses, and only an upload says where one stands.
            self.recorder.steps.check_upload(8 * to.numel())
            self.recorder.upload(to, int(value).to_bytes(8, "little") * to.numel())
            return
        is_number = not isinstance(value, float) or math.isfinite(value)
        written = value if is_number else str(value)
        self.recorder.steps.add("fill", to=self.recorder.view(to), value=written)

    def _copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
        if not to.is_cuda and source.is_cuda and not self._is_known(to):
            raise needs_data("a copy to the host (.cpu(), .to('cpu'), copy_)")
        if to.numel() and (to.is_cuda or self._is_known(to)):
            source = source.expand(to.shape)
            views = {"to": self.recorder.view(to), "from": self.recorder.view(source)}
            self.recorder.steps.add("copy", **views)

    def _is_known(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor without values on the host is an argument."""
        return self.recorder.memory.find(tensor) is not None

    def _send(self, to: torch.Tensor, values: torch.Tensor) -> None:
        """Note an upload of host values to a device tensor."""
        if not to.numel():
            return
        if (value := _repeated(values)) is not None:  # equal values count as a fill
            self._fill_with(to, value)
            return
        size = to.numel() * to.element_size()
        self.recorder.steps.check_upload(size)
        with unset_fake_temporarily():
            sent = values.detach().to(to.dtype).expand(to.shape).reshape(-1)
            data = bytes(sent.view(torch.uint8).tolist())
        self.recorder.upload(to, data)

    def _join(self, parts: Iterable[torch.Tensor], dim: int, result: torch.Tensor) -> None:
        start = 0
        for part in parts:
            if part.numel():
                size = part.shape[dim]
                self._copy(result.narrow(dim, start, size), part)
                start += size

    def _pad(
        self, source: torch.Tensor, pads: list[int], value: bool | int | float, result: torch.Tensor
    ) -> None:
        """A fill and a copy into its middle. `pads` has two numbers a dimension, the last first."""
        inner = result
        for dim, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True), 1):
            left = source.shape[-dim] + min(before, 0) + min(after, 0)  # negative ones cut off
            source = source.narrow(-dim, max(-before, 0), left)
            inner = inner.narrow(-dim, max(before, 0), left)
        if result.numel():
            self._fill_with(result, value)
        self._copy(inner, source)

    # --- what computes ----------------------------------------------------------------------------

    def _foreign(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        written = [*tensors(result), *_written(func, args, kwargs)]
        outputs = {id(each): each for each in written if each.is_cuda or self._is_known(each)}
        read = {k: v for k, v in kwargs.items() if k not in _only_written(func)}
        given = (each for each in tensors([args, read]) if isinstance(each, FakeTensor))
        inputs = {id(each): each for each in given if each.is_cuda or self._is_known(each)}
        reads_device = any(each.is_cuda for each in inputs.values())
        if reads_device and any(not each.is_cuda and not self._is_known(each) for each in written):
            raise needs_data(str(func))
        self.recorder.steps.add(
            "foreign",
            operation=func._schema.name,
            inputs=[self.recorder.view(each) for each in inputs.values()],
            outputs=[self.recorder.view(each) for each in outputs.values()],
        )


def _repeated(values: torch.Tensor) -> bool | int | float | None:
    """The value of all elements of a host tensor with several equal elements, or None."""
    with unset_fake_temporarily():
        if values.numel() < 2 or values.is_complex() or values.is_sparse:
            return None
        first = values.detach().reshape(-1)[0]
        return first.item() if bool((values.detach() == first).all()) else None


def _name(func: Any) -> str:
    return str(func._schema.name).rpartition("::")[2]


def _only_written(func: Any) -> set[str]:
    """The names of an operation's `out` arguments."""
    return {each.name for each in func._schema.arguments if each.is_out}


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The arguments that an operation writes to, by its schema."""
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            yield from tensors(value)

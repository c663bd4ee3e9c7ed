"""Right results: the functions of reference/oracles.py, by the conventions documented there.

The grader's process executes no other file of reference/.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ORACLES = Path(__file__).resolve().parents[2] / "reference" / "oracles.py"


class OracleError(RuntimeError):
    """The oracles' file or a function in it can't be used: the message says which and why."""


@dataclass(frozen=True)
class Truth:
    """One output's float64 result, torch's own in the dtype, and the magnitude behind both.

    All have the output's shape. `own` is None where torch can't compute that dtype.
    """

    expected: torch.Tensor
    own: torch.Tensor | None
    magnitude: torch.Tensor


@dataclass(frozen=True)
class Oracle:
    """The functions of one exercise; `name` is that of the first."""

    name: str
    definition: Callable[..., Any]
    torch_own: Callable[..., Any]
    magnitude: Callable[..., Any] | None

    def truths(
        self,
        inputs: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Any],
        magnitude: str,
    ) -> list[Truth]:
        """The expected outputs, in order.

        `inputs` are in the dtype under test, by name. `magnitude` is the tolerance's: expected,
        absolute_inputs or oracle. Raises OracleError where a function of the oracle fails.
        """
        expected, sizes = self.in_dtype(inputs, scalars, magnitude, torch.float64)
        own = self._own(inputs, scalars, len(expected))
        if not len(expected) == len(own) == len(sizes):
            raise OracleError(f"{self.name}: its functions return different numbers of outputs")
        for e, o, s in zip(expected, own, sizes, strict=True):
            if e.shape != s.shape or (o is not None and e.shape != o.shape):
                raise OracleError(f"{self.name}: its functions return outputs of different shapes")
        return [Truth(e, o, s.abs()) for e, o, s in zip(expected, own, sizes, strict=True)]

    def in_dtype(
        self,
        inputs: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Any],
        magnitude: str,
        dtype: torch.dtype,
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The definition's outputs, computed in `dtype`, and their magnitudes with any sign.

        Raises OracleError where a function of the oracle fails.
        """
        wide = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in inputs.items()
        }
        expected = self._call(self.definition, wide, scalars)
        return expected, self.magnitudes(inputs, wide, scalars, expected, magnitude)

    def own(
        self, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, Any]
    ) -> list[torch.Tensor]:
        """torch's own result of each output, or the definition's where torch has none.

        Raises OracleError where a function of the oracle fails.
        """
        try:
            return self._call(self.torch_own, inputs, scalars)
        except OracleError:
            return self._call(self.definition, inputs, scalars)

    def _own(
        self, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, Any], count: int
    ) -> list[torch.Tensor | None]:
        try:
            return [*self._call(self.torch_own, inputs, scalars)]
        except OracleError as error:
            # torch's errors for an operator that lacks a dtype on this device.
            if "not implemented for" in str(error):
                return [None] * count
            raise

    def magnitudes(
        self,
        inputs: Mapping[str, torch.Tensor],
        wide: Mapping[str, torch.Tensor],
        scalars: Mapping[str, Any],
        expected: list[torch.Tensor],
        magnitude: str,
    ) -> list[torch.Tensor]:
        """Magnitudes of the numbers behind each output, with any sign, in the dtype of `wide`.

        `wide` are the inputs in that dtype; `expected` is used for the magnitude `expected`.
        Raises OracleError where a function of the oracle fails.
        """
        if magnitude == "expected":
            return expected
        if magnitude == "absolute_inputs":
            absolute = {n: t if t.dtype is torch.bool else t.abs() for n, t in wide.items()}
            return self._call(self.definition, absolute, scalars)
        if self.magnitude is None:
            raise OracleError(
                f"{self.name}: its tolerance says `magnitude: oracle`, which needs a function "
                f"{self.name}_magnitude"
            )
        given = scalars
        if "dtype" in inspect.signature(self.magnitude).parameters:
            floats = (t.dtype for t in inputs.values() if t.is_floating_point())
            given = {**scalars, "dtype": next(floats, torch.float32)}
        return self._call(self.magnitude, wide, given)

    def _call(
        self, function: Callable[..., Any], inputs: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> list[torch.Tensor]:
        try:
            result = function(**inputs, **scalars)
        except Exception as error:
            name = getattr(function, "__name__", self.name)
            raise OracleError(f"{name}: {type(error).__name__}: {error}") from error
        return list(result) if isinstance(result, (tuple, list)) else [result]


def load(name: str, path: Path = ORACLES) -> Oracle:
    """The oracle called `name`. Raises OracleError."""
    module = _module(path)
    definition = getattr(module, name, None)
    if not callable(definition):
        raise OracleError(f"{path.name}: expected a function {name}, found none")
    return Oracle(
        name,
        definition,
        getattr(module, f"{name}_torch", definition),
        getattr(module, f"{name}_magnitude", None),
    )


@lru_cache(maxsize=8)
def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise OracleError(f"{path}: not found; the grader can't judge without it")
    spec = importlib.util.spec_from_file_location("warpgrade_oracles", path)
    assert spec is not None and spec.loader is not None  # since its name ends in .py
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise OracleError(f"{path.name}: {type(error).__name__}: {error}") from error
    return module

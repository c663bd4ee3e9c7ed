"""What is right: the functions of reference/oracles.py, by the conventions written there.

The only file of reference/ that the grader's process executes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ORACLES = Path(__file__).resolve().parent.parent / "reference" / "oracles.py"


class OracleError(RuntimeError):
    """The oracles' file is missing, or an exercise has no function in it."""


@dataclass(frozen=True)
class Truth:
    """One output: the float64 result, torch's own in the dtype, and the magnitude behind both.

    All of the output's shape. `own` is None where torch couldn't compute it in that dtype.
    """

    expected: torch.Tensor
    own: torch.Tensor | None
    magnitude: torch.Tensor


@dataclass(frozen=True)
class Oracle:
    """The functions of one exercise."""

    definition: Callable[..., Any]
    torch_own: Callable[..., Any]
    magnitude: Callable[..., Any] | None

    def truths(
        self, inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, Any], magnitude: str
    ) -> list[Truth]:
        """What every output must be, for inputs in the dtype under test.

        `magnitude` is the tolerance's: expected, absolute_inputs or oracle.
        """
        wide = {name: _widened(tensor) for name, tensor in inputs.items()}
        expected = _as_list(self.definition(**wide, **scalars))
        own = _as_list(self.torch_own(**inputs, **scalars))
        if magnitude == "oracle":
            if self.magnitude is None:
                raise OracleError("the tolerance says `magnitude: oracle`, but there is no such function")
            sizes = _as_list(self.magnitude(**wide, **scalars))
        elif magnitude == "absolute_inputs":
            absolute = {name: tensor.abs() for name, tensor in wide.items()}
            sizes = _as_list(self.definition(**absolute, **scalars))
        else:
            sizes = expected
        return [
            Truth(e, o, s.abs()) for e, o, s in zip(expected, own, sizes, strict=True)
        ]


def load(name: str, path: Path = ORACLES) -> Oracle:
    """The oracle called `name`. Raises OracleError."""
    module = _module(path)
    definition = getattr(module, name, None)
    if not callable(definition):
        raise OracleError(f"{path.name}: expected a function {name}, found none")
    return Oracle(
        definition,
        getattr(module, f"{name}_torch", definition),
        getattr(module, f"{name}_magnitude", None),
    )


@lru_cache(maxsize=8)
def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise OracleError(f"{path}: not found; the grader can't judge without it")
    spec = importlib.util.spec_from_file_location("warpgrade_oracles", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _as_list(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]

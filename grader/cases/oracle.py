"""Right results: the functions of a course's reference/oracles.py.

The file of this project's own course documents the conventions. The grader's process executes no
other file of reference/.
"""

from __future__ import annotations

import importlib.util
import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from grader.spec import Exercise
from grader.spec.exercise import REFERENCE

ORACLES = REFERENCE / "oracles.py"  # of the default course


class OracleError(RuntimeError):
    """The oracles' file or a function in it can't be used: the message says which and why."""

    @property
    def line(self) -> int | None:
        """The line of the oracles' file at which the cause was raised; None for no line of it."""
        cause = self.__cause__
        if isinstance(cause, SyntaxError):
            return cause.lineno
        frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
        lines = [each.lineno for each in frames if Path(each.filename).name == ORACLES.name]
        return lines[-1] if lines else None


@dataclass(frozen=True)
class Truth:
    """One output's float64 result, torch's own in the dtype, and the magnitude behind both.

    All have the output's shape. `own` is None where torch can't compute that dtype. `of_any_bits`
    says that an input has nan or infinities, so that these are no mistake of the kernel's.
    """

    expected: torch.Tensor
    own: torch.Tensor | None
    magnitude: torch.Tensor
    of_any_bits: bool = False


Tensors = Mapping[str, torch.Tensor]  # of a case, by name
Numbers = Mapping[str, Any]  # its sizes and scalars
# expected, absolute_inputs or oracle; or one of them for each output.
Magnitude = str | Sequence[str]


@dataclass(frozen=True)
class Checker:
    """The function `<name>_check` on one case: it judges outputs of which several may be right.

    The outputs come from an untrusted process. The function gets copies of them on the CPU, whose
    shapes and dtypes are the grader's; their contents may be anything.
    """

    name: str
    function: Callable[..., Any]
    inputs: Tensors
    numbers: Numbers

    def refused(
        self, outputs: Tensors, expected: Sequence[torch.Tensor]
    ) -> str | dict[str, torch.Tensor]:
        """What is wrong: a sentence, or the wrong elements of outputs; "" where all is right.

        A function that fails on the outputs, and not on the expected ones, refuses them. Raises
        OracleError where it fails on both, or gives something else.
        """
        try:
            return self._answer(outputs, expected)
        except OracleError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        right = {
            name: each.to(outputs[name].dtype) for name, each in zip(outputs, expected, strict=True)
        }
        try:
            self._answer(right, expected)
        except Exception as error:
            raise OracleError(f"{self.name}_check: {type(error).__name__}: {error}") from error
        return f"{self.name}_check can't judge these values: {reason}"

    def _answer(
        self, outputs: Tensors, expected: Sequence[torch.Tensor]
    ) -> str | dict[str, torch.Tensor]:
        before = {f"{n}_before": self.inputs[n] for n in outputs if n in self.inputs}
        tensors = {**self.inputs, **before, **outputs}
        given = {name: each.cpu().clone() for name, each in tensors.items()}
        more = {
            "expected": [each.cpu().clone() for each in expected],
            "dtype": _dtype_under_test(self.inputs),
        }
        answer = called(self.function, {}, {**self.numbers, **given, **more})
        if answer is None or isinstance(answer, str):
            return answer or ""
        if not isinstance(answer, Mapping):
            raise OracleError(f"{self.name}_check: {_ANSWERS}, got {type(answer).__name__}")
        for name, wrong in answer.items():
            if problem := _no_answer(name, wrong, outputs):
                raise OracleError(f"{self.name}_check: {problem}")
        return {name: wrong for name, wrong in answer.items() if bool(wrong.any())} or ""


_ANSWERS = "expected None, a sentence, or outputs' names with bool tensors of their shapes"


def _no_answer(name: object, wrong: object, outputs: Tensors) -> str:
    """Why a check's answer about one output is none, or ""."""
    if name not in outputs:
        return f"got {name!r}, which is no output: expected {', '.join(outputs)}"
    if not isinstance(wrong, torch.Tensor):
        return f"{name}: expected a bool tensor, got {type(wrong).__name__}"
    if wrong.dtype is not torch.bool:
        return f"{name}: expected a bool tensor, got {str(wrong.dtype).removeprefix('torch.')}"
    shape = tuple(outputs[str(name)].shape)
    if tuple(wrong.shape) != shape:
        return f"{name}: got shape {tuple(wrong.shape)}, expected {shape}"
    return ""


@dataclass(frozen=True)
class Oracle:
    """The functions of one exercise; `name` is that of the first."""

    name: str
    definition: Callable[..., Any]
    torch_own: Callable[..., Any]
    magnitude: Callable[..., Any] | None
    check: Callable[..., Any] | None = None

    def checker(self, inputs: Tensors, numbers: Numbers) -> Checker | None:
        """The exercise's own check of one case's outputs; None where it has none."""
        return None if self.check is None else Checker(self.name, self.check, inputs, numbers)

    def names_of(self, numbers: Iterable[str]) -> list[str]:
        """Those of the numbers' names that torch's own operator takes."""
        named = _parameters(self.torch_own)
        return [each for each in numbers if named is None or each in named]

    def truths(self, inputs: Tensors, numbers: Numbers, magnitude: Magnitude) -> list[Truth]:
        """The expected outputs, in order.

        `inputs` are in the dtype under test, by name. `numbers` are sizes and scalars: a function
        gets those that it names. `magnitude` is the tolerance's. Raises OracleError where a
        function of the oracle fails.
        """
        expected, sizes = self.in_dtype(inputs, numbers, magnitude, torch.float64)
        own = self._own(inputs, numbers, len(expected))
        if not len(expected) == len(own) == len(sizes):
            counts = (
                f"{self.name} {len(expected)}, its magnitude {len(sizes)}, torch's own {len(own)}"
            )
            raise OracleError(
                f"{self.name}: its functions return different numbers of outputs: {counts}"
            )
        for e, o, s in zip(expected, own, sizes, strict=True):
            for suffix, other in (("_magnitude", s), ("_torch", o)):
                if other is not None and e.shape != other.shape:
                    shapes = f"{self.name} {[*e.shape]}, {self.name}{suffix} {[*other.shape]}"
                    wrong = f"its functions return outputs of different shapes: {shapes}"
                    raise OracleError(f"{self.name}: {wrong}")
        any_bits = not all(
            bool(each.double().isfinite().all())
            for each in inputs.values()
            if each.is_floating_point()
        )
        return [
            Truth(e, o, _absolute(s), any_bits)
            for e, o, s in zip(expected, own, sizes, strict=True)
        ]

    def in_dtype(
        self, inputs: Tensors, numbers: Numbers, magnitude: Magnitude, dtype: torch.dtype
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The definition's outputs, computed in `dtype`, and their magnitudes with any sign.

        Raises OracleError where a function of the oracle fails.
        """
        wide = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in inputs.items()
        }
        expected = self._call(self.definition, wide, numbers)
        return expected, self.magnitudes(inputs, wide, numbers, expected, magnitude)

    def own(self, inputs: Tensors, numbers: Numbers) -> list[torch.Tensor]:
        """torch's own result of each output, or the definition's where torch has none.

        Raises OracleError where a function of the oracle fails.
        """
        try:
            return self._call(self.torch_own, inputs, numbers)
        except OracleError:
            return self._call(self.definition, inputs, numbers)

    def _own(self, inputs: Tensors, numbers: Numbers, count: int) -> list[torch.Tensor | None]:
        try:
            return [*self._call(self.torch_own, inputs, numbers)]
        except OracleError as error:
            # torch's errors for an operator that lacks a dtype on this device.
            if "not implemented for" in str(error):
                return [None] * count
            raise

    def magnitudes(
        self,
        inputs: Tensors,
        wide: Tensors,
        numbers: Numbers,
        expected: list[torch.Tensor],
        magnitude: Magnitude,
    ) -> list[torch.Tensor]:
        """Magnitudes of the numbers behind each output, with any sign, in the dtype of `wide`.

        `wide` are the inputs in that dtype; `expected` is used for the magnitude `expected`.
        Raises OracleError where a function of the oracle fails.
        """
        if not isinstance(magnitude, str):
            every = {
                each: self.magnitudes(inputs, wide, numbers, expected, each) for each in magnitude
            }
            if any(len(sizes) != len(magnitude) for sizes in every.values()):
                raise OracleError(f"{self.name}: expected {len(magnitude)} outputs")
            return [every[each][index] for index, each in enumerate(magnitude)]
        if magnitude == "expected":
            return expected
        if magnitude == "absolute_inputs":
            absolute = {name: _absolute(each) for name, each in wide.items()}
            return self._call(self.definition, absolute, numbers)
        if self.magnitude is None:
            raise OracleError(
                f"{self.name}: its tolerance says `magnitude: oracle`, which needs a function "
                f"{self.name}_magnitude"
            )
        return self._call(self.magnitude, wide, {**numbers, "dtype": _dtype_under_test(inputs)})

    def _call(
        self, function: Callable[..., Any], inputs: Mapping[str, Any], numbers: Numbers
    ) -> list[torch.Tensor]:
        name = getattr(function, "__name__", self.name)
        versions = [each._version for each in inputs.values()]
        try:
            result = called(function, inputs, numbers)
        except Exception as error:
            raise OracleError(f"{name}: {type(error).__name__}: {error}") from error
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        for each in outputs:
            if not isinstance(each, torch.Tensor):
                wanted = "expected a tensor, or a tuple of one for each output"
                raise OracleError(f"{name}: {wanted}, got {type(each).__name__}")
        # The other functions of the exercise get the same inputs.
        for (given, each), version in zip(inputs.items(), versions, strict=True):
            if each._version != version:
                raise OracleError(
                    f"{name}: it changes its input {given}: begin with {given}.clone()"
                )
        return outputs


def _dtype_under_test(inputs: Tensors) -> torch.dtype:
    floats = (each.dtype for each in inputs.values() if each.is_floating_point())
    return next(floats, torch.float32)


def _absolute(tensor: torch.Tensor) -> torch.Tensor:
    """The absolute values; torch has none of bool and of most unsigned integers."""
    kind = tensor.dtype
    is_signed = kind.is_floating_point or kind.is_signed
    return tensor.abs() if is_signed else tensor


def called(function: Callable[..., Any], tensors: Mapping[str, Any], numbers: Numbers) -> Any:
    """The function's result on tensors and on those of the numbers that it names."""
    named = _parameters(function)
    given = numbers if named is None else {n: v for n, v in numbers.items() if n in named}
    return function(**tensors, **given)


def misfit(function: Callable[..., Any], tensors: Iterable[str], numbers: Iterable[str]) -> str:
    """How a function's parameters don't fit what `called` gives it, or "".

    It must take every one of the tensors, and needs nothing but them and the numbers.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # written in C
        return ""
    named = [each.name for each in parameters if each.kind not in (each.VAR_KEYWORD,)]
    needed = {e.name for e in parameters if e.default is e.empty and e.kind is not e.VAR_KEYWORD}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    tensors, numbers = [*tensors], [*numbers]
    if needed <= {*tensors, *numbers} and (takes_any or {*tensors} <= {*named}):
        return ""
    also = f"; it may name {', '.join(numbers)} too" if numbers else ""
    name = getattr(function, "__name__", "the function")
    takes = ", ".join(named) or "nothing"
    return f"{name} takes {takes}; the spec's inputs are {', '.join(tensors)}{also}"


@lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names of a function's parameters; None where it takes any."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # written in C
        return frozenset()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return None if takes_any else frozenset(parameters)


def inputs_of(exercise: Exercise, given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that the exercise's function `<name>_inputs` makes; {} where there is none.

    It gets what it names of `given`. Raises OracleError where it fails or gives no mapping.
    """
    name, path = exercise.oracle, file_of(exercise)
    function = getattr(_module(path), f"{name}_inputs", None) if path.is_file() else None
    if function is None:
        return {}
    try:
        made = called(function, {}, given)
    except Exception as error:
        raise OracleError(f"{name}_inputs: {type(error).__name__}: {error}") from error
    if not isinstance(made, Mapping):
        came = type(made).__name__
        raise OracleError(f"{name}_inputs: expected a mapping of names to tensors, got {came}")
    return dict(made)


def of(exercise: Exercise) -> Oracle:
    """The oracle of an exercise, from its course's file. Raises OracleError."""
    return load(exercise.oracle, file_of(exercise))


def file_of(exercise: Exercise) -> Path:
    """The file of an exercise's oracle."""
    return exercise.reference / ORACLES.name


def load(name: str, path: Path | None = None) -> Oracle:
    """The oracle called `name`, of a file like ORACLES. Raises OracleError."""
    path = path or ORACLES
    module = _module(path)
    definition = getattr(module, name, None)
    if not callable(definition):
        raise OracleError(f"{path.name}: expected a function {name}, found none")
    return Oracle(
        name,
        definition,
        getattr(module, f"{name}_torch", definition),
        getattr(module, f"{name}_magnitude", None),
        getattr(module, f"{name}_check", None),
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

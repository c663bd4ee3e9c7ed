"""Postpones the import of parts of torch that FakeTensorMode imports and a plan doesn't need.

    postpone()         before the first operation on a FakeTensor
    forget_dtensor()   after it

Together they take longer to import than anything in the fork server except torch itself. Each is an
empty module in `sys.modules` with the few names that torch reads meanwhile. Asking for another name
executes the whole module, under its own name; a submission's import may do so.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from typing import Any

import torch

_DYNAMO = "torch._dynamo"
_SHAPES = "torch.fx.experimental.symbolic_shapes"
_DTENSOR = "torch.distributed.tensor"


class _Postponed(types.ModuleType):
    """A module that is executed when a missing name is read.

    To import one of its submodules Python reads `__path__`.
    """

    __spec__: ModuleSpec

    def __getattr__(self, name: str) -> Any:
        is_package = self.__spec__.submodule_search_locations is not None
        if name.startswith("__") and not (name == "__path__" and is_package):
            raise AttributeError(name)
        self.execute()
        return getattr(self, name)

    def execute(self) -> None:
        """Execute the whole module."""
        spec = self.__spec__
        assert spec.loader is not None
        if spec.submodule_search_locations is not None:
            self.__path__ = spec.submodule_search_locations
        self.__class__ = types.ModuleType  # type: ignore[assignment]  # it has no slots
        spec.loader.exec_module(self)


def postpone() -> None:
    """Install the empty modules, for those that aren't imported yet."""
    # torch's own functions only use it to be left uncompiled.
    _stand_in(_DYNAMO, {"disable": lambda function=None, *args, **kwargs: function})
    dynamo = sys.modules[_DYNAMO]
    if isinstance(dynamo, _Postponed):  # FakeTensorMode reads its settings
        dynamo.__path__ = dynamo.__spec__.submodule_search_locations or []
        importlib.import_module(f"{_DYNAMO}.config")
        del dynamo.__path__
    _stand_in(_SHAPES, _of_numbers())
    # Symbols are written in it: without any, nothing is an instance of these.
    _stand_in("sympy", {"Basic": type("Basic", (), {})})
    _stand_in("torch.utils._sympy.functions", {"Max": type("Max", (), {})})
    # torch's C++ tests each argument of an operation for DTensor.
    _stand_in(_DTENSOR, {"DTensor": type("DTensor", (), {})})


def forget_dtensor() -> None:
    """Remove DTensor from its module: torch's C++ keeps the class, others get the real one."""
    module = sys.modules[_DTENSOR]
    if isinstance(module, _Postponed):
        del module.DTensor


def _stand_in(name: str, names: Mapping[str, Any]) -> None:
    if name in sys.modules or (spec := importlib.util.find_spec(name)) is None:
        return
    module = _Postponed(name)
    module.__spec__, module.__file__, module.__package__ = spec, spec.origin, spec.parent
    vars(module).update(names)
    sys.modules[name] = module
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, module)


def _of_numbers() -> dict[str, Any]:
    """torch's functions on sizes, which in a plan are always numbers."""
    same = (
        *("guard_or_false", "guard_or_true", "guard_size_oblivious"),
        *("statically_known_true", "expect_true", "guard_int"),
        *("optimization_hint", "guarding_hint_or_throw", "size_hint"),
    )
    return {
        **{name: _same(name) for name in same},
        "sym_and": lambda *values: functools.reduce(operator.and_, values),
        "sym_or": lambda *values: functools.reduce(operator.or_, values),
        "sym_eq": _equal,
        "is_nested_int": lambda value: _is_symbol(value) and value.node.is_nested_int(),
        "is_symbolic": lambda value: _is_symbol(value) and value.node.is_symbolic(),
        # One question, whose name depends on the version of torch.
        "has_guarding_hint": _has_hint,
        "has_hint": _has_hint,
        "compute_unbacked_bindings": _nothing_for_no_shapes,
        "free_unbacked_symbols": lambda value: set(),
        "has_free_unbacked_symbols": lambda value: False,
        "has_free_symbols": lambda value: False,
        "_iterate_exprs": _no_symbols,
        "_iterate_nodes": _no_symbols,
        "GuardOnDataDependentSymNode": type("GuardOnDataDependentSymNode", (RuntimeError,), {}),
    }


def _same(name: str) -> Callable[..., Any]:
    """A function that returns a bool or a number, and asks torch about a symbol."""

    def answer(value: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, (bool, int)):
            return value
        return getattr(_whole(_SHAPES), name)(value, *args, **kwargs)

    return answer


def _equal(one: Any, other: Any) -> Any:
    """Whether two sizes are equal, or two shapes."""
    if any(map(_is_symbol, (*_listed(one), *_listed(other)))):
        return _whole(_SHAPES).sym_eq(one, other)
    return _listed(one) == _listed(other)


def _is_symbol(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _has_hint(value: Any) -> bool:
    return not _is_symbol(value) or value.node.has_hint()


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _nothing_for_no_shapes(shapes: Any, *args: Any, **kwargs: Any) -> Any:
    """The sizes that depend on an operation's data: there are none without symbols."""
    if shapes is None:
        return None
    return _whole(_SHAPES).compute_unbacked_bindings(shapes, *args, **kwargs)


def _no_symbols(_: Any) -> Iterator[Any]:
    return iter(())


def _whole(name: str) -> types.ModuleType:
    """The module of this name, executed."""
    module = sys.modules[name]
    if isinstance(module, _Postponed):
        module.execute()
    return module

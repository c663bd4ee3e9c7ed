"""Runs a submission's constexpr_functions and records their results as literals of the plan.

A constexpr_function is arbitrary Python, which the frontend process must not run. So Triton's
frontend runs once in the planner, where the submission's Python runs anyway, and each call is
recorded. A false record only changes a constant of the submission's own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from triton.runtime.jit import ConstexprFunction

from ..compile import literals
from ..compile.frontend import lower
from ..compile.source import place
from ..compile.textual import call_key
from .errors import KernelError

MAX_CALLS = 256  # with different arguments, of one function


def record(source: Any, chosen: Any, functions: Sequence[ConstexprFunction]) -> None:
    """Give each function its recorded results as `recorded_calls`. Raises KernelError.

    An error of the compiler is left to the frontend process, which reports it with its place.
    """
    calls: dict[int, dict[str, Any]] = {id(function): {} for function in functions}
    with _noting(calls), contextlib.suppress(Exception):
        lower(source, chosen)
    for function in functions:
        noted = []
        for key, result in calls[id(function)].items():
            positional, named = json.loads(key)
            try:
                literal = literals.to_json(result)
            except literals.NotALiteral as error:
                raise KernelError(
                    f"{function.__name__} gives {error}; a constexpr_function may give numbers, "
                    "texts, types and tuples of them",
                    place(function)[1],
                ) from None
            noted.append({"arguments": positional, "keywords": named, "result": literal})
        function.recorded_calls = noted


@contextlib.contextmanager
def _noting(calls: dict[int, dict[str, Any]]) -> Iterator[None]:
    original = ConstexprFunction.__call__

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        of_self = calls.get(id(self))
        if of_self is not None and len(of_self) < MAX_CALLS:
            named = {name: value for name, value in kwargs.items() if name != "_semantic"}
            with contextlib.suppress(literals.NotALiteral):
                of_self[call_key(args, named)] = result
        return result

    ConstexprFunction.__call__ = noted
    try:
        yield
    finally:
        ConstexprFunction.__call__ = original

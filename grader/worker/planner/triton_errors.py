"""Rewords Triton's errors about a wrong launch, so that they name the kernel."""

from __future__ import annotations

import re

from triton.runtime.jit import JITFunction

from .errors import LaunchError

_WITHOUT_GRID = "Cannot call @triton.jit'd outside of the scope of a kernel"
_NOT_CALLABLE = re.compile(r"'(Autotuner|Heuristics)' object is not callable")
_MISSING = re.compile(
    r"dynamic_func\(\) missing \d+ required (?:positional|keyword-only) arguments?: "
)
_UNKNOWN = re.compile(r"Keyword argument (\w+) was specified but unrecognised")
_BINDER = "dynamic_func()"  # Triton's name of the function that binds a kernel's arguments


def in_words(error: BaseException) -> LaunchError | None:
    """The error that replaces one of Triton's launcher; None for other errors."""
    if not isinstance(error, RuntimeError | TypeError | KeyError) or not error.args:
        return None
    message = str(error.args[0])
    name = _kernel(error)
    if message.startswith(_WITHOUT_GRID) or _NOT_CALLABLE.fullmatch(message):
        name = name or "kernel"
        return LaunchError(f"`{name}` needs a grid: `{name}[(programs,)](...)`")
    if name and (unknown := _UNKNOWN.match(message)):
        there = "which is neither a parameter of it nor an option of Triton's"
        return LaunchError(f"`{name}` was launched with {unknown[1]}, {there}")
    if not name or not message.startswith(_BINDER):
        return None
    if missing := _MISSING.match(message):
        names = message[missing.end() :].replace("'", "")
        return LaunchError(f"`{name}` was launched without {names}")
    return LaunchError(message.replace(_BINDER, f"`{name}`"))


def _kernel(error: BaseException) -> str:
    """The kernel whose launch raised an error; "" where it was none."""
    name, traceback = "", error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        of_kernel = frame.f_locals.get("self")
        if isinstance(of_kernel, JITFunction) and frame.f_globals.get("__name__") == _TRITONS:
            name = str(of_kernel.__name__)
        traceback = traceback.tb_next
    return name


_TRITONS = "triton.runtime.jit"

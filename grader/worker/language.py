"""triton.language while a kernel is interpreted.

Upstream patches the language anew on every call of a device function, which takes the better part
of a millisecond. Here it is asked once what it changes; a launch applies that in some microseconds,
and device functions find it applied.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import triton
import triton.language as tl
from triton.runtime import interpreter as upstream

Change = tuple[Any, str, Any, Any]  # owner, name, as it is (or _ABSENT), as a kernel needs it
_ABSENT = object()


class Language:
    """triton.language as the interpreter needs it, while a kernel runs."""

    def __init__(self) -> None:
        self.depth = 0
        self._changes: list[Change] = []

    def prepare(self) -> None:
        """Find out what is to change; once per process, before the first kernel."""
        self._changes = [*_upstream_changes(), *_method_changes()]

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """Apply upstream's patches of triton.language; nested uses cost nothing."""
        if self.depth == 0:
            for owner, name, _, new in self._changes:
                setattr(owner, name, new)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if self.depth == 0:
                for owner, name, old, _ in self._changes:
                    if old is _ABSENT:
                        delattr(owner, name)
                    else:
                        setattr(owner, name, old)

    def shadows(self) -> dict[int, Any]:
        """What stands for an object of triton.language while a kernel runs, by the object's id."""
        return {
            id(old): new for owner, _, old, new in self._changes if isinstance(owner, ModuleType)
        }


def _upstream_changes() -> list[Change]:
    """What upstream's own patching changes, found by letting it patch once."""
    owners = [tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.condition]
    owners.append(tl.core.tensor_descriptor_base)
    before = [dict(vars(owner)) for owner in owners]
    anyone = FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
    scope = upstream._patch_lang(anyone)
    if not {id(o) for o, _, _ in getattr(scope, "_changes", ())} <= set(map(id, owners)):
        raise RuntimeError(f"triton {triton.__version__} patches more than the interpreter knows")
    after = [dict(vars(owner)) for owner in owners]
    if scope is not None:
        scope.restore()
    ours = {(tl.tensor, "__index__"): _index}
    return [
        (owner, name, old.get(name, _ABSENT), ours.get((owner, name), new[name]))
        for owner, old, new in zip(owners, before, after, strict=True)
        for name in new
        if new[name] is not old.get(name, _ABSENT)
    ]


def _index(scalar: tl.tensor) -> int:
    """`range(0, n, BLOCK)`: up to 3.6 upstream's own asks numpy for what 2.5 no longer does."""
    return int(scalar.handle.data.item())


def _method_changes() -> list[Change]:
    """Methods such as `x.exp()` that upstream forgets: 3.8 doesn't mark them as built in."""
    changes = []
    for name, method in vars(tl.tensor).items():
        if "_semantic" in getattr(getattr(method, "signature", None), "parameters", ()) and (
            not tl.core.is_builtin(method)
        ):
            changes.append((tl.tensor, name, method, _with_semantic(method)))
    return changes


def _with_semantic(method: Any) -> Any:
    @functools.wraps(method)
    def call(*args, **kwargs):
        return method(*args, **{**kwargs, "_semantic": upstream.interpreter_semantic})

    return call

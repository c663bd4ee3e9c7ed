"""Limits the functions that a kernel's text may call while Triton's frontend compiles it.

The frontend evaluates attributes of any object and calls the functions that it finds. In functions
of the submission, an expression with a dot may only give a value of the language; Triton's own
functions are unchanged.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import types
from typing import Any

import triton.language as tl
from triton.compiler import code_generator
from triton.language.core import base_type, base_value, is_builtin
from triton.runtime.jit import ConstexprFunction, JITFunction

from . import gluon, proxies
from .textual import RecordedFunction, TextFunction, Unusable, made_modules

_PLAIN = (bool, int, float, str, type(None), tl.dtype, base_value, base_type, enum.Enum)
_CLASSES = (bool, int, float, str)
_FORMATTING = ("format", "format_map")  # their fields evaluate attributes of any object


@functools.cache
def install() -> None:
    """Make this process's frontend check attributes. Irreversible."""
    generator = code_generator.CodeGenerator
    visit_attribute, visit_name = generator.visit_Attribute, generator.visit_Name

    def guarded_attribute(self: Any, node: ast.Attribute) -> Any:
        if not isinstance(self.jit_fn, TextFunction):
            return visit_attribute(self, node)
        if node.attr.startswith("__"):
            raise AttributeError(f"{node.attr} can't be used in a kernel")
        value = visit_attribute(self, node)
        if isinstance(value, Unusable):
            raise NameError(value.reason)
        if not is_allowed(value):
            raise AttributeError(f"{ast.unparse(node)[:80]} is not part of Triton's language")
        return value

    def guarded_name(self: Any, node: ast.Name) -> Any:
        value = visit_name(self, node)
        if value is builtins.getattr and isinstance(self.jit_fn, TextFunction):
            raise NameError("getattr can't be used in a kernel")
        return value

    generator.visit_Attribute = guarded_attribute
    generator.visit_Name = guarded_name


def is_allowed(value: Any) -> bool:
    """Whether a value is one of the language, and no Python object that leads elsewhere."""
    if isinstance(value, (TextFunction, RecordedFunction, *_PLAIN)):
        return True
    if gluon.is_layout(value):
        return True
    if isinstance(value, types.ModuleType):
        return proxies.is_proxy(value) or any(value is each for each in made_modules)
    if isinstance(value, tuple | list):
        return all(map(is_allowed, value))
    if isinstance(value, JITFunction | ConstexprFunction):
        return proxies.is_of_triton(value)
    if isinstance(value, type):
        return value in _CLASSES or proxies.path_of(value) is not None
    if is_builtin(value) or isinstance(value, code_generator.BoundJITMethod):
        return True
    owner = getattr(value, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        return proxies.path_of(value) is not None
    if isinstance(owner, str) and getattr(value, "__name__", "") in _FORMATTING:
        return False
    return isinstance(owner, (*_PLAIN, tuple, list))

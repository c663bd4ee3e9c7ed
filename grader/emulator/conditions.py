"""Preprocessor conditions on which nvcc and the emulator's compiler may disagree.

A file that tests a macro which only one of them defines could have one kernel for the emulator and
another for the GPU. A condition on a macro that the file defines itself is the same for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from . import unsupported
from .lexer import Directive
from .tokens import Source

_TESTS = frozenset({"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"})
# Names that compilers, CUDA's headers or the emulator's headers define.
_OF_COMPILERS = re.compile(r"__\w*|_[A-Z]\w*|CUDA\w*|NV_?\w*|WARPGRADE\w*|warpgrade\w*")
# Both define these, with the same meaning for a submission. (nvcc calls g++ for the host code, and
# its device code sees the same host compiler.)
_ALIKE_TEXT = """
__CUDACC__ __NVCC__ __cplusplus __linux__ __linux __unix__ __x86_64__ __GNUC__ __LP64__
__FILE__ __LINE__ __func__ __FUNCTION__ __BYTE_ORDER__ __SIZEOF_POINTER__ __CHAR_BIT__
"""
_ALIKE = frozenset(_ALIKE_TEXT.split())
_ARCHITECTURE = "__CUDA_ARCH__"  # defined by both in device code; not by nvcc in host code


@dataclass(frozen=True)
class Condition:
    """A test of a macro that the two compilers may answer differently."""

    line: int
    macro: str


def find(source: Source) -> list[Condition]:
    """The conditions of a file that the compilers may answer differently, in order."""
    own = {each.macro for each in source.directives}
    bodies = list(unsupported.device_bodies(source.code.tokens))
    inside = [
        (source.code.tokens[start].start, source.code.tokens[end].start) for start, end in bodies
    ]
    conditions = []
    for each in source.directives:
        for name in _tested(each):
            in_device_code = any(start < each.at.start < end for start, end in inside)
            known = name in own or name in _ALIKE or (name == _ARCHITECTURE and in_device_code)
            if not known and _OF_COMPILERS.fullmatch(name):
                conditions.append(Condition(each.at.line, name))
    return conditions


def _tested(directive: Directive) -> Iterator[str]:
    if directive.name in _TESTS:
        names = (token.text for token in directive.tokens if token.kind == "name")
        yield from dict.fromkeys(name for name in names if name != "defined")

"""Finds the kernels of an object, and what else an executor's program must keep.

`__global__` marks a function with a patchable entry (include/warpgrade/qualifiers.h): the compiler
lists those in a section, and nothing else distinguishes a kernel from a host function. Thunks call
kernels (include/warpgrade/launch.h); device variables are copied by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .elf import FUNCTION, OBJECT, Elf, Symbol

_ENTRIES = "__patchable_function_entries"
_DEVICE_SECTIONS = ("warpgrade_device", "warpgrade_constant")
# The names of its two parameters depend on the types that the name had before.
_THUNK = re.compile(r"_ZN9warpgrade(?:11KernelThunk|18DeducedKernelThunk)I.*5thunkE\w+")


@dataclass(frozen=True)
class Roots:
    """Symbols that the linker keeps, with everything that they reach."""

    kernels: tuple[str, ...]
    thunks: tuple[str, ...]
    variables: tuple[str, ...]
    others: tuple[str, ...]  # defined for other objects, too

    @property
    def all(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.kernels, *self.thunks, *self.variables)


def find(elf: Elf) -> Roots:
    """The roots of a submission's object."""
    functions = {(s.section, s.value): s for s in elf.symbols if s.kind == FUNCTION and s.section}
    kernels = []
    for _, relocation in elf.relocations(lambda section: section.name == _ENTRIES):
        target = elf.symbols[relocation.symbol]
        kernel = functions.get((target.section, target.value + relocation.addend))
        if kernel is not None:
            kernels.append(kernel)
    thunks = [s for s in functions.values() if _THUNK.fullmatch(s.name)]
    device = {i for i, each in enumerate(elf.sections) if each.name in _DEVICE_SECTIONS}
    variables = [s for s in elf.symbols if s.kind == OBJECT and s.section in device]
    roots = {each.name for each in (*kernels, *thunks, *variables)}
    others = [s for s in elf.symbols if s.is_defined and not s.is_local and s.name not in roots]
    return Roots(_names(kernels), _names(thunks), _names(variables), _names(others))


def _names(symbols: Iterable[Symbol]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(symbol.name for symbol in symbols))

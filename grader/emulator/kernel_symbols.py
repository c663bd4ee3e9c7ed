"""Finds the kernels of an object, and what else an executor's program must keep.

`__global__` marks a function with a patchable entry (include/warpgrade/qualifiers.h): the compiler
lists those in a section, and nothing else distinguishes a kernel from a host function. Thunks call
kernels (include/warpgrade/launch.h); device variables are copied by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from . import kernel_symbols
from .elf import FUNCTION, OBJECT, Elf, Symbol

_ENTRIES = "__patchable_function_entries"
_DEVICE_SECTIONS = ("warpgrade_device", "warpgrade_constant")
# Objects share one copy of these, the first that the linker finds, also with the C++ library.
_SHARED_REFERENCES = "DW.ref."
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
    for section, relocation in elf.relocations(code_only=False):
        if section.name != _ENTRIES:
            continue
        target = elf.symbols[relocation.symbol]
        kernel = functions.get((target.section, target.value + relocation.addend))
        if kernel is not None:
            kernels.append(kernel)
    thunks = [s for s in functions.values() if _THUNK.fullmatch(s.name)]
    device = {i for i, each in enumerate(elf.sections) if each.name in _DEVICE_SECTIONS}
    variables = [s for s in elf.symbols if s.kind == OBJECT and s.section in device]
    roots = {each.name for each in (*kernels, *thunks, *variables)}
    others = [
        s
        for s in elf.symbols
        if s.is_defined
        and not s.is_local
        and s.name not in roots
        and not s.name.startswith(_SHARED_REFERENCES)
    ]
    return Roots(_names(kernels), _names(thunks), _names(variables), _names(others))


def _names(symbols: Iterable[Symbol]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(symbol.name for symbol in symbols))


# --- what live code needs -------------------------------------------------------------------------

# Finds the undefined symbols of an object that live code uses.
#
# Functions and variables have sections of their own, so relocations show what reaches what.

# Sections that the linker always keeps, and those that are found through other sections.
_ALWAYS_THERE = (
    *(".preinit_array", ".init", ".fini", ".ctors", ".dtors", ".gcc_except_table"),
    "__patchable_function_entries",
)


def asked_symbols(elf: Elf, entries: Collection[str]) -> set[str]:
    """The undefined symbols that an entry, a kernel, or code that runs by itself reaches."""
    leads: dict[str, list[Symbol]] = {}  # by the name of the section with the reference
    for section, relocation in elf.relocations(code_only=False):
        leads.setdefault(section.name, []).append(elf.symbols[relocation.symbol])
    roots = {*kernel_symbols.find(elf).all, *entries}
    waiting = [_section_of(elf, each) for each in elf.symbols if each.name in roots]
    waiting += [name for name in leads if name.startswith(_ALWAYS_THERE)]
    reached: set[str] = set()
    result: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for symbol in leads.get(name, ()):
            if symbol.is_defined:
                waiting.append(_section_of(elf, symbol))
            else:
                result.add(symbol.name)
    return result


def _section_of(elf: Elf, symbol: Symbol) -> str:
    defined = 0 < symbol.section < len(elf.sections)
    return elf.sections[symbol.section].name if defined else ""

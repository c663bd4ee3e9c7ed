"""Finds the undefined symbols of an object that live code uses.

Functions and variables have sections of their own, so relocations show what reaches what.
"""

from __future__ import annotations

from collections.abc import Collection

from . import kernel_symbols
from .elf import Elf, Symbol

# Sections that the linker always keeps, and those that are found through other sections.
_ALWAYS_THERE = (
    *(".preinit_array", ".init", ".fini", ".ctors", ".dtors", ".gcc_except_table"),
    "__patchable_function_entries",
)


def asked_symbols(elf: Elf, entries: Collection[str]) -> set[str]:
    """The undefined symbols that an entry, a kernel, or code that runs by itself reaches."""
    leads: dict[str, list[Symbol]] = {}  # by the name of the section with the reference
    for section, relocation in elf.relocations():
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

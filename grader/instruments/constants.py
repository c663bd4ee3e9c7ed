"""Constants of a kernel's file, found by name and given other values in its text.

A changed text is planned and judged as any submission is, so that the host code decides anew about
grids and buffers. In Python a name is set again right behind each statement that sets it, and
replaced where a launch or a default gives it; num_warps and num_stages are added to launches. In
CUDA C++ the value of a const, a constexpr or a macro is replaced. No line moves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from grader.emulator.lexer import Token
from grader.emulator.tokens import read
from grader.grading import source_reading

OPTIONS = ("num_warps", "num_stages")  # of any launch of a Triton kernel

Edit = tuple[int, int, str]  # from, to, text; offsets in the file's bytes


@dataclass(frozen=True)
class Constants:
    """The constants of one file, as one entry uses them."""

    text: str
    edits: dict[str, list[tuple[int, int, str, str]]]  # by name: from, to, before and after a value
    language: str

    @property
    def names(self) -> list[str]:
        """Those that can be set, in the order of the file."""
        return list(self.edits)

    def with_values(self, values: Mapping[str, str]) -> str:
        """The text with other values of some constants, which must be among `names`."""
        data = self.text.encode()
        edits = [
            (start, end, f"{before}{_literal(value, self.language)}{after}".encode())
            for name, value in values.items()
            for start, end, before, after in self.edits[name]
        ]
        for start, end, new in sorted(edits, key=lambda each: each[:2], reverse=True):
            data = data[:start] + new + data[end:]
        return data.decode()


def of(data: bytes, entry: str, language: str) -> Constants:
    """The constants of a file's contents. Raises source_reading.TooInvolved, SyntaxError."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    find = _in_python if language == "triton" else _in_cuda
    found = source_reading.limited(_found, find.__name__, text, entry)
    if isinstance(found, str):
        raise SyntaxError(found)
    edits: dict[str, list[tuple[int, int, str, str]]] = {}
    for name, *place in found:
        edits.setdefault(name, []).append(tuple(place))
    return Constants(text, edits, language)


def _found(function: str, text: str, entry: str) -> list[list[object]] | str:
    """Every place of every constant: name, from, to, before, after. A str says why there is none."""
    try:
        return [list(each) for each in globals()[function](text, entry)]
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"

"""The kernels that a file declares, with the facts that launching them needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from . import tokens
from .lexer import Token

_PACK = 1000  # template parameters of a parameter pack


@dataclass
class Kernel:
    """The facts about a kernel's declarations, by its name."""

    template_parameters: int = 0
    has_defaults: bool = False
    parameters: set[tuple[str, ...]] = field(default_factory=set)  # types, one list per overload

    def is_deduced(self, explicit: int) -> bool:
        """Whether its type can only be deduced from a launch's arguments."""
        overloaded = len(self.parameters) > 1
        return overloaded or self.has_defaults or explicit < self.template_parameters


def find(run: tuple[Token, ...]) -> dict[str, Kernel]:
    """The kernels that the file declares, by name."""
    kernels: dict[str, Kernel] = {}
    for i, token in enumerate(run):
        if token.text != "__global__":
            continue
        declared = declared_function(run, i)
        if not declared:
            continue
        name, start, end = declared
        kernel = kernels.setdefault(name, Kernel())
        inside = run[start + 1 : end]
        kernel.has_defaults |= any(token.text == "=" for token in inside)
        kernel.parameters.add(types(inside))
        kernel.template_parameters = max(kernel.template_parameters, _template_parameters(run, i))
    return kernels


def types(inside: Sequence[Token]) -> tuple[str, ...]:
    """The types of a parameter list, equal for a declaration and its definition."""
    return tuple(_type(part) for part in split_arguments(inside))


def _type(parameter: Sequence[Token]) -> str:
    words = [token.text for token in parameter if "restrict" not in token.text]
    if "=" in words:
        words = words[: words.index("=")]
    # Without its name, if it has one: the last word that is neither alone nor part of the type.
    named = len(words) > 1 and words[-1].isidentifier() and words[-2] not in ("::", "const")
    if named and words[-1] not in ("int", "long", "char", "short", "double", "const"):
        words = words[:-1]
    return " ".join(words)


def declared_function(run: tuple[Token, ...], i: int) -> tuple[str, int, int] | None:
    """Name and parameter list (indices of its brackets) of the function declared from `i` on."""
    while i + 1 < len(run) and run[i].text not in (";", "{", "}", "="):
        is_list = run[i].kind == "name" and run[i + 1].text == "("
        end = tokens.closing(run, i + 1) if is_list else None
        if is_list and end is None:
            return None
        if is_list and end is not None:
            attribute = run[i].text.startswith("__") or run[i].text == "alignas"
            if not attribute:
                return run[i].text, i + 1, end
            i = end
        i += 1
    return None


def _template_parameters(run: tuple[Token, ...], i: int) -> int:
    """The template parameters without default of the declaration around token `i`."""
    while i > 0 and run[i - 1].text not in (";", "}", "{", ":"):
        i -= 1
        if run[i].text == "template" and run[i + 1].text == "<":
            depth = 0
            for j in range(i + 1, len(run)):
                depth += {"<": 1, ">": -1, ">>": -2}.get(run[j].text, 0)
                if depth <= 0:
                    inside = run[i + 2 : j]
                    if any(t.text == "..." for t in inside):  # a parameter pack
                        return _PACK
                    return count_arguments(inside)
    return 0


def split_arguments(inside: Sequence[Token]) -> list[list[Token]]:
    """The arguments of a list, from the tokens between its brackets."""
    parts: list[list[Token]] = [[]] if inside else []
    depth = 0
    for token in inside:
        if token.text in ("(", "[", "{", "<"):
            depth += 1
        elif token.text in (")", "]", "}", ">", ">>"):
            depth -= len(token.text)
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def count_arguments(inside: Sequence[Token]) -> int:
    """The number of arguments of a list."""
    return len(split_arguments(inside))

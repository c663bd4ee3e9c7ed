"""The functions that a CUDA file defines, with their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.emulator.lexer import Token
from grader.policy.cuda.names import GLOBAL
from grader.policy.cuda.scopes import Place, walk


@dataclass(frozen=True)
class Function:
    """A function outside of classes, with the tokens between its braces."""

    name: str
    head: tuple[Token, ...]
    body: tuple[Token, ...]

    @property
    def is_kernel(self) -> bool:
        return any(token.text == GLOBAL for token in self.head)


def functions(tokens: Sequence[Token]) -> list[Function]:
    """The functions that a file defines, in its order. Raises TooInvolved."""
    defined: list[Function] = []
    brace = 0
    for each in walk(tokens):
        if isinstance(each, Place):
            brace = each.index  # the function follows after the place of its brace
        elif each.opens is not None and each.scope.kind == "namespace":
            body = tokens[brace + 1 : _closing(tokens, brace)]
            defined.append(Function(each.opens.name, each.head, tuple(body)))
    return defined


def _closing(tokens: Sequence[Token], brace: int) -> int:
    """The index of the brace that closes the one at a place, or the end of the file."""
    depth = 0
    for index in range(brace, len(tokens)):
        if tokens[index].kind == "punctuation":
            depth += (tokens[index].text == "{") - (tokens[index].text == "}")
            if not depth:
                return index
    return len(tokens)

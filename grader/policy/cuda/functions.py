"""The functions that a CUDA file defines, with their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.emulator.lexer import Token
from grader.emulator.tokens import closing
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
            body = tokens[brace + 1 : closing(tokens, brace)]
            defined.append(Function(each.opens.name, each.head, tuple(body)))
    return defined

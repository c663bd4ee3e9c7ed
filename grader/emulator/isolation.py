"""Takes the features that the emulator lacks out of a source: they cost only what uses them.

A function whose body uses one ends the run where it is called, with the feature's name and line.
Any other declaration that does is left out, and its name then counts as a lacking feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import kernels, tokens
from .edits import Edit, apply
from .lexer import Token
from .tokens import Source
from .unsupported import Unsupported

_TYPES = ("struct", "class", "union", "enum", "typedef", "using", "namespace")


@dataclass(frozen=True)
class _Part:
    """A declaration, or a macro. `body`: the index of the brace that opens a function's body."""

    tokens: tuple[Token, ...]
    name: str
    body: int | None = None
    is_macro: bool = False


@dataclass(frozen=True)
class Isolated:
    """The text without the features; lines are as before."""

    text: str
    is_whole: bool  # every declaration is still there


def without(source: Source, found: Sequence[Unsupported]) -> Isolated | None:
    """The source without these features; None where one is in no declaration."""
    features = {each.offset: each.feature for each in found}
    parts = [*_declarations(source.code.tokens), *_macros(source)]
    if not features.keys() <= {token.start for part in parts for token in part.tokens}:
        return None
    left_out: dict[str, str] = {}  # by name: the feature
    edits: dict[_Part, list[Edit]] = {}
    is_whole = True
    before = -1
    while before < len(left_out):
        before = len(left_out)
        for part in parts:
            uses = (
                (i, token, feature)
                for i, token in enumerate(part.tokens)
                if (feature := features.get(token.start) or left_out.get(token.text))
            )
            i, token, feature = next(uses, (0, None, ""))
            if token is None:
                continue
            if part.body is not None and i > part.body:
                edits[part] = _ending_the_run(part, part.body, token, feature)
                continue
            left_out.setdefault(part.name, feature)
            is_whole &= part.is_macro
            instead = _refusal(feature) if part.is_macro else ""
            edits[part] = [Edit(part.tokens[0].start, part.tokens[-1].end, instead)]
    text = apply(source.text, [edit for each in edits.values() for edit in each])
    return Isolated(text, is_whole)


def _ending_the_run(part: _Part, body: int, token: Token, feature: str) -> list[Edit]:
    """The function's body replaced, on the line of this token."""
    start, end = part.tokens[body].start, part.tokens[-1].end
    return [Edit(start, token.start, "{ "), Edit(token.start, end, f"{_refusal(feature)}; }}")]


def _refusal(feature: str) -> str:
    quoted = feature.replace("\\", "\\\\").replace('"', '\\"')
    return f'::warpgrade_unsupported("{quoted}")'


def _macros(source: Source) -> Iterator[_Part]:
    for directive in source.directives:
        if directive.macro and directive.body:
            yield _Part(directive.body, directive.macro, is_macro=True)


def _declarations(run: tuple[Token, ...]) -> Iterator[_Part]:
    """The declarations of a file and of its namespaces; a class is one with its members."""
    start = i = 0
    while i < len(run):
        text = run[i].text
        if text in ("(", "[", "{"):
            end = tokens.closing(run, i)
            if end is None:
                return
            head = run[start:i]
            if text == "{" and _is_scope(head):
                yield from _declarations(run[i + 1 : end])
                start = end + 1
            elif text == "{" and _is_function(head):
                yield _Part(run[start : end + 1], _name(head), i - start)
                start = end + 1
            i = end
        elif text == ";":
            if i > start:
                yield _Part(run[start : i + 1], _name(run[start : i + 1]))
            start = i + 1
        elif text == "}":
            return
        i += 1


def _is_scope(head: tuple[Token, ...]) -> bool:
    words = [token.text for token in head]
    return words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"] or (
        len(words) == 2 and words[0] == "extern" and head[1].kind == "string"
    )  # fmt: skip


def _is_function(head: tuple[Token, ...]) -> bool:
    words = [token.text for token in _without_template(head)]
    before = words[: words.index("(")] if "(" in words else ["="]
    return words[:1] != ["="] and "=" not in before and words[0] not in _TYPES


def _without_template(head: tuple[Token, ...]) -> tuple[Token, ...]:
    depth = 0
    if not head or head[0].text != "template":
        return head
    for i, token in enumerate(head):
        depth += {"<": 1, ">": -1, ">>": -2}.get(token.text, 0)
        if i and depth <= 0:
            return _without_template(head[i + 1 :])
    return ()


def _name(declaration: tuple[Token, ...]) -> str:
    """The name that it declares: of several variables the last one."""
    declaration = _without_template(declaration)
    declared = kernels.declared_function(declaration, 0)
    if declared and declaration[0].text not in _TYPES:
        return declared[0]
    name = ""
    for token in declaration:
        if token.kind == "name" and token.text not in ("final", "alignas"):
            name = token.text
        elif token.text in ("=", ";", "{", "[", ":") and name:
            break
    return name

"""Takes the functions that use a feature which the emulator lacks out of a source; the rest runs.

A function whose body uses one, or whose attribute is one, ends the run where it is called, with the
feature's name and line. Beside such bodies only using-directives of namespaces that are lacking go,
so the rest means what it did. A feature that is used elsewhere, or in a body that others can know,
makes the file not measured.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from . import tokens
from .edits import Edit, apply
from .lexer import Directive, Token
from .tokens import Source
from .unsupported import Unsupported

_CLASSES = ("struct", "class", "union")
# A function's type, or whether it is a constant, follows from its body.
_KNOWN_BY_BODY = ("auto", "constexpr", "consteval", "decltype")
# A kernel's static shared memory follows from its body, and these functions tell of it.
_TELL_OF_KERNELS = ("cudaFunc", "cudaOccupancy")
_CONDITIONS = {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}
_ELSES = ("else", "elif", "elifdef", "elifndef")


@dataclass(frozen=True)
class _Function:
    head: tuple[Token, ...]
    body: tuple[Token, ...]  # with its braces


def without(source: Source, lacking: Sequence[Unsupported]) -> str | None:
    """The text without these features; None where the rest could then mean something else."""
    if not lacking:
        return source.text
    features = {each.offset: each.feature for each in lacking}
    macros = [each for each in source.directives if each.macro]
    if not all(map(_is_plain, macros)):
        return None
    of_macros = _spread(macros, lambda token: features.get(token.start))

    def feature_of(token: Token) -> str | None:
        return features.get(token.start) or of_macros.get(token.text)

    functions = list(_functions(source.code.tokens))
    telling = _telling(source, macros)
    starts = [each.at.start for each in source.directives]
    edits = []
    for function in functions:
        attribute = _attribute(function.head)
        uses = (token for token in (*attribute[:1], *function.body) if feature_of(token))
        if first := next(uses, None):
            start, end = function.body[0].start, function.body[-1].end
            within = source.directives[bisect_left(starts, start) : bisect_left(starts, end)]
            is_known = any(token.text in telling for token in function.head)
            if is_known or not _may_go(within):
                return None
            if attribute:
                edits.append(Edit(attribute[0].start, attribute[-1].end, ""))
            edits += _ending_the_run(function, first, feature_of(first) or "")
    done = {t.start for each in functions for t in (*_attribute(each.head), *each.body)}
    for using in _using_directives(source.code.tokens):
        if using[0].start not in done and any(map(feature_of, using)):
            done |= {token.start for token in using}
            edits.append(Edit(using[0].start, using[-1].end, ""))
    elsewhere = [token for token in source.code.tokens if token.start not in done]
    elsewhere += [t for each in source.directives if not each.macro for t in each.tokens]
    known = {token.start for run in source.runs() for token in run.tokens}
    if any(map(feature_of, elsewhere)) or not features.keys() <= known:
        return None
    for each in macros:
        if each.macro in of_macros:
            span = each.body[0].start, each.body[-1].end
            edits.append(Edit(*span, _refusal(of_macros[each.macro])))
    return apply(source.text, edits)


def _spread(macros: Sequence[Directive], mark_of: Callable[[Token], str | None]) -> dict[str, str]:
    """By name, the mark of each macro whose body has a marked token, or such a macro."""
    marks: dict[str, str] = {}
    users = defaultdict(list)
    for each in macros:
        for token in each.body:
            users[token.text].append(each.macro)
            if mark := mark_of(token):
                marks.setdefault(each.macro, mark)
    names = list(marks)
    while names:
        name = names.pop()
        more = [user for user in users[name] if user not in marks]
        marks |= dict.fromkeys(more, marks[name])
        names += more
    return marks


def _telling(source: Source, macros: Sequence[Directive]) -> set[str]:
    """Words in a function's head with which the rest of the file can know its body."""
    words = {*_KNOWN_BY_BODY}
    code = (token.text for run in source.runs() for token in run.tokens)
    if any(word.startswith(_TELL_OF_KERNELS) for word in code):
        words.add("__global__")
    return words | _spread(macros, lambda token: token.text if token.text in words else None).keys()


def _may_go(directives: Sequence[Directive]) -> bool:
    """Whether only lines between them depend on these directives."""
    depth = 0
    for each in directives:
        is_unroll = each.name == "pragma" and each.tokens and "unroll" in each.tokens[0].text
        depth += _CONDITIONS.get(each.name, 0)
        is_else = each.name in _ELSES
        if depth < is_else or not (is_unroll or is_else or each.name in _CONDITIONS):
            return False
    return depth == 0


def _is_plain(macro: Directive) -> bool:
    """Whether brackets and names are still those of the text where the macro has been replaced."""
    words = [token.text for token in macro.body]
    return "##" not in words and all(
        words.count(opening) == words.count(closing) for opening, closing in ("()", "[]", "{}")
    )


def _ending_the_run(function: _Function, at: Token, feature: str) -> list[Edit]:
    """The body replaced, on the line of this token."""
    start, end = function.body[0].start, function.body[-1].end
    refused = max(start, at.start)
    return [Edit(start, refused, "{ "), Edit(refused, end, f"{_refusal(feature)}; }}")]


def _attribute(head: tuple[Token, ...]) -> tuple[Token, ...]:
    """A kernel's attribute that the emulator lacks: `__cluster_dims__(2, 1, 1)`."""
    for i, token in enumerate(head[:-1]):
        if token.text == "__cluster_dims__" and head[i + 1].text == "(":
            end = tokens.closing(head, i + 1)
            return head[i : end + 1] if end else ()
    return ()


def _refusal(feature: str) -> str:
    quoted = feature.replace("\\", "\\\\").replace('"', '\\"')
    return f'::warpgrade_unsupported("{quoted}")'


def _using_directives(run: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    for i, (first, second) in enumerate(itertools.pairwise(run)):
        if (first.text, second.text) == ("using", "namespace"):
            yield tuple(itertools.takewhile(lambda token: token.text != ";", run[i:]))


def _functions(run: tuple[Token, ...]) -> Iterator[_Function]:
    """The functions with bodies of a file, of its namespaces and of its classes."""
    start = i = 0
    while i < len(run):
        text = run[i].text
        if text == "{" and _is_scope(run[start:i]):
            start = i + 1
        elif text in ("(", "[", "{"):
            end = tokens.closing(run, i)
            if end is None:
                return
            if text == "{" and _is_function(run[start:i]):
                yield _Function(run[start:i], run[i : end + 1])
                start = end + 1
            i = end
        elif text in (";", "}"):
            start = i + 1
        i += 1


def _is_scope(head: tuple[Token, ...]) -> bool:
    words = [token.text for token in head]
    is_linkage = len(words) == 2 and words[0] == "extern" and head[1].kind == "string"
    is_class = any(each in words for each in _CLASSES) and "(" not in words
    return is_class or is_linkage or "namespace" in words[:2]


def _is_function(head: tuple[Token, ...]) -> bool:
    words = _without_template([token.text for token in head])
    if "(" not in words or {"=", "["} & {*words[: words.index("(")]}:  # "[": of a lambda
        return False
    last = len(words) - 1 - words[::-1].index(")")
    return not {":", ","} & {*words[last:]}  # a member's initialiser


def _without_template(words: list[str]) -> list[str]:
    """The words behind the lists of template parameters."""
    start = depth = 0
    for i, word in enumerate(words):
        if i == start and word != "template":
            break
        depth += {"<": 1, ">": -1, ">>": -2, ">>>": -3}.get(word, 0)
        if i > start and depth <= 0:
            start, depth = i + 1, 0
    return words[start:]

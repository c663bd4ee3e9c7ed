"""Takes the features that the emulator lacks out of a source: they cost only what uses them.

A function whose body uses one ends the run where it is called, with the feature's name and line.
Any other declaration that does is left out, and its name then counts as a lacking feature. So the
rest means what it did, as long as that one name is all that a declaration gives to it: what may
give more (operators, enumerators, several variables, ...) makes the file not measured.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from . import kernels, tokens
from .edits import Edit, apply
from .lexer import Directive, Token
from .tokens import Source
from .unsupported import Unsupported

_TYPES = ("struct", "class", "union", "enum", "typedef", "using", "namespace")
# A function's type, or whether it is a constant, follows from its body.
_SEEN_FROM_OUTSIDE = frozenset({"auto", "constexpr", "consteval", "decltype", "##"})
_KEYWORD_TEXT = """
alignas auto bool char class const constexpr decltype double enum explicit extern float for friend
if inline int long mutable noexcept operator register requires return short signed sizeof static
static_assert struct template thread_local typedef typename union unsigned using virtual void
volatile while
"""
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())
_SPECIFIERS = frozenset({"const", "constexpr", "extern", "inline", "static", "volatile"})
_MOST_ROUNDS = 20


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
    left_out: frozenset[str]  # the names of declarations that aren't there any more


def without(source: Source, found: Sequence[Unsupported]) -> Isolated | None:
    """The source without these features; None where the rest could then mean something else."""
    features = {each.offset: each.feature for each in found}
    if not features:
        return Isolated(source.text, frozenset())
    declarations = _declarations(source.code.tokens)
    defined = [each for each in source.directives if each.macro]
    macros = {each.macro: each for each in defined}
    is_one_each = len(macros) == len(defined)
    if declarations is None or not is_one_each or not all(map(_is_simple, defined)):
        return None
    parts = [*declarations, *_macros(source)]
    if not features.keys() <= {token.start for part in parts for token in part.tokens}:
        return None
    left_out: dict[str, str] = {}  # by name: the feature
    edits: dict[int, list[Edit]] = {}
    for _ in range(_MOST_ROUNDS):
        before = len(left_out)
        for number, part in enumerate(parts):
            uses = (
                (i, token, feature)
                for i, token in enumerate(part.tokens)
                if (feature := features.get(token.start) or left_out.get(token.text))
            )
            i, token, feature = next(uses, (0, None, ""))
            if token is None:
                continue
            head = part.tokens[: part.body]
            if part.body is not None and i > part.body and not _tells_more(head, macros):
                edits[number] = _ending_the_run(part, part.body, token, feature)
                continue
            name = part.name if part.is_macro else _only_name(part, macros)
            if not name or (not part.is_macro and _is_read_otherwise(part.tokens, macros)):
                return None
            left_out.setdefault(name, feature)
            instead = _refusal(feature) if part.is_macro else ""
            edits[number] = [Edit(part.tokens[0].start, part.tokens[-1].end, instead)]
        if len(left_out) == before:
            break
    else:
        return None
    if _cuts_directives(source, parts, edits) or any(
        token.text in left_out
        for directive in source.directives
        if not directive.macro
        for token in directive.tokens
    ):
        return None
    text = apply(source.text, [edit for each in edits.values() for edit in each])
    return Isolated(text, frozenset(left_out) - macros.keys())


def _is_simple(macro: Directive) -> bool:
    """Whether a macro leaves brackets and names as they are in the text."""
    depth = {"(": 0, "[": 0, "{": 0}
    for token in macro.body:
        for opening, closing in zip(depth, ")]}", strict=True):
            depth[opening] += (token.text == opening) - (token.text == closing)
    return not any(depth.values()) and all(token.text != "##" for token in macro.body)


def _from_macros(words: Sequence[Token], macros: dict[str, Directive]) -> set[Token]:
    """What the macros in it stand for, and the macros in that."""
    made: set[Token] = set()
    left = [macros[word.text] for word in words if word.text in macros]
    while left:
        body = {*left.pop().body} - made
        made |= body
        left += [macros[word.text] for word in body if word.text in macros]
    return made


def _tells_more(head: Sequence[Token], macros: dict[str, Directive]) -> bool:
    """Whether what is outside of a function can know its body."""
    words = {*head} | _from_macros(head, macros)
    return any(word.text in _SEEN_FROM_OUTSIDE for word in words)


def _is_read_otherwise(declaration: Sequence[Token], macros: dict[str, Directive]) -> bool:
    """Whether macros may make several declarations of it, or one of another kind."""
    made = _from_macros(declaration, macros)
    return any(word.text in macros and macros[word.text].parameters for word in declaration) or any(
        word.text in _KEYWORDS or (word.kind == "punctuation" and word.text not in "()+-*/")
        for word in made
    )


def _cuts_directives(source: Source, parts: list[_Part], edits: Iterable[int]) -> bool:
    """Whether an edit removes a line of the preprocessor that others may depend on."""
    spans = [
        (parts[number].tokens[0].start, parts[number].tokens[-1].end)
        for number in edits
        if not parts[number].is_macro
    ]
    spans.sort()
    starts = [start for start, _ in spans]
    for each in source.directives:
        span = bisect_right(starts, each.at.start) - 1
        words = [token.text for token in each.tokens[:1]]
        is_harmless = each.name == "pragma" and words in (["unroll"], ["nounroll"])
        if span >= 0 and each.at.start < spans[span][1] and not is_harmless:
            return True
    return False


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


def _declarations(run: tuple[Token, ...]) -> list[_Part] | None:
    """The declarations of a file and of its namespaces; a class is one with its members.

    None where brackets don't match.
    """
    parts: list[_Part] = []
    start = i = depth = 0
    while i < len(run):
        text = run[i].text
        if text == "{" and _is_scope(run[start:i]):
            depth += 1
            start = i + 1
        elif text in ("(", "[", "{"):
            end = tokens.closing(run, i)
            if end is None:
                return None
            head = run[start:i]
            if text == "{" and _is_function(head):
                parts.append(_Part(run[start : end + 1], _name(head), i - start))
                start = end + 1
            i = end
        elif text == ";":
            if i > start:
                parts.append(_Part(run[start : i + 1], _name(run[start : i + 1])))
            start = i + 1
        elif text in (")", "]", "}"):
            depth -= 1
            if text != "}" or depth < 0 or i > start:
                return None
            start = i + 1
        i += 1
    return parts if depth == 0 and start == len(run) else None


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
    start = depth = 0
    for i, token in enumerate(head):
        if i == start and token.text != "template":
            return head[start:]
        depth += {"<": 1, ">": -1, ">>": -2}.get(token.text, 0)
        if i > start and depth <= 0:
            start, depth = i + 1, 0
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


def _only_name(part: _Part, macros: Container[str]) -> str:
    """The name, if the rest of the file can know the declaration only by it; else ""."""
    declared = _without_template(part.tokens)
    texts = [token.text for token in declared]
    is_instantiation = part.tokens[0].text == "template" and part.tokens[1].text != "<"
    if is_instantiation or len(texts) < 3 or {"friend", "operator"} & {*texts}:
        return ""
    name = part.name
    if texts[0] in ("struct", "class", "union"):
        name = texts[1]
        body = texts.index("{") if "{" in texts else 0
        is_alone = tokens.closing(declared, body) == len(texts) - 2 if body else len(texts) == 3
        if not is_alone or texts[2] not in ("{", ":", ";", "<", "final"):
            return ""
    elif texts[0] == "using":
        if "," in texts and texts[2] != "=":
            return ""
    elif texts[0] == "typedef":
        depth = 0
        for text in texts:
            depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
            if text in ("(", "[", "{") or (text == "," and not depth):
                return ""
        if depth:
            return ""
    elif function := kernels.declared_function(declared, 0):
        name, start, end = function
        before = [each for each in declared[: start - 1] if not each.text.startswith("__")]
        is_typed = any(each.kind == "name" and each.text not in _SPECIFIERS for each in before)
        if not is_typed or texts[end + 1] == "(":
            return ""
    else:
        stop = next(i for i, text in enumerate(texts) if text in ("=", "{", "[", ";"))
        if stop < 2 or texts[stop - 1] != name or "(" in texts[:stop] or texts[0] == "enum":
            return ""
    is_one = texts[0] in _TYPES or "," not in _outside_of_brackets(texts)
    return name if is_one and name not in _KEYWORDS and name not in macros else ""


def _outside_of_brackets(texts: Sequence[str]) -> Iterator[str]:
    depth = 0
    for text in texts:
        depth -= text in (")", "]", "}")
        if depth == 0:
            yield text
        depth += text in ("(", "[", "{")

"""Rules on preprocessor lines: includes, definitions, pragmas, and names built by ##."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from grader.emulator.lexer import Directive, Lexed, Token
from grader.policy.cuda.names import (
    CUDA_STANDARD,
    DIRECTIVES,
    HEADERS,
    LIBRARY_HEADER,
    NOT_TO_REDEFINE,
    OF_TORCH,
    OTHER_DIRECTIVES,
    PRAGMA,
    SEEN_IN_OBJECT,
    UNUSED,
)

_LONGEST_NAME = 40  # characters; refused names aren't longer

Report = Callable[[str, Token, str], None]  # rule, place, message


def check_directives(lexed: Lexed, report: Report) -> None:
    """Every violation in the file's preprocessor lines."""
    for each in lexed.directives:
        if each.name == "include":
            _include(each, lexed, report)
        elif each.name == "pragma":
            _pragma(" ".join(token.text for token in each.tokens), each.at, report)
        elif each.name in ("define", "undef"):
            _define(each, report)
        elif each.name in ("if", "elif"):
            _probes(each, report)
        elif each.name and each.name not in DIRECTIVES:
            is_known = each.name in OTHER_DIRECTIVES or each.name.isdigit()
            why = "for kernels" if is_known else "a directive: a comment of C++ begins with //"
            report("preprocessor", each.at, f"#{each.name[:40]} is not {why}")


def check_operators(tokens: Sequence[Token], quoting: Quoting, report: Report) -> None:
    """_Pragma("..."), in the code or in a macro, under the rules of #pragma.

    A macro may make the text: `#define UNROLL(n) _Pragma(TEXT(unroll n))`. Or it makes a pragma of
    its argument, `#define PRAGMA(x) _Pragma(#x)`, which every use of it then has to show.
    """
    for index, token in enumerate(tokens):
        if token.kind == "name" and token.text in quoting.operators:
            following = tokens[index + 1 : index + 7]
            kinds = [each.kind if each.kind == "string" else each.text for each in following]
            if id(token) in quoting.definitions:
                continue
            if token.text == "_Pragma" and kinds[:3] == ["(", "string", ")"]:
                _pragma(following[1].text.partition('"')[2].rstrip('"'), token, report)
            elif words := quoting.first_words([token.text, *kinds]):
                _pragma(words, token, report)
            else:
                report("preprocessor", token, f"{token.text} doesn't show what it asks for")


@dataclass(frozen=True)
class Quoting:
    """What decides which text a macro makes of its argument."""

    macros: Collection[str]  # those that make a text: `#define TEXT(x) #x`, or `QUOTED(x)`
    operators: Collection[str]  # _Pragma, and macros that make a pragma of their argument
    definitions: Collection[int]  # the tokens of what defines these, by identity
    replaced: Collection[str]  # names of macros and their parameters, which may become others

    @classmethod
    def of(cls, lexed: Lexed) -> Quoting:
        lines = [each for each in lexed.directives if each.name in ("define", "undef")]
        times = Counter(token.text for each in lines for token in each.tokens[:1])
        bodies: dict[str, list[str]] = {}
        for each in lines:
            if times[each.macro] == 1 and len(each.parameters) == 1:
                argument = "__VA_ARGS__" if each.parameters[0] == "..." else each.parameters[0]
                texts = [token.text for token in each.body]
                bodies[each.macro] = ["" if text == argument else text for text in texts]
        quoting = {name for name, body in bodies.items() if body == ["#", ""]}
        calls = [name for name, body in bodies.items() if body[1:] == ["(", "", ")"]]
        quoting.update([name for name in calls if bodies[name][0] in quoting])
        made = [["_Pragma", "(", "#", "", ")"]]
        made += [["_Pragma", "(", name, "(", "", ")", ")"] for name in quoting]
        operators = {name for name, body in bodies.items() if body in made}
        operators.update([name for name in calls if bodies[name][0] in operators])
        definitions = {id(t) for each in lines if each.macro in operators for t in each.tokens}
        replaced = {*times, *(name for each in lines for name in each.parameters)}
        return cls(quoting, {"_Pragma", *operators}, definitions, replaced)

    def first_words(self, texts: Sequence[str]) -> str:
        """Of `_Pragma(TEXT(words...` or `PRAGMA(words...`, the words that nothing replaces."""
        begin = 2 if texts[0] != "_Pragma" else 4
        if begin == 4 and (texts[3:4] != ["("] or texts[2] not in self.macros):
            return ""
        given = texts[begin:] if texts[1:2] == ["("] else []
        return " ".join(takewhile(lambda word: word not in self.replaced, given))


def _include(each: Directive, lexed: Lexed, report: Report) -> None:
    header = each.header
    if not header:
        report("include", each.at, "#include of something that isn't a plain name")
        return
    name = header[1:-1]
    shown = f"#include {header[:80]}"
    if _is_header(name):
        return
    if library := LIBRARY_HEADER.fullmatch(name):
        family = (library[1] or library[3]).lower()
        if family not in SEEN_IN_OBJECT and _is_in_use(family, lexed):
            tensors = ", and an entry takes pointers, not tensors" if family in OF_TORCH else ""
            why = f"a library's kernels would do the work{tensors}"
            report("library", each.at, f"{shown}: {why}")
    elif name.startswith(("/", "~")) or ".." in name or "\\" in name or ":" in name:
        report("include", each.at, f"{shown} names a place among the machine's files")
    elif header[0] == '"':
        advice = "only the exercise's files are there, and text of another belongs into one of them"
        report("include", each.at, f"{shown} is not one of the headers that kernels need; {advice}")
    else:
        report("include", each.at, f"{shown} is not one of the headers that kernels need")


def _is_in_use(library: str, lexed: Lexed) -> bool:
    """Whether one of the included library's names occurs in the file, or may be built by ##."""
    beginnings = UNUSED.get(library)
    defined = [each.tokens for each in lexed.directives if each.name == "define"]
    tokens = [*lexed.tokens, *(token for tokens in defined for token in tokens)]
    return beginnings is None or any(
        token.text == "##" or (token.kind == "name" and token.text.lower().startswith(beginnings))
        for token in tokens
    )


def _probes(each: Directive, report: Report) -> None:
    """__has_include probes the machine's files: allowed for headers that may be included."""
    for index, token in enumerate(each.tokens):
        if not token.text.startswith(("__has_include", "__has_embed")):
            continue
        text = "".join(following.text for following in each.tokens[index + 1 :])
        name = re.match(r"\([<\"]([^<>\"]*)[>\"]\)", text)
        if text.startswith("(") and not (name and _is_header(name[1])):
            report("include", token, f"{token.text} of something that kernels don't include")


def _is_header(name: str) -> bool:
    return bool(name in HEADERS or CUDA_STANDARD.fullmatch(name))


def _define(each: Directive, report: Report) -> None:
    name = each.tokens[0].text if each.tokens else ""
    if name in NOT_TO_REDEFINE or name.startswith("__builtin_"):
        report("preprocessor", each.at, f"#{each.name} {name} changes the language")


def _pragma(text: str, at: Token, report: Report) -> None:
    words = " ".join(text.split())
    if words and not PRAGMA.match(words):
        report("preprocessor", at, f"#pragma {words[:60]} is not for kernels")


# --- token pasting --------------------------------------------------------------------------------

_OPTIONAL = "__VA_OPT__"


def pasted_pieces(lexed: Lexed) -> list[Token]:
    """Names and numbers from which the file's macros may build others with ##.

    They are the operands of ## in a macro's body and, where these are parameters, all arguments of
    the macro, or of one that passes them on.
    """
    macros = {each.macro: each for each in lexed.directives if each.macro}
    bodies = {name: list(each.body) for name, each in macros.items()}
    parameters = {name: {"__VA_ARGS__", *each.parameters} for name, each in macros.items()}
    pieces: list[Token] = []
    pasting: set[str] = set()
    for name, body in bodies.items():
        for operand in _operands(body):
            if operand.text in parameters[name]:
                pasting.add(name)
            else:
                pieces.append(operand)
        if _OPTIONAL in (words := [each.text for each in body]) and "##" in words:
            pieces += body  # ## joins what stands in its parentheses
            pasting.add(name)
    pasting = reaching(pasting, bodies)
    if pasting:
        pieces += _handed_over(lexed.tokens, pasting, set())
        for name, body in bodies.items():
            pieces += _handed_over(body, pasting, parameters[name])
        used = {piece.text for piece in pieces}
        for name in _reached(used & bodies.keys(), bodies):
            pieces += [each for each in bodies[name] if each.text not in parameters[name]]
    return [piece for piece in pieces if piece.kind in ("name", "number")]


@dataclass(frozen=True)
class Pasting:
    """What ## makes in one place of a macro's body: `text`, with arguments before or behind it."""

    before: bool
    text: str
    behind: bool

    def can_make(self, name: str) -> bool:
        """Whether the whole of what it makes can be this name."""
        if self.before:
            return self.text in name if self.behind else name.endswith(self.text)
        return name.startswith(self.text) if self.behind else name == self.text

    def can_begin(self, beginning: str) -> bool:
        """Whether it can make a name with this beginning."""
        follows = self.behind and beginning.startswith(self.text)
        return self.before or follows or self.text.startswith(beginning)


def pastings(lexed: Lexed) -> set[Pasting]:
    """What each `a ## b ## c` of the file's macros makes, between one parameter and the next.

    Of an argument with several words the last or the first is joined, so nothing reaches further.
    """
    made: set[Pasting] = set()
    for each in lexed.directives:
        parameters = {"__VA_ARGS__", ")", _OPTIONAL, *each.parameters}
        pending: Pasting | None = None
        for index, token in enumerate(each.body):
            is_joined = [t.text for t in each.body[index + 1 : index + 2]] == ["##"]
            if token.text == "##" or (pending is None and not is_joined) or token.text == ",":
                continue
            is_parameter = token.text in parameters
            start = pending or Pasting(is_parameter, "", behind=False)
            if is_parameter and pending:
                made.add(Pasting(start.before, start.text, behind=True))
            text = "" if is_parameter else start.text + token.text
            pending = Pasting(is_parameter or start.before, text, behind=False)
            if not is_joined:
                made |= set() if is_parameter else {pending}
                pending = None
    return made


def joined(
    pieces: Iterable[Token],
    names: Iterable[str],
    prefixes: Iterable[str],
    pastings: Collection[Pasting],
) -> Iterator[tuple[str, Token]]:
    """Each of the names, and beginnings of names, that joined pieces make, with a piece.

    The last step on the way to it has to be one of the pastings.
    """
    by_text = {piece.text: piece for piece in pieces}
    beginnings: dict[str, Token] = {}
    for text, piece in by_text.items():
        for length in range(1, min(len(text), _LONGEST_NAME) + 1):
            beginnings.setdefault(text[:length], piece)
    for name in names:
        last = _joined(name, by_text, by_text)
        if last is not None and any(each.can_make(name) for each in pastings):
            yield name, last
    for prefix in prefixes:
        last = _joined(prefix, by_text, beginnings)
        if last is not None and any(each.can_begin(prefix) for each in pastings):
            yield prefix, last


def _joined(name: str, pieces: dict[str, Token], last: dict[str, Token]) -> Token | None:
    """The last of the two or more pieces that make a name, or None."""
    reached = [0]  # positions in the name that pieces lead to
    for start in range(len(name)):
        if start not in reached:
            continue
        if start and name[start:] in last:
            return last[name[start:]]
        reached += [end for end in range(start + 1, len(name)) if name[start:end] in pieces]
    return None


def _operands(body: Sequence[Token]) -> Iterator[Token]:
    """The operands of each ##, except `, ##__VA_ARGS__`, which builds no name."""
    for index, token in enumerate(body):
        if token.text != "##":
            continue
        before = body[index - 1] if index else None
        after = body[index + 1] if index + 1 < len(body) else None
        if before is not None and before.text == ",":
            continue
        yield from (each for each in (before, after) if each is not None)


def reaching(targets: Iterable[str], bodies: Mapping[str, Sequence[Token]]) -> set[str]:
    """The words among `targets`, and the macros whose bodies lead to one."""
    users: dict[str, set[str]] = {}
    for name, body in bodies.items():
        for token in body:
            users.setdefault(token.text, set()).add(name)
    return _closure(targets, users)


def _reached(starts: set[str], bodies: dict[str, list[Token]]) -> set[str]:
    """The macros among `starts` and those that their bodies lead to."""
    uses = {name: {t.text for t in body if t.text in bodies} for name, body in bodies.items()}
    return _closure(starts, uses)


def _closure(starts: Iterable[str], following: dict[str, set[str]]) -> set[str]:
    reached = set(starts)
    waiting = list(reached)
    while waiting:
        for name in following.get(waiting.pop(), ()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def _handed_over(tokens: Sequence[Token], macros: set[str], without: set[str]) -> list[Token]:
    """Tokens in the parentheses behind a macro of `macros`; all tokens where none follow."""
    handed: list[Token] = []
    depth = 0  # of parentheses inside such a macro's
    for index, token in enumerate(tokens):
        if depth or (token.text == "(" and index and tokens[index - 1].text in macros):
            depth += (token.text == "(") - (token.text == ")")
            handed.append(token)
        elif token.text in macros and [each.text for each in tokens[index + 1 : index + 2]] != [
            "("
        ]:
            handed = list(tokens)  # called indirectly: it may get any token
            break
    return [token for token in handed if token.text not in without]

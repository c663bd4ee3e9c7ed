"""Checks a CUDA source against all rules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from grader.emulator.lexer import Directive, Lexed, Token, lex
from grader.policy.cuda.attributes import ATTRIBUTE_WORDS, check_attributes
from grader.policy.cuda.directives import (
    Quoting,
    check_directives,
    check_operators,
    joined,
    pasted_pieces,
    pastings,
)
from grader.policy.cuda.findings import instead_of
from grader.policy.cuda.names import (
    ASSEMBLY,
    GNU,
    LIBRARY_NAME,
    LIBRARY_NAMESPACES,
    RESERVED,
    RESERVED_PREFIXES,
    SEEN_IN_OBJECT,
    SYSTEM,
    SYSTEM_NOUNS,
    SYSTEM_PREFIXES,
    SYSTEM_WORDS,
    UNOBSERVED,
)
from grader.policy.cuda.placement import check_placement
from grader.policy.cuda.scopes import TooInvolved
from grader.policy.findings import Rules, Violation

_LARGEST = 256 * 1024  # characters
_MEMBER = (".", "->")
# Words before a value, not before a declared name.
_WORDS_BEFORE_VALUES = (
    "return else do throw goto case delete new sizeof using co_return and or not typename"
)
_NO_TYPE = frozenset(_WORDS_BEFORE_VALUES.split())


def check(source: str, rules: Rules | None = None) -> list[Violation]:
    """The violations of the CUDA C++ text `source`, in the order of the source. Never raises.

    The whole file counts, since it is one program, except comments, strings and code behind
    `#if 0`. Names of libraries that host code calls count only where an entry reaches them, which
    the object file shows.
    """
    lifted = (rules or Rules()).lifted
    if len(source) > _LARGEST:
        message = f"the file has more than {_LARGEST} characters"
        violations = [Violation("unreadable", 1, 1, message, instead_of("unreadable"))]
    else:
        violations = _Checker(source).run()
        if "\0" in source:  # one line, in place of one for each of them
            message = "the file has zero bytes, as one that is saved as UTF-16"
            others = [each for each in violations if each.rule != "unreadable"]
            line = 1 + source.count("\n", 0, source.index("\0"))
            first = Violation("unreadable", line, 1, message, instead_of("unreadable"))
            violations = [first, *others]
    kept = [violation for violation in violations if violation.rule not in lifted]
    return sorted(kept, key=lambda v: (v.line, v.column, v.rule))


class _Checker:
    def __init__(self, source: str) -> None:
        self.lexed: Lexed = lex(source)
        self.violations: dict[tuple[int, int, str], Violation] = {}

    def run(self) -> list[Violation]:
        for line, column, message in self.lexed.problems:
            self.report("unreadable", Token("other", "", line, column), message)
        check_directives(self.lexed, self.report)
        bodies = [each.tokens for each in self.lexed.directives if each.name == "define"]
        defined = _defined(self.lexed)
        quoting = Quoting.of(self.lexed)
        macros: dict[str, list[Directive]] = {}
        for each in self.lexed.directives:
            if each.macro:
                macros.setdefault(each.macro, []).append(each)
        for tokens in (self.lexed.tokens, *bodies):
            check_operators(tokens, quoting, self.report)
            check_attributes(tokens, macros, self.report)
            self._names(tokens, defined)
        self._asked()
        self._pasted(quoting)
        try:
            check_placement(self.lexed, self.report)
        except TooInvolved:
            start = Token("other", "", 1, 1)
            self.report("unreadable", start, "its braces nest too deeply to be read")
        return list(self.violations.values())

    def report(self, rule: str, at: Token, message: str) -> None:
        """Add a violation of `rule`, unless there is one at that place."""
        violation = Violation(rule, at.line, at.column, message, instead_of(rule))
        self.violations.setdefault((at.line, at.column, rule), violation)

    def _names(self, tokens: Sequence[Token], defined: frozenset[str]) -> None:
        own = {token.text for i, token in enumerate(tokens) if _is_declared(tokens, i)}
        for index, token in enumerate(tokens):
            if token.kind != "name":
                continue
            name = token.text
            before = tokens[index - 1].text if index else ""
            after = tokens[index + 1].text if index + 1 < len(tokens) else ""
            # A call is the system's, also one whose ( comes from a macro, or from behind one.
            is_own = name in own and before != "::" and _is_used_as_a_value(tokens, index)
            if name in RESERVED or name.startswith(RESERVED_PREFIXES):
                message = f"{name} is a name of the compiler's, the runtime's or the grader's"
                self.report("reserved", token, message)
            elif is_own or before in _MEMBER or _is_variable(tokens, index):
                continue
            elif name in SYSTEM or name.startswith(SYSTEM_PREFIXES):
                self.report("system", token, f"{name} is a service of the system")
            elif (library := LIBRARY_NAME.fullmatch(name)) and not _is_seen_in_object(library[1]):
                self.report("library", token, f"{name} belongs to a library of kernels")
            elif name in LIBRARY_NAMESPACES and after == "::" and name not in defined:
                self.report("library", token, f"{name}:: is a library of kernels")
            elif name in SYSTEM_WORDS and name not in defined and _is_call(tokens, index):
                self.report("system", token, f"{name}() is a service of the system")

    def _asked(self) -> None:
        """Reserved names in conditions, which would make the graded code differ."""
        conditions = (each for each in self.lexed.directives if each.name.startswith(("if", "el")))
        for token in (token for each in conditions for token in each.tokens):
            if token.text in RESERVED or token.text.startswith(RESERVED_PREFIXES):
                self.report("reserved", token, f"{token.text} tells who compiles the file")

    def _pasted(self, quoting: Quoting) -> None:
        pieces = pasted_pieces(self.lexed)
        names = SYSTEM | ASSEMBLY | RESERVED | ATTRIBUTE_WORDS | GNU | UNOBSERVED
        names |= {*quoting.operators}
        prefixes = (*RESERVED_PREFIXES, *SYSTEM_PREFIXES)
        for name, piece in joined(pieces, names, prefixes, pastings(self.lexed)):
            self.report("preprocessor", piece, f"## can put {name} together from parts")


def _is_seen_in_object(library: str | None) -> bool:
    return (library or "").lower() in SEEN_IN_OBJECT


def _is_variable(tokens: Sequence[Token], index: int) -> bool:
    """Whether the name at `index` is declared as a variable: `int link = 3`, `int pipe)`."""
    if not index or index + 1 == len(tokens):
        return False
    before, after = tokens[index - 1], tokens[index + 1]
    is_type = before.kind == "name" and before.text not in _NO_TYPE
    return is_type and after.text in (";", ",", "=", ")", "[")


def _is_declared(tokens: Sequence[Token], index: int) -> bool:
    """As `_is_variable`, or a later one of a declaration: `cudaEvent_t join, fork;`."""
    around = [each.text for each in tokens[max(0, index - 1) : index + 2]]
    is_later = len(around) == 3 and around[0] == "," and around[2] in (";", "=")
    return tokens[index].text in SYSTEM_NOUNS and (is_later or _is_variable(tokens, index))


def _is_used_as_a_value(tokens: Sequence[Token], index: int) -> bool:
    """Whether punctuation other than a parenthesis follows: `fork;`, `&_start)`."""
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    return after is not None and after.kind == "punctuation" and after.text != "("


def _is_call(tokens: Sequence[Token], index: int) -> bool:
    """Whether the name at `index` is called, and is the system's function."""
    if [each.text for each in tokens[index + 1 : index + 2]] != ["("]:
        return False
    before = tokens[index - 1] if index else None
    if before is None:
        return True
    if before.text == "::":
        space = tokens[index - 2] if index > 1 else None
        return space is None or space.kind != "name" or space.text in _NO_TYPE
    # A type before it makes it a declaration: `dim3 link(2);`, `int read(const float*);`
    is_type = before.kind == "name" and before.text not in _NO_TYPE
    return not is_type and before.text not in ("~", "&&")


def _defined(lexed: Lexed) -> frozenset[str]:
    """Names that the file defines: functions with a body, lambdas, macros."""
    names = {each.macro for each in lexed.directives}
    tokens = lexed.tokens
    opened: list[int] = []  # indices of open parentheses
    for index, (token, after) in enumerate(pairwise(tokens)):
        if token.kind == "string":
            continue
        if token.text == "(":
            opened.append(index)
        elif token.text == ")" and opened:
            start = opened.pop()
            if start and after.text in ("{", "const", "noexcept", "->", "override"):
                names.add(tokens[start - 1].text)
        elif token.text in ("namespace", "class", "struct"):
            names.add(after.text)
        elif after.text == "=" and index and tokens[index - 1].text == "auto":
            names.add(token.text)
    return frozenset(names)

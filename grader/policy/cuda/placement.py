"""Rules on places: assembly, replaced functions, code that runs outside of the entry."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from grader.emulator.conditions import for_device_alone
from grader.emulator.lexer import Lexed, Token
from grader.policy.cuda.directives import Report, reaching
from grader.policy.cuda.names import ASSEMBLY, DEVICE, HOST, NOT_TO_DEFINE
from grader.policy.cuda.scopes import (
    DECORATIONS,
    Place,
    Scope,
    Statement,
    is_sure,
    specifiers,
    walk,
)

_NO_VARIABLE = frozenset(
    {"using", "typedef", "friend", "static_assert", "namespace", "asm", "return", "goto", "concept"}
)
_FILE_READING = (".incbin", ".include")


def check_placement(lexed: Lexed, report: Report) -> None:
    """Assembly outside of device functions, replaced functions, and code outside of calls.

    Raises TooInvolved where the file nests too deeply.
    """
    words = _words_for_assembly(lexed, report)
    startup = _Startup(report)
    sure = is_sure(lexed.tokens, lexed.directives)
    for_device = list(for_device_alone(lexed.directives))
    for each in walk(lexed.tokens, specifiers(lexed.directives)):
        if isinstance(each, Statement):
            if each.opens is not None:
                _check_definition(each, each.opens, report)
            startup.read(each)
        elif each.token.kind == "name" and each.token.text in words:
            for_device_pass = each.is_statement_for_both and any(
                a <= each.index < b for a, b in for_device
            )
            _check_assembly(each, sure, for_device_pass, report)
            _check_text(lexed.tokens, each.index, report)


# --- assembly -------------------------------------------------------------------------------------


def _words_for_assembly(lexed: Lexed, report: Report) -> frozenset[str]:
    """The words for assembly, and the macros that expand to it, whose uses count as assembly."""
    bodies = {each.macro: each.tokens[1:] for each in lexed.directives if each.macro}
    for body in bodies.values():
        for index, token in enumerate(body):
            if token.text in ASSEMBLY and token.kind == "name":
                _check_text(body, index, report)
    return frozenset(reaching(ASSEMBLY, bodies))


def _check_assembly(place: Place, sure: bool, for_device: bool, report: Report) -> None:
    if not sure:
        message = (
            "assembly in a file whose braces differ between the branches of an #if, or stand "
            "alone in a macro: where it stands can't be told"
        )
        report("assembly", place.token, message)
    elif not (place.is_device_statement or for_device):
        message = (
            f"{place.token.text} stands outside of a function that runs on the device alone, or "
            "names a symbol"
        )
        report("assembly", place.token, message)


def _check_text(tokens: Sequence[Token], index: int, report: Report) -> None:
    """Assembly that reads a file."""
    for token in tokens[index + 1 : index + 60]:
        if token.text == ";" and token.kind == "punctuation":
            return
        if token.kind == "string" and any(word in token.text for word in _FILE_READING):
            report("assembly", token, "assembly that reads another file")


# --- definitions ----------------------------------------------------------------------------------


def _check_definition(each: Statement, opened: Scope, report: Report) -> None:
    """A function of the file that replaces one that other code calls."""
    words = {token.text for token in each.head}
    is_own = "static" in words or each.in_function or opened.on_device
    if each.scope.kind == "namespace" and opened.name in NOT_TO_DEFINE and not is_own:
        message = f"{opened.name}() would take the place of the runtime's"
        report("reserved", each.head[0], message)
    for operator, kind in pairwise(each.head):
        allocates = operator.text == "operator" and kind.text in ("new", "delete")
        if allocates and each.scope.kind == "namespace" and not is_own:
            message = f"operator {kind.text} would take the place of the runtime's"
            report("reserved", operator, message)


# --- what starts, or ends, by itself --------------------------------------------------------------


class _Startup:
    """Finds variables whose construction or destruction runs code of the file."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.active: set[str] = set()  # classes with a constructor or destructor
        self.destroyed: set[str] = set()  # of those, classes with a destructor
        self.functions: set[str] = set()  # of the host, not constexpr

    def read(self, each: Statement) -> None:
        """Record a statement and report its violation."""
        words = {token.text for token in each.head}
        if each.opens is not None:
            self._function(each, each.opens, words)
            return
        active = self._made_of(each.head, self.active)
        destroyed = self._made_of(each.head, self.destroyed)
        if each.scope.kind == "class":
            if each.scope.name and active:
                self._add(each.scope.name, bool(destroyed))
            if "static" in words and not words & {"constexpr", "constinit"}:
                self._variable(each, words, active)
        elif each.scope.kind == "namespace":
            self._variable(each, words, active)
        elif each.in_function and each.head and each.head[0].text == "static" and destroyed:
            # A constructor is no fault: it runs in a call of the entry.
            message = f"the destructor of a static {destroyed} runs after the entry has returned"
            self._tell(each, message)

    def _function(self, each: Statement, opened: Scope, words: set[str]) -> None:
        name, scope = opened.name, each.scope
        runs_on_host = not opened.on_device and not words & {"constexpr", "consteval"}
        if not runs_on_host:
            return
        self.functions.add(name)
        bare = name.removeprefix("~")
        if scope.kind == "class" and bare == scope.name:
            self._add(bare, destroyed=bare != name)
        texts = [token.text for token in each.head]
        for at in range(len(texts) - 2):
            if texts[at + 1] == "::" and texts[at + 2].removeprefix("~") in (texts[at], ""):
                self._add(texts[at], destroyed=texts[at + 2].startswith("~"))

    def _add(self, name: str, destroyed: bool) -> None:
        self.active.add(name)
        if destroyed:
            self.destroyed.add(name)

    def _variable(self, each: Statement, words: set[str], active: str) -> None:
        if not each.head or each.head[0].text in _NO_VARIABLE or "constexpr" in words:
            return
        if DEVICE in words and HOST not in words:
            return
        if active:
            self._tell(each, f"a {active} outside of functions is made before the entry is called")
        elif each.holds_lambda or self._calls(each.head):
            self._tell(each, "a variable outside of functions is filled by code of the file")

    def _made_of(self, head: Sequence[Token], classes: set[str]) -> str:
        """The class of `classes` that a statement instantiates, or "".

        A class that the statement defines is added to them if a member or a base class is of them.
        """
        texts = [token.text for token in head]
        keys = [at for at, text in enumerate(texts) if text in ("class", "struct", "union")]
        if keys and "}" in texts:  # a class definition: `struct S : Base { ... } s;`
            name = _defined_class(head, keys[-1])
            if classes & set(texts[keys[-1] : texts.index("}")]):
                classes.add(name)
            behind = head[len(texts) - texts[::-1].index("}") :]
            makes = any(token.kind == "name" for token in behind) and behind[0].text != "*"
            return name if makes and name in classes else ""
        for at, token in enumerate(head):
            if token.text in ("=", "("):
                return ""
            if token.text in classes:
                rest = head[at + 1 :]
                if rest and rest[0].text in ("*", "&"):
                    return ""
                if any(each.kind == "name" for each in rest) and not _is_prototype(rest):
                    return token.text
        return ""

    def _calls(self, head: Sequence[Token]) -> bool:
        """Whether an initialiser calls a function of the file, or a lambda."""
        starts = [at for at, token in enumerate(head) if token.text == "=" and at]
        if not starts:
            return False
        value = head[starts[0] + 1 :]
        return any(
            (token.text in self.functions or token.text == "}") and following.text == "("
            for token, following in pairwise(value)
        )

    def _tell(self, each: Statement, message: str) -> None:
        self.report("startup", each.head[0], message)


def _defined_class(head: Sequence[Token], key: int) -> str:
    """The name of the class whose keyword is at `key`."""
    names = [token.text for token in head[key + 1 :] if token.kind == "name"]
    return next((name for name in names if name not in DECORATIONS), "")


def _is_prototype(rest: Sequence[Token]) -> bool:
    """Whether a function's declaration follows a type: `Buffer make(int n)`."""
    texts = [token.text for token in rest]
    if "(" not in texts:
        return False
    first = rest[texts.index("(") + 1] if texts.index("(") + 1 < len(rest) else None
    return first is None or first.text == ")" or first.kind == "name"

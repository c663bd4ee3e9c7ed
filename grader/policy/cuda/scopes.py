"""Finds the function and class around a token, and whether they run on the device.

Braces, parentheses and semicolons suffice; expressions aren't parsed. If braces differ between the
branches of an #if or are in a macro, the scopes are unknown: `is_sure` is False.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from grader.emulator.lexer import Directive, Token
from grader.policy.cuda.names import DEVICE, GLOBAL, HOST

MAX_NESTED = 100  # braces
MAX_WORK = 1_000_000  # tokens read again at opening braces; an honest file needs hundreds

_CLASS_KEYS = frozenset({"class", "struct", "union", "enum"})
# These have parentheses of their own and don't show whether a function follows.
DECORATIONS = frozenset(
    {"alignas", "__align__", "__launch_bounds__", "__attribute__", "__attribute", "__declspec"}
    | {"noexcept", "decltype", "requires", "explicit"}
)
_LOOPS = frozenset({"if", "for", "while", "switch", "else", "do", "case", "default"})


class TooInvolved(Exception):
    """Braces nest too deeply, or their heads are too long, to be read."""


@dataclass
class Scope:
    """One pair of braces during reading.

    `head` is the current statement; of braces inside it only the closing one is kept.
    """

    kind: str  # namespace | class | function | block | value
    name: str = ""  # of a class or function
    on_device: bool = False  # runs on the device alone
    on_both: bool = False  # is for the device and for the host
    head: list[Token] = field(default_factory=list)
    depth: int = 0  # open parentheses and square brackets in the head
    holds_lambda: bool = False  # the head calls or passes a lambda


@dataclass(frozen=True)
class Place:
    """A token with its scopes."""

    token: Token
    index: int  # in the file's tokens
    scopes: tuple[Scope, ...]  # outermost first; the last one is incomplete

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    @property
    def is_device_statement(self) -> bool:
        """Whether it begins a statement of a function that runs on the device alone."""
        return self._function().on_device and self._begins_statement()

    @property
    def is_statement_for_both(self) -> bool:
        """Whether it begins a statement of a function for the device and the host."""
        return self._function().on_both and self._begins_statement()

    def _function(self) -> Scope:
        """The innermost function, or a class or namespace in it."""
        kinds = ("function", "class", "namespace")
        return next((each for each in reversed(self.scopes) if each.kind in kinds), self.scopes[0])

    def _begins_statement(self) -> bool:
        head = self.scope.head
        if self.scope.kind == "value" or self.scope.depth:
            return False
        return not head or head[0].text in _LOOPS or head[-1].text == ":"


@dataclass(frozen=True)
class Statement:
    """A complete statement, or the head of a function, in its `scope`."""

    head: tuple[Token, ...]
    scope: Scope
    opens: Scope | None = None  # the function that it opens; None where it ended in a semicolon
    in_function: bool = False
    holds_lambda: bool = False


def walk(
    tokens: Sequence[Token], macros: Mapping[str, frozenset[str]] | None = None
) -> Iterator[Place | Statement]:
    """Every token with its place, and every statement at its end, in the order of the file.

    `macros` maps a macro to those of __global__, __device__ and __host__ that it contains
    (`specifiers`). Scopes change during reading: use a place before asking for the next. Raises
    TooInvolved.
    """
    stack = [Scope("namespace")]
    outer: tuple[Scope, ...] = (stack[0],)  # the stack as a tuple, renewed only when it changes
    work = 0
    for index, token in enumerate(tokens):
        scope = stack[-1]
        yield Place(token, index, outer)
        text = token.text if token.kind in ("punctuation", "name") else ""
        if text == "{":
            work += len(scope.head)
            if len(stack) >= MAX_NESTED or work > MAX_WORK:
                raise TooInvolved
            opened = _opened(scope, stack, macros or {})
            if opened.kind == "function":
                yield Statement(tuple(scope.head), scope, opened, _in_function(stack))
            stack.append(opened)
        elif text == "}":
            if len(stack) > 1:
                closed = stack.pop()
                _close(stack[-1], closed, token)
        elif text == ";" and not scope.depth:
            yield Statement(tuple(scope.head), scope, None, _in_function(stack), scope.holds_lambda)
            _restart(scope)
        elif text == ":" and len(scope.head) == 1 and not scope.depth:
            _restart(scope)  # public:, default:, a label
        elif text == "," and scope.kind == "value" and not scope.depth:
            _restart(scope)
        else:
            _extend(scope, token, text)
        if text in ("{", "}"):
            outer = tuple(stack)


def _extend(scope: Scope, token: Token, text: str) -> None:
    if text in ("(", "["):
        scope.depth += 1
    elif text in (")", "]"):
        scope.depth = max(0, scope.depth - 1)
    scope.head.append(token)


def _restart(scope: Scope) -> None:
    scope.head, scope.depth, scope.holds_lambda = [], 0, False


def _close(scope: Scope, closed: Scope, token: Token) -> None:
    ends = closed.kind == "block" and not scope.depth and not _is_value(scope.head)
    if ends or closed.kind in ("function", "namespace"):
        _restart(scope)
    else:
        scope.head.append(token)


def _in_function(stack: Sequence[Scope]) -> bool:
    return any(scope.kind == "function" for scope in stack)


def _opened(scope: Scope, stack: Sequence[Scope], macros: Mapping[str, frozenset[str]]) -> Scope:
    """The scope that a brace opens behind the head of `scope`."""
    head = tuple(scope.head)
    inside = scope.kind in ("function", "block") or (scope.kind == "value" and _in_function(stack))
    if scope.depth and head[-1].text == "(":
        return Scope("block")  # a statement among expressions: ({ ... })
    if scope.kind == "value" or scope.depth or _is_value(head):
        if any(token.text == "[" for token in head):
            scope.holds_lambda = scope.holds_lambda or scope.depth > 0
            return Scope("block")
        return Scope("value")
    outside = [token for token, depth in _with_depth(head) if not depth]
    words = {token.text for token in outside}
    if words & _CLASS_KEYS and not _has_parameters(outside):
        return Scope("class", _class_name(outside))
    if inside:
        is_value = bool(head) and head[-1].kind == "name" and head[0].text not in _LOOPS
        return Scope("value" if is_value else "block")
    if not head or "namespace" in words or (head[0].text == "extern" and len(head) == 2):
        return Scope("namespace" if head else "block")
    if _has_parameters(outside):
        words = words.union(*(macros.get(word, ()) for word in words))
        on_device = GLOBAL in words or (DEVICE in words and HOST not in words)
        on_both = {DEVICE, HOST} <= words
        return Scope("function", _function_name(outside), on_device, on_both)
    return Scope("value")


def _is_value(head: Sequence[Token]) -> bool:
    """Whether the head ends before an initialiser: `int a[] =`, `auto f = []`."""
    previous = ""
    for token, depth in _with_depth(head):
        if token.text == "=" and not depth and previous != "operator":
            return True
        previous = token.text
    return bool(head) and head[0].text == "return"


def _with_depth(head: Sequence[Token]) -> Iterator[tuple[Token, int]]:
    """Tokens with their depth of parentheses, template lists and decorations.

    An opening parenthesis of a parameter list counts as outside, its content doesn't.
    """
    depth = angles = 0
    decorated = False  # inside the parentheses of alignas(...) and the like
    previous = ""
    for token in head:
        text = token.text if token.kind in ("name", "punctuation") else ""
        if text in (")", "]"):
            depth = max(0, depth - 1)
        elif text == ">" and angles and not depth:
            angles -= 1
        elif text == "<" and not depth and (previous == "template" or angles):
            angles += 1
        starts_decoration = text == "(" and not depth and previous in DECORATIONS
        decorated = (decorated and depth > 0) or starts_decoration
        yield token, depth + angles + decorated
        if text in ("(", "["):
            depth += 1
        previous = text


def _has_parameters(outside: Sequence[Token]) -> bool:
    return any(token.text == "(" for token in outside)


def _class_name(outside: Sequence[Token]) -> str:
    names = [t.text for t in outside if t.kind == "name" or t.text == ":"]
    last = ""
    for name in names:
        if name == ":":
            break
        if name not in DECORATIONS | {"final"}:
            last = name
    return last


def _function_name(outside: Sequence[Token]) -> str:
    """The name before the first parameter list; "~S" for a destructor."""
    for place, token in enumerate(outside):
        if token.text == "(" and place:
            tilde = place > 1 and outside[place - 2].text == "~"
            return ("~" if tilde else "") + outside[place - 1].text
    return ""


def specifiers(directives: Sequence[Directive]) -> dict[str, frozenset[str]]:
    """Macros that contain __device__ and the like: `#define INLINE __device__ inline`.

    For a macro with several definitions, those in all of them; __host__ if any has it.
    """
    by_macro: dict[str, frozenset[str]] = {}
    for each in directives:
        if each.name not in ("define", "undef") or not each.tokens:
            continue
        name, *body = (token.text for token in each.tokens)
        words: frozenset[str] = frozenset()
        if each.name == "define" and all(token.kind == "name" for token in each.tokens):
            words = frozenset(body).union(*(by_macro.get(word, ()) for word in body))
        words &= {DEVICE, GLOBAL, HOST}
        before = by_macro.get(name, words)
        by_macro[name] = (words & before) | ((words | before) & {HOST})
    return by_macro


def is_sure(tokens: Sequence[Token], directives: Sequence[Directive]) -> bool:
    """Whether braces can be counted: they are paired in each macro and each branch of an #if."""
    bodies = (each.tokens for each in directives if each.name == "define")
    if any(_fall_and_rise(body) != (0, 0) for body in bodies):
        return False
    open_branches: list[tuple[int, int]] = []  # of each open #if: lowest and last depth
    lowest = depth = begin = 0
    for each in directives:
        fall, rise = _fall_and_rise(tokens[begin : each.before])
        lowest, depth, begin = min(lowest, depth + fall), depth + rise, each.before
        if each.name in ("if", "ifdef", "ifndef"):
            open_branches.append((lowest, depth))
            lowest = depth = 0
        elif each.name in ("else", "elif", "elifdef", "elifndef", "endif") and open_branches:
            if (lowest, depth) != (0, 0):
                return False
            lowest = depth = 0
            if each.name == "endif":
                lowest, depth = open_branches.pop()
    fall, rise = _fall_and_rise(tokens[begin:])
    return not open_branches and min(lowest, depth + fall) == 0 and depth + rise == 0


def _fall_and_rise(tokens: Sequence[Token]) -> tuple[int, int]:
    """The lowest depth of a text's braces, relative to its start, and the depth at its end."""
    lowest = depth = 0
    for token in tokens:
        if token.kind == "punctuation":
            depth += (token.text == "{") - (token.text == "}")
            lowest = min(lowest, depth)
    return lowest, depth

"""Constants of a kernel's file, found by name and given other values in its text.

A changed text is planned and judged as any submission is, so that host code decides anew about
grids and buffers. In Python a name is set again right behind each statement that sets it, and
replaced where a launch or a default gives it; num_warps and num_stages are added to launches. In
CUDA C++ the value of a const, a constexpr or a macro is replaced. No line moves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from grader.emulator.lexer import Token
from grader.emulator.tokens import read
from grader.grading import source_reading

OPTIONS = ("num_warps", "num_stages")  # of each launch of a Triton kernel


class Unreadable(Exception):
    """A file's constants can't be found; the message says why."""


class Place(NamedTuple):
    """Where a value goes: the bytes from `start` to `end` become `before`, the value, `after`."""

    name: str
    start: int
    end: int
    before: str = ""
    after: str = ""
    is_constant: bool = True  # what people call so: a number, a launch's keyword, NAMES_LIKE_THIS


@dataclass(frozen=True)
class Constants:
    """The names of one file that can be set, as one entry uses them."""

    text: str
    places: tuple[Place, ...]

    @property
    def names(self) -> list[str]:
        """All names that can be set."""
        return list(dict.fromkeys(place.name for place in self.places))

    @property
    def constants(self) -> list[str]:
        """Those that are constants, for messages."""
        return list(dict.fromkeys(place.name for place in self.places if place.is_constant))

    def with_values(self, values: Mapping[str, str]) -> str:
        """The text with other values of some of `names`, as the language writes them."""
        data = self.text.encode()
        chosen = [place for place in self.places if place.name in values]
        # From the end on, so that offsets before stay right.
        for place in sorted(chosen, key=lambda each: (each.start, each.end), reverse=True):
            new = f"{place.before}{values[place.name]}{place.after}"
            data = data[: place.start] + new.encode() + data[place.end :]
        return data.decode()


def constants_of(data: bytes, entry: str, language: str) -> Constants:
    """The constants that an entry of a file uses. Raises Unreadable."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    try:
        places = source_reading.limited(_places_in, text, entry, language)
    except source_reading.TooInvolved as error:
        raise Unreadable(str(error)) from None
    if isinstance(places, str):
        raise Unreadable(places)
    return Constants(text, tuple(Place(*each) for each in places))


def _places_in(text: str, entry: str, language: str) -> list[Place] | str:
    """The places, or why there are none. Runs in a process with limits."""
    if language == "cuda":
        return list(_in_cuda(text))
    try:
        return list(_Python(text).places(entry))
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"


# --- Python ---------------------------------------------------------------------------------------


class _Python:
    """A Python file's tree, and offsets in its bytes."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._lines = [0, *(match.end() for match in re.finditer(b"\n", self._data))]
        self._tree = ast.parse(text)

    def places(self, entry: str) -> Iterator[Place]:
        """The places of every name that the entry uses, directly or through what it names."""
        for statement in self._used_by(entry):
            is_kernel = False
            if isinstance(statement, ast.FunctionDef):
                is_kernel = any("jit" in ast.unparse(each) for each in statement.decorator_list)
                yield from self._defaults(statement)
            for node in () if is_kernel else ast.walk(statement):
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                    yield from self._set_again(node)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                    yield from self._of_launch(node)

    def _used_by(self, entry: str) -> list[ast.stmt]:
        """The file's statements that the entry depends on, in their order."""
        wanted, kept = {entry}, set[int]()
        while True:
            more = {
                i
                for i, each in enumerate(self._tree.body)
                if i not in kept and wanted & _bound_by(each)
            }
            if not more:
                return [self._tree.body[i] for i in sorted(kept)]
            kept |= more
            for i in more:
                nodes = ast.walk(self._tree.body[i])
                wanted |= {node.id for node in nodes if isinstance(node, ast.Name)}

    def _set_again(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[Place]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [
            each.id for t in targets for each in ast.walk(t)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        ]  # fmt: skip
        value, end = node.value, self._end(node)
        note = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
        before, after = "", ""
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("constexpr"):
            before, after = f"{ast.unparse(value.func)}(", ")"
        is_number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
        is_size = ".shape" in ast.unparse(node) or (isinstance(value, ast.List) and len(names) == 1)
        for name in names if value is not None else ():
            is_constant = is_number or (name.isupper() and len(name) > 1 and not is_size)
            yield Place(name, end, end, f"; {name}{note} = {before}", after, is_constant)

    def _of_launch(self, call: ast.Call) -> Iterator[Place]:
        given = {each.arg: each.value for each in call.keywords if each.arg}
        for name, value in given.items():
            yield Place(name, self._start(value), self._end(value))
        arguments = [*call.args, *(each.value for each in call.keywords)]
        last = max((self._end(each) for each in arguments), default=None)
        end = self._end(call) - 1
        rest = re.sub(rb"#[^\n]*", b"", self._data[last:end]) if last is not None else b","
        before, after = ("", ", ") if b"," in rest else (", ", "")
        for name in OPTIONS if not self._is_tuned(call.func) else ():
            if name not in given:
                yield Place(name, end, end, f"{before}{name}=", after)

    def _is_tuned(self, launched: ast.expr) -> bool:
        """Whether triton.autotune chooses a kernel's options."""
        name = ast.unparse(launched.value) if isinstance(launched, ast.Subscript) else ""
        return any(
            "autotune" in ast.unparse(decorator)
            for each in self._tree.body
            if isinstance(each, ast.FunctionDef) and each.name == name
            for decorator in each.decorator_list
        )

    def _defaults(self, function: ast.FunctionDef) -> Iterator[Place]:
        given = function.args
        positional = [*given.posonlyargs, *given.args]
        with_default = positional[len(positional) - len(given.defaults) :]
        pairs = [*zip(with_default, given.defaults, strict=True)]
        pairs += [
            (name, value)
            for name, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
            if value is not None
        ]
        for argument, value in pairs:
            yield Place(argument.arg, self._start(value), self._end(value))

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset


def _bound_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    nodes = ast.walk(statement)
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


# --- CUDA C++ -------------------------------------------------------------------------------------


def _in_cuda(text: str) -> Iterator[Place]:
    source = read(text)
    tokens = source.code.tokens
    for i, token in enumerate(tokens[:-1]):
        if token.kind != "name" or tokens[i + 1].text != "=":
            continue
        value = _up_to_the_end(tokens, i + 2)
        words = _declared_with(tokens, i)
        is_number = len(value) == 1 and value[0].kind == "number"
        if value and ("constexpr" in words or ("const" in words and is_number)):
            yield _replaced(text, token.text, value)
    for directive in source.directives:
        if directive.macro and directive.body and not directive.parameters:
            yield _replaced(text, directive.macro, directive.body)


def _declared_with(tokens: Sequence[Token], index: int) -> set[str]:
    """What stands before a name in the statement that sets it, such as constexpr."""
    words: set[str] = set()
    for i in range(index - 1, -1, -1):
        if tokens[i].text in (";", "{", "}", "(", ")"):
            break
        words.add(tokens[i].text)
    return words


def _up_to_the_end(tokens: Sequence[Token], start: int) -> Sequence[Token]:
    """The tokens of a value: up to the comma or semicolon behind it."""
    depth = 0
    for i in range(start, len(tokens)):
        if not depth and tokens[i].text in (",", ";"):
            return tokens[start:i]
        depth += (tokens[i].text in ("(", "[", "{")) - (tokens[i].text in (")", "]", "}"))
        if depth < 0:
            break
    return ()


def _replaced(text: str, name: str, value: Sequence[Token]) -> Place:
    start, end = (len(text[:at].encode()) for at in (value[0].start, value[-1].end))
    return Place(name, start, end)

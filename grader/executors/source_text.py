"""The text of a submission as tokens and functions.

A reader for both languages that needs no compiler: it knows where functions begin and end, which
names they have, and which of them an entry reaches. The source is untrusted, so all is bounded.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

MOST_TOKENS = 20_000
MOST_FUNCTIONS = 60
MOST_BLOCKS = 1000
_TOKEN = re.compile(
    r"[A-Za-z_]\w{0,80}|\d(?:[\w.]|(?<=[eE])[-+])*|\.\d\w*|<<<|>>>|//=?|[-+*/%&|^<>=!]=|&&|\|\|"
    r"|<<|>>|->|::|\+\+|--|\*\*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\S"
)
_CPP_BLANK = re.compile(
    r"//[^\n]*|/\*.{0,5000}?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.M
)
# Comments and strings; one without an end ends with its line or the text, so no text takes long.
_NO_CODE = {
    False: re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|'\\?.'|"(?:[^"\\\n]|\\.)*"?""", re.DOTALL),
    True: re.compile(
        r"""#[^\n]*|(\"{3}|'{3}).*?(?:\1|\Z)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?""", re.DOTALL
    ),
}
_FOLDS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<<": lambda left, right: left << min(right, 64),
}
_PY_BLANK = re.compile(r'#[^\n]*|""".{0,20000}?"""', re.DOTALL)
_WITHIN = r"[^(){};]{0,2000}"
_HEAD = re.compile(
    rf"\b([A-Za-z_]\w*)\s*\(({_WITHIN}(?:\([^(){{}};]{{0,80}}\){_WITHIN}){{0,8}})\)"
    r"(?:const|noexcept|\s)*$"
)
# A reference to an array, as `float (&tile)[N]`, or a name with an array's sizes behind it.
_PARAMETER = re.compile(r"\(\s*[*&]\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*)\s*(?:\[[^\[\]]*\]\s*)*$")
_NAME = re.compile(r"[A-Za-z_]\w*")
_INTEGERS = frozenset({"int", "unsigned", "size_t", "long"})
_TRANSPARENT = re.compile(r'(?:extern\s*"C"|\bnamespace(?:\s+[\w:]+)?)\s*$')  # before a brace


@dataclass(frozen=True)
class Token:
    """A word, number, operator or string, and where it stands."""

    text: str
    start: int
    end: int
    line: int  # counted from 1

    @property
    def is_name(self) -> bool:
        return bool(_NAME.fullmatch(self.text))


@dataclass(frozen=True)
class Function:
    """A function of the file: from its decorators, template or type to its end."""

    name: str
    start: int
    body: int  # where the body begins
    end: int
    parameters: tuple[str, ...]
    integers: frozenset[str]  # parameters that are sizes: of type int, or neither pointer nor
    # constant nor stride
    is_kernel: bool
    addresses: frozenset[str] = frozenset()  # of a Triton kernel: names that hold pointers
    within: str = ""  # how the namespaces around it are opened: "namespace own {"

    def placed(self, text: str) -> str:
        """Text in the namespaces that the function stands in."""
        return f"{self.within}{text}{'}' * self.within.count('{')}"


def tokens_of(code: str, start: int = 0, end: int | None = None, line: int = 1) -> list[Token]:
    """The tokens of code without comments; `line` is that of the start."""
    tokens, at = [], start
    for match in _TOKEN.finditer(code, start, len(code) if end is None else end):
        line += code.count("\n", at, match.start())
        at = match.start()
        tokens.append(Token(match[0], match.start(), match.end(), line))
        if len(tokens) == MOST_TOKENS:
            break
    return tokens


def code_of(source: str, is_triton: bool) -> str:
    """A text without its comments and strings, docstrings among them."""
    return _NO_CODE[is_triton].sub(" ", source)


@lru_cache(maxsize=4)
def numbers_of(source: str, is_triton: bool) -> tuple[int, ...]:
    """The whole numbers that code names, and what two of them around an operator make."""
    code = code_of(source, is_triton)
    tokens = [each.text for each in tokens_of(re.sub(r"(?<=\d)['_](?=\d)", "", code))]
    values = [_number(text) for text in tokens]
    numbers = {value for value in values if value is not None}
    for place in range(1, len(tokens) - 1):
        left, right = values[place - 1], values[place + 1]
        fold = _FOLDS.get(tokens[place])
        if fold is not None and left is not None and right is not None:
            numbers.add(fold(left, right))
    return tuple(sorted(numbers))


def _number(text: str) -> int | None:
    """The value of a token that is a whole number in C++ or Python, as 48, 0x30u or 4.8e1f."""
    if not text[:1].isdecimal() or len(text) > 24:
        return None
    digits = text.rstrip("uUlLzZ")
    try:
        return int(digits, 8 if re.fullmatch("0[0-7]+", digits) else 0)
    except ValueError:
        pass
    try:
        value = float(text.rstrip("fF"))
    except ValueError:
        return None
    return int(value) if value.is_integer() and value < 2**53 else None


@dataclass(frozen=True)
class SourceText:
    """A submission's source, Triton or CUDA C++, cut into functions."""

    source: str
    is_triton: bool

    @cached_property
    def code(self) -> str:
        """The source with blanks in the place of comments, so that offsets stay."""
        blank = _PY_BLANK if self.is_triton else _CPP_BLANK
        return blank.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), self.source)

    @cached_property
    def lines(self) -> list[str]:
        return self.source.split("\n")

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line's start."""
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    def line_at(self, offset: int) -> int:
        """The number of the line of an offset, counted from 1."""
        return self.source.count("\n", 0, offset) + 1

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions by name; none where the source can't be read."""
        functions = self._python() if self.is_triton else iter(self.blocks)
        named = islice((each for each in functions if each.name), MOST_FUNCTIONS)
        return {each.name: each for each in named}

    @cached_property
    def blocks(self) -> list[Function]:
        """What has a body in C++ and stands in no other but a namespace; some have no name."""
        return list(islice(self._cpp(), MOST_BLOCKS))

    def reached(self, entry: str) -> list[Function]:
        """The entry and the functions that it uses, directly or not, in the file's order."""
        reached, names = {}, [entry]
        for name in names:  # grows meanwhile
            function = self.functions.get(name)
            if function is None or name in reached:
                continue
            reached[name] = function
            names += _NAME.findall(self.code[function.start : function.end])
        return sorted(reached.values(), key=lambda each: each.start)

    def tokens(self, function: Function) -> list[Token]:
        """The tokens of a function's body."""
        return tokens_of(self.code, function.body, function.end, self.line_at(function.body))

    def copy(self, functions: Sequence[Function], suffix: str, changes: Sequence[Change]) -> str:
        """Changed functions, and those that lead to them, under names with a suffix.

        Of the others there is no copy: compiled once, they serve every change.
        """
        copied = self.leading_to(functions, changes)
        names = "|".join(each.name for each in copied)
        named = re.compile(rf"(?<![\w.])(?:{names})\b(?!\s*=[^=])")
        parts = []
        for function in copied:
            text = changed(self.source, changes, function.start, function.end)
            parts.append(function.placed(named.sub(lambda match: match[0] + suffix, text)))
        return "\n\n".join(parts)

    def leading_to(
        self, functions: Sequence[Function], changes: Sequence[Change]
    ) -> list[Function]:
        """The functions with changes and those that use them, directly or not; all if none is."""
        changed = {
            each.name
            for each in functions
            if any(each.start <= change.start <= change.end <= each.end for change in changes)
        }
        before = -1
        while changed and len(changed) != before:
            before = len(changed)
            for each in functions:
                if changed & {*_NAME.findall(self.code[each.start : each.end])}:
                    changed.add(each.name)
        return [each for each in functions if each.name in changed or not changed]

    def _python(self) -> Iterator[Function]:
        try:
            tree = ast.parse(self.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        made: list[Function] = []
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or node.end_lineno is None:
                continue
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            jitted = any("jit" in ast.unparse(each) for each in node.decorator_list)
            addresses = _addresses(node, made) if jitted else set()
            sizes = {
                each.arg
                for each in given
                if each.annotation is None
                and each.arg not in addresses
                and not re.search("ptr|stride|scale|eps|alpha|beta", each.arg.lower())
            }
            function = Function(
                node.name,
                self.starts[first - 1],
                self.starts[node.body[0].lineno - 1],
                min(self.starts[node.end_lineno], len(self.source)),
                tuple(each.arg for each in given),
                frozenset(sizes if jitted else ()),
                jitted,
                frozenset(addresses),
            )
            made.append(function)
            yield function

    def _cpp(self) -> Iterator[Function]:
        depth, begun = 0, 0  # `begun`: after the last declaration at the outermost level
        within: list[str] = []
        head: re.Match[str] | None = None
        start = body = 0
        for match in re.finditer(r"[{};]", self.code):
            at, text = match.start(), match[0]
            if text == "{":
                if not depth:
                    if opens := _TRANSPARENT.search(self.code[begun:at]):
                        within.append(f"{opens[0].strip()} {{ ")
                        begun = at + 1
                        continue
                    head = _HEAD.search(self.code, begun, at)
                    start, body = begun, at + 1
                depth += 1
            elif text == "}" and depth:
                depth -= 1
                if not depth:
                    function = self._of_head(head, start, body, at + 1)
                    yield replace(function, within="".join(within))
                    begun, head = at + 1, None
            elif text == "}":
                del within[-1:]
                begun = at + 1
            elif not depth:
                begun = at + 1

    def _of_head(self, head: re.Match[str] | None, start: int, body: int, end: int) -> Function:
        start += len(self.source[start:]) - len(self.source[start:].lstrip())
        if head is None:
            return Function("", start, body, end, (), frozenset(), is_kernel=False)
        given = [each.strip() for each in head[2].split(",")]
        matches = [(each, _PARAMETER.search(each)) for each in given]
        named = {match[1] or match[2]: each for each, match in matches if match}
        integers = {
            name
            for name, each in named.items()
            if not {"*", "["} & {*each} and _INTEGERS & {*_NAME.findall(each)} - {name}
        }
        return Function(
            head[1],
            start,
            body,
            end,
            tuple(named),
            frozenset(integers),
            "__global__" in self.code[start:body],
        )


_TAKES_ADDRESS = re.compile(r"load|store|atomic_\w+|make_block_ptr|make_tensor_descriptor")


def _addresses(kernel: ast.FunctionDef, helpers: Iterable[Function]) -> set[str]:
    """Names of a Triton kernel that hold pointers, whatever they are called.

    Such a name begins the address of a load or store, or the value of another such name, or is
    passed to a helper that takes a pointer there.
    """
    takes = {each.name: [n in each.addresses for n in each.parameters] for each in helpers}
    known: set[str] = set()
    derived: list[tuple[str, str]] = []  # a name and the one that its value begins with
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            is_access = called.startswith("tl.") and _TAKES_ADDRESS.fullmatch(called[3:])
            taken = [True] if is_access else takes.get(called, [])
            known |= {_first_name(each) for each, it in zip(node.args, taken, strict=False) if it}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            derived.append((node.targets[0].id, _first_name(node.value)))
    for name, base in [*reversed(derived), *reversed(derived)]:  # kernels are read from the end
        known |= {base} if name in known else set()
    return known - {""}


def _first_name(value: ast.expr) -> str:
    """The name that a sum begins with; "" where it begins with something else."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        value = value.left
    return value.id if isinstance(value, ast.Name) else ""


@dataclass(frozen=True)
class Change:
    """Text that stands in the place of the source's from `start` to `end`."""

    start: int
    end: int
    new: str


def changed(text: str, changes: Iterable[Change], start: int = 0, end: int | None = None) -> str:
    """The text from `start` to `end` with those changes made that are in it."""
    end = len(text) if end is None else end
    made, at = "", start
    for change in sorted(changes, key=lambda each: (each.start, each.end)):
        if start <= change.start <= change.end <= end:
            made += text[at : change.start] + change.new
            at = max(at, change.end)
    return made + text[at:end]

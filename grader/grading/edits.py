"""Small changes of a submission's text, each of which undoes one mistake that students make.

A change says nothing by itself. repairs.py runs the changed text and tells the change as the cause
only where failing cases become right with it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from grader.grading.source_text import Change, Function, SourceText, Token

MOST_CONDITIONS = 24  # of a function, that are tried as masks
MOST_PER_LINE = 40  # changes of one line
LONGEST = 60  # characters of code that a message quotes


@dataclass(frozen=True)
class Edit:
    """A change and the mistake that it undoes."""

    name: str
    changes: tuple[Change, ...]
    line: int  # at which a message shows it
    what: str  # a sentence without its stop
    advice: str  # a sentence
    cost: int  # the likelier the mistake, the lower


@dataclass(frozen=True)
class Scope:
    """A function whose text is changed, and what it knows of its file."""

    text: SourceText
    function: Function
    reached: Sequence[Function]
    is_triton: bool

    @cached_property
    def tokens(self) -> list[Token]:
        return self.text.tokens(self.function)

    @cached_property
    def first_use(self) -> dict[str, int]:
        """Where each name of the function is first, parameters at 0."""
        first: dict[str, int] = {}
        for token in self.tokens:
            if token.is_name:
                first.setdefault(token.text, token.start)
        return first | dict.fromkeys(self.function.parameters, 0)

    @cached_property
    def unused(self) -> list[str]:
        """Parameters that the body never has."""
        names = {token.text for token in self.tokens}
        return [each for each in self.function.parameters if each not in names]

    @cached_property
    def values(self) -> list[str]:
        """Names that may stand for one another: parameters and locals, as they come."""
        assigned = []
        for token, following in zip(self.tokens, self.tokens[1:], strict=False):
            if token.is_name and following.text in ("=", "in") and token.text not in _WORDS:
                assigned.append(token.text)
        return list(dict.fromkeys([*self.function.parameters, *assigned]))

    @cached_property
    def pointers(self) -> set[str]:
        """Parameters that are no number, and in Triton no stride and no constant."""
        given = {*self.function.parameters} - self.function.integers
        return {each for each in given if "ptr" in each} if self.is_triton else given

    @cached_property
    def has_two_axes(self) -> bool:
        """Whether some function of the file has a grid or block of more than one axis."""
        return bool(re.search(r"\.y\b", self.text.code))

    @cached_property
    def conditions(self) -> list[str]:
        """Comparisons of the function, as `row < rows`, `offs_n[None, :] < N` or `mask`."""
        code = self.text.code[self.function.body : self.function.end]
        if not self.is_triton:  # those of loops guard nothing
            code = "; ".join(match[1] or match[2] for match in _GUARD.finditer(code))
        pattern = _MASK if self.is_triton else _BOUND
        found = [re.sub(r"\s+", " ", match[0]) for match in pattern.finditer(code)]
        found = [each for each in found if "static_cast" not in each]
        if self.is_triton:
            found = [*re.findall(r"\b(\w*mask\w*)\s*=", code), *found]
        return list(dict.fromkeys(found))[:MOST_CONDITIONS]

    @cached_property
    def calls(self) -> list[Call]:
        """The calls and launches in the body."""
        return list(_calls(self))

    def quoted(self, start: int, end: int, new: str | None = None) -> str:
        """The source's text from `start` to `end`, or what stands instead, as code."""
        found = self.text.source[start:end] if new is None else new
        joined = " ".join(found.split())
        return f"`{joined if len(joined) <= LONGEST else joined[: LONGEST - 1] + '…'}`"

    def edit(self, name: str, changes: Sequence[Change], what: str, advice: str, cost: int) -> Edit:
        first = min(changes, key=lambda each: each.start)
        return Edit(name, tuple(changes), self.text.line_at(first.start), what, advice, cost)

    def instead(
        self, name: str, start: int, end: int, new: str, cost: int, around: tuple[int, int] = (0, 0)
    ) -> Edit:
        """Text in the place of other text; `around` is where the quoted code begins and ends."""
        low, high = around if around != (0, 0) else (start, end)
        source = self.text.source
        changed = source[low:start] + new + source[end:high]
        what = f"{self.quoted(low, high)} stands where {self.quoted(0, 0, changed)} belongs"
        return self.edit(name, [Change(start, end, new)], what, "", cost)


@dataclass(frozen=True)
class Call:
    """A call or a launch: what is called, and where its arguments stand."""

    name: str
    is_launch: bool
    grid: tuple[tuple[int, int], ...]  # a launch's configuration
    arguments: tuple[tuple[int, int], ...]
    start: int
    end: int  # behind the closing parenthesis


_WORDS = frozenset(
    [
        "if",
        "else",
        "for",
        "while",
        "return",
        "def",
        "in",
        "and",
        "or",
        "not",
        "is",
        "None",
        "True",
        "False",
        "range",
        "int",
        "float",
        "const",
        "auto",
        "unsigned",
        "size_t",
        "double",
        "half",
        "bool",
        "void",
        "char",
        "tl",
        "triton",
        "torch",
        "static_cast",
        "sizeof",
        "constexpr",
        "extern",
        "static",
        "struct",
        "template",
        "typename",
        "inline",
    ]
)
_GUARD = re.compile(r"\bif\s*\(([^{};]{1,200}?)\)\s*[\w{(*]|=\s*([^?;={}]{3,120})\?")
_SUBSCRIPT = r"(?:\[[^\]\n]{0,20}\])?"
_INDEX = rf"[A-Za-z_][\w.]*{_SUBSCRIPT}(?:\s*[-+*]\s*[A-Za-z_\d][\w.]*{_SUBSCRIPT}){{0,3}}"
_MASK = re.compile(rf"{_INDEX}\s*(?:<=?|>=?)\s*{_INDEX}")
_BOUND = re.compile(rf"(?<![<\w]){_INDEX}\s*<\s*(?!<){_INDEX}(?!\s*>>>)")


def edits_of(scope: Scope) -> Iterator[Edit]:
    """All changes of a function, without order."""
    seen: set[tuple[Change, ...]] = set()
    counts: dict[int, int] = {}
    for rule in RULES:
        for edit in rule(scope):
            counts[edit.line] = counts.get(edit.line, 0) + 1
            if edit.changes not in seen and counts[edit.line] <= MOST_PER_LINE:
                seen.add(edit.changes)
                yield edit


def _calls(scope: Scope) -> Iterator[Call]:
    """Calls whose parentheses close, with their arguments."""
    tokens = scope.tokens
    stack: list[tuple[int, list[int]]] = []  # the opening token, and the commas at its level
    grids: dict[int, tuple[tuple[int, int], ...]] = {}  # by the token behind a launch's grid
    names: dict[int, int] = {}  # by the same: the kernel's token
    closing = {"(": ")", "[": "]", "{": "}", "<<<": ">>>"}
    for index, token in enumerate(tokens):
        if token.text in closing:
            stack.append((index, []))
        elif token.text == "," and stack:
            stack[-1][1].append(index)
        elif token.text in closing.values() and stack:
            opening, commas = stack.pop()
            if closing[tokens[opening].text] != token.text:
                return
            parts = _parts(tokens, opening, commas, index)
            is_grid = token.text == ">>>" or (scope.is_triton and token.text == "]")
            if is_grid and opening and index + 1 < len(tokens) and tokens[index + 1].text == "(":
                grids[index + 1], names[index + 1] = parts, opening - 1
            if token.text == ")" and opening and (opening in grids or tokens[opening - 1].is_name):
                named = names.get(opening, opening - 1)
                name = tokens[named].text
                if scope.is_triton and named > 1 and tokens[named - 1].text == ".":
                    name = f"{tokens[named - 2].text}.{name}"
                first = tokens[named].start
                yield Call(name, opening in grids, grids.get(opening, ()), parts, first, token.end)


def _parts(
    tokens: Sequence[Token], opening: int, commas: Sequence[int], end: int
) -> tuple[tuple[int, int], ...]:
    bounds = [opening, *commas, end]
    return tuple(
        (tokens[low + 1].start, tokens[high - 1].end)
        for low, high in itertools.pairwise(bounds)
        if high > low + 1
    )


# --- names -------------------------------------------------------------------------------------


_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def _names(scope: Scope) -> Iterator[Edit]:
    """A name that stands for another one like it: `rows` for `cols`, `stride_am` for another."""
    tokens = scope.tokens
    for index, token in enumerate(tokens):
        if not token.is_name or token.text in _WORDS:
            continue
        before = tokens[index - 1].text if index else ""
        behind = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if behind == "=" or before in ("def", "->"):
            continue  # what is assigned, and a keyword's name
        if before == "." and index > 1:
            if token.text in ("x", "y") and scope.has_two_axes:
                low = tokens[index - 2].start
                new = "y" if token.text == "x" else "x"
                yield scope.instead("name", token.start, token.end, new, 2, (low, token.end))
            continue
        if behind == "(":
            continue
        if behind == "." and token.text in _BUILTINS:
            for other in _BUILTINS:
                if other != token.text:
                    around = (token.start, tokens[index + 2].end)
                    cost = 2 if {token.text, other} == {"blockDim", "gridDim"} else 4
                    yield scope.instead("name", token.start, token.end, other, cost, around)
            for size in sorted(scope.function.integers) if token.text == "blockDim" else ():
                around = (token.start, tokens[index + 2].end)
                yield scope.instead("name", *around, size, 2)
            continue
        for other in _alike(token.text, scope):
            if scope.first_use.get(other, token.end) < token.start:
                low, high = _term(scope, index)
                is_size = {token.text, other} <= scope.function.integers
                cost = 2 if is_size or "stride" in other else 3
                yield scope.instead("name", token.start, token.end, other, cost, (low, high))


def _exchanged_names(scope: Scope) -> Iterator[Edit]:
    """Two names of a line in each other's place: `row < cols && col < rows`."""
    by_line: dict[int, list[Token]] = {}
    around = zip(["", *scope.tokens], scope.tokens, [*scope.tokens[1:], ""], strict=False)
    for before, token, behind in around:
        is_keyword = isinstance(behind, Token) and behind.text == "="
        is_member = isinstance(before, Token) and before.text == "."
        is_axis = is_member and token.text in ("x", "y")
        is_value = token.is_name and token.text not in _WORDS and not is_keyword
        if is_value and (is_axis or not is_member):
            by_line.setdefault(token.line, []).append(token)
    for tokens in by_line.values():
        names = list(dict.fromkeys(token.text for token in tokens))[:12]
        for place, one in enumerate(names):
            for other in names[place + 1 :]:
                if other not in _alike(one, scope) and {one, other} != {"x", "y"}:
                    continue
                swap = {one: other, other: one}
                found = [token for token in tokens if token.text in swap]
                changes = [Change(each.start, each.end, swap[each.text]) for each in found]
                what = f"`{one}` and `{other}` stand in each other's place"
                yield scope.edit("names", changes, what, "", 2)


def _derived(scope: Scope) -> Iterator[Edit]:
    """A constant that stands for what was derived from it, such as a padded row's length."""
    code = scope.text.code
    for match in re.compile(r"\b(\w+)\s*=\s*([^;\n]{1,80})").finditer(
        code, scope.function.body, scope.function.end
    ):
        constants = set(re.findall(r"\b[A-Z][A-Z_\d]+\b", match[2]))
        constants -= {*scope.function.parameters}
        for index, token in enumerate(scope.tokens):
            if token.text in constants and token.start > match.end():
                around = _operands(scope, index)
                yield scope.instead("name", token.start, token.end, match[1], 2, around)


def _term(scope: Scope, index: int) -> tuple[int, int]:
    """A name with what it is multiplied with, or compared to, on its line."""
    tokens = scope.tokens
    first = last = index
    joined = ("*", "/", "//", "<", "<=", "%", "+", "-", ".")
    line = tokens[index].line
    if index > 1 and tokens[index - 1].text in joined and tokens[index - 2].line == line:
        first = index - 2 if tokens[index - 2].is_name else index
    if index + 2 < len(tokens) and tokens[index + 1].text in joined and first == index:
        last = index + 2 if tokens[index + 2].is_name else index
    return tokens[first].start, tokens[last].end


_PAIRS = (("row", "col"), ("rows", "cols"), ("height", "width"), ("query", "key"), ("lane", "warp"))


def _alike(name: str, scope: Scope) -> Iterator[str]:
    """Names of the function that a student may confuse with this one."""
    pairs = {(a, b) for one, other in _PAIRS for a, b in ((one, other), (other, one))}
    for other in scope.values:
        if other == name:
            continue
        ours, theirs = name.split("_"), other.split("_")
        differing = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
        same_parts = len(ours) == len(theirs) > 1 and len(differing) == 1
        parameters = scope.function.parameters
        alike = (name in parameters) == (other in parameters) and (
            (name in scope.function.integers) == (other in scope.function.integers)
        )
        one_letter = (
            alike
            and len(name) == len(other)
            and sum(a != b for a, b in zip(name, other, strict=True)) == 1
        )
        if "stride" in name:  # of another axis, or of another tensor
            same_parts = same_parts and len(name) == len(other) and one_letter
        if same_parts or one_letter or (name, other) in pairs:
            yield other


def _unused(scope: Scope) -> Iterator[Edit]:
    """A parameter that the kernel never uses, as a factor: a stride, a scale."""
    for parameter in scope.unused:
        for index, token in enumerate(scope.tokens):
            behind = scope.tokens[index + 1].text if index + 1 < len(scope.tokens) else ""
            if token.text not in scope.values or behind in ("(", "=", "."):
                continue
            if token.text in scope.pointers:
                continue
            end = token.end
            if behind == "[" and scope.is_triton:
                end = next((t.end for t in scope.tokens[index:] if t.text == "]"), token.end)
            what = (
                f"`{scope.function.name}` never uses its parameter `{parameter}`: "
                f"{scope.quoted(token.start, end)} isn't multiplied by it"
            )
            change = Change(end, end, f" * {parameter}")
            cost = 5 if parameter in scope.function.integers else 2
            yield scope.edit("unused", [change], what, "", cost)


# --- operators and numbers ---------------------------------------------------------------------

_OTHER_OPERATORS = {
    "<": (("<=", 3),),
    "<=": (("<", 1),),
    ">": ((">=", 3),),
    ">=": ((">", 3), ("<=", 4)),
    "==": (("!=", 4),),
    "!=": (("==", 4),),
    "+": (("-", 4),),
    "-": (("+", 4),),
    "*": (("/", 5),),
    "/": (("*", 5), ("%", 4)),
    "%": (("/", 4),),
    "//": (("%", 4),),
    "&&": (("||", 4),),
    "||": (("&&", 3),),
    "&": (("|", 5),),
    "|": (("&", 3),),
    "+=": (("=", 4), ("-=", 5)),
    "-=": (("+=", 4),),
    "*=": (("/=", 5),),
}


_TYPES = frozenset(
    [
        "static_cast",
        "reinterpret_cast",
        "vector",
        "float",
        "int",
        "size_t",
        "long",
        "unsigned",
        "half",
    ]
)


def _operators(scope: Scope) -> Iterator[Edit]:
    """One operator in the place of another."""
    tokens = scope.tokens
    for index in range(1, len(tokens) - 1):
        token, before, behind = tokens[index], tokens[index - 1], tokens[index + 1]
        around = _operands(scope, index)
        if scope.is_triton and token.text in ("%", "/"):
            swaps: tuple[tuple[str, int], ...] = (("//", 4),)
        else:
            swaps = _OTHER_OPERATORS.get(token.text, ())
        if token.text in "<>" and {before.text, behind.text} & _TYPES:
            continue
        if not (before.is_name or before.text[-1] in ")]" or before.text[0].isdigit()):
            if token.text == "-":  # a sign
                signed = (around[0], behind.end)
                yield scope.instead("sign", token.start, token.end, "", 4, signed)
            continue
        for new, cost in swaps:
            yield scope.instead("operator", token.start, token.end, new, cost, around)
        if token.text == "=" and behind.text != "=":
            earlier = tokens[index - 2].text if index > 1 else ""
            is_first = scope.first_use.get(before.text, 0) >= before.start
            is_first = is_first or not _in_loop(scope, token.line)
            if not (is_first or earlier in _WORDS or earlier in ("*", "(", ",", "&")):
                yield scope.instead("operator", token.start, token.end, "+=", 2, around)
        if token.text == ("//" if scope.is_triton else "/") and before.is_name and behind.is_name:
            up = (
                f"triton.cdiv({before.text}, {behind.text})"
                if scope.function.name and not scope.function.is_kernel
                else f"tl.cdiv({before.text}, {behind.text})"
            )
            if not scope.is_triton:
                up = f"(({before.text} + {behind.text} - 1) / {behind.text})"
            old = scope.quoted(before.start, behind.end)
            up_words = "triton.cdiv" if scope.is_triton else "(n + size - 1) / size"
            yield scope.edit(
                "rounded_down",
                [Change(before.start, behind.end, up)],
                f"{old} rounds down, so the last, partly filled block is left out",
                f"Round up: {up_words}.",
                1 if _counts_blocks(scope, token.line) else 5,
            )


def _in_loop(scope: Scope, line: int) -> bool:
    """Whether a line is in a loop of its function, by indentation."""
    code = _code_line(scope, line)
    indent = len(code) - len(code.lstrip())
    for number in range(line - 1, scope.text.line_at(scope.function.body) - 1, -1):
        above = _code_line(scope, number)
        if above.strip() and len(above) - len(above.lstrip()) < indent:
            indent = len(above) - len(above.lstrip())
            if re.match(r"\s*(?:for|while)\b", above):
                return True
    return False


def _counts_blocks(scope: Scope, line: int) -> bool:
    """Whether a line may say how many programs, blocks or rounds of a loop there are."""
    return not scope.function.is_kernel or bool(
        re.search(r"\brange|\bfor\b", _code_line(scope, line))
    )


def _operands(scope: Scope, index: int) -> tuple[int, int]:
    """An operator with its operands, as far as they are names or numbers on its line."""
    tokens = scope.tokens
    low, high = index, index
    for step in (-1, 1):
        at = index + step
        depth = 0
        while 0 <= at < len(tokens) and tokens[at].line == tokens[index].line:
            text = tokens[at].text
            depth += (
                (text in ")]") - (text in "([") if step < 0 else (text in "([") - (text in ")]")
            )
            if depth < 0 or (not depth and text in (",", ";", "=", "{", "}", "?", ":", "&", "&&")):
                break
            if step < 0:
                low = at
            else:
                high = at
            if not depth and abs(at - index) > 6:
                break
            at += step
    return tokens[low].start, tokens[high].end


_INFINITIES = ('float("-inf")', "-float('inf')", "-INFINITY", "float('-inf')")


def _numbers(scope: Scope) -> Iterator[Edit]:
    """A number that is off by one, by a factor of two, or 0 in the place of 1 or of -infinity."""
    tokens = scope.tokens
    for index, token in enumerate(tokens):
        if not token.text[0].isdigit():
            continue
        before = tokens[index - 1] if index else None
        low = tokens[index - 2].start if before and index > 1 else token.start
        around = (low, token.end)
        if re.fullmatch(r"\d{1,5}", token.text):
            number = int(token.text)
            others = [number + 1, number - 1, number * 2, number // 2]
            for place, other in enumerate(dict.fromkeys(others)):
                if other >= 0 and other != number:
                    cost = 3 if number < 2 and other < 2 else 4 + place // 2
                    is_axis = before and before.text == "=" and tokens[index - 2].text == "axis"
                    is_bound = before and before.text in (">", "<", ">=") and other < 2
                    if is_axis or is_bound:
                        cost = 2
                    yield scope.instead("number", token.start, token.end, str(other), cost, around)
            if before and before.text in ("-", "+") and index > 1 and number == 1:
                around = (low, token.end)
                yield scope.instead("off_by_one", before.start, token.end, "", 2, around)
        if token.text in ("0.0", "0.0f", "0.f", "0.", "0"):
            minus = 'float("-inf")' if scope.is_triton else "-INFINITY"
            yield scope.instead("infinity", token.start, token.end, minus, 3, around)
        if re.fullmatch(r"0[xX][fF]+[uUlL]*", token.text):
            yield scope.instead("number", token.start, token.end, "0xffffffff", 2, around)
    code = scope.text.code
    padded = dict(re.findall(r"[\[(](\w+) \+ (\d)[\])]", code))  # `(TILE + 1)`
    for index, token in enumerate(tokens[:-1]):
        if token.text in padded and tokens[index + 1].text != "+":
            around = _operands(scope, index)
            new = f"({token.text} + {padded[token.text]})"
            yield scope.instead("number", token.start, token.end, new, 2, around)
    for match in re.finditer("|".join(map(re.escape, _INFINITIES)), scope.text.source):
        if scope.function.body <= match.start() < scope.function.end:
            yield scope.instead("number", match.start(), match.end(), "0.0", 4)


_FUNCTIONS = {
    "exp": ("exp2",),
    "exp2": ("exp",),
    "log": ("log2",),
    "log2": ("log",),
    "max": ("sum", "min", "maximum"),
    "sum": ("max",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "sqrt": ("rsqrt",),
    "rsqrt": ("sqrt",),
    "fmaxf": ("fminf",),
    "fminf": ("fmaxf",),
    "expf": ("exp2f",),
    "exp2f": ("expf",),
    "logf": ("log2f",),
    "log2f": ("logf",),
    "sqrtf": ("rsqrtf",),
    "rsqrtf": ("sqrtf",),
    "__shfl_down_sync": ("__shfl_xor_sync",),
    "__shfl_up_sync": ("__shfl_xor_sync", "__shfl_down_sync"),
    "__shfl_sync": ("__shfl_xor_sync",),
    "cudaMemcpyHostToDevice": ("cudaMemcpyDeviceToHost",),
    "cudaMemcpyDeviceToHost": ("cudaMemcpyHostToDevice",),
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "int32": ("int64",),
    "half": ("float",),
    "__half": ("float",),
    "double": ("float",),
}


_DTYPES = ("float16", "bfloat16", "int32", "half", "__half", "double")


def _functions(scope: Scope) -> Iterator[Edit]:
    """A function, type or constant of the library that stands for a like one."""
    tokens = scope.tokens
    for index, token in enumerate(tokens):
        behind = tokens[index + 1].text if index + 1 < len(tokens) else ""
        is_called = behind == "(" or not token.text.islower() or token.text in _DTYPES
        for other in _FUNCTIONS.get(token.text, ()) if is_called else ():
            cost = 2 if other in ("float32", "float") or "shfl" in other else 3
            yield scope.instead("function", token.start, token.end, other, cost)
        if not scope.is_triton and token.text == "int" and scope.function.is_kernel:
            behind = scope.text.code[token.end : token.end + 120]
            is_counter = scope.text.code[: token.start].rstrip().endswith("(")
            if not is_counter and re.match(r"\s+\w+\s*=\s*0(?:\.0f?)?\s*;", behind):
                name = behind.split()[0]
                yield scope.edit(
                    "whole_number",
                    [Change(token.start, token.end, "float")],
                    f"`{name}` is an int, so what is behind the point is cut off",
                    "Declare it as a float.",
                    1,
                )


# --- arguments, indices, conditions ------------------------------------------------------------


def _arguments(scope: Scope) -> Iterator[Edit]:
    """Two arguments, indices or numbers of a grid in the wrong order."""
    source = scope.text.source
    for call in scope.calls:
        callee = _callee(scope, call)
        if call.is_launch and len(call.grid) > 1:
            words = "grid" if scope.is_triton else "launch"
            one, other = call.grid[:2]
            edit = _exchanged(scope, one, other, f"the {words} of `{call.name}`", 2)
            yield replace(edit, name="grid")
        if call.name in ("dim3", "cudaMemcpy") and len(call.arguments) > 1:
            first, second = call.arguments[:2]
            yield _exchanged(scope, first, second, f"`{call.name}`", 2)
        before = source[max(call.start - 6, 0) : call.start]
        if before.strip() == "dim3":
            for one, other in zip(call.arguments, call.arguments[1:], strict=False):
                yield _exchanged(scope, one, other, f"`{call.name}`", 2)
        if callee is None or len(call.arguments) < 2:
            continue
        given = [source[low:high] for low, high in call.arguments]
        named = [_plain(each) for each in callee.parameters]
        for i in range(len(given)):
            for j in range(i + 1, len(given)):
                if "=" in given[i] or "=" in given[j] or j >= len(named):
                    continue
                fits = (_plain(given[i]) == named[j]) + (_plain(given[j]) == named[i])
                was = (_plain(given[i]) == named[i]) + (_plain(given[j]) == named[j])
                are_sizes = given[i].isidentifier() and given[j].isidentifier()
                tensors = {*scope.function.parameters} if scope.is_triton else scope.pointers
                are_sizes = are_sizes and not {given[i], given[j]} & tensors
                cost = 0 if fits > was else 1 if are_sizes else 4
                if fits > was or j == i + 1:
                    what = (
                        f"`{call.name}` gets {scope.quoted(0, 0, given[i])} for its parameter "
                        f"`{callee.parameters[i]}`, and {scope.quoted(0, 0, given[j])} for "
                        f"`{callee.parameters[j]}`"
                    )
                    edit = _exchanged(scope, call.arguments[i], call.arguments[j], "", cost)
                    yield replace(edit, what=what, advice="Exchange the two arguments.")


def _parameters(scope: Scope) -> Iterator[Edit]:
    """Two parameters of the entry in another order than the stub's signature has."""
    if scope.function is not scope.reached[-1] or scope.function.is_kernel:
        return
    code = scope.text.code
    low = code.find("(", scope.function.start, scope.function.body)
    named = code.find(scope.function.name, scope.function.start, scope.function.body)
    low = code.find("(", max(low, named), scope.function.body)
    high = code.rfind(")", low, scope.function.body)
    at = low + 1
    spans = []
    for part in code[low + 1 : high].split(","):
        begin = at + len(part) - len(part.lstrip())
        spans.append((begin, begin + len(part.strip())))
        at += len(part) + 1
    for place, one in enumerate(spans):
        for other in spans[place + 1 : place + 3]:
            edit = _exchanged(scope, one, other, f"the parameters of `{scope.function.name}`", 3)
            advice = "Keep the order of the stub's signature: arguments come by their places."
            yield replace(edit, name="parameters", advice=advice)


def _callee(scope: Scope, call: Call) -> Function | None:
    """The function that a call is of, also by a local name: `kernel = one if ... else other`."""
    known = scope.text.functions
    if call.name in known:
        return known[call.name]
    body = scope.text.code[scope.function.body : scope.function.end]
    named = re.search(rf"\b{re.escape(call.name)}\s*=\s*(\w+)", body)
    return known.get(named[1]) if named else None


def _plain(name: str) -> str:
    """A name as arguments and parameters share it: `n_cols` and `cols`, `x_ptr` and `x`."""
    name = name.strip()
    if stride := re.fullmatch(r"(\w)\w*\.stride\(-?\d\)|stride_(\w)\w?", name):
        return f"stride_{stride[1] or stride[2]}"
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return name
    return re.sub(r"^(?:n|num|d)_|_(?:ptr|pointer|size)$", "", name.lower())


def _exchanged(
    scope: Scope, one: tuple[int, int], other: tuple[int, int], where: str = "", cost: int = 2
) -> Edit:
    source = scope.text.source
    a, b = source[slice(*one)], source[slice(*other)]
    what = f"{scope.quoted(*one)} and {scope.quoted(*other)} are exchanged in {where}"
    changes = [Change(*one, b), Change(*other, a)]
    return scope.edit("exchanged", changes, what, "", cost)


def _subscripts(scope: Scope) -> Iterator[Edit]:
    """`tile[x][y]` for `tile[y][x]`, and `[None, :]` for `[:, None]`."""
    code = scope.text.code
    span = (scope.function.body, scope.function.end)
    for match in re.compile(r"(\w+)\s*\[([^\[\]]*)\]\s*\[([^\[\]]*)\]").finditer(code, *span):
        if match[2] != match[3]:
            new = f"{match[1]}[{match[3]}][{match[2]}]"
            yield scope.instead("subscripts", match.start(), match.end(), new, 2)
    for match in re.compile(r"(\w+)\[(None, :|:, None)\]").finditer(code, *span):
        new = f"{match[1]}[{':, None' if match[2] == 'None, :' else 'None, :'}]"
        yield scope.instead("subscripts", match.start(), match.end(), new, 4)
    for match in re.compile(r"tl\.trans\((\w+)\)|(?<=, )(\w+)\.T\b").finditer(code, *span):
        yield scope.instead("transposed", match.start(), match.end(), match[1] or match[2], 3)
    for call in scope.calls:
        if call.name == "tl.dot":
            for low, high in call.arguments[:2]:
                new = f"tl.trans({code[low:high]})"
                yield scope.instead("transposed", low, high, new, 3)


def _quotients(scope: Scope) -> Iterator[Edit]:
    """A quotient and its remainder in each other's place."""
    divided = "//" if scope.is_triton else "/"
    pattern = re.compile(rf"\b(\w+(?:\.\w+)?)\s*(%|{divided})\s*(\w+(?:\.\w+)?)")
    found = list(pattern.finditer(scope.text.code, scope.function.body, scope.function.end))
    for place, one in enumerate(found):
        for other in found[place + 1 : place + 4]:
            if one.group(1, 3) == other.group(1, 3) and one[2] != other[2]:
                changes = [Change(*one.span(2), other[2]), Change(*other.span(2), one[2])]
                what = (
                    f"{scope.quoted(*one.span())} and {scope.quoted(*other.span())} are exchanged"
                )
                yield scope.edit("quotients", changes, what, "", 1)


def _masks(scope: Scope) -> Iterator[Edit]:
    """A load or store in Triton without a mask, or with one that lacks a condition."""
    if not scope.is_triton:
        return
    source = scope.text.source
    fill = {"tl.load": ", other=0.0", "tl.store": ""}
    for call in scope.calls:
        if call.name not in fill:
            continue
        arguments = [source[low:high] for low, high in call.arguments]
        keywords = {each.split("=")[0].strip() for each in arguments if re.match(r"\w+\s*=", each)}
        positional = len(arguments) - len(keywords)
        has_mask = "mask" in keywords or positional > (1 if call.name == "tl.load" else 2)
        if not has_mask:
            tried = [*scope.conditions, *_both(scope.conditions), *_synthetic(scope)]
            for place, condition in enumerate(tried):
                added = f", mask={condition}{'' if 'other' in keywords else fill[call.name]}"
                yield scope.edit(
                    "without_mask",
                    [Change(call.end - 1, call.end - 1, added)],
                    f"This `{call.name}` has no mask, and the last block goes past the end",
                    "Pass mask=, which is true only for what is inside, in each dimension.",
                    1 + place // 6,
                )
        elif call.name == "tl.load" and "other" not in keywords:
            for value in ("0.0", 'float("-inf")'):
                what = "This `tl.load` has no `other=`: what is masked can be anything"
                change = Change(call.end - 1, call.end - 1, f", other={value}")
                advice = f"Masked elements have to be {value} here, so that they add nothing."
                yield scope.edit("without_other", [change], what, advice, 2)
    for match in _MASK.finditer(source, scope.function.body, scope.function.end):
        for condition in scope.conditions:
            if condition in match[0] or "mask" in condition:
                continue
            change = Change(match.start(), match.end(), f"{match[0]}) & ({condition}")
            if source[match.start() - 1] != "(" or source[match.end() : match.end() + 1] != ")":
                change = replace(change, new=f"({match[0]}) & ({condition})")
            what = f"The mask lacks a condition: {scope.quoted(0, 0, condition)}"
            yield scope.edit("mask_lacks", [change], what, "Each dimension needs its own.", 2)
        whole = re.compile(rf"\(?{re.escape(match[0])}\)?\s*&\s*").match(
            source, max(match.start() - 1, 0)
        )
        if whole:
            what = f"The condition {scope.quoted(0, 0, match[0])} doesn't belong in the mask"
            yield scope.edit(
                "mask_too_strict", [Change(whole.start(), whole.end(), "")], what, "", 5
            )


def _both(conditions: Sequence[str]) -> list[str]:
    plain = [each for each in conditions if "[" in each]
    return [f"({a}) & ({b})" for i, a in enumerate(plain) for b in plain[i + 1 :]][:12]


def _synthetic(scope: Scope) -> list[str]:
    """`offs < n` of every index and size."""
    indices = [each for each in scope.values if re.match(r"offs|cols?$|rows?$|idx|i$", each)]
    return [f"{i} < {n}" for i in indices for n in sorted(scope.function.integers)][:12]


def _guards(scope: Scope) -> Iterator[Edit]:
    """An access in CUDA C++ that no condition guards, or one that lacks a part."""
    if scope.is_triton:
        return
    code = scope.text.code
    span = (scope.function.body, scope.function.end)
    conditions = scope.conditions
    for match in re.compile(
        r"\bif\s*\(([^(){};]{1,200})\)|([^?;={}()]{3,120}[^?;={}]{0,80})\?"
    ).finditer(code, *span):
        low, high = match.span(1) if match[1] else match.span(2)
        low += len(code[low:high]) - len(code[low:high].lstrip())
        inner = code[low:high].rstrip()
        for condition in conditions:
            if condition not in inner and _is_known(condition, scope, low):
                what = f"The condition {scope.quoted(low, high)} lacks a part: `{condition}`"
                change = Change(low, low + len(inner), f"({inner}) && {condition}")
                yield scope.edit("guard_lacks", [change], what, "Each dimension needs its own.", 2)
    for match in re.compile(
        r"^([ \t]*)(?!if|for|while|else|return)([^\n;{}]*\w\[[^\n;{}]*);", re.M
    ).finditer(code, *span):
        statement = match[2]
        start = match.start(2)
        tried = [*_bounds(statement, scope), *conditions]
        tried = [each for each in dict.fromkeys(tried) if _is_known(each, scope, start)]
        for place, condition in enumerate(tried):
            what = f"Nothing keeps this access inside: `{condition}` isn't checked before it"
            advice = "The last block has threads beyond the end: they must not load or store."
            cost = 2 + place // 6
            loaded = re.match(
                r"((?:const\s+)?(?:float\s+)?\w+[^=]*[^=!<>+\-*/]=\s*)(?!=)(.+)$", statement
            )
            if loaded and "[" in loaded[2] and not re.search(r"\?|&&", loaded[2]):
                low = match.start(2) + loaded.start(2)
                change = Change(low, match.end(2), f"({condition}) ? ({loaded[2]}) : 0")
                yield scope.edit("no_guard", [change], what, advice, cost)
            elif not re.match(r"(?:const|float|int|auto)\b", statement):
                change = Change(match.start(2), match.start(2), f"if ({condition}) ")
                yield scope.edit("no_guard", [change], what, advice, cost)


def _is_known(condition: str, scope: Scope, at: int) -> bool:
    """Whether the names of a condition are there before a place."""
    names = re.findall(r"(?<![\w.])[A-Za-z_]\w*", condition)
    return all(scope.first_use.get(each, at) < at for each in names if each not in _BUILTINS)


def _fills(scope: Scope) -> Iterator[Edit]:
    """An element of shared memory that is filled under a condition, and else holds anything."""
    if scope.is_triton:
        return
    code = scope.text.code
    shared = re.findall(r"__shared__\s+\w+\s+(\w+)\s*\[", code)
    pattern = re.compile(
        r"\bif\s*\(([^{};\n]{1,200})\)\s*(\{?)\s*((\w+)(?:\[[^\]\n]*\])+)\s*=\s*([^;{}]{1,300});"
    )
    for match in pattern.finditer(code, scope.function.body, scope.function.end):
        behind = code[match.end() :].lstrip(" \t\n}") if match[2] else code[match.end() :].lstrip()
        if match[4] in shared and not behind.startswith("else"):
            what = f"Where `{match[1]}` is false, nothing fills `{match[3]}`"
            brace = match[2]
            filled = f"{brace} {match[3]} = ({match[1]}) ? ({match[5]}) : 0;"
            change = Change(match.start(), match.end(), filled)
            yield scope.edit("fills", [change], what, "Store 0 there, which adds nothing.", 1)


def _elements(scope: Scope) -> Iterator[Edit]:
    """An element read past the end of an array of shared memory or of registers."""
    if scope.is_triton:
        return
    code = scope.text.code
    sizes = dict(re.findall(r"\b(?:float|int|double)\s+(\w+)\s*\[(\w+)\]\s*[;=]", code))
    for match in re.compile(r"\b(\w+)\[([^\[\]\n]+)\](?!\s*[-+*/]?=[^=])").finditer(
        code, scope.function.body, scope.function.end
    ):
        size = sizes.get(match[1])
        if size is None or code[: match.start()].rstrip().endswith(("float", "int", "double")):
            continue
        what = f"`{match[1]}` has {size} elements, and `{match[2]}` can be larger here"
        advice = f"Read it only where {match[2]} < {size}, and take 0 elsewhere."
        new = f"({match[2]} < {size} ? {match[0]} : 0)"
        yield scope.edit("past_array", [Change(*match.span(), new)], what, advice, 1)


def _bounds(statement: str, scope: Scope) -> Iterator[str]:
    """Conditions for the indices of a statement: of `row * K + col` that `col < K`."""
    sizes = sorted(scope.function.integers)
    pointers = {*scope.function.parameters} - scope.function.integers
    for name, index in re.findall(r"(\w+)\s*\[([^\[\]]+)\]", statement):
        if name not in pointers:
            continue
        index = re.sub(r"\((?:size_t|long|long long|int)\)", "", index).strip()
        index = re.sub(r"static_cast<[^>]*>\(([^()]*)\)", r"\1", index)
        factor = re.match(r"\(?([\w.]+(?:\s*\+\s*[\w.]+)?)\)?\s*\*\s*(\w+)\s*\+\s*(.+)$", index)
        if factor and factor[2] in sizes:
            row, length, column = factor.groups()
            yield f"{column} < {length}"
            for size in sizes:
                yield f"{row} < {size} && {column} < {length}"
                yield f"{row} < {size}"
        elif re.fullmatch(r"[\w.\s+*-]+", index):
            yield from (f"{index} < {size}" for size in sizes)


# --- statements --------------------------------------------------------------------------------


def _barriers(scope: Scope) -> Iterator[Edit]:
    """A __syncthreads() that is missing before a line, or that stands where some threads are."""
    if scope.is_triton or not scope.function.is_kernel:
        return
    first, last = (scope.text.line_at(at) for at in (scope.function.body, scope.function.end - 1))
    starts = scope.text.starts
    previous = ""
    blocks: list[bool] = []  # around the line: whether some threads may not be there
    for number in range(first, last + 1):
        code = _code_line(scope, number).strip()
        if not code:
            continue
        closes, opens = code.startswith("}"), code.endswith("{")
        within = blocks[:-1] if closes and opens else blocks
        is_body = bool(re.match(r"(?:for|while|if)\b.*\)$|(?:\} *)?else$", previous))
        may_stand = number > first and not any(within) and not is_body
        is_there = "__syncthreads" in code + previous
        if may_stand and not is_there and not code.startswith("} else"):
            what = f"A `__syncthreads()` is missing before line {number}"
            if closes:
                what = f"A `__syncthreads()` is missing before the block ends at line {number}"
            change = Change(starts[number - 1], starts[number - 1], "__syncthreads();\n")
            yield replace(scope.edit("barrier", [change], what, _SHARED, 1), line=number)
        if "__syncthreads" in code:
            at = scope.text.code.index("__syncthreads", starts[number - 1])
            end = scope.text.code.index(";", at) + 1
            yield from _moved(scope, number, at, end, blocks)
        if closes:
            blocks = blocks[:-1]
        if opens:
            blocks = [*blocks, bool(re.search(r"\b(?:if|else)\b", code))]
        previous = code
    for match in re.compile(r"\bif\s*\([^;{}]{1,200}\)\s*\{?\s*return\s*;").finditer(
        scope.text.code, scope.function.body, scope.function.end
    ):
        at = scope.text.code.rindex("return", match.start(), match.end())
        what = "Threads return here, before a `__syncthreads()` that all of the block must reach"
        advice = "Let threads beyond the end skip the loads and stores, and reach every barrier."
        yield scope.edit("early_return", [Change(at, match.end(), ";")], what, advice, 0)


_SHARED = "Every thread has to be done before others read, or overwrite, what it shares."


def _moved(scope: Scope, number: int, at: int, end: int, blocks: Sequence[bool]) -> Iterator[Edit]:
    """A barrier in a branch, moved behind it."""
    if not any(blocks):
        return
    depth = 1 + len(blocks) - 1 - max(i for i, some in enumerate(blocks) if some)
    for place in range(end, scope.function.end):
        depth += (scope.text.code[place] == "{") - (scope.text.code[place] == "}")
        if not depth:
            changes = [Change(at, end, ""), Change(place + 1, place + 1, " __syncthreads();")]
            what = "This `__syncthreads()` stands in a branch that not every thread takes"
            advice = "Move it behind the branch: every thread of the block has to reach it."
            yield scope.edit("barrier_in_branch", changes, what, advice, 0)
            return


def _code_line(scope: Scope, number: int) -> str:
    start = scope.text.starts[number - 1]
    return scope.text.code[start : start + len(scope.text.lines[number - 1])]


def _statements(scope: Scope) -> Iterator[Edit]:
    """A statement that stands inside a loop and belongs behind it, or the reverse; two lines in the
    wrong order; one that is too much."""
    if not scope.is_triton:
        return
    first, last = (scope.text.line_at(at) for at in (scope.function.body, scope.function.end - 1))
    numbers = [n for n in range(first, last + 1) if _code_line(scope, n).strip()]
    lines = {n: _code_line(scope, n).rstrip() for n in numbers}
    starts = scope.text.starts
    for at, number in enumerate(numbers):
        line = lines[number]
        indent = len(line) - len(line.lstrip())
        below = lines[numbers[at + 1]] if at + 1 < len(numbers) else ""
        is_simple = re.match(r"\s*\w+\s*[-+*/]?=[^=]", line) and line.count("(") == line.count(")")
        if not is_simple or line.endswith(","):
            continue
        quoted = scope.quoted(0, 0, line)
        behind = len(below) - len(below.lstrip()) if below else 0
        if behind < indent and indent > 4:
            what = f"{quoted} stands inside the loop and belongs behind it"
            change = Change(starts[number - 1], starts[number - 1] + 4, "")
            yield scope.edit("out_of_loop", [change], what, "", 2)
        above = lines[numbers[at - 1]] if at else ""
        if above and len(above) - len(above.lstrip()) > indent:
            what = f"{quoted} stands behind the loop and belongs into it"
            change = Change(starts[number - 1], starts[number - 1], "    ")
            yield scope.edit("into_loop", [change], what, "", 2)
        if (
            behind == indent
            and re.match(r"\s*\w+\s*[-+*/]?=[^=]", below)
            and (below.count("(") == below.count(")"))
        ):
            following = numbers[at + 1]
            spans = [(starts[n - 1], starts[n - 1] + len(lines[n])) for n in (number, following)]
            what = f"{quoted} stands before {scope.quoted(0, 0, below)} and belongs behind it"
            changes = [Change(*spans[0], below), Change(*spans[1], line)]
            yield scope.edit("order", changes, what, "", 3)
        change = Change(starts[number - 1] + indent, starts[number - 1] + len(line), "pass")
        yield scope.edit("too_much", [change], f"{quoted} is too much", "", 5)


def _casts(scope: Scope) -> Iterator[Edit]:
    """A value that isn't converted to float32, or too early to a narrower type."""
    if not scope.is_triton:
        return
    for call in scope.calls:
        if call.name == "tl.load" and not scope.text.code[call.end :].startswith(".to("):
            what = "The loaded values aren't converted to float32, so later steps are in their type"
            change = Change(call.end, call.end, ".to(tl.float32)")
            yield scope.edit("no_cast", [change], what, "Convert right behind the load.", 3)
    pattern = re.compile(r"\.to\([\w.]+\)")
    for match in pattern.finditer(scope.text.code, scope.function.body, scope.function.end):
        what = f"The conversion {scope.quoted(*match.span())} rounds here, and is too early"
        advice = "Convert where the result is stored."
        yield scope.edit("cast", [Change(*match.span(), "")], what, advice, 3)


def _axes(scope: Scope) -> Iterator[Edit]:
    """Program ids that are taken from each other's axes, or an axis that the grid doesn't have."""
    pattern = re.compile(r"tl\.program_id\(\s*(?:axis\s*=\s*)?(\d)\s*\)")
    found = list(pattern.finditer(scope.text.code, scope.function.body, scope.function.end))
    if len({match[1] for match in found}) == 2:
        axes = sorted({match[1] for match in found})
        other = {axes[0]: axes[1], axes[1]: axes[0]}
        changes = [Change(*match.span(1), other[match[1]]) for match in found]
        what = f"The axes of the program ids in `{scope.function.name}` are exchanged"
        advice = "Exchange the numbers in tl.program_id, or those in the grid."
        yield scope.edit("axes", changes, what, advice, 1)
    for match in found:
        if match[1] != "0":
            what = f"`tl.program_id({match[1]})` is always 0: the grid doesn't have this axis"
            advice = "Axes count from 0: take one that the grid has."
            yield scope.edit("axes", [Change(*match.span(1), "0")], what, advice, 1)


def _strides(scope: Scope) -> Iterator[Edit]:
    """A size that is passed for a stride, or one tensor's stride for another's."""
    if not scope.is_triton or scope.function.is_kernel:
        return
    source = scope.text.source
    for call in (each for each in scope.calls if each.is_launch):
        callee = _callee(scope, call)
        for (low, high), parameter in zip(
            call.arguments, callee.parameters if callee else (), strict=False
        ):
            given = source[low:high]
            if "stride" not in parameter or "=" in given:
                continue
            for tensor in scope.function.parameters:
                for axis in range(2):
                    new = f"{tensor}.stride({axis})"
                    if new != given and (".stride" not in given or tensor in given):
                        what = (
                            f"The launch of `{call.name}` passes {scope.quoted(low, high)} for "
                            f"`{parameter}`, where `{new}` belongs"
                        )
                        advice = "Rows can lie further apart than they are long."
                        cost = 2 if ".stride" in given else 0
                        yield scope.edit("stride", [Change(low, high, new)], what, advice, cost)


def _one_block(scope: Scope) -> Iterator[Edit]:
    """A block of a fixed size for rows that may be longer."""
    if not scope.is_triton or scope.function.is_kernel:
        return
    code = scope.text.code
    sizes = [each for each in scope.values if each not in scope.function.parameters]
    pattern = re.compile(r"\b(BLOCK\w*)\s*=\s*(\d+)\b")
    for match in pattern.finditer(code, scope.function.body, scope.function.end):
        for size in (each for each in sizes if each.islower() or len(each) == 1):
            what = f"`{match[0]}` is all that a program covers: what lies past it is left out"
            advice = "Loop over blocks, or take a block as long as the row, with a mask."
            change = Change(*match.span(2), f"triton.next_power_of_2({size})")
            yield scope.edit("one_block", [change], what, advice, 2)


def _grids(scope: Scope) -> Iterator[Edit]:
    """A grid that is counted with numbers, where configurations choose the blocks' sizes."""
    if not scope.is_triton or scope.function.is_kernel:
        return
    code = scope.text.code
    given = re.compile(r"lambda (\w+):|def \w+\((\w+)\):").search(
        code, scope.function.body, scope.function.end
    )
    if given is None:
        return
    pattern = re.compile(r"triton\.cdiv\([^,()]+,\s*([\w.]+)\)")
    found = list(pattern.finditer(code, given.end(), scope.function.end))[:2]
    kernels = [each for each in scope.reached if each.is_kernel]
    names = [p for each in kernels for p in each.parameters if re.search("BLOCK|TILE", p)]
    for chosen in itertools.islice(itertools.permutations(names, len(found)), 12):
        new = [f'{given[1] or given[2]}["{name}"]' for name in chosen]
        changes = [Change(*each.span(1), text) for each, text in zip(found, new, strict=True)]
        counted = " and ".join(dict.fromkeys(f"`{each[1]}`" for each in found))
        what = f"The grid is counted with {counted}, whatever {', '.join(chosen)} the kernel gets"
        advice = f"Take them from the configuration: {new[0]}."
        if changes:
            yield scope.edit("grid", changes, what, advice, 1)


def _indices(scope: Scope) -> Iterator[Edit]:
    """An index without the block's or program's own part."""
    code = scope.text.code
    span = (scope.function.body, scope.function.end)
    if scope.is_triton:
        ids = [each for each in scope.values if "pid" in each or "row" in each] or [
            "tl.program_id(0)"
        ]
        for match in re.compile(r"tl\.arange\(0, (\w+)\)").finditer(code, *span):
            for each in ids:
                if scope.first_use.get(each, 0) < match.start():
                    new = f"({each} * {match[1]} + {match[0]})"
                    yield scope.instead("index", *match.span(), new, 4)
        return
    for match in re.compile(r"(?<![*.+] )\bthreadIdx\.([xy])\b").finditer(code, *span):
        axis = match[1]
        new = f"(blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis})"
        uses_blocks = f"blockIdx.{axis}" in code[slice(*span)]
        yield scope.instead("index", *match.span(), new, 3 if uses_blocks else 1)
    pattern = re.compile(r"\bblockIdx\.([xy])\b(?!\s*\*)")
    for match in pattern.finditer(code, *span):
        new = f"(blockIdx.{match[1]} * blockDim.{match[1]} + threadIdx.{match[1]})"
        yield scope.instead("index", *match.span(), new, 4)
    for match in re.compile(r"(\b\w+)\s*\[(\w+)\]").finditer(code, *span):
        for size in sorted(scope.function.integers):
            for block in ("blockIdx.x", "blockIdx.y", *_rows(scope)):
                new = f"{match[1]}[{block} * {size} + {match[2]}]"
                yield scope.instead("index", *match.span(), new, 4)


def _other_indices(scope: Scope) -> Iterator[Edit]:
    """An array of the arguments at the index of another access, or at another local."""
    if scope.is_triton:
        return
    code = scope.text.code
    span = (scope.function.body, scope.function.end)
    pattern = re.compile(r"\b(\w+)\s*\[([^\[\]\n]{1,80})\]")
    found = [each for each in pattern.finditer(code, *span) if each[1] in scope.pointers]
    locals_ = re.findall(r"\b(?:int|size_t|unsigned)\s+(\w+)\s*=", code[slice(*span)])
    for match in found:
        for index in dict.fromkeys([*(each[2] for each in found), *locals_]):
            if index != match[2] and _is_known(index, scope, match.start()):
                new = f"{match[1]}[{index}]"
                yield scope.instead("index", *match.span(), new, 3)


def _rows(scope: Scope) -> list[str]:
    return [each for each in ("row", "r", "block_row") if each in scope.first_use]


def _declarations(scope: Scope) -> Iterator[Edit]:
    """A local of CUDA C++ without a first value; an addition that other threads may undo."""
    if scope.is_triton:
        return
    code = scope.text.code
    span = (scope.function.body, scope.function.end)
    for match in re.compile(r"\b(float|double|int|unsigned|long)\s+(\w+)\s*;").finditer(
        code, *span
    ):
        if code[: match.start()].rstrip().endswith(("__shared__", "extern")):
            continue
        zero = "0.0f" if match[1] == "float" else "0"
        for value, cost in ((zero, 0), ("-INFINITY", 3)):
            what = f"`{match[2]}` has no initial value"
            advice = f"Write `{match[1]} {match[2]} = {value};`."
            change = Change(match.end() - 1, match.end() - 1, f" = {value}")
            yield scope.edit("uninitialised", [change], what, advice, cost)
    shared = re.findall(r"__shared__\s+\w+\s+(\w+)\s*\[", code[slice(*span)])
    for match in re.compile(r"\breturn\s+(\w+)\s*;").finditer(code, *span):
        for new in (*(f"{each}[0]" for each in shared), *scope.values):
            if new != match[1] and scope.first_use.get(new.split("[")[0], 0) < match.start():
                yield scope.instead("returned", *match.span(1), new, 2, match.span())
    for match in re.compile(r"(\w+(?:\[[^\]\n]*\])?)\s*\+=\s*([^;\n]+);").finditer(code, *span):
        what = f"Several threads add to `{match[1]}` at the same time, so additions get lost"
        advice = "Use atomicAdd, or keep a sum in a register of each thread and reduce them."
        change = Change(*match.span(), f"atomicAdd(&{match[1]}, {match[2]});")
        yield scope.edit("lost_additions", [change], what, advice, 3)


def _bytes(scope: Scope) -> Iterator[Edit]:
    """A number of elements where the CUDA runtime or a launch takes bytes."""
    if scope.is_triton:
        return
    code = scope.text.code
    for call in scope.calls:
        for (low, high), bytes_of in zip(call.arguments, range(9), strict=False):
            is_bytes = (call.name, bytes_of) in (
                ("cudaMalloc", 1),
                ("cudaMemcpy", 2),
                ("cudaMemset", 2),
            )
            if is_bytes and "sizeof" not in code[low:high]:
                what = f"{scope.quoted(low, high)} counts elements, and `{call.name}` takes bytes"
                change = Change(low, high, f"({code[low:high]}) * sizeof(float)")
                yield scope.edit("bytes", [change], what, "Multiply by sizeof(float).", 1)
        if call.name == "cudaMemcpy2D":
            sizes = sorted(scope.function.integers)
            for low, high in (
                call.arguments[place] for place in (1, 3, 4) if len(call.arguments) > 4
            ):
                for new in ("sizeof(float)", *(f"{size} * sizeof(float)" for size in sizes)):
                    if new != code[low:high]:
                        yield scope.instead("bytes", low, high, new, 2)
        if call.is_launch and len(call.grid) > 2 and "sizeof" not in code[slice(*call.grid[2])]:
            low, high = call.grid[2]
            what = f"{scope.quoted(low, high)} counts elements, and a launch takes bytes"
            change = Change(low, high, f"({code[low:high]}) * sizeof(float)")
            yield scope.edit("bytes", [change], what, "Multiply by sizeof(float).", 1)


def _missing_terms(scope: Scope) -> Iterator[Edit]:
    """An offset that is missing in a pointer, where parameters for it are never used."""
    code = scope.text.code
    span = (scope.function.body, scope.function.end)
    terms = []
    for parameter in scope.unused:
        for other in scope.function.parameters:
            same = len(other) == len(parameter) and sum(map(str.__ne__, other, parameter)) == 1
            pattern = re.compile(rf"(\w+(?:\[[^\]\n]*\])?)\s*\*\s*{re.escape(other)}\b")
            if same and (match := pattern.search(code, *span)):
                terms.append(f"{match[1]} * {parameter}")
                break
    for added in dict.fromkeys([" + ".join(terms), *terms]) if terms else ():
        for match in re.compile(r"\b\w+_ptrs?\b(?!\s*[=,)])").finditer(code, *span):
            what = f"{scope.quoted(*match.span())} lacks an offset: {scope.quoted(0, 0, added)}"
            change = Change(match.end(), match.end(), f" + {added}")
            yield scope.edit("missing_term", [change], what, "", 1)


def _rounds(scope: Scope) -> Iterator[Edit]:
    """A size that a loop over blocks doesn't count down, and sums that lack a block or 1."""
    code = scope.text.code
    tokens = scope.tokens
    pattern = r"for (\w+) in range\(0, (?:tl\.cdiv\((\w+), (\w+)\)|(\w+), (\w+))\)"
    for loop in re.compile(pattern).finditer(code, scope.function.body, scope.function.end):
        variable, size, block = (each for each in loop.groups() if each)
        gone = variable if loop[4] else f"{variable} * {block}"
        for token in tokens:
            if token.text == size and token.start > loop.end():
                yield scope.instead("rounds", token.start, token.end, f"({size} - {gone})", 2)
    blocks = [each for each in scope.function.parameters if "BLOCK" in each or "TILE" in each]
    for index in range(1, len(tokens) - 1):
        token, before = tokens[index], tokens[index - 1]
        if token.text in ("+", "-") and before.is_name:
            around = _operands(scope, index)
            for added in ("1", *blocks):
                same = added.lower().split("_")[-1] == before.text.lower().split("_")[-1]
                cost = 2 if same else 3
                new = f" + {added}"
                yield scope.instead("rounds", before.end, before.end, new, cost, around)


def _terms(scope: Scope) -> Iterator[Edit]:
    """A factor or summand that is too much."""
    tokens = scope.tokens
    for index in range(1, len(tokens) - 1):
        token, behind = tokens[index], tokens[index + 1]
        if token.text not in ("*", "+", "-", "/", "%") or tokens[index - 1].text in (
            "(",
            "=",
            ",",
            "[",
        ):
            continue
        following = tokens[index + 2].text if index + 2 < len(tokens) else ""
        if (behind.is_name or behind.text[0].isdigit()) and following not in ("(", "[", "."):
            around = _operands(scope, index)
            yield scope.instead("term", token.start, behind.end, "", 4, around)


RULES: Sequence[Callable[[Scope], Iterator[Edit]]] = (
    _arguments,
    _parameters,
    _one_block,
    _axes,
    _strides,
    _grids,
    _unused,
    _missing_terms,
    _declarations,
    _bytes,
    _barriers,
    _masks,
    _guards,
    _fills,
    _elements,
    _names,
    _exchanged_names,
    _derived,
    _subscripts,
    _quotients,
    _operators,
    _functions,
    _numbers,
    _casts,
    _statements,
    _indices,
    _other_indices,
    _rounds,
    _terms,
)

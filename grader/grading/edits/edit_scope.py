"""What a change of a text is, and what is known of the function that it is made in."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from grader.executors.source_text import Change, Function, SourceText, Token
from grader.grading.edits import kinds

MOST_CONDITIONS = 24  # of a function, that are tried as masks
_ENDS_OPERAND = frozenset([",", ";", "=", "{", "}", "?", ":", "&", "&&"])
LONGEST = 60  # characters of code that a message quotes
WORDS_BEFORE = 2  # words that are quoted in front of a difference between long texts


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
class _Body:
    """One function of a submission: its text and its file's."""

    text: SourceText
    function: Function

    @cached_property
    def tokens(self) -> list[Token]:
        return self.text.tokens(self.function)

    @property
    def code(self) -> str:
        """The code of the function's body."""
        return self.text.code[self.function.body : self.function.end]

    def matches(
        self, pattern: str | re.Pattern[str], start: int | None = None, end: int | None = None
    ) -> Iterator[re.Match[str]]:
        """The matches of a pattern in the function's body, or in a part; places are the file's."""
        low, high = self.function.body, self.function.end
        span = low if start is None else start, high if end is None else end
        return re.compile(pattern).finditer(self.text.code, *span)

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

    def quoted(self, start: int, end: int, new: str | None = None) -> str:
        """The source's text from `start` to `end`, or what stands instead, as code."""
        matches = self.text.source[start:end] if new is None else new
        joined = " ".join(matches.split())
        return f"`{joined if len(joined) <= LONGEST else joined[: LONGEST - 1] + '…'}`"

    @property
    def line_span(self) -> tuple[int, int]:
        """The numbers of the body's first and last line."""
        return self.text.line_at(self.function.body), self.text.line_at(self.function.end - 1)

    def code_line(self, number: int) -> str:
        """A line of the file, without its comments."""
        start = self.text.starts[number - 1]
        return self.text.code[start : start + len(self.text.lines[number - 1])]

    def in_loop(self, line: int) -> bool:
        """Whether a line is in a loop of its function, by indentation."""
        code = self.code_line(line)
        indent = len(code) - len(code.lstrip())
        for number in range(line - 1, self.text.line_at(self.function.body) - 1, -1):
            above = self.code_line(number)
            if above.strip() and len(above) - len(above.lstrip()) < indent:
                indent = len(above) - len(above.lstrip())
                if re.match(r"\s*(?:for|while)\b", above):
                    return True
        return False

    def end_of(self, loop: re.Match[str]) -> tuple[int, str]:
        """Where a loop's last statement ends, at the start of a line, and how it is indented."""
        number = self.text.line_at(loop.start()) + 1
        last, within = number, ""
        while number <= len(self.text.lines) and self.text.starts[number - 1] < self.function.end:
            line = self.code_line(number)
            indent = line[: len(line) - len(line.lstrip())]
            if line.strip() and len(indent) <= len(loop[1]):
                break
            if line.strip():
                within, last = within or indent, number + 1
            number += 1
        starts = self.text.starts
        return starts[last - 1] if last <= len(starts) else self.function.end, within

    def is_known(self, condition: str, at: int) -> bool:
        """Whether the names of a condition are there before a place."""
        names = re.findall(r"(?<![\w.])[A-Za-z_]\w*", condition)
        return all(self.first_use.get(each, at) < at for each in names if each not in BUILTINS)

    def operands(self, index: int) -> tuple[int, int]:
        """An operator with its operands, as far as they are names or numbers on its line."""
        tokens = self.tokens
        low, high = index, index
        for step in (-1, 1):
            at = index + step
            depth = 0
            while 0 <= at < len(tokens) and tokens[at].line == tokens[index].line:
                text = tokens[at].text
                depth += step * ((text in "([") - (text in ")]"))
                if depth < 0 or (not depth and text in _ENDS_OPERAND):
                    break
                if step < 0:
                    low = at
                else:
                    high = at
                if not depth and abs(at - index) > 6:
                    break
                at += step
        return tokens[low].start, tokens[high].end

    def callee_of(self, call: Call) -> Function | None:
        """The function that a call is of, also by a local name: `kernel = one if ... else two`."""
        known = self.text.functions
        if call.name in known:
            return known[call.name]
        named = re.search(rf"\b{re.escape(call.name)}\s*=\s*(\w+)", self.code)
        return known.get(named[1]) if named else None

    def counts_blocks(self, line: int) -> bool:
        """Whether a line may say how many programs, blocks or rounds of a loop there are."""
        counts = re.search(r"\brange|\bfor\b", self.code_line(line))
        return not self.function.is_kernel or counts is not None


@dataclass(frozen=True)
class Scope(_Body):
    """One function of a submission, as the makers of edits see it."""

    reached: Sequence[Function]
    is_triton: bool
    stub: Sequence[str] = ()  # the parameters of the entry in the stub

    @cached_property
    def values(self) -> list[str]:
        """Names that may stand for one another: parameters and locals, as they come."""
        assigned = []
        for several in re.findall(r"^[ \t]*(\w+(?:, \w+)+) = ", self.code, re.M):
            assigned += several.split(", ")
        for token, following in zip(self.tokens, self.tokens[1:], strict=False):
            if token.is_name and following.text in ("=", "in") and token.text not in WORDS:
                assigned.append(token.text)
        return list(dict.fromkeys([*self.function.parameters, *assigned]))

    @cached_property
    def pointers(self) -> set[str]:
        """Parameters that are no number, and in Triton no stride and no constant."""
        given = {*self.function.parameters} - self.function.integers
        return {each for each in given if "ptr" in each} if self.is_triton else given

    @property
    def addresses(self) -> frozenset[str] | set[str]:
        """Names that hold pointers."""
        return self.function.addresses if self.is_triton else self.pointers

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each parameter and local, as far as the text tells it."""
        function = self.function
        if self.is_triton:
            known = kinds.of_python(
                function.parameters,
                function.integers,
                self.code,
                function.is_kernel,
                function.addresses,
            )
        else:
            head = self.text.code[function.start : function.body]
            known = kinds.of_cpp(head, self.code, frozenset(self.text.functions))
        return {
            n: kind
            for n, kind in (kinds.of_constants(self.text.source) | known).items()
            if n != "_"
        }

    @cached_property
    def siblings(self) -> dict[str, set[str]]:
        """Names that near lines make in one form: two numbers of tiles, a quotient and its rest."""
        made = [
            (self.text.line_at(match.start(1)), match[1], _OPERAND.sub("_", match[2]))
            for match in self.matches(_MADE)
        ]
        known: dict[str, set[str]] = {}
        for (line, name, form), (other_line, other, other_form) in itertools.permutations(made, 2):
            is_alike = re.sub("[/%]+", "/", form) == re.sub("[/%]+", "/", other_form) != "_"
            if is_alike and name != other and abs(line - other_line) <= MOST_APART:
                known.setdefault(name, set()).add(other)
        return known

    @cached_property
    def unread(self) -> list[str]:
        """Parameters and locals that nothing reads but their own updates, and unused constants."""
        everywhere = Counter(re.findall(r"[A-Za-z_]\w*", self.text.code))
        lines: dict[str, set[int]] = {}
        for token in self.tokens:
            lines.setdefault(token.text, set()).add(token.line)
        return [
            name
            for name in self.kinds
            if everywhere[name] == 1
            or (name in self.first_use and _is_unread(self, name, lines.get(name, ())))
        ]

    def kind_of(self, text: str) -> str | None:
        """The kind of an expression; None where nothing tells it."""
        return kinds.of_expression(text, self.kinds)

    @cached_property
    def has_two_axes(self) -> bool:
        """Whether some function that the entry reaches has a grid or block of two axes."""
        axes = re.compile(r"\.y\b|\bdim3\b")
        return any(axes.search(self.text.code, each.start, each.end) for each in self.reached)

    @cached_property
    def conditions(self) -> list[str]:
        """Comparisons of the function, as `row < rows`, `offs_n[None, :] < N` or `mask`."""
        code = self.code
        if not self.is_triton:  # those of loops guard nothing
            code = "; ".join(match[1] or match[2] for match in _GUARD.finditer(code))
        pattern = MASK if self.is_triton else _BOUND
        matches = [re.sub(r"\s+", " ", match[0]) for match in pattern.finditer(code)]
        matches = [each for each in matches if "static_cast" not in each]
        if self.is_triton:
            matches = [*re.findall(r"\b(\w*mask\w*)\s*=", code), *matches]
        return list(dict.fromkeys(matches))[:MOST_CONDITIONS]

    @cached_property
    def calls(self) -> list[Call]:
        """The calls and launches in the body."""
        return list(_calls(self))

    @property
    def launches(self) -> list[Call]:
        """The launches in the body."""
        return [each for each in self.calls if each.is_launch]

    @property
    def kernels(self) -> list[Function]:
        """The kernels that the entry reaches."""
        return [each for each in self.reached if each.is_kernel]

    def edit(
        self,
        name: str,
        changes: Sequence[Change],
        sentence: str,
        advice: str,
        cost: int,
        shown_at: int | None = None,
    ) -> Edit:
        """An edit; a message shows it at a place of the file, or else at the first change."""
        at = min(each.start for each in changes) if shown_at is None else shown_at
        return Edit(name, tuple(changes), self.text.line_at(at), sentence, advice, cost)

    def instead(
        self, name: str, start: int, end: int, new: str, cost: int, around: tuple[int, int] = (0, 0)
    ) -> Edit:
        """Text in the place of other text; `around` is where the quoted code begins and ends."""
        low, high = around if around != (0, 0) else (start, end)
        source = self.text.source
        before, changed = _apart(source[low:high], source[low:start] + new + source[end:high])
        what = f"{self.quoted(0, 0, before)} stands where {self.quoted(0, 0, changed)} belongs"
        return self.edit(name, [Change(start, end, new)], what, "", cost)

    def exchanged(
        self, one: tuple[int, int], other: tuple[int, int], where: str, cost: int
    ) -> Edit:
        """Two texts in each other's place."""
        a, b = (self.text.source[slice(*each)] for each in (one, other))
        what = f"{self.quoted(*one)} and {self.quoted(*other)} are exchanged in {where}"
        return self.edit("exchanged", [Change(*one, b), Change(*other, a)], what, "", cost)


def _apart(one: str, other: str) -> tuple[str, str]:
    """Two texts as they are quoted beside each other: long ones are cut to where they differ."""
    words = one.split(), other.split()
    if max(map(len, (" ".join(each) for each in words))) <= LONGEST:
        return one, other
    first = next((n for n, pair in enumerate(zip(*words, strict=False)) if len({*pair}) > 1), 0)
    behind = zip(*(reversed(each[first:]) for each in words), strict=False)
    last = next((n for n, pair in enumerate(behind) if len({*pair}) > 1), 0)
    low = max(first - WORDS_BEFORE, 0)
    shown = (each[low : len(each) - last] for each in words)
    before, after = "… " * (low > 0), " …" * (last > 0)
    one, other = (f"{before}{' '.join(each)}{after}" for each in shown)
    return one, other


@dataclass(frozen=True)
class Call:
    """A call or a launch: what is called, and where its arguments stand."""

    name: str
    is_launch: bool
    grid: tuple[tuple[int, int], ...]  # a launch's configuration
    arguments: tuple[tuple[int, int], ...]
    start: int
    end: int  # behind the closing parenthesis


Rule = Callable[[Scope], Iterator[Edit]]
_RuleOfMatch = Callable[[Scope, re.Match[str]], Iterator[Edit]]


def at_each(pattern: str | re.Pattern[str]) -> Callable[[_RuleOfMatch], Rule]:
    """Makes a rule of a function that yields the edits of one match of `pattern` in a body."""
    compiled = re.compile(pattern)

    def decorated(edits: _RuleOfMatch) -> Rule:
        def rule(scope: Scope) -> Iterator[Edit]:
            for match in scope.matches(compiled):
                yield from edits(scope, match)

        return rule

    return decorated


MOST_APART = 2  # lines from one name to another that is made in the same form
_MADE = re.compile(r"\b(\w+) = ([^=;\n]+?);?[ \t]*$", re.M)
_OPERAND = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?![.(])")
WORDS = frozenset([
    "if", "else", "for", "while", "return", "def", "in", "and", "or", "not", "is", "None", "True",
    "False", "range", "int", "float", "const", "auto", "unsigned", "size_t", "double", "half",
    "bool", "void", "char", "tl", "triton", "torch", "static_cast", "sizeof", "constexpr",
    "extern", "static", "struct", "template", "typename", "inline",
])  # fmt: skip
_GUARD = re.compile(r"\bif\s*\(([^{};]{1,200}?)\)\s*[\w{(*]|=\s*([^?;={}]{3,120})\?")
_SUBSCRIPT = r"(?:\[[^\]\n]{0,20}\])?"
_INDEX = rf"[A-Za-z_][\w.]*{_SUBSCRIPT}(?:\s*[-+*]\s*[A-Za-z_\d][\w.]*{_SUBSCRIPT}){{0,3}}"
MASK = re.compile(rf"{_INDEX}\s*(?:<=?|>=?)\s*{_INDEX}")
_BOUND = re.compile(rf"(?<![<\w]){_INDEX}\s*<\s*(?!<){_INDEX}(?!\s*>>>)")


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
            if opening and (opening in grids or _is_called(scope, tokens[opening - 1], token)):
                named = names.get(opening, opening - 1)
                name = tokens[named].text
                if scope.is_triton and named > 1 and tokens[named - 1].text == ".":
                    name = f"{tokens[named - 2].text}.{name}"
                first = tokens[named].start
                yield Call(name, opening in grids, grids.get(opening, ()), parts, first, token.end)


def _is_called(scope: Scope, name: Token, closing: Token) -> bool:
    """Whether parentheses, or in C++ braces, behind a name hold the arguments of a call."""
    is_made = closing.text == "}" and not scope.is_triton and name.text not in ("else", "do", "try")
    return name.is_name and (closing.text == ")" or is_made)


def _parts(
    tokens: Sequence[Token], opening: int, commas: Sequence[int], end: int
) -> tuple[tuple[int, int], ...]:
    bounds = [opening, *commas, end]
    return tuple(
        (tokens[low + 1].start, tokens[high - 1].end)
        for low, high in itertools.pairwise(bounds)
        if high > low + 1
    )


BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def plain(name: str) -> str:
    """A name as arguments and parameters share it: `n_cols` and `cols`, `x_ptr` and `x`."""
    name = name.strip()
    if stride := re.fullmatch(r"(\w)\w*\.stride\(-?\d\)|stride_(\w)\w?", name):
        return f"stride_{stride[1] or stride[2]}"
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return name
    return re.sub(r"^(?:n|num|d)_|_(?:ptr|pointer|size)$", "", name.lower())


def _is_unread(scope: Scope, name: str, lines: Iterable[int]) -> bool:
    """Whether the lines that have a name do nothing but give it a value."""
    updates = re.compile(rf"\s*(?:[\w*]+ )*{name}\s*[-+*/]?=(?!=)")
    return all(updates.match(scope.code_line(each)) for each in lines)


_SHARED = re.compile(r"__shared__\s+\w+\s+([^;{}]{1,300});")


def shared_arrays(code: str) -> list[str]:
    """The names of a CUDA C++ text's arrays in shared memory; one declaration may have several."""
    declared = " ".join(_SHARED.findall(code))
    return re.findall(r"(?<![\w\[])([A-Za-z_]\w*)\s*\[", declared)


def are_twins(one: str, other: str) -> bool:
    """Whether two names differ in one letter alone: `bx` and `by`, `pid_m` and `pid_n`."""
    return len(one) == len(other) and sum(map(str.__ne__, one, other)) == 1


_AXES = "mnk"


def axis_of(name: str) -> str:
    """The axis of a matrix that a name is about: n for `BLOCK_N`, `BN`, `N`, `pid_n`; or ""."""
    last = name.rpartition("_")[2]
    is_short = len(last) <= 2 and (len(last) == 1 or last.isupper())
    return last[-1].lower() if is_short and last[-1].lower() in _AXES else ""

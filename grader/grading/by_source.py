"""Mistakes that the source of a failing submission shows by itself: loops that don't end.

A cause is given only where the source shows all of it; repairs.py tries what it doesn't. The
source is untrusted, so what would take long on a contrived one is bounded.
"""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from grader.cases.compare import Verdict
from grader.evidence import SourceLine
from grader.executors.answers import IN_LOOP
from grader.executors.loops import MOST_PLACES, of_cpp
from grader.executors.runner import CaseResult
from grader.executors.source_text import SourceText
from grader.grading.diagnosis import Cause
from grader.status import Status

MOST_CHARACTERS = 100_000  # of a source that is looked at
_MOST_OF_A_LINE = 1000  # characters: some patterns take steps by their square


@dataclass(frozen=True)
class Context:
    """A failure and the source of the submission's file."""

    result: CaseResult
    source: str
    is_triton: bool

    @property
    def words(self) -> str:
        """The failure in the grader's, the compiler's or Python's words."""
        return self.result.verdict.what

    @cached_property
    def lines(self) -> list[str]:
        """The source's lines."""
        return self.source.splitlines()

    @property
    def line(self) -> str:
        """The beginning of the failure's line, or ""."""
        number = self.result.line or 0
        return self.lines[number - 1][:_MOST_OF_A_LINE] if 1 <= number <= len(self.lines) else ""

    @cached_property
    def line_of_code(self) -> str:
        """The line of the failure, with blanks in the place of comments."""
        code = SourceText(self.source, self.is_triton).code
        return Context(self.result, code, self.is_triton).line

    def marked(self, start: int, end: int) -> tuple[SourceLine, ...]:
        """The line of the failure with the place in it."""
        return (SourceLine(self.result.line or 0, self.line.rstrip(), "", start, end - start),)

    def shown(self, *numbers: int) -> tuple[SourceLine, ...]:
        """Lines of the source."""
        return tuple(SourceLine(each, self.lines[each - 1].rstrip()) for each in numbers)


# --- loops -------------------------------------------------------------------------------------

# Names that a loop changes. A pattern for each name would read the text once for each.
_CHANGES = re.compile(r"\b(\w+)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--|&)\s*(\w+)")
_HALVES = re.compile(r"(\w+)\s*>=\s*0")


def endless(context: Context) -> Cause | None:
    """The loop of a run out of time whose condition stays true: unchanged, or kept by halving.

    Where it is known in which loop the time went, the source of no other one counts.
    """
    result = context.result
    if loop := _loop_without_end(context):
        return loop.as_cause(context)
    if result.verdict.pattern == IN_LOOP and result.line:
        if known := _below_zero(context) or _long(context):
            return known
        what = f"The loop at line {result.line} doesn't end: it was still running when time was up"
        advice = result.hint or _HOW_LOOPS_END
        return Cause("endless", what, advice, context.shown(result.line))
    return None


_UNSIGNED = r"\s*(?:const\s+)?(?:uint|unsigned(?:\s+int)?|uint(?:32|64)_t|size_t)\s+"
_TO_DIFFERENCE = re.compile(rf"{_UNSIGNED}(\w+)\b[^;]*;\s*\1\s*(<=?)\s*(\w+)\s*-\s*(\w+)\s*;")


def _below_zero(context: Context) -> Cause | None:
    """A loop of an unsigned index up to a difference, which is a large number below 0."""
    for loop in () if context.is_triton else of_cpp(SourceText(context.source, False).code):
        bound = _TO_DIFFERENCE.match(loop.head)
        if bound and loop.line == context.result.line:
            index, compared, left, right = bound.groups()
            what = f"Where it is below 0, `{left} - {right}` is a large number for `{index}`"
            advice = f"`{index}` is unsigned. Write `{index} + {right} {compared} {left}`."
            return Cause("below_zero", what, advice, context.shown(loop.line))
    return None


_COUNTS_UP = re.compile(  # its first value, and its condition
    r"[\w\s:]*?\b(\w+)\s*=([^;]*);(\s*\1\s*<=?[^;]*);"
    r"\s*(?:\1\s*\+\+|\+\+\s*\1|\1\s*\+=\s*[1-9]\d*)\s*"
)


def _long(context: Context) -> Cause | None:
    """A loop that counts up to a bound, so that it ends, in which the time was over."""
    line = context.result.line or 0
    advice = _long_in_python(context, line) if context.is_triton else _long_in_cpp(context, line)
    if advice and _is_of_host_code(context, line):
        advice = _ON_THE_HOST
    what = f"The loop at line {line} has too many turns: it was still running when time was up"
    return Cause("endless", what, advice, context.shown(line)) if advice else None


def _is_of_host_code(context: Context, line: int) -> bool:
    """Whether a loop at this line runs in the launcher, by its function's head in C++."""
    if context.is_triton:
        return "the launcher took" in context.words
    text = SourceText(context.source, False)
    for each in text.functions.values():
        if text.line_at(each.start) <= line <= text.line_at(each.end):
            head = text.code[each.start : each.body]
            return "(" in head and not re.search(r"__(?:global|device)__", head)
    return False


def _long_in_cpp(context: Context, line: int) -> str:
    """What to do about a loop that counts up, as those around it do; "" for another one."""
    advice = ""
    for loop in of_cpp(SourceText(context.source, False).code):
        if not loop.line <= line <= loop.last:
            continue
        counts = _COUNTS_UP.fullmatch(loop.head) if loop.keyword == "for" else None
        changed = {*itertools.chain(*_CHANGES.findall(loop.body))}
        if counts is None or not changed.isdisjoint(re.findall(r"[A-Za-z_]\w*", counts[3])):
            return ""
        if loop.line == line:
            is_whole = counts[2].strip().isdecimal()
            advice = _EACH_ALL.format("thread") if is_whole else _EACH_ONCE.format("thread")
    return advice


def _long_in_python(context: Context, line: int) -> str:
    """What to do about a loop over a range that no `while` is around; "" for another one."""
    try:
        tree = ast.parse(context.source)
    except (SyntaxError, ValueError):
        return ""
    around = [n for n in ast.walk(tree) if isinstance(n, ast.For | ast.While) and n.lineno <= line]
    around = [each for each in around if line <= (each.end_lineno or 0)]
    for loop in around:
        match loop:
            case ast.While():
                return ""
            case ast.For(ast.Name(index), ast.Call(args=[*given])) if loop.lineno == line:
                text = "\n".join(map(ast.unparse, loop.body))
                takes_blocks = rf"\b{index} \+ tl\.arange|arange\(.*\) \+ {index}\b"
                if len(given) < 3 and re.search(takes_blocks, text):
                    return _STEP_OF_BLOCKS.format(index)
    return _EACH_ONCE.format("program") if around else ""


_EACH_ALL = (
    "Each {0} takes all of them. Let it begin at its own index and go on by the number of {0}s, or "
    "take one element without a loop."
)
_EACH_ONCE = "Each {0} takes all of them: is it what one {0} has to do, and only once?"
_ON_THE_HOST = (
    "It is the launcher's, and runs on the host: launch one grid that has a program or a block for "
    "each turn."
)
_STEP_OF_BLOCKS = (
    "`{0}` goes on by 1, and each turn takes a whole block from `{0}` on: pass the block's length "
    "as `range`'s third argument, the step."
)


def _read(node: ast.AST, with_loads: bool) -> set[str]:
    """The names whose values make an expression, with those of the addresses of loads or not."""
    match node:
        case ast.Name(name, ast.Load()):
            return {name}
        case ast.Call(ast.Attribute(_, "load")) if not with_loads:
            return set()
    return set[str]().union(*(_read(each, with_loads) for each in ast.iter_child_nodes(node)))


def _carried(loop: ast.For) -> set[str]:
    """The names that a turn of a loop reads before it gives them a new value."""
    read, given, carried = set[str](), set[str](), set[str]()
    for each in loop.body:
        names = [node for node in ast.walk(each) if isinstance(node, ast.Name)]
        new = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        read |= _read(each, with_loads=True) - given
        carried |= (new - given) if isinstance(each, ast.AugAssign) else (new & read)
        given |= new
    return carried


def stored_early(context: Context, _: re.Match[str]) -> Cause | None:
    """A store, in a loop of Triton, of what is made of values that later turns still change."""
    try:
        tree = ast.parse(context.source if context.is_triton else "")
    except (SyntaxError, ValueError):
        return None
    for loop in (each for each in ast.walk(tree) if isinstance(each, ast.For)):
        made_of = {each: each for each in _carried(loop)}
        for each in loop.body:
            match each:
                case ast.Assign([ast.Name(new)], value):
                    if early := sorted(_read(value, with_loads=False) & made_of.keys()):
                        made_of[new] = made_of[early[0]]
                case ast.Expr(ast.Call(ast.Attribute(_, "store"), [_, value, *_])):
                    if early := sorted(_read(value, with_loads=False) & made_of.keys()):
                        name = made_of[early[0]]
                        what = f"This store's value depends on `{name}`, which later turns change"
                        advice = "If its last value is meant, store in a loop of its own behind it."
                        return Cause("stored_early", what, advice, context.shown(each.lineno))
    return None


class _EndlessLoop(NamedTuple):
    """A loop that never ends, by its source."""

    line: int
    condition: str  # "" if it has none
    is_halving: bool = False  # whether the condition holds for 0, where halving ends

    def as_cause(self, context: Context) -> Cause:
        """The loop in words."""
        why, advice = "nothing in it leaves it", "Give it a condition, or a `break`."
        if self.is_halving:
            why, advice = f"halving ends at 0, where `{self.condition}` holds", _ABOVE_0
        elif self.condition:
            why, advice = f"nothing in it changes `{self.condition}`", _ADVANCE
        what = f"The loop at line {self.line} never ends: {why}"
        return Cause("endless", what, advice, context.shown(self.line))


_ABOVE_0, _ADVANCE = "Loop while it is above 0.", "Advance the index in the loop."
_HOW_LOOPS_END = (
    "Does each turn bring its condition nearer to its end? A step that is 0, or a bound that "
    "moves along, never does."
)


def _is_meant(context: Context, line: int) -> bool:
    """Whether a loop may be the one that doesn't end."""
    is_known = context.result.verdict.pattern == IN_LOOP
    return not is_known or line == context.result.line


def _loop_without_end(context: Context) -> _EndlessLoop | None:
    return _in_python(context) if context.is_triton else _in_cpp(context)


def _in_python(context: Context) -> _EndlessLoop | None:
    try:
        tree = ast.parse(context.source)
    except (SyntaxError, ValueError):
        return None
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.While))
    for loop in itertools.islice(loops, MOST_PLACES):
        inside = [node for each in loop.body for node in ast.walk(each)]
        names = {n.id for n in ast.walk(loop.test) if isinstance(n, ast.Name)}
        changed = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        leaves = any(isinstance(n, ast.Break | ast.Return | ast.Raise) for n in inside)
        calls = any(isinstance(n, ast.Call) for n in ast.walk(loop.test))
        is_meant = not leaves and not calls and _is_meant(context, loop.lineno)
        if is_meant and not names & changed:
            return _EndlessLoop(loop.lineno, ast.unparse(loop.test) if names else "")
    return None


def _in_cpp(context: Context) -> _EndlessLoop | None:
    for loop in of_cpp(SourceText(context.source, is_triton=False).code):
        if loop.keyword == "do" or not _is_meant(context, loop.line):
            continue
        parts = loop.head.split(";")
        condition, step = (loop.head, "") if loop.keyword == "while" else (*parts, "", "")[1:3]
        names = set(re.findall(r"\b[A-Za-z_]\w*\b(?!\s*[(.])", condition))
        leaves = re.search(r"\b(?:break|return|goto)\b|asm|volatile", loop.body)
        text, inside = " ".join(condition.split()), f"{step};{loop.body}"
        if not leaves and text in ("", "1", "true"):
            return _EndlessLoop(loop.line, "")
        if not names or leaves or loop.body == ";":
            continue
        if names.isdisjoint(itertools.chain(*_CHANGES.findall(inside))):
            return _EndlessLoop(loop.line, text)
        kept = _HALVES.fullmatch(condition.strip())
        if kept and re.search(rf"\b{kept[1]}\s*(?:/=|>>=)", inside):
            return _EndlessLoop(loop.line, text, is_halving=True)
    return None


_OF_LOCALS = re.compile(r"[\w\s+/%-]*[<>]=?[\w\s+/%-]*")  # of numbers: a list may change by a call
_FROM_AFAR = re.compile(r"\b(?:__shared__|__device__|volatile|static|global|nonlocal)\b([^;\n]*)")
_CAPTURES = re.compile(r"\[[&=]")


@lru_cache(maxsize=4)
def line_without_end(source: str, is_triton: bool) -> int:
    """The line of a loop that never ends once it has begun, as the source shows; 0 for none.

    Its condition has local variables alone, so that no other thread or function changes it.
    """
    result = CaseResult(None, Verdict(Status.timed_out))
    try:
        loop = _loop_without_end(Context(result, source, is_triton))
    except (RecursionError, MemoryError):
        return 0
    if loop is None or not _OF_LOCALS.fullmatch(loop.condition):
        return 0
    names = set(re.findall(r"[A-Za-z_]\w*", loop.condition))
    from_afar = (re.findall(r"\w+", each) for each in _FROM_AFAR.findall(source))
    if names and (_CAPTURES.search(source) or not names.isdisjoint(itertools.chain(*from_afar))):
        return 0
    return loop.line

"""Mistakes that the source of a failing submission shows by itself: loops that don't end.

A row gives a cause only where the source shows all of it. What has to be tried is in edits.py. The
source is untrusted, so what would take long on a contrived one is bounded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from grader.evidence import SourceLine
from grader.executors.runner import CaseResult
from grader.grading.diagnosis import Cause
from grader.status import Status

MOST_PLACES = 200  # loops that are looked at
MOST_OF_LOOP = 5000  # characters


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
        """The line of the failure, or ""."""
        number = self.result.line or 0
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    @cached_property
    def code(self) -> str:
        """A CUDA source with blanks in the place of comments, so that offsets stay."""
        return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), self.source)


_COMMENT = re.compile(r"//[^\n]*|/\*.{0,5000}?\*/", re.DOTALL)


# --- loops -------------------------------------------------------------------------------------

_LOOP = re.compile(r"\b(while|for)\s*\(")
_CHANGES = r"\b{0}\b\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--|&)\s*{0}\b|\b{0}\b\s*(?:\+\+|--)"
_HALVES = re.compile(r"(\w+)\s*>=\s*0")


def _endless(context: Context) -> Cause | None:
    """A loop whose condition stays true: nothing changes it, or halving keeps it."""
    if context.result.status is not Status.timed_out:
        return None
    return _in_python(context) if context.is_triton else _in_cpp(context)


def _in_python(context: Context) -> Cause | None:
    try:
        tree = ast.parse(context.source)
    except (SyntaxError, ValueError):
        return None
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.While))
    for loop in islice(loops, MOST_PLACES):
        inside = [node for each in loop.body for node in ast.walk(each)]
        names = {n.id for n in ast.walk(loop.test) if isinstance(n, ast.Name)}
        changed = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        leaves = any(isinstance(n, ast.Break | ast.Return | ast.Raise) for n in inside)
        calls = any(isinstance(n, ast.Call) for n in ast.walk(loop.test))
        if names and not leaves and not calls and not names & changed:
            what = (
                f"The loop at line {loop.lineno} never ends: nothing in it changes "
                f"`{ast.unparse(loop.test)}`"
            )
            marked = _marked(context, loop.lineno)
            return Cause("endless", what, "Advance the index in the loop.", marked)
    return None


def _in_cpp(context: Context) -> Cause | None:
    for match in islice(_LOOP.finditer(context.code), MOST_PLACES):
        head = _up_to(context.code, match.end(), "(", ")")
        parts = head.split(";")
        condition, step = (head, "") if match[1] == "while" else (*parts, "", "")[1:3]
        behind = context.code[match.end() + len(head) + 1 :].lstrip()
        body = _up_to(behind, 1, "{", "}") if behind[:1] == "{" else behind.split(";")[0]
        names = set(re.findall(r"\b[A-Za-z_]\w*\b(?!\s*[(.])", condition))
        leaves = re.search(r"\b(?:break|return|goto)\b|asm|volatile", body)
        if not names or leaves or not behind or behind[0] == ";":
            continue
        line = context.code.count("\n", 0, match.start()) + 1
        text = " ".join(condition.split())
        if not any(re.search(_CHANGES.format(n), f"{step};{body}") for n in names):
            what = f"The loop at line {line} never ends: nothing in it changes `{text}`"
            return Cause("endless", what, "Advance the index in the loop.", _marked(context, line))
        kept = _HALVES.fullmatch(condition.strip())
        if kept and re.search(rf"\b{kept[1]}\s*(?:/=|>>=)", f"{step};{body}"):
            what = f"The loop at line {line} never ends: a half of 0 is 0, so `{text}` stays true"
            return Cause("endless", what, "Loop while it is above 0.", _marked(context, line))
    return None


def _marked(context: Context, line: int) -> tuple[SourceLine, ...]:
    return (SourceLine(line, context.lines[line - 1]),)


def _up_to(code: str, start: int, opening: str, closing: str) -> str:
    """The text from `start`, just after an opening bracket, to the one that closes it."""
    depth = 1
    for at in range(start, min(len(code), start + MOST_OF_LOOP)):
        depth += (code[at] == opening) - (code[at] == closing)
        if not depth:
            return code[start:at]
    return ""


TABLE: Sequence[Callable[[Context], Cause | None]] = (_endless,)

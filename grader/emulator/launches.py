"""Rewrites launches, `kernel<T><<<grid, block>>>(a)`, as C++: see include/warpgrade/launch.h."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from . import tokens
from .edits import Edit, Trouble
from .kernels import Kernel, count_arguments
from .lexer import Token
from .tokens import Run

_NOT_A_CALLEE = frozenset(
    {"if", "while", "for", "switch", "return", "else", "do", "case", "sizeof"}
)
_SPLICE = re.compile(r"\\[ \t\f\v]*\r?\n")
_SPACE_OR_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\s+", re.DOTALL)


# Calls that launch, and the place of the kernel among their arguments.
_LAUNCH_CALLS = {"cudaLaunchKernel": 0, "cudaLaunchCooperativeKernel": 0, "cudaLaunchKernelExC": 1}
_CASTS = re.compile(
    r"(\( (?:const )?void (?:const )?\* \) )|((?:reinterpret|static)_cast < (?:const )?void \* > )"
)


def casts_of_kernels(run: tuple[Token, ...]) -> Iterator[Edit]:
    """The casts of kernels to `void*` in calls that launch, since the type has the parameters."""
    for i, token in enumerate(run):
        place = _LAUNCH_CALLS.get(token.text)
        if place is None or run[i + 1 : i + 2] == () or run[i + 1].text != "(":
            continue
        start = _argument(run, i + 1, place)
        cast = _CASTS.match("".join(t.text + " " for t in run[start : start + 7]))
        if cast:
            end = start + cast[0].count(" ") - 1
            yield Edit(run[start].start, run[end].end, "")


def _argument(run: tuple[Token, ...], opening: int, place: int) -> int:
    """The index where argument number `place` of a call starts, or one behind the last token."""
    i = opening + 1
    while place and i < len(run):
        if run[i].text in ("(", "[", "{"):
            i = tokens.closing(run, i) or len(run)
        elif run[i].text == ",":
            place -= 1
        i += 1
    return i


def is_launch(run: Sequence[Token], i: int) -> bool:
    """Whether token `i` opens a launch: `<<<`, but not of operator<<<...>."""
    return run[i].text == "<<<" and not (i > 0 and run[i - 1].text == "operator")


def rewrite(text: str, run: Run, at: int, kernels: Mapping[str, Kernel]) -> list[Edit] | Trouble:
    """The edits for the launch whose `<<<` is token `at`."""
    code = run.tokens
    first = _callee_start(code, at)
    end = _configuration_end(code, at)
    if at == 0 and end == len(code) - 1:  # a macro of a configuration alone
        before = "->*::warpgrade::configuration("
        return [Edit(code[0].start, code[0].end, before), Edit(code[end].start, code[end].end, ")")]
    if first is None or end is None or code[end + 1 : end + 2] == () or code[end + 1].text != "(":
        return Trouble(code[at].start, "a launch in a form that the emulator doesn't understand")
    callee = code[first:at]
    source = text[callee[0].start : callee[-1].end]
    kernel = _SPACE_OR_COMMENT.sub(" ", _SPLICE.sub("", source))
    known = kernels.get(_base_name(callee))
    if known and known.is_deduced(_explicit_arguments(callee)):
        call = f"{kernel}(warpgrade_argument...);"
        function = f".deduced([](auto... warpgrade_argument) WARPGRADE_UNSEEN {{ {call} }})"
    else:
        function = f"({kernel})"
    # The name's line breaks stay in place; the name moves behind the configuration.
    # In `c?a<<<...>>>():b<<<...>>>()` a `::` beside the `:` would be read as `::` and `:`.
    gap = " " if text[: callee[0].start].endswith(":") else ""
    before = f"{gap}::warpgrade::launcher({_name(kernel, callee, run)},"
    return [
        Edit(callee[0].start, code[at].end, before),
        Edit(code[end].start, code[end].end, ")" + function),
    ]


def _name(kernel: str, callee: Sequence[Token], run: Run) -> str:
    """A string literal with the kernel's name as in the source, or in a macro as in its use."""
    if len(callee) == 1 and callee[0].text in run.parameters:
        return "#" + callee[0].text
    return '"' + re.sub(r"\s+", "", kernel).replace("\\", "").replace('"', "'") + '"'


def _callee_start(run: Sequence[Token], at: int) -> int | None:
    """The start of the expression that ends before token `at`: a::b<T>, x.y, (*p), p->k[3]."""
    i = at - 1
    while i >= 0:
        text = run[i].text
        if text in (">", ">>", ">>>"):
            start = _angle_start(run, i)
            if start is None or start == 0 or run[start - 1].kind != "name":
                return None
            i = start - 1
        elif text in (")", "]"):
            start = tokens.opening(tuple(run), i)
            if start is None:
                return None
            i = start
            has_base = i > 0 and (run[i - 1].kind == "name" or run[i - 1].text in (")", "]"))
            if text == "]" and has_base:
                i -= 1
                continue
            is_call = i > 0 and run[i - 1].kind == "name" and run[i - 1].text not in _NOT_A_CALLEE
            if text == ")" and is_call:
                i -= 1
                continue
        elif run[i].kind != "name" or text in _NOT_A_CALLEE:
            return None
        if i > 0 and run[i - 1].text == "template":
            i -= 1
        before = run[i - 1].text if i > 0 else ""
        if before == "::":
            qualified = i > 1 and (run[i - 2].kind == "name" or run[i - 2].text in (">", ">>"))
            if not qualified or run[i - 2].text in _NOT_A_CALLEE:
                return i - 1
            i -= 2
        elif before in (".", "->") and i > 1:
            i -= 2
        else:
            return i
    return None


def _angle_start(run: Sequence[Token], at: int) -> int | None:
    """The index of the `<` that the `>` at `at` closes, brackets inside it skipped."""
    depth, i = 0, at
    while i >= 0:
        text = run[i].text
        if text in (">", ">>", ">>>"):
            depth += len(text)
        elif text in ("<", "<<"):
            depth -= len(text)
            if depth <= 0:
                return i if depth == 0 else None
        elif text in (")", "]", "}"):
            start = tokens.opening(tuple(run), i)
            if start is None:
                return None
            i = start
        elif text in (";", "{", "("):
            return None
        i -= 1
    return None


def _configuration_end(run: tuple[Token, ...], at: int) -> int | None:
    i = at + 1
    while i < len(run):
        if run[i].text == ">>>":
            return i
        if run[i].text in ("(", "[", "{"):
            end = tokens.closing(run, i)
            if end is None:
                return None
            i = end
        elif run[i].text in (")", "]", "}", ";", "<<<"):
            return None
        i += 1
    return None


def _base_name(callee: Sequence[Token]) -> str:
    """`k` of a::k<T>: the last name outside template arguments."""
    if callee[-1].text in (">", ">>", ">>>"):
        start = _angle_start(callee, len(callee) - 1)
        return callee[start - 1].text if start else ""
    return callee[-1].text


def _explicit_arguments(callee: Sequence[Token]) -> int:
    if callee[-1].text not in (">", ">>", ">>>"):
        return 0
    start = _angle_start(callee, len(callee) - 1)
    return count_arguments(callee[(start or 0) + 1 : -1])

"""What Triton's compiler refuses: Python, NumPy and torch in a kernel, misused calls."""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from grader.grading.by_source import Context
from grader.grading.diagnosis import Cause

Rule = Callable[[Context, re.Match[str]], Cause | None]
_SAME = re.compile(
    r"abs|arange|arg(?:max|min)|ceil|clamp|cos|cumsum|dot|erf|exp2?|floor|full|log2?|max(?:imum)?"
    r"|min(?:imum)?|rsqrt|sigmoid|sin|softmax|sqrt|sum|trans|where|zeros(?:_like)?"
)
_OTHER = {"clip": "clamp", "fabs": "abs", "matmul": "dot", "mm": "dot", "transpose": "trans"}

_PASSED = "Pass the number to the kernel as a parameter."
_INSTEAD = {
    **dict.fromkeys(("len", "numel", "size", "stride"), _PASSED),
    "next_power_of_2": "Compute it in the launcher, and pass it as a `tl.constexpr`.",
    "inf": 'Write `float("inf")`.',
    "mean": "Divide `tl.sum` by the number of elements that exist, not by the block's length.",
}


def _in_triton(name: str, argument: str = "") -> str:
    """What to write in a kernel in the place of a function of the host."""
    if name in ("float", "int"):
        return f"Write `{argument or 'x'}.to(tl.{name}32)`."
    if name == "print":
        return f'A text comes first: `print("{argument}", {argument})`.'
    if name in _INSTEAD:
        return _INSTEAD[name]
    if re.fullmatch(r"b?float(?:16|32|64)|u?int(?:8|16|32|64)", name):
        return (
            f"The dtype is `tl.{name}`. `x.to(tl.{name})` converts; a number needs no conversion."
        )
    if _SAME.fullmatch(name) or name in _OTHER:
        return f"Write `tl.{_OTHER.get(name, name)}`."
    if name in _names("extra/libdevice.py"):
        return f"Write `libdevice.{name}`, after `from triton.language.extra import libdevice`."
    if near := difflib.get_close_matches(name, sorted(_names("__init__.py")), n=1, cutoff=0.8):
        return f"Did you mean `tl.{near[0]}`?"
    return "Compose it of what Triton has, such as `tl.exp`, `tl.sum`, `tl.where` and `+ - * /`."


@cache
def _names(file: str) -> frozenset[str]:
    """What a file of Triton's language defines or lists, which isn't imported here."""
    triton = importlib.util.find_spec("triton")
    places = triton.submodule_search_locations or () if triton else ()
    texts = [(Path(each) / "language" / file).read_text("utf-8") for each in places]
    return frozenset(re.findall(r'(?m)^(?:def |    ")(\w+)', "\n".join(texts)))


def _misused(use: str, otherwise: str, mistake: str) -> Rule:
    """A rule for a name that `use` finds in the line, beside what the name is called with.

    The failure's words have the name; where they don't, `otherwise` stands for it.
    """

    def rule(context: Context, match: re.Match[str]) -> Cause | None:
        name = match[1] if match.re.groups and match[1] else otherwise
        used = re.search(use.replace("NAME", name), context.line)
        if used is None:
            return None
        at, advice = context.marked(*used.span()), _in_triton(*used.groups(""))
        return Cause("of_python", mistake.format(used[0], used[1]), advice, at)

    return rule


_UNKNOWN = _misused(r"[\w.]*\.(NAME)\b", "", "Triton has no `{0}`")
_OF_MODULE = _misused(
    r"\b(?:NAME)\.(?:\w+\.)*(\w+)",
    "math|triton",
    "`{0}` runs on the host, and a kernel can't call it",
)
_OF_PYTHON = _misused(
    r"(?<![\w.])(NAME)\s*\(\s*([\w.]*)",
    "print",
    "Python's `{1}` doesn't take a block in this way",
)


def not_a_dtype(context: Context, match: re.Match[str]) -> Cause | None:
    """Something else in the place of a dtype: `match` has its type."""
    given = "a block" if match[1] == "tensor" else f"Python's `{match[1]}`"
    advice = "A dtype is `tl.float32` or the like, or `x.dtype`: `tl.full(shape, value, dtype)`."
    return Cause("dtype", f"A dtype belongs where this line passes {given}", advice)


def not_a_pointer(context: Context, match: re.Match[str]) -> Cause | None:
    """A load or store of what isn't an address: `match` has its type and the call."""
    used = re.search(rf"{re.escape(match[2])}\(\s*([\w.]+)", context.line)
    kind = "values" if "fp" in match[1] or "bf" in match[1] else "whole numbers"
    mistake = f"`{match[2]}` takes a pointer, and `{used[1] if used else 'this'}` holds {kind}"
    advice = "A pointer is a parameter plus offsets, `x_ptr + offs`. What was loaded is a value."
    # An address that the launch passes is a whole number, whose elements have no known dtype.
    if "int64" in match[1] and (passed := re.search(r"\b(\w+)\.data_ptr\(\)", context.source)):
        advice = (
            f"Pass the tensor `{passed[1]}` itself: `{passed[0]}` is an address without a dtype."
        )
    return Cause("no_pointer", mistake, advice, context.marked(*used.span(1)) if used else ())


_PARAMETERS = re.compile(r"\bdef \w+\(([^()]*)\)")
_AS_CONSTANT = re.compile(r"\b(\w+)\s*:\s*(?:\w+\.)?constexpr\b")


def not_constant(context: Context, _: re.Match[str]) -> Cause | None:
    """A block whose length is only known at the launch, where the kernel has a constant."""
    above = "\n".join(context.lines[: context.result.line])
    parameters = ["", *_PARAMETERS.findall(above)][-1]
    constants = _AS_CONSTANT.findall(parameters)
    used = re.search(r"\barange\((?:[^,()]*,)?\s*([a-z]\w*)\s*\)", context.line)
    if not constants or not used or not re.search(rf"\b{used[1]}\b", parameters):
        return None
    mistake = f"`tl.arange` needs a constant, and `{used[1]}` is known only at the launch"
    advice = (
        f"Take blocks of `{constants[0]}` elements, more programs or a loop where one is too few, "
        f"and a mask for what is past `{used[1]}`."
    )
    return Cause("no_constant", mistake, advice, context.marked(*used.span(1)))


_TAKEN = re.compile(
    r"(?<![\w.])([A-Za-z_]\w*)\s*\[((?!(?:\s|:|None|,)*\])[^\[\]]+)\](\s*[-+*/]?=(?!=))?"
)


def indexed(context: Context, _: re.Match[str]) -> Cause | None:
    """Brackets behind a pointer or a block, as of an array: `x_ptr[i]`, `y[0] = 0.0`."""
    taken = _TAKEN.search(context.line)
    if taken is None:
        return None
    name, index, is_stored = taken.groups()
    above = "\n".join(context.lines[: context.result.line])
    parameters = ["", *_PARAMETERS.findall(above)][-1]
    mistake = f"A block has no elements that brackets take: `{name}[{index}]`"
    advice = "Choose elements by `tl.where`, or by the mask of a load or a store."
    if re.search(rf"\b{name}\b(?!\s*:)", parameters):
        mistake = f"A kernel's pointer isn't an array: `{name}[{index}]` doesn't reach memory"
        call, value = ("tl.store", " value,") if is_stored else ("tl.load", "")
        first, colon, _stop = index.partition(":")  # neighbours: `x_ptr[start:stop]`
        if colon:
            index = f"{first.strip() or 0} + tl.arange(0, BLOCK)"
        advice = f"Write `{call}({name} + {index},{value} mask=...)`."
    return Cause("indexed", mistake, advice, context.marked(taken.start(), taken.end(2) + 1))


# A pattern of the compiler's words, and the cause that it may show.
ROWS = (
    (r"arange's arguments must be of type tl.constexpr", not_constant),
    (r"'(\w+)' (?:object )?has no attribute '(?:is_int|scalar)'", not_a_dtype),
    (r"(?:'triton\.language[\w.]*'|'tensor' object) has no attribute '(\w+)'", _UNKNOWN),
    (r"NameError: (\w+) leads to the module |must be real number, not tensor", _OF_MODULE),
    (r"NameError: (sum|pow|sorted|any|all|round) is not defined", _OF_PYTHON),
    (r"\b(float|int)\(\) argument must be a .*'tensor'", _OF_PYTHON),
    (r"object of type 'tensor' has no (len)\(\)", _OF_PYTHON),
    (r"\bis not string()", _OF_PYTHON),
    (r"__setitem__ is not supported|`_semantic` argument|unsupported tensor index", indexed),
    ("`_semantic` argument", _OF_MODULE),
    (r"Unsupported ptr type (.+?) in `(tl\.\w+)`", not_a_pointer),
)

"""Python, NumPy and torch in a Triton kernel, and what Triton has in their place."""

from __future__ import annotations

import re

from grader.grading.by_source import Context
from grader.grading.diagnosis import Cause

_SAME = re.compile(
    r"abs|arange|arg(?:max|min)|ceil|clamp|cos|cumsum|dot|erf|exp2?|floor|full|log2?|max(?:imum)?"
    r"|min(?:imum)?|rsqrt|sigmoid|sin|softmax|sqrt|sum|trans|where|zeros(?:_like)?"
)
_OTHER = {"clip": "clamp", "fabs": "abs", "matmul": "dot", "mm": "dot", "transpose": "trans"}


def _in_triton(name: str, argument: str = "") -> str:
    """What to write in a kernel in the place of a function of the host."""
    if name in ("float", "int"):
        return f"Write `{argument or 'x'}.to(tl.{name}32)`."
    if name == "print":
        return f'A text comes first: `print("{argument}", {argument})`.'
    if name == "len":
        return "Pass the number of elements to the kernel as a parameter."
    if re.fullmatch(r"b?float(?:16|32|64)|u?int(?:8|16|32|64)", name):
        return f"`x.to(tl.{name})` converts. A number needs no conversion."
    if _SAME.fullmatch(name) or name in _OTHER:
        return f"Write `tl.{_OTHER.get(name, name)}`."
    return "Compose it of what Triton has, such as `tl.exp`, `tl.sum`, `tl.where` and `+ - * /`."


def of_module(context: Context, match: re.Match[str]) -> Cause | None:
    """A function of torch, NumPy or math; `match` has the name that the module has in the file."""
    used = re.search(rf"\b{match[1] or 'math'}\.(?:\w+\.)*(\w+)", context.line)
    if used is None:
        return None
    mistake = f"`{used[0]}` runs on the host, and a kernel can't call it"
    return Cause("of_host", mistake, _in_triton(used[1]), context.marked(*used.span()))


def of_python(context: Context, match: re.Match[str]) -> Cause | None:
    """A function of Python's that takes no block: `match` has its name."""
    name = match[1] or "print"
    used = re.search(rf"(?<![\w.]){name}\s*\(\s*([\w.]*)", context.line)
    if used is None:
        return None
    mistake = f"Python's `{name}` doesn't take a block in this way"
    return Cause("of_python", mistake, _in_triton(name, used[1]), context.marked(*used.span()))


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
    parameters = ["", *re.findall(r"\bdef \w+\(([^()]*)\)", above)][-1]
    mistake = f"A block has no elements that brackets take: `{name}[{index}]`"
    advice = "Choose elements by `tl.where`, or by the mask of a load or a store."
    if re.search(rf"\b{name}\b(?!\s*:)", parameters):
        mistake = f"A kernel's pointer isn't an array: `{name}[{index}]` doesn't reach memory"
        call, value = ("tl.store", " value,") if is_stored else ("tl.load", "")
        advice = f"Write `{call}({name} + {index},{value} mask=...)`."
    return Cause("indexed", mistake, advice, context.marked(taken.start(), taken.end(2) + 1))


# A pattern of the compiler's words, and the cause that it may show.
ROWS = (
    (r"NameError: (\w+) leads to the module |must be real number, not tensor", of_module),
    (r"NameError: (sum|pow|sorted|any|all|round) is not defined", of_python),
    (r"\b(float|int)\(\) argument must be a .*'tensor'", of_python),
    (r"object of type 'tensor' has no (len)\(\)", of_python),
    (r"\bis not string()", of_python),
    (r"__setitem__ is not supported|`_semantic` argument|unsupported tensor index", indexed),
)

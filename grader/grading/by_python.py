"""Python, NumPy and torch in a Triton kernel, and what Triton has in their place.

A kernel looks like Python, and is compiled: it can't call what runs on the host, and its blocks and
pointers have no elements that brackets take. A cause is given only where the line has such a place.
"""

from __future__ import annotations

import re

from grader.evidence import SourceLine
from grader.grading.by_source import Context
from grader.grading.diagnosis import Cause

_SAME = re.compile(
    r"abs|arange|arg(?:max|min)|ceil|clamp|cos|cumsum|dot|erf|exp2?|floor|full|log2?|max(?:imum)?"
    r"|min(?:imum)?|rsqrt|sigmoid|sin|softmax|sqrt|sum|trans|where|zeros(?:_like)?"
)
_OTHER = {
    "clip": "tl.clamp",
    "fabs": "tl.abs",
    "matmul": "tl.dot",
    "mm": "tl.dot",
    "transpose": "tl.trans",
}
_NUMBERS = "float16|bfloat16|float32|float64|int8|int16|int32|int64|bool"


def _marked(context: Context, match: re.Match[str]) -> tuple[SourceLine, ...]:
    length = match.end() - match.start()
    line = context.line.rstrip()
    return (SourceLine(context.result.line or 0, line, "", match.start(), length),)


def _in_triton(name: str) -> str:
    """What to write in a kernel in the place of a function of the host."""
    if re.fullmatch(_NUMBERS, name):
        kind = name.replace("bool", "int1")
        return (
            f"The dtype is `tl.{kind}`, and `x.to(tl.{kind})` converts. A number stands as it is."
        )
    if _SAME.fullmatch(name) or name in _OTHER:
        return f"Write `{_OTHER.get(name, f'tl.{name}')}`."
    return "Compose it of what Triton has, such as `tl.exp`, `tl.sum`, `tl.where` and `+ - * /`."


def of_module(context: Context, match: re.Match[str]) -> Cause | None:
    """A function of torch, NumPy or math; `match` has the name that the module has in the file."""
    module = match[1] if match.re.groups else "math"
    used = re.search(rf"\b{module}\.(?:\w+\.)*(\w+)", context.line)
    if used is None:
        return None
    what = f"`{used[0]}` runs on the host, and a kernel can't call it"
    return Cause("of_host", what, _in_triton(used[1]), _marked(context, used))


def of_python(context: Context, match: re.Match[str]) -> Cause | None:
    """A function of Python's that takes no block: `match` has its name."""
    name = match[1]
    used = re.search(rf"(?<![\w.]){name}\s*\(\s*(\w*)", context.line)
    if used is None:
        return None
    what = f"Python's `{name}` takes no block"
    advice = _in_triton(name)
    if name in ("float", "int"):
        kind = {"float": "float32", "int": "int32"}[name]
        advice = f"Write `{used[1] or 'x'}.to(tl.{kind})`."
    elif name == "len":
        advice = "Pass the number of elements to the kernel as a parameter."
    return Cause("of_python", what, advice, _marked(context, used))


def printed(context: Context, _: re.Match[str]) -> Cause | None:
    """`print(x)`, which in a kernel needs a text before the block."""
    used = re.search(r"\bprint\s*\(\s*([\w.]+)", context.line)
    if used is None:
        return None
    what = "`print` in a kernel needs a text first, then what is to be printed"
    advice = f'Write `print("{used[1]}", {used[1]})`.'
    return Cause("printed", what, advice, _marked(context, used))


_TAKEN = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\[((?!(?:\s|:|None|,)*\])[^\[\]]+)\]")


def indexed(context: Context, _: re.Match[str]) -> Cause | None:
    """Brackets behind a pointer or a block, as of an array: `x_ptr[i]`, `y[0] = 0.0`."""
    taken = _TAKEN.search(context.line)
    if taken is None:
        return None
    name, index = taken.groups()
    is_stored = re.match(r"\s*[-+*/]?=(?!=)", context.line[taken.end() :])
    above = "\n".join(context.lines[: context.result.line])
    [*_, parameters] = ["", *re.findall(r"\bdef \w+\(([^()]*)\)", above)]
    if not re.search(rf"\b{name}\b(?!\s*:)", parameters):
        what = f"A block has no elements that brackets take: `{taken[0]}`"
        advice = "Choose elements by `tl.where`, or by the mask of a load or a store."
        return Cause("indexed", what, advice, _marked(context, taken))
    what = f"A kernel's pointer isn't an array: `{taken[0]}` doesn't reach memory"
    advice = f"Write `tl.load({name} + {index}, mask=...)`."
    if is_stored:
        advice = f"Write `tl.store({name} + {index}, value, mask=...)`."
    return Cause("indexed", what, advice, _marked(context, taken))


# A pattern of the compiler's words, and the cause that it may show.
ROWS = (
    (r"NameError: (\w+) leads to the module ", of_module),
    (r"must be real number, not tensor", of_module),
    (r"NameError: (sum|pow|sorted|any|all|round) is not defined", of_python),
    (r"\b(float|int)\(\) argument must be a .*'tensor'", of_python),
    (r"object of type 'tensor' has no (len)\(\)", of_python),
    (r"\bis not string\b", printed),
    (r"__setitem__ is not supported|`_semantic` argument|unsupported tensor index", indexed),
)

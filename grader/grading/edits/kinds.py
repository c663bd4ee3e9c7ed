"""Of which kind a function's values are, as far as its text tells: only like ones are exchanged.

The kinds: int, offsets (a block of whole numbers), pointer, mask, float, data (a block of
numbers), tensor.
"""

from __future__ import annotations

import re

_DECLARED = re.compile(
    r"\b(float4|float|double|half|__half|int|size_t|unsigned|long|bool|dim3)\b"
    r"((?:\s*(?:\*|&|const\b|__restrict__|int\b|long\b))*)\s*([^;{}()]*)"
)
_CPP = {
    **dict.fromkeys(["float", "double", "half", "__half", "float4"], "float"),
    **dict.fromkeys(["int", "size_t", "unsigned", "long"], "int"),
    "bool": "mask",
}
_TEMPLATE = re.compile(r"\b(?:int|unsigned|size_t) (\w+)(?=\s*[,>=])")
_NAME = re.compile(r"(?<![\w.\"])[A-Za-z_]\w*")
_GIVEN = re.compile(r"^[ \t]*([A-Za-z_][\w, ]*?)\s*(?:[-+*/]?=)(?!=)([^\n]+)", re.M)
_LOOP = re.compile(r"\bfor (\w+) in (?:tl\.)?(?:static_)?range\(")
# What an expression is made by, and its kind; the first that is there decides.
_MADE = (
    (
        re.compile(
            r"\btl\.(?:load|dot|exp2?|log2?|rsqrt|sqrt|sigmoid|sum|max|maximum|zeros|full|trans)\b"
        ),
        "data",
    ),
    (re.compile(r"[<>]=?|[!=]=|\btl\.where\b.*\bmask"), "mask"),
    (re.compile(r"\btl\.arange\b"), "offsets"),
)


def of_cpp(head: str, body: str, functions: frozenset[str]) -> dict[str, str]:
    """The kinds of a function's parameters, those of its template among them, and locals."""
    kinds = dict.fromkeys(_TEMPLATE.findall(head[: head.find("(")]), "int")
    for text in (*head[head.find("(") + 1 :].split(","), body):
        for match in _DECLARED.finditer(text):
            kind = "pointer" if "*" in match[2] else _CPP.get(match[1])
            declared = re.sub(r"\[[^\]]*\]", "", match[3])
            for part in re.split(r",(?![^\[]*\])", declared):
                name = re.match(r"\s*\*?\s*([A-Za-z_]\w*)\s*(?:=|$|;|:|\[)", part)
                if name and kind and name[1] not in functions:
                    kinds.setdefault(name[1], kind)
    return kinds


def of_python(
    parameters: tuple[str, ...],
    integers: frozenset[str],
    body: str,
    is_kernel: bool,
    addresses: frozenset[str],
) -> dict[str, str]:
    """The kinds of a kernel's or a launcher's parameters and locals."""
    kinds: dict[str, str] = {}
    for each in parameters:
        if not is_kernel:
            kinds[each] = "tensor"
        elif each in addresses:
            kinds[each] = "pointer"
        elif each in integers or each.isupper() or "stride" in each:
            kinds[each] = "int"
        elif re.search(r"ptr|pointer|^(?:x|y|a|b|q|k|v|out|inp?|w|o)$", each):
            kinds[each] = "pointer"
        else:
            kinds[each] = "float"
    for match in _LOOP.finditer(body):
        kinds[match[1]] = "int"
    if not is_kernel:
        shapes = re.findall(r"^[ \t]*([\w, ]+?)\s*=\s*[\w.]+\.shape\b", body, re.M)
        for names in (
            *shapes,
            *re.findall(r"^[ \t]*(\w+(?:, \w+)+) = \d[\d, ]*$", body, re.M),
            *re.findall(r"^[ \t]*(\w+) = [\w.]*(?:cdiv|numel|power_of_2|size|\d)", body, re.M),
        ):
            kinds |= dict.fromkeys(_NAME.findall(names), "int")
        return kinds
    for match in _GIVEN.finditer(body):
        for name in _NAME.findall(match[1]):
            made = "pointer" if name in addresses else of_expression(match[2], kinds)
            kinds.setdefault(name, made or "int")
    return kinds


_CONSTANT = re.compile(
    r"^(?:(?:static )?(?:constexpr|const) \w+ |#define )?([A-Z][A-Z_\d]*)(?![\w(])"
    r"(?:: tl\.constexpr)?\s*=?\s*(?:tl\.constexpr\()?([^;\n]+)",
    re.M,
)


def of_constants(code: str) -> dict[str, str]:
    """The kinds of the constants that stand in a file outside of its functions."""
    matches = _CONSTANT.finditer(code)
    return {each[1]: "float" if "." in each[2] else "int" for each in matches}


def of_expression(text: str, kinds: dict[str, str]) -> str | None:
    """The kind of an expression; None where nothing tells it."""
    for pattern, kind in _MADE:
        if pattern.search(text):
            return kind
    there = {kinds[name] for name in _NAME.findall(text) if name in kinds}
    for kind in ("pointer", "data", "mask", "offsets", "float", "int", "tensor"):
        if kind in there:
            return kind
    if re.search(r"\b(?:threadIdx|blockIdx|blockDim|gridDim|program_id|cdiv)\b|^\s*\d+\s*$", text):
        return "int"
    return "float" if re.match(r"\s*-?\d*\.\d*f?\s*$|.*\binf", text) else None

"""Parts of one line of TTIR: parentheses, types and attributes. All take linear time."""

from __future__ import annotations

import re
from typing import Any

from .errors import MalformedIR
from .ir import Op
from .types import split_list, unquoted

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ATTRIBUTE = re.compile(r"\b(\w+) = (array<i32(?:: [\d, ]+)?>|[-\w.+#:]+)")
_INTEGER = re.compile(r"-?\d{1,20}")


def enclosed(text: str, start: int) -> tuple[str, int]:
    """The text in the parentheses that open at `start`, and the position behind them."""
    depth = 0
    for place, letter in unquoted(text, start):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            return text[start + 1 : place], place + 1
    raise MalformedIR(f"{text[start : start + 40]!r} isn't closed")


def split_types(text: str) -> tuple[str, str]:
    """The text before and behind the last ` : ` outside of brackets and quotes.

    An operation without operands may have ` -> ` alone, which begins the second text.
    """
    place = text.rfind(" : ")
    if place < 0:
        return (text, "") if not text.startswith(": ") else ("", text[2:])
    if "}" not in text[place:] and '"' not in text[place:]:
        return text[:place], text[place + 3 :]
    parts = split_list(text, " : ")
    if len(parts) > 1:
        return " : ".join(parts[:-1]), parts[-1]
    before, *results = split_list(text, " -> ")
    return (before, f"-> {results[0]}") if len(results) == 1 else (text, "")


def split_arrow(text: str) -> tuple[str, str, str]:
    """The types before and behind `->` or `to`."""
    for arrow in (" -> ", " to "):
        left, separator, right = text.rpartition(arrow)
        if separator:
            return left, arrow, right
    if text.startswith("-> "):
        return "", " -> ", text[3:]
    return text, "", ""


def attributes(body: str) -> dict[str, Any]:
    """The attributes in an operation's text, with strings, numbers and arrays of them converted."""
    attributes: dict[str, Any] = {}
    if " = " not in body:
        return attributes
    strings: list[str] = []

    def keep(matched: re.Match[str]) -> str:
        strings.append(matched[0][1:-1])
        return f"#string{len(strings) - 1}"

    for key, value in _ATTRIBUTE.findall(STRING.sub(keep, body)):
        if value.startswith("#string"):
            attributes[key] = strings[int(value[7:])]
        elif value in ("true", "false"):
            attributes[key] = value == "true"
        elif _INTEGER.fullmatch(value):
            attributes[key] = int(value)
        elif value.startswith("array<"):
            attributes[key] = tuple(map(int, _INTEGER.findall(value.partition(":")[2])))
        else:
            attributes[key] = value
    return attributes


def called_name(op: Op) -> str:
    """The function that a `tt.call` calls: `@name(...)`, or `@"name"(...)`."""
    name = op.text.partition("@")[2]
    if not name:
        raise MalformedIR("a call of nothing")
    return name.split('"')[1] if name.startswith('"') else name.partition("(")[0]

"""Types of TTIR, from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .errors import LimitExceeded, MalformedIR
from .ir import Op, Type

MAX_ELEMENTS = 1 << 20  # of a block, as in Triton
_TENSOR = re.compile(r"((?:\d{1,9}x)*)(.+)", re.DOTALL)
_SCALAR = re.compile(r"[a-z]\w{0,20}")
_ELEMENT_NAMES = {"index": "i64"}


def parse_type(text: str) -> Type:
    """The type of a text. Raises MalformedIR."""
    text = text.strip()
    if text.startswith("tensor<") and text.endswith(">"):
        shape, element = _shaped(text[7:-1])
        return Type(shape, element)
    return Type((), _element(text)) if not text.startswith("!tt.") else _of_triton(text)


class TypeReader:
    """Reads types; equal texts give the same object."""

    def __init__(self) -> None:
        self._types: dict[str, Type] = {}
        self._lists: dict[str, list[Type]] = {}

    def read(self, text: str) -> Type:
        """The type of a text. Raises MalformedIR."""
        known = self._types.get(text)
        if known is None:
            known = self._types[text] = parse_type(text)
        return known

    def read_list(self, text: str) -> list[Type]:
        """The types of `f32, f32` or `(f32, f32)`. Raises MalformedIR."""
        known = self._lists.get(text)
        if known is None:
            bare = text.strip()
            if bare.startswith("(") and bare.endswith(")"):
                bare = bare[1:-1]
            known = self._lists[text] = [self.read(part.strip()) for part in split_list(bare)]
        return known


def pointer_to(text: str) -> Type:
    """A pointer's type from its pointee: "f32" or "tensor<16x16xf16>"."""
    return _of_triton(f"!tt.ptr<{text}>")


def unquoted(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """The places and letters of a text from `start` on, without strings in quotes."""
    place, quoted = start, False
    while place < len(text):
        if text[place] == '"':
            quoted = not quoted
        elif not quoted:
            yield place, text[place]
        elif text[place] == "\\":
            place += 1
        place += 1


def split_list(text: str, separator: str = ",") -> list[str]:
    """The parts between separators outside of brackets and quotes."""
    if "<" not in text and "(" not in text and '"' not in text and "[" not in text:
        return [part for part in text.split(separator) if part.strip()]
    parts, depth, start = [], 0, 0
    for place, letter in unquoted(text):
        if letter in "<([{":
            depth += 1
        elif letter in ")]}" or (letter == ">" and text[place - 1] != "-"):
            depth -= 1
        elif depth == 0 and place >= start and text.startswith(separator, place):
            parts.append(text[start:place])
            start = place + len(separator)
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _of_triton(text: str) -> Type:
    if text.startswith("!tt.ptr<") and text.endswith(">"):
        inside = split_list(text[8:-1])[0].strip()
        if inside.startswith("tensor<"):
            block = parse_type(inside)
            return Type(block.shape, f"block_ptr<{block.kind}>")
        return Type((), f"ptr<{_element(inside)}>")
    if text.startswith("!tt.tensordesc<") and text.endswith(">"):
        inside = split_list(text[15:-1])[0].strip()
        if inside.startswith("tensor<"):
            inside = inside[7:-1]
        shape, element = _shaped(split_list(inside)[0])
        return Type(shape, f"desc<{element}>")
    raise MalformedIR(f"the type {text[:80]}")


def _shaped(text: str) -> tuple[tuple[int, ...], str]:
    matched = _TENSOR.fullmatch(text.strip())
    if matched is None:
        raise MalformedIR(f"the block type {text[:80]}")
    shape = tuple(int(each) for each in matched[1].split("x")[:-1])
    size = 1
    for each in shape:
        size *= each
        if size > MAX_ELEMENTS:
            raise LimitExceeded("elements of a block", MAX_ELEMENTS)
    if 0 in shape:
        raise MalformedIR(f"the block type {text[:80]}")
    return shape, _element(split_list(matched[2])[0])


def _element(text: str) -> str:
    text = text.strip()
    pointers = 0
    while text.startswith("!tt.ptr<") and text.endswith(">"):
        text = split_list(text[8:-1])[0].strip()
        pointers += 1
        if pointers > 4:
            raise MalformedIR("a pointer to a pointer to a pointer ...")
    if not _SCALAR.fullmatch(text):
        raise MalformedIR(f"the element type {text[:80]}")
    return "ptr<" * pointers + _ELEMENT_NAMES.get(text, text) + ">" * pointers


_BOOLEAN = "i1"
_ANGLE = re.compile(r"\s*<(.*)>\s*$", re.DOTALL)


def result_types(op: Op) -> list[Type]:
    """The types of an operation's results, from its `types` where the text has them.

    Others follow from the operation and its operands.
    """
    if not op.results:
        return []
    if op.types:
        return op.types * len(op.results) if len(op.types) == 1 else op.types
    if op.name == "arith.constant" and op.text.strip() in ("true", "false"):
        return [Type((), _BOOLEAN)]
    given = op.operand_types
    if not given:
        raise MalformedIR(f"{op.name} without a type")
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return [Type(given[0].shape, _BOOLEAN)]
    if op.name == "tt.load":
        return [Type(given[0].shape, given[0].pointee)]
    if op.name in ("tt.addptr", "tt.make_tensor_ptr", "tt.advance"):
        return [given[0]]
    if op.name == "tt.make_tensor_descriptor":
        return [given[-1]]
    return [given[-1]] * len(op.results)


def _inside(text: str) -> str:
    matched = _ANGLE.match(text)
    if matched is None:
        raise MalformedIR(f"the type {text[:80]!r}")
    return matched[1]


def _block_pointer(text: str) -> list[Type]:
    return [pointer_to(_inside(text))]


def _descriptor(text: str) -> list[Type]:
    pointer, block = (_inside(part) for part in split_list(text)[:2])
    # Of a block such as 16x32xf32, or in older versions tensor<16x32xf32>.
    return [pointer_to(pointer), _of_triton(f"!tt.tensordesc<{block}>")]


# Of operations whose text leaves out types of operands.
OPERAND_TYPES: dict[str, Callable[[str], list[Type]]] = {
    "tt.make_tensor_ptr": _block_pointer,
    "tt.advance": _block_pointer,
    "tt.make_tensor_descriptor": _descriptor,
}

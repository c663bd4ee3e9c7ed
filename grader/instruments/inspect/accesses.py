"""A kernel's accesses to global memory: how many bytes an instruction moves for each thread."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from grader.instruments.inspect.sass import Instruction
from grader.instruments.inspect.statements import Place, Statement

WIDEST = 16  # bytes of a thread that one instruction moves
_WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
_KINDS: dict[str, Kind] = {"LDG": "load", "STG": "store", "LDGSTS": "load"}
_POINTERS = re.compile(
    r"\b(tt\.load|tt\.store|ttg\.async_copy_global_to_local)\b.*?: "
    r"(?:tensor<((?:\d+x)+)!tt\.ptr<(\w+)>|!tt\.ptr<(\w+)>)"
)
_BITS = re.compile(r"\d+")

Kind = Literal["load", "store"]
Key = tuple[Place, Kind]


@dataclass(frozen=True)
class Access:
    """The instructions of one line that load, or that store. `bytes` are the narrowest's."""

    place: Place
    kind: Kind
    bytes: int
    count: int  # of those
    opcode: str
    in_background: bool = False  # straight into shared memory


@dataclass(frozen=True)
class Block:
    """What a line of TTGIR accesses: so many elements of `bytes` each; 0 for a single value."""

    elements: int
    bytes: int

    def of_thread(self, threads: int) -> int:
        """How many of them each thread has."""
        return max(1, self.elements // threads)


def accesses(instructions: Iterable[Instruction]) -> list[Access]:
    """Those with a line of the submission, in the order of the lines."""
    matched: dict[Key, Counter[tuple[int, str]]] = {}
    for each in instructions:
        kind = _KINDS.get(each.parts[0])
        if kind is not None and each.place is not None:
            matched.setdefault((each.place, kind), Counter())[_width(each), each.opcode] += 1
    made = []
    for (place, kind), counts in sorted(matched.items()):
        narrowest = min(width for width, _ in counts)
        opcode = next(name for width, name in counts if width == narrowest)
        count = sum(n for (width, _), n in counts.items() if width == narrowest)
        made.append(Access(place, kind, narrowest, count, opcode, opcode.startswith("LDGSTS")))
    return made


def widths(instructions: Iterable[Instruction]) -> dict[Key, int]:
    """The bytes of the narrowest access of each line."""
    return {(each.place, each.kind): each.bytes for each in accesses(instructions)}


def _width(instruction: Instruction) -> int:
    return next((_WIDTHS[part] for part in instruction.parts[1:] if part in _WIDTHS), 4)


def blocks(ttgir: Sequence[Statement]) -> dict[Key, Block]:
    """What the lines of TTGIR access; of several accesses of a line the largest."""
    matched: dict[Key, Block] = {}
    for each in ttgir:
        match = _POINTERS.search(each.text)
        if match is None or each.place is None:
            continue
        shape = [int(size) for size in match[2].split("x") if size] if match[2] else [0]
        block = Block(math.prod(shape), _bytes(match[3] or match[4]))
        key: Key = (each.place, "store" if match[1] == "tt.store" else "load")
        if key not in matched or matched[key].elements < block.elements:
            matched[key] = block
    return matched


def _bytes(element: str) -> int:
    """The bytes of an element: 2 of bf16, 1 of f8E5M2 and i1."""
    bits = _BITS.search(element)
    return max(1, int(bits[0]) // 8) if bits else 4

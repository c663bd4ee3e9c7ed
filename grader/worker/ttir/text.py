"""Reads TTIR's text as operations, in Python: MLIR's C++ doesn't read untrusted text.

Each operation is a line, except those with regions. Text that Triton's frontend doesn't write is
MalformedIR; an operation that can't be executed is NotModelled when it is reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from .errors import NESTED, LimitExceeded, MalformedIR, NotModelled
from .ir import UNKNOWN, Block, Function, Module, Op, Type, walk
from .locations import Locations
from .names import Names
from .scanning import STRING, attributes, enclosed, split_arrow, split_types
from .types import OPERAND_TYPES, TypeReader, result_types, split_list

MAX_TEXT = 16_000_000
MAX_LINE = 1_000_000
MAX_OPERATIONS = 200_000
MAX_NESTING = 40
_CHARACTERS = "characters of IR"  # that are limited, of the text and of a line

_ALIAS = re.compile(r"(#loc\d{0,9}) = loc\((.*)\)$")
_FUNCTION = re.compile(r'tt\.func (?:(public|private|nested) )?@("(?:[^"\\]|\\.)*"|[\w$.\-]+)\(')
_OP = re.compile(r'(?:((?:%[\w$.\-:]+,? ?)+) = )?"?([a-z_]+\.[\w.]+)"?(.*)$', re.DOTALL)
_FOR = re.compile(r"\s*(unsigned )?(%\S+) = (%\S+) to (%\S+) step (%\S+)(.*)", re.DOTALL)
_PAIR = re.compile(r"(%[\w$.\-]+) = (%[\w$.\-]+(?:#\d{1,4})?)")
_BRANCH = re.compile(r"\^(\w{1,40})")


def read(text: str) -> Module:
    """The module of a text. Raises MalformedIR, NotModelled, LimitExceeded."""
    if len(text) > MAX_TEXT:
        raise LimitExceeded(_CHARACTERS, MAX_TEXT)
    try:
        functions = _Reader(text).functions()
    except (IndexError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise MalformedIR(f"can't be read ({type(error).__name__})") from None
    public = [each for each in functions.values() if each.public]
    if len(public) != 1:
        raise MalformedIR(f"{len(public)} kernels in one text")
    return Module(functions, public[0])


class _Reader:
    """Reads one text line by line; `at` is the next line."""

    def __init__(self, text: str) -> None:
        aliases: dict[str, str] = {}
        self.lines: list[str] = []
        for line in text.split("\n"):
            line = line.strip()
            if len(line) > MAX_LINE:
                raise LimitExceeded(_CHARACTERS, MAX_LINE)
            if line.startswith("#"):
                if alias := _ALIAS.match(line):
                    aliases[alias[1]] = alias[2]
            elif line:
                self.lines.append(line)
        self.at = 0
        self.operations = 0
        self.types = TypeReader()
        self.locations = Locations(aliases)
        self.names = Names()  # of the current function

    def functions(self) -> dict[str, Function]:
        functions: dict[str, Function] = {}
        open_modules = 0
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            if line.startswith("tt.func "):
                function = self._function(line)
                functions[function.name] = function
            elif line.startswith("module") and line.endswith("{"):
                open_modules += 1
            elif line.startswith("}") and open_modules:
                open_modules -= 1
            else:
                raise MalformedIR(f"{line[:80]!r} outside of a function")
        if open_modules:
            raise MalformedIR("a module without an end")
        return functions

    def _function(self, line: str) -> Function:
        matched = _FUNCTION.match(line)
        if matched is None or not line.endswith("{"):
            raise MalformedIR(f"{line[:80]!r} is no function")
        self.names = Names()
        inside, _ = enclosed(line, matched.end() - 1)
        arguments, types = self._parameters(inside)
        first = Block("", arguments, types)
        blocks = self._region(1, first)
        if not self.lines[self.at].startswith("}"):
            raise MalformedIR("a function without an end")
        self.at += 1
        name = matched[2].strip('"')
        for op in walk(blocks):
            op.used = any(slot in self.names.used for slot in op.results)
        mark_dead(blocks)
        return Function(name, types, arguments, blocks, self.names.count, matched[1] == "public")

    def _parameters(self, text: str) -> tuple[list[int], list[Type]]:
        """The slots and types of `%a: i32 loc("a"), %b: ...`."""
        slots, types = [], []
        for piece in split_list(text):
            name, _, rest = piece.strip().partition(":")
            types.append(self.types.read(rest.partition(" loc(")[0].partition(" {")[0]))
            slots.append(self.names.define(name))
        return slots, types

    # --- regions and operations ---

    def _region(self, depth: int, first: Block) -> list[Block]:
        """Blocks up to the line that closes them, which is not consumed."""
        if depth > MAX_NESTING:
            raise LimitExceeded(NESTED, MAX_NESTING)
        blocks = [first]
        branches: list[tuple[Op, list[tuple[str, list[int]]]]] = []
        while not (line := self.lines[self.at]).startswith("}"):
            self.at += 1
            if line.startswith("^"):
                self._block(line, blocks)
                continue
            op = self._op(line, depth)
            blocks[-1].ops.append(op)
            if op.name in ("cf.br", "cf.cond_br"):
                branches.append((op, op.attributes.pop("to")))
        numbers = {block.label: number for number, block in enumerate(blocks)}
        for op, targets in branches:
            op.successors = [(numbers[label], given) for label, given in targets]
        return blocks

    def _block(self, line: str, blocks: list[Block]) -> None:
        matched = _BRANCH.match(line)
        if matched is None:
            raise MalformedIR(f"the block {line[:40]!r}")
        slots: list[int] = []
        types: list[Type] = []
        if line[matched.end()] == "(":
            inside, _ = enclosed(line, matched.end())
            slots, types = self._parameters(inside)
        last = blocks[-1]
        if last.ops or last.label or last.arguments:
            blocks.append(Block(matched[1], slots, types))
        else:
            blocks[-1] = Block(matched[1], slots, types)

    def _op(self, line: str, depth: int) -> Op:
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            raise LimitExceeded("operations in a kernel", MAX_OPERATIONS)
        opens = line.endswith("{")
        place = UNKNOWN
        if not opens:
            line, place = self.locations.strip(line)
        matched = _OP.match(line)
        if matched is None:
            raise MalformedIR(f"{line[:80]!r}")
        results, name, rest = matched.groups()
        if opens:
            op = self._with_regions(name, rest, depth)
            op.results = self.names.define_results(results)
        else:
            op = self._plain(name, rest.strip(), place)
            op.results = self.names.define_results(results)
            op.types = result_types(op)
        if len(op.types) != len(op.results):
            raise MalformedIR(f"{len(op.results)} results of {len(op.types)} types: {line[:80]!r}")
        return op

    def _plain(self, name: str, rest: str, place: tuple[str, int]) -> Op:
        body, types = split_types(rest)
        op = Op(name, [], [], [], [], body, {}, place)
        if name in ("cf.br", "cf.cond_br"):
            return self._branch(op, rest)
        op.attributes = attributes(body)
        op.operands = self.names.use_all(STRING.sub('""', body))
        left, _, right = split_arrow(types)
        op.operand_types = self._operand_types(op, left)
        op.types = self.types.read_list(right) if right else []
        return op

    def _operand_types(self, op: Op, text: str) -> list[Type]:
        special = OPERAND_TYPES.get(op.name)
        if special is not None:
            return special(text)
        if " * " in text:
            text = text.replace(" * ", ", ")
        return list(self.types.read_list(text))

    def _branch(self, op: Op, rest: str) -> Op:
        head = rest.split("^", 1)[0]
        op.operands = self.names.use_all(head)
        targets = []
        for matched in _BRANCH.finditer(rest):
            given: list[int] = []
            if rest[matched.end() : matched.end() + 1] == "(":
                inside, _ = enclosed(rest, matched.end())
                given = self.names.use_all(inside.split(" : ")[0])
            targets.append((matched[1], given))
        op.attributes["to"] = targets
        return op

    def _with_regions(self, name: str, head: str, depth: int) -> Op:
        """An operation whose line ends with the brace that opens its first region."""
        op = Op(name, [], [], [], [], head.strip(), {})
        mark = self.names.mark()
        first = Block("", [], [])
        reader = self._HEADS.get(name)
        if reader is not None:
            reader(self, op, head[:-1].strip(), first)
        elif head.startswith("(") and head.rstrip().endswith("({"):
            inside, end = enclosed(head, 0)
            op.operands = self.names.use_all(inside)
            op.attributes = attributes(head[end:])
        else:
            raise NotModelled(f"operation {name}")
        while True:
            op.regions.append(self._region(depth + 1, first))
            self.names.leave(mark)
            closing = self.lines[self.at]
            self.at += 1
            first = Block("", [], [])
            if not closing.endswith("{"):
                break
        closing, op.line = self.locations.strip(closing)
        if closing.startswith("})") and ":" in closing:
            left, _, right = split_arrow(split_types(closing[2:])[1])
            op.operand_types = list(self.types.read_list(left))
            op.types = self.types.read_list(right)
        return op

    def _for(self, op: Op, head: str, first: Block) -> None:
        matched = _FOR.match(head)
        if matched is None:
            raise MalformedIR(f"the loop {head[:80]!r}")
        op.attributes["unsigned"] = bool(matched[1])
        tail = matched[6].strip()
        pairs: list[tuple[str, str]] = []
        if tail.startswith("iter_args"):
            inside, end = enclosed(tail, tail.index("("))
            pairs = _PAIR.findall(inside)
            types, end = enclosed(tail, tail.index("(", end))
            op.types = self.types.read_list(types)
            tail = tail[end:]
        kind = tail.replace(":", " ").strip() or "index"
        own, given = [each[0] for each in pairs], [each[1] for each in pairs]
        op.operands = self.names.use([matched[3], matched[4], matched[5], *given])
        first.types = [self.types.read(kind), *op.types]
        first.arguments = [self.names.define(each) for each in (matched[2], *own)]

    def _while(self, op: Op, head: str, first: Block) -> None:
        inside = ""
        if head.startswith("("):
            inside, end = enclosed(head, 0)
            head = head[end:]
        left, _, right = split_arrow(head.strip().removeprefix(":").strip())
        pairs = _PAIR.findall(inside)
        op.operands = self.names.use([each[1] for each in pairs])
        first.types, op.types = list(self.types.read_list(left)), self.types.read_list(right)
        first.arguments = [self.names.define(each[0]) for each in pairs]

    def _if(self, op: Op, head: str, first: Block) -> None:
        condition, _, types = split_arrow(head)
        op.operands = self.names.use_all(condition)
        op.types = self.types.read_list(types) if types else []

    _HEADS: ClassVar[dict[str, Callable[..., None]]] = {
        "scf.for": _for,
        "scf.while": _while,
        "scf.if": _if,
    }


def mark_dead(blocks: list[Block]) -> None:
    """Set the `dead` slots of all operations of a function, including those in regions.

    These are values that nothing needs any more after the operation. The next result reuses their
    memory, which is still in the cache.
    """
    for region in [blocks, *(each for op in walk(blocks) for each in op.regions)]:
        if len(region) == 1:
            _mark_block(region[0])


def _mark_block(block: Block) -> None:
    """In a block of straight-line code, values die at their last use.

    Those of its last operation are still needed by the block's caller.
    """
    last: dict[int, Op] = {}
    for op in block.ops:
        last.update(dict.fromkeys(op.results, op))
    last.update(dict.fromkeys(block.arguments, block.ops[0]) if block.ops else {})
    for op in block.ops:
        for slot in _slots_used(op):
            if slot in last:
                last[slot] = op
    for slot, op in last.items():
        if op is not block.ops[-1]:
            op.dead.append(slot)


def _slots_used(op: Op) -> list[int]:
    """The slots that an operation and the operations in its regions use."""
    slots = list(op.operands)
    for inner in walk([block for region in op.regions for block in region]):
        slots.extend(inner.operands)
        for _, given in inner.successors:
            slots.extend(given)
    return slots

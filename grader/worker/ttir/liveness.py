"""Finds the values that nothing needs any more after an operation.

The next result reuses their memory, which is still in the cache.
"""

from __future__ import annotations

from .ir import Block, Op


def mark(blocks: list[Block]) -> None:
    """Set the `dead` slots of all operations of a function, including those in regions."""
    pending = [blocks]
    while pending:
        region = pending.pop()
        if len(region) == 1:
            _mark(region[0])
        for block in region:
            for op in block.ops:
                pending.extend(op.regions)


def _mark(block: Block) -> None:
    """In a block of straight-line code, values die at their last use.

    Those of its last operation are still needed by the block's caller.
    """
    last: dict[int, Op] = {}
    for op in block.ops:
        last.update(dict.fromkeys(op.results, op))
    last.update(dict.fromkeys(block.arguments, block.ops[0]) if block.ops else {})
    for op in block.ops:
        for slot in _used(op):
            if slot in last:
                last[slot] = op
    for slot, op in last.items():
        if op is not block.ops[-1]:
            op.dead.append(slot)


def _used(op: Op) -> list[int]:
    """The slots that an operation and the operations in its regions use."""
    slots = list(op.operands)
    pending = list(op.regions)
    while pending:
        for block in pending.pop():
            for inner in block.ops:
                slots.extend(inner.operands)
                for _, given in inner.successors:
                    slots.extend(given)
                pending.extend(inner.regions)
    return slots

"""Facts about a kernel that are known before it is executed."""

from __future__ import annotations

from dataclasses import dataclass

from .ir import Module, Op, walk
from .scanning import called_name


@dataclass(frozen=True)
class Facts:
    """The sizes of a kernel's blocks, and how its programs have to run."""

    widest: int  # elements of the largest block
    average: int
    waits: bool  # a loop may run until another program changes memory
    tiles: list[tuple[Op, int]]  # operations that make blocks, and the blocks' sizes


def facts_of(module: Module) -> Facts:
    """The facts of a module, which caches them. Raises MalformedIR."""
    if isinstance(module.facts, Facts):
        return module.facts
    widest, waits = 1, False
    tiles: list[tuple[Op, int]] = []
    for function in module.functions.values():
        for op in walk(function.blocks):
            for declared in op.types:
                widest = max(widest, declared.size)
                if declared.shape:
                    tiles.append((op, declared.size))
            for declared in op.operand_types:
                widest = max(widest, declared.size)
            if op.name == "scf.while":
                waits = waits or _reads_memory(op, module, set())
            waits = waits or op.name == "tt.atomic_poll"
    sizes = [size for _, size in tiles]
    module.facts = facts = Facts(widest, max(1, sum(sizes) // max(1, len(sizes))), waits, tiles)
    return facts


def _reads_memory(op: Op, module: Module, visited: set[str]) -> bool:
    """Whether a loop may wait for others: by atomics, or by loads that stay at one address."""
    blocks = [block for region in op.regions for block in region]
    inside = walk(blocks)
    made = {slot for block in blocks for slot in block.arguments}
    for inner in inside:
        made.update(inner.results)
        made.update(*(block.arguments for region in inner.regions for block in region))
    for inner in inside:
        if inner.name.startswith("tt.atomic_"):
            return True
        if inner.name == "tt.load":
            volatile = inner.attributes.get("isVolatile")
            if volatile or not made.intersection(inner.operands[:1]):
                return True
        if inner.name == "tt.call":
            called = module.functions.get(called_name(inner))
            if called is not None and called.name not in visited:
                visited.add(called.name)
                whole = Op("", [], [], [], [], "", {}, regions=[called.blocks])
                if _reads_memory(whole, module, visited):
                    return True
    return False

"""Inline assembly of kernels (tl.inline_asm_elementwise): float32 arithmetic on single elements.

Waits for other grids, which Triton writes so up to 3.7, do nothing: those grids have ended.
Everything else that isn't in the table below is NotModelled. The semantics are those of NVIDIA's
"PTX ISA"; `.ftz` flushes nothing, and `.approx` is exact but for tanh, whose result has 16 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .arithmetic import elementwise
from .errors import NotModelled
from .ir import Op
from .registry import Run, operation
from .scanning import STRING
from .structure import defined


def _tanh(x: np.ndarray) -> np.ndarray:
    bits = np.tanh(x).view(np.uint32)
    rounded: np.ndarray = (bits + np.uint32(0x80)) & np.uint32(0xFFFFFF00)
    return rounded.view(np.float32)


def _nearest_tf32(x: np.ndarray) -> np.ndarray:
    """float32 rounded to 10 bits of mantissa, ties away from zero."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32) + np.uint32(0x1000)
    return np.where(np.isfinite(x), (bits & np.uint32(0xFFFFE000)).view(np.float32), x)


_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "mov": np.asarray, "neg": np.negative, "abs": np.abs, "min": np.fmin, "max": np.fmax,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "fma": lambda a, b, c: np.multiply(a, b, dtype=np.float64) + c,
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": _tanh,
    "rcp": np.reciprocal, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a),
    "cvt.rna.tf32": _nearest_tf32,
}  # fmt: skip
_OPCODE = re.compile(r"(cvt\.rna\.tf32|\w+)(?:\.(?:rn|approx|full))?(?:\.ftz)?\.[bf]32")
_REGISTERS = re.compile(r"\.reg\s*\.[bf]32\s+([\w, ]+)")
_CONSTANT = re.compile(r"0[fF]([0-9a-fA-F]{8})")
_OF_GRIDS = re.compile(r"griddepcontrol\.(?:wait|launch_dependents) ?;")
_NOT_TEXT = re.compile(r"//.*?(?:\\0A|$)|\\0[9AD]")  # comments, and white space as MLIR escapes it


@operation("tt.elementwise_inline_asm")
def _assembly(op: Op) -> Run:
    kinds = [each.kind for each in (*op.types, *op.operand_types)]
    quoted = STRING.search(op.text)
    text = " ".join(_NOT_TEXT.sub(" ", quoted[0][1:-1] if quoted else "").split())
    if _OF_GRIDS.fullmatch(text) and kinds == ["i32"]:
        nothing = np.zeros((1, *op.types[0].shape), np.int32)
        return defined(op, lambda _: nothing)
    # A float32 lies in a register of 32 bits, whether the constraint is "f" or "r".
    constraints = str(op.attributes.get("constraints")).replace(" ", "").replace("r", "f")
    given = constraints, op.attributes.get("packed_element"), set(kinds)
    if len(op.types) != 1 or given != (",".join(["=f", *"f" * (len(kinds) - 1)]), 1, {"f32"}):
        raise _lacking(text)
    known, targets, steps = {f"${number}" for number in range(1, len(kinds))}, {"$0"}, []
    constants: dict[str, np.ndarray] = {}
    for each in filter(None, (part.strip() for part in text.strip("{} ").split(";"))):
        if declared := _REGISTERS.fullmatch(each):
            targets |= {name.strip() for name in declared[1].split(",")}
            continue
        opcode, _, rest = each.partition(" ")
        to, *sources = [name.strip() for name in rest.split(",")]
        matched = _OPCODE.fullmatch(opcode)
        function = _FUNCTIONS.get(matched[1]) if matched else None
        for name in filter(_CONSTANT.fullmatch, sources):
            constants[name] = np.array([int(name[2:], 16)], np.uint32).view(np.float32)
        if function is None or to not in targets or not known.union(constants).issuperset(sources):
            raise _lacking(each)
        known.add(to)
        steps.append((function, to, sources))
    if "$0" not in known:
        raise _lacking(text)

    def run(*values: np.ndarray) -> np.ndarray:
        registers = constants | {f"${number}": value for number, value in enumerate(values, 1)}
        for function, to, sources in steps:
            result = function(*(registers[name] for name in sources))
            registers[to] = result.astype(np.float32, copy=False)
        return registers["$0"]

    return elementwise(op, run)


def _lacking(text: str) -> NotModelled:
    return NotModelled(f"inline assembly (tl.inline_asm_elementwise): {text[:60]}")

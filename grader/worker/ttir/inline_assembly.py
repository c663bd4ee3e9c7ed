"""Inline assembly of kernels (tl.inline_asm_elementwise): arithmetic on one element at a time.

Everything that isn't in the table below is NotModelled: memory, special registers, several elements
in one register. The semantics are those of NVIDIA's "PTX ISA"; `.ftz` flushes nothing, and `.approx`
is exact but for tanh, whose result has 11 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .arithmetic import elementwise
from .errors import NotModelled
from .ir import Op
from .registry import Run, operation

_TYPES = {
    **{"u32": np.uint32, "s32": np.int32, "b32": np.uint32, "f32": np.float32, "pred": np.bool_},
    **{"u64": np.uint64, "s64": np.int64, "b64": np.uint64, "f64": np.float64},
}
_KINDS = {"f32": "f", "i32": "r", "f64": "d", "i64": "l"}  # with the constraints of their registers
_FLOAT, _INTEGER, _BITS = "f(?:32|64)", "[us](?:32|64)", "b(?:32|64)"
_MODES = r"(?:\.rn)?(?:\.ftz)?"


def _tanh(x: np.ndarray) -> np.ndarray:
    bits = np.tanh(x).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    exact = np.multiply(a, b, dtype=np.longdouble) + c
    return exact.astype(a.dtype)


def _shifted(
    by: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def function(a: np.ndarray, count: np.ndarray) -> np.ndarray:
        bits = 8 * a.dtype.itemsize
        beyond = np.where((a < 0) & (by is np.right_shift), -1, 0).astype(a.dtype)
        return np.where(count < bits, by(a, np.minimum(count, bits - 1).astype(a.dtype)), beyond)

    return function


_Function = Callable[..., np.ndarray]
_INSTRUCTIONS: tuple[tuple[str, _Function], ...] = (
    (rf"mov\.(?:{_BITS}|{_INTEGER}|{_FLOAT}|pred)", lambda a: a),
    (rf"add(?:{_MODES}\.{_FLOAT}|\.{_INTEGER})", np.add),
    (rf"sub(?:{_MODES}\.{_FLOAT}|\.{_INTEGER})", np.subtract),
    (rf"mul(?:{_MODES}\.{_FLOAT}|\.lo\.{_INTEGER})", np.multiply),
    (rf"mad\.lo\.{_INTEGER}", lambda a, b, c: a * b + c),
    (rf"(?:fma|mad)\.rn(?:\.ftz)?\.{_FLOAT}", _fused),
    (rf"div\.(?:rn|full|approx)(?:\.ftz)?\.{_FLOAT}", np.divide),
    (rf"min(?:(?:\.ftz)?\.{_FLOAT}|\.{_INTEGER})", np.fmin),
    (rf"max(?:(?:\.ftz)?\.{_FLOAT}|\.{_INTEGER})", np.fmax),
    (rf"neg(?:(?:\.ftz)?\.{_FLOAT}|\.s(?:32|64))", np.negative),
    (rf"abs(?:(?:\.ftz)?\.{_FLOAT}|\.s(?:32|64))", np.abs),
    (r"ex2\.approx(?:\.ftz)?\.f32", np.exp2),
    (r"lg2\.approx(?:\.ftz)?\.f32", np.log2),
    (r"sin\.approx(?:\.ftz)?\.f32", np.sin),
    (r"cos\.approx(?:\.ftz)?\.f32", np.cos),
    (r"tanh\.approx\.f32", _tanh),
    (r"rcp\.(?:rn|approx)(?:\.ftz)?\.f32", lambda a: 1 / a),
    (r"rsqrt\.approx(?:\.ftz)?\.f32", lambda a: 1 / np.sqrt(a)),
    (r"sqrt\.(?:rn|approx)(?:\.ftz)?\.f32", np.sqrt),
    (rf"and\.(?:{_BITS}|pred)", np.bitwise_and),
    (rf"or\.(?:{_BITS}|pred)", np.bitwise_or),
    (rf"xor\.(?:{_BITS}|pred)", np.bitwise_xor),
    (rf"not\.(?:{_BITS}|pred)", np.invert),
    (rf"shl\.{_BITS}", _shifted(np.left_shift)),
    (rf"shr\.(?:{_BITS}|{_INTEGER})", _shifted(np.right_shift)),
    (rf"setp\.eq\.(?:{_BITS}|{_INTEGER}|{_FLOAT})", np.equal),
    (rf"setp\.lt\.(?:{_INTEGER}|{_FLOAT})", np.less),
    (rf"setp\.le\.(?:{_INTEGER}|{_FLOAT})", np.less_equal),
    (rf"setp\.gt\.(?:{_INTEGER}|{_FLOAT})", np.greater),
    (rf"setp\.ge\.(?:{_INTEGER}|{_FLOAT})", np.greater_equal),
    (rf"selp\.(?:{_BITS}|{_INTEGER}|{_FLOAT})", lambda a, b, chosen: np.where(chosen, a, b)),
)
_Registers = dict[str, np.ndarray]
_Step = Callable[[_Registers], None]


def _lacking(what: str) -> NotModelled:
    return NotModelled(f"inline assembly (tl.inline_asm_elementwise): {what[:60]}")


def _as(dtype: Any, value: np.ndarray) -> np.ndarray:
    return value if value.dtype == dtype else np.ascontiguousarray(value).view(dtype)


def _source(argument: str, kind: str, known: set[str]) -> Callable[[_Registers], np.ndarray]:
    dtype = _TYPES[kind]
    if argument in known:
        return lambda registers: _as(dtype, registers[argument])
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", argument) and kind == "f32":
        number = int(argument[2:], 16)
    elif re.fullmatch(r"-?(?:[1-9]\d{0,9}|0|0x[0-9a-fA-F]{1,8})", argument) and kind[0] in "usb":
        number = int(argument, 0)
    else:
        raise _lacking(f"the operand {argument}")
    size = np.dtype(dtype).itemsize
    constant = np.array([number % (1 << 8 * size)], f"u{size}").view(dtype)
    return lambda _: constant


def _step(instruction: str, known: set[str], targets: set[str]) -> _Step:
    opcode, _, rest = instruction.partition(" ")
    to, *arguments = [each.strip() for each in rest.split(",")]
    function = next((f for pattern, f in _INSTRUCTIONS if re.fullmatch(pattern, opcode)), None)
    if function is None or to not in targets:
        raise _lacking(instruction)
    kind = opcode.rpartition(".")[2]
    kinds = [kind] * len(arguments)
    if opcode.startswith("sh"):
        kinds[-1] = "u32"
    if opcode.startswith("selp"):
        kinds[-1] = "pred"
    try:
        sources = [_source(a, k, known) for a, k in zip(arguments, kinds, strict=True)]
    except KeyError:
        raise _lacking(instruction) from None
    known.add(to)

    def run(registers: _Registers) -> None:
        with np.errstate(all="ignore"):
            registers[to] = np.asarray(function(*(source(registers) for source in sources)))

    return run


def _program(text: str, constraints: list[str]) -> list[_Step]:
    text = " ".join(re.sub(r"//[^\n]*", " ", text).split())
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    known = {f"${number}" for number in range(1, len(constraints))}
    targets = {"$0"}
    steps = []
    for each in filter(None, (part.strip() for part in text.split(";"))):
        if declared := re.fullmatch(r"\.reg\s*\.(\w+)\s+([\w, ]+)", each):
            targets |= {name.strip() for name in declared[2].split(",")}
        else:
            steps.append(_step(each, known, targets))
    if "$0" not in known:
        raise _lacking("no result")
    return steps


@operation("tt.elementwise_inline_asm")
def _assembly(op: Op) -> Run:
    types = [op.types[0], *op.operand_types]
    constraints = str(op.attributes.get("constraints", "")).split(",")
    if len(op.types) != 1 or int(op.attributes.get("packed_element", 0)) != 1:
        raise _lacking("several results, or several elements in a register")
    registers = [_KINDS.get(each.kind, "") for each in types]
    if constraints != ["=" + registers[0], *registers[1:]]:
        raise _lacking(f"the constraints {op.attributes.get('constraints')}")
    steps = _program(str(op.attributes["assembly"]), constraints)
    wanted = _TYPES[types[0].kind.replace("i", "s")]

    def function(*values: np.ndarray) -> np.ndarray:
        registers = {f"${number}": value for number, value in enumerate(values, 1)}
        for step in steps:
            step(registers)
        return _as(wanted, registers["$0"])

    return elementwise(op, function)

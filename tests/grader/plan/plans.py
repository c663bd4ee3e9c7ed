"""Plans by hand, for the tests of what reads, judges and shows them."""

from __future__ import annotations

import json
from typing import Any

KERNEL: dict[str, Any] = {
    "file": "silu.py",
    "line": 9,
    "function": "silu_kernel",
    "hash": "0" * 64,
    "signature": {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
    "constants": {"BLOCK": 1024},
    "attributes": {},
    "bindings": {"tl": {"module": "triton.language"}},
    "options": {"num_warps": 4},
}


def view(buffer: int, *shape: int, **changed: Any) -> dict[str, Any]:
    """A contiguous float32 view of a buffer."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    made = {"buffer": buffer, "dtype": "float32", "shape": shape, "strides": strides, "offset": 0}
    return made | changed


def launch(*buffers: int, **changed: Any) -> dict[str, Any]:
    """A launch of KERNEL on pointers to buffers."""
    arguments: list[Any] = [{"pointer": [buffer, 0]} for buffer in buffers]
    arguments.append({"scalar": "00040000", "type": "i32"})
    made = {"do": "launch", "specialisation": 0, "grid": [1, 1, 1], "arguments": arguments}
    return made | {"line": 22} | changed


def plan(*steps: dict[str, Any], scratch: tuple[int, ...] = (), **changed: Any) -> str:
    """A plan of an entry (x, out), each of 1024 float32, with scratch buffers of so many bytes."""
    buffers: list[dict[str, Any]] = [
        {"bytes": 4096, "kind": "argument", "argument": 0},
        {"bytes": 4096, "kind": "argument", "argument": 1},
        *({"bytes": size, "kind": "device", "line": 20} for size in scratch),
    ]
    made = {
        "version": 1,
        "language": "triton",
        "buffers": buffers,
        "specialisations": [KERNEL],
        "calls": [list(steps)],
    }
    return json.dumps(made | changed)


ARGUMENTS = (4096, 4096)  # bytes, as the reader wants to know them

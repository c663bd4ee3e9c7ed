"""A buffer of an unfinished plan, and its address for host code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.multiprocessing.reductions import StorageWeakRef

# Buffer n begins at ADDRESS_BASE + ((n + 1) << ADDRESS_BITS). No size and no flag is such a number,
# so an integer argument that is one counts as a pointer. While kernels run, buffers lie elsewhere.
ADDRESS_BITS = 40
ADDRESS_BASE = 0x15B << 54


@dataclass(eq=False)
class Buffer:
    """Memory of the device, or a host argument's, in a plan."""

    bytes: int
    slot: int  # determines its address
    storage: StorageWeakRef
    kind: str = "device"
    argument: int | None = None
    line: int = 0
    number: int = -1  # in the plan, once it is written
    is_live: bool = True  # the plan hasn't released it yet

    @property
    def is_expired(self) -> bool:
        """Whether the submission has no reference to its memory any more."""
        return bool(self.storage.expired())  # type: ignore[no-untyped-call]

    @property
    def address(self) -> int:
        """The address of its first byte, aligned as on a GPU and far from other buffers."""
        return ADDRESS_BASE + ((self.slot + 1) << ADDRESS_BITS)

    def to_json(self) -> dict[str, Any]:
        """The buffer as a plan lists it."""
        return {
            "bytes": self.bytes,
            "argument": self.argument,
            "kind": self.kind,
            "name": "",
            "line": self.line,
        }

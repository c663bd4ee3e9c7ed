"""A buffer of a plan that is being made, and the address that host code sees of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.multiprocessing.reductions import StorageWeakRef

# Buffer n begins at ADDRESS_BASE + ((n + 1) << ADDRESS_BITS). No size and no flag is such a number:
# an integer argument that is one is taken for a pointer. While kernels run, buffers lie elsewhere.
ADDRESS_BITS = 40
ADDRESS_BASE = 0x15B << 54


@dataclass(eq=False)
class Buffer:
    """Memory of the device (or a host argument's) that a plan names."""

    bytes: int
    slot: int  # tells its address
    storage: StorageWeakRef
    kind: str = "device"
    argument: int | None = None
    line: int = 0
    number: int = -1  # in the plan, once it is written
    is_live: bool = True  # whether the plan hasn't released it yet

    @property
    def is_expired(self) -> bool:
        """Whether nothing of the submission's leads to its memory any more."""
        return bool(self.storage.expired())  # type: ignore[no-untyped-call]

    @property
    def address(self) -> int:
        """The address of its first byte, aligned as on a GPU and as far from other buffers."""
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

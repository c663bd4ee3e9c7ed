"""The device memory of a plan: its buffers, and their torch storages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .buffers import ADDRESS_BASE, ADDRESS_BITS, Buffer
from .errors import PlanLimit, TooMuchMemory
from .steps import Steps

# The grader's reader has the same limits (grader/plan/) and would refuse larger plans.
MAX_BUFFERS = 4096
MAX_DEVICE_BYTES = 2 << 30  # allocated at a time, without the arguments

_is_expired = torch.UntypedStorage._expired


@dataclass(eq=False)
class DeviceMemory:
    """The buffers of a plan; allocations and releases become steps of it."""

    steps: Steps
    buffers: list[Buffer] = field(default_factory=list)
    imported: tuple[Buffer, ...] = ()  # made by the submission's import
    _arguments_known: bool = False
    _of_storage: dict[int, Buffer] = field(default_factory=dict)
    _early: list[Buffer] = field(default_factory=list)  # made before the arguments
    _live: list[Buffer] = field(default_factory=list)  # on the device, and not released
    _device_bytes: int = 0

    def for_plan(self, steps: Steps) -> DeviceMemory:
        """A plan's initial memory, from the import's."""
        return replace(
            self,
            steps=steps,
            buffers=[*self.buffers],
            imported=tuple(self.buffers),
            _of_storage={**self._of_storage},
            _early=[],
            _live=[*self._live],
        )

    def register(self, storage: Any, **fields: Any) -> Buffer:
        """A buffer for a new storage. Raises PlanLimit."""
        if len(self.buffers) >= MAX_BUFFERS:
            raise PlanLimit(
                f"the launcher allocates more than {MAX_BUFFERS:,} tensors",
                "Allocate one tensor and take views of it.",
            )
        early = 0 if self._arguments_known else MAX_BUFFERS  # their numbers aren't known yet
        slot = early + len(self.buffers)
        values = {"bytes": storage.nbytes(), "slot": slot, "line": self.steps.caller()} | fields
        reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        buffer = Buffer(**values, storage=reference)
        self.buffers.append(buffer)
        if buffer.kind == "device":
            self._live.append(buffer)
        self._of_storage[buffer.storage.cdata] = buffer
        return buffer

    def find(self, tensor: torch.Tensor) -> Buffer | None:
        """The buffer of a tensor; None where the plan doesn't know it yet."""
        return self._of_storage.get(tensor.untyped_storage()._cdata)

    def allocate(self, tensor: torch.Tensor) -> Buffer:
        """A buffer for a new device tensor. Raises PlanLimit."""
        self.release_dead()
        buffer = self.register(tensor.untyped_storage())
        self._device_bytes += buffer.bytes
        if self._device_bytes > MAX_DEVICE_BYTES:
            raise TooMuchMemory(
                f"the launcher has {self._device_bytes:,} bytes allocated at a time; "
                f"at most {MAX_DEVICE_BYTES:,} are allowed"
            )
        self.steps.add("alloc", buffer=buffer)
        return buffer

    def release_dead(self) -> None:
        """Note the release of buffers whose tensors are gone."""
        # Asked of each live buffer at each allocation: StorageWeakRef takes four times as long. An
        # earlier plan may have released a buffer of the import, which both begin with.
        dead = [each for each in self._live if each.is_live and _is_expired(each.storage.cdata)]
        for buffer in dead:
            buffer.is_live = False
            self._live.remove(buffer)
            # Once the weak reference is dead, another storage may get the address.
            self._of_storage.pop(buffer.storage.cdata, None)
            self._device_bytes -= buffer.bytes
            self.steps.add("free", buffer=buffer)

    def survivors(self) -> set[int]:
        """The storages that this plan allocated and the submission has kept."""
        return {
            buffer.storage.cdata
            for buffer in self.buffers
            if buffer not in self.imported and not buffer.is_expired
        }

    def at(self, address: int) -> tuple[Buffer, int] | None:
        """The buffer at an address and the byte in it."""
        if address < ADDRESS_BASE:
            return None
        slot = ((address - ADDRESS_BASE) >> ADDRESS_BITS) - 1
        offset = address & ((1 << ADDRESS_BITS) - 1)
        for buffer in self.buffers:
            if buffer.slot == slot and offset <= buffer.bytes:
                return buffer, offset
        return None

    def begin_arguments(self) -> None:
        """Begin to register arguments, which a plan lists first."""
        self._arguments_known = True
        self._early, self.buffers = self.buffers, []

    def begin_calls(self) -> None:
        """End the arguments; the import's buffers follow them."""
        self.buffers += self._early

"""The plan as it is being made: buffers, steps and specialisations, and what bounds them."""

from __future__ import annotations

import base64
import gc
import json
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .buffers import ADDRESS_BASE, ADDRESS_BITS, Buffer
from .errors import PlanLimit, TooManyLaunches, TooMuchMemory
from .pruning import prune

# The same numbers bound what the grader reads (grader/plan/): beyond them it would refuse the plan.
MAX_STEPS = 20_000  # of one call
MAX_BUFFERS = 4096
MAX_SPECIALISATIONS = 256
MAX_LAUNCHES = 4096  # of one call
MAX_DEVICE_BYTES = 2 << 30  # allocated at a time, beside the arguments
MAX_UPLOAD_BYTES = 64 << 10  # of one call
MAX_PRINTED = 16_384  # characters
MAX_RETURNED = 80  # characters of what says what the entry gave back

_A_GRID = "Give the kernel a grid instead of looping over launches."


@dataclass(eq=False)
class Recorder:
    """What a plan has noted so far. Steps hold Buffers until the plan is written.

    A planner has one for the import of the submission, and of that one (`next_plan`) another for
    each plan.
    """

    path: str  # of the submission's file
    imported: Recorder | None = None  # what the import noted, of a plan's
    keeps_state: bool = False  # whether the plan relies on what an earlier one left
    buffers: list[Buffer] = field(default_factory=list)
    steps: list[dict] = field(default_factory=list)  # those of the call that is going on
    specialisations: list[dict] = field(default_factory=list)
    trial: int = -1  # the tuning that launches belong to
    trials: int = 0
    stream: int = 0  # the current one
    streams: int = 1
    events: int = 0
    recorded: set[int] = field(default_factory=set)  # events
    arguments_known: bool = False
    _of_storage: dict[int, Buffer] = field(default_factory=dict)
    _keys: dict[str, int] = field(default_factory=dict)
    _early: list[Buffer] = field(default_factory=list)  # made before the arguments were there
    _device_bytes: int = 0
    _launches: int = 0  # of this call, as are the next
    _uploaded: int = 0
    _kept: list[Buffer] = field(default_factory=list)  # by the import
    _plans: list[Recorder] = field(default_factory=list)  # those whose buffers are still there

    def next_plan(self) -> Recorder:
        """A Recorder that knows what the import noted, and nothing of other plans but what is left.

        What an earlier plan allocated and the submission has kept belongs to no later plan; one
        that uses it `keeps_state`.
        """
        self._plans = [plan for plan in self._plans if plan.survivors()]
        plan = replace(
            self,
            imported=self,
            keeps_state=any(each.storage.expired() for each in self._kept),
            buffers=[*self.buffers],
            steps=[*self.steps],
            specialisations=[*self.specialisations],
            recorded={*self.recorded},
            _of_storage={**self._of_storage},
            _keys={**self._keys},
            _early=[],
            _plans=[],
        )
        self._plans.append(plan)
        return plan

    def survivors(self) -> set[int]:
        """The storages that this plan allocated and the submission has kept."""
        return {
            buffer.storage.cdata
            for buffer in self.buffers
            if buffer not in self.imported.buffers and not buffer.storage.expired()
        }

    def knows_owner(self, owner: Recorder | None) -> None:
        """Note the use of a stream or an event that `owner` numbered."""
        if owner is not None and owner is not self and owner is not self.imported:
            self.keeps_state = True

    # --- buffers ----------------------------------------------------------------------------------

    def register(self, storage: Any, **fields: Any) -> Buffer:
        """A buffer for a storage that has none yet. Raises PlanLimit."""
        if len(self.buffers) >= MAX_BUFFERS:
            raise PlanLimit(
                f"the launcher allocates more than {MAX_BUFFERS:,} tensors",
                "Allocate one tensor and take views of it.",
            )
        early = 0 if self.arguments_known else MAX_BUFFERS  # what numbers they get isn't known
        slot = early + len(self.buffers)
        values = {"bytes": storage.nbytes(), "slot": slot, "line": self.caller()} | fields
        buffer = Buffer(**values, storage=StorageWeakRef(storage))
        self.buffers.append(buffer)
        self._of_storage[buffer.storage.cdata] = buffer
        return buffer

    def buffer(self, tensor: torch.Tensor) -> Buffer:
        """The buffer that a device tensor lies in; one seen for the first time is allocated."""
        storage = tensor.untyped_storage()
        known = self._of_storage.get(storage._cdata)
        if known is not None:
            return known
        if self.imported is not None:
            earlier = (plan for plan in self.imported._plans if plan is not self)
            if any(storage._cdata in plan.survivors() for plan in earlier):
                self.keeps_state = True
        self.release_dead()
        buffer = self.register(storage)
        self._device_bytes += buffer.bytes
        if self._device_bytes > MAX_DEVICE_BYTES:
            raise TooMuchMemory(
                f"the launcher has {self._device_bytes:,} bytes allocated at a time; "
                f"at most {MAX_DEVICE_BYTES:,} are allowed"
            )
        self.add("alloc", buffer=buffer)
        return buffer

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in a buffer of the plan already."""
        return tensor.untyped_storage()._cdata in self._of_storage

    def release_dead(self) -> None:
        """Note the release of buffers whose tensors are gone."""
        for buffer in self.buffers:
            if buffer.is_live and buffer.kind == "device" and buffer.storage.expired():
                buffer.is_live = False
                # Its address may be used for another storage once the weak reference is gone.
                self._of_storage.pop(buffer.storage.cdata, None)
                self._device_bytes -= buffer.bytes
                self.add("free", buffer=buffer)

    def at(self, address: int) -> tuple[Buffer, int] | None:
        """The buffer that an address lies in and the byte in it."""
        slot = ((address - ADDRESS_BASE) >> ADDRESS_BITS) - 1
        offset = address & ((1 << ADDRESS_BITS) - 1)
        for buffer in self.buffers:
            if buffer.slot == slot and offset <= buffer.bytes:
                return buffer, offset
        return None

    def view(self, tensor: torch.Tensor) -> dict:
        """A tensor as a plan names it."""
        buffer = self.buffer(tensor)
        return {
            "buffer": buffer,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "offset": tensor.storage_offset(),
        }

    # --- steps ------------------------------------------------------------------------------------

    def add(self, do: str, **fields: Any) -> dict:
        """Note a step, with the line of the submission that asks for it. Raises PlanLimit."""
        if len(self.steps) >= MAX_STEPS:
            what = f"the launcher asks for more than {MAX_STEPS:,} launches, copies and fills"
            raise PlanLimit(f"{what} in one call", _A_GRID)
        step = {"do": do, **fields, "line": self.caller()}
        if do in ("fill", "copy"):
            step["stream"] = self.stream
        self.steps.append(step)
        self._launches += do == "launch"
        if self._launches > MAX_LAUNCHES:
            what = f"the launcher makes more than {MAX_LAUNCHES:,} launches in one call"
            raise TooManyLaunches(what, _A_GRID)
        return step

    def check_upload(self, size: int) -> None:
        """Raises PlanLimit where so many bytes more are too many for one call."""
        if self._uploaded + size > MAX_UPLOAD_BYTES:
            raise PlanLimit(
                f"{self._uploaded + size:,} bytes go from the launcher to the device in one call; "
                f"at most {MAX_UPLOAD_BYTES:,} may",
                "Compute them in a kernel.",
            )

    def upload(self, to: torch.Tensor, data: bytes) -> None:
        """Note that bytes of the launcher's own go to a tensor. Raises PlanLimit."""
        self.check_upload(len(data))
        self._uploaded += len(data)
        encoded = base64.b64encode(data).decode()
        self.add("upload", to=self.view(to), data=encoded, pointers=list(self._addresses(data)))

    def _addresses(self, data: bytes) -> Iterable[list]:
        """Addresses of buffers among bytes: (place in them, buffer, byte in it)."""
        for index, (word,) in enumerate(struct.iter_unpack("<Q", data[: len(data) // 8 * 8])):
            target = self.at(word) if word >= ADDRESS_BASE else None
            if target is not None:
                yield [8 * index, *target]

    def specialisation(self, described: dict) -> int:
        """The number of a specialisation. Raises PlanLimit."""
        key = json.dumps(described, sort_keys=True)
        if key not in self._keys:
            if len(self.specialisations) >= MAX_SPECIALISATIONS:
                raise PlanLimit(
                    f"the kernels are launched in more than {MAX_SPECIALISATIONS} specialisations, "
                    "each of which is compiled",
                    "Pass what changes from launch to launch as an argument, not as a constexpr.",
                )
            self._keys[key] = len(self.specialisations)
            self.specialisations.append(described)
        return self._keys[key]

    # --- calls ------------------------------------------------------------------------------------

    def end_import(self) -> None:
        """The submission is loaded: what it has allocated and kept belongs to each plan."""
        gc.collect()
        self.release_dead()
        self._kept = [buffer for buffer in self.buffers if buffer.is_live]

    def begin_arguments(self) -> None:
        """What is registered from here on are the arguments, which a plan lists first."""
        self.arguments_known = True
        self._early, self.buffers = self.buffers, []

    def begin_calls(self) -> None:
        """The arguments are known; buffers made at import follow them."""
        self.buffers += self._early

    def end_call(self) -> list[dict]:
        """The steps of the call that has ended."""
        gc.collect()  # so that what is released doesn't depend on when the collector runs
        self.release_dead()
        steps, self.steps = self.steps, []
        self._launches = self._uploaded = 0
        return steps

    def caller(self) -> int:
        """The line of the submission's file that is being executed, 0 where it isn't."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.path:
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def to_json(self, calls: list[list[dict]], printed: str, returned: str = "") -> dict:
        """The whole plan."""
        plan = prune(
            self.buffers,
            self.imported.buffers,
            self.specialisations,
            calls,
            len(self.imported.steps),
        )
        for number, buffer in enumerate(plan.buffers):
            buffer.number = number
        return {
            "version": 1,
            "language": "triton",
            "buffers": [buffer.to_json() for buffer in plan.buffers],
            "specialisations": plan.specialisations,
            "calls": [[_numbered(step) for step in call] for call in plan.calls],
            "printed": printed[:MAX_PRINTED],
            "returned": returned,
        }


def _numbered(value: Any) -> Any:
    """A step with numbers in place of Buffers."""
    if isinstance(value, Buffer):
        return value.number
    if isinstance(value, dict):
        return {key: _numbered(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_numbered(each) for each in value]
    return value

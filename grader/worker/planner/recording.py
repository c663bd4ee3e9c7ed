"""An unfinished plan: its memory, steps and specialisations, with their limits."""

from __future__ import annotations

import base64
import gc
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .buffers import Buffer
from .errors import PlanLimit
from .memory import DeviceMemory
from .steps import Step, Steps

# The grader's reader has the same limits (grader/plan/) and would refuse larger plans.
MAX_SPECIALISATIONS = 256
MAX_PRINTED = 16_384  # characters
MAX_RETURNED = 80  # characters of the returned value's description


@dataclass(eq=False)
class Recorder:
    """An unfinished plan. Steps hold Buffers until the plan is written.

    A planner has one for the submission's import, from which `next_plan` makes one for each plan.
    """

    steps: Steps
    memory: DeviceMemory
    imported: Recorder | None = None  # the import's, for a plan
    keeps_state: bool = False  # the plan depends on an earlier one
    specialisations: list[dict[str, Any]] = field(default_factory=list)
    trial: int = -1  # number of the tuning that launches belong to
    trials: int = 0
    streams: int = 1
    events: int = 0
    recorded: set[int] = field(default_factory=set)  # events
    _keys: dict[str, int] = field(default_factory=dict)
    _kept: list[Buffer] = field(default_factory=list)  # by the import
    _plans: list[Recorder] = field(default_factory=list)  # whose buffers still exist

    @classmethod
    def of_import(cls, path: str) -> Recorder:
        """The first one, for the import of the submission's file at `path`."""
        steps = Steps(path)
        return cls(steps, DeviceMemory(steps))

    def next_plan(self) -> Recorder:
        """A Recorder with the import's work and without other plans'.

        An earlier plan's allocation that the submission has kept belongs to no later plan; a plan
        that uses it `keeps_state`.
        """
        self._plans = [plan for plan in self._plans if plan.memory.survivors()]
        steps = self.steps.copy()
        plan = Recorder(
            steps,
            self.memory.for_plan(steps),
            imported=self,
            keeps_state=any(each.is_expired for each in self._kept),
            specialisations=[*self.specialisations],
            trial=self.trial,
            trials=self.trials,
            streams=self.streams,
            events=self.events,
            recorded={*self.recorded},
            _keys={**self._keys},
        )
        self._plans.append(plan)
        return plan

    def note_owner(self, owner: Recorder | None) -> None:
        """Note the use of a stream or an event that `owner` numbered."""
        if owner is not None and owner is not self and owner is not self.imported:
            self.keeps_state = True

    # --- memory and what goes to it ---------------------------------------------------------------

    def buffer(self, tensor: torch.Tensor) -> Buffer:
        """The buffer of a device tensor; one that is new to the plan is allocated."""
        known = self.memory.find(tensor)
        if known is not None:
            return known
        if self.imported is not None:
            storage = tensor.untyped_storage()._cdata
            earlier = (plan for plan in self.imported._plans if plan is not self)
            if any(storage in plan.memory.survivors() for plan in earlier):
                self.keeps_state = True
        return self.memory.allocate(tensor)

    def view(self, tensor: torch.Tensor) -> dict[str, Any]:
        """A tensor as a plan names it."""
        return {
            "buffer": self.buffer(tensor),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
            "offset": tensor.storage_offset(),
        }

    def upload(self, to: torch.Tensor, data: bytes) -> None:
        """Note an upload of the launcher's bytes to a tensor. Raises PlanLimit."""
        self.steps.count_upload(len(data))
        encoded = base64.b64encode(data).decode()
        view = self.view(to)
        self.steps.add("upload", to=view, data=encoded, pointers=list(self._addresses(data)))

    def _addresses(self, data: bytes) -> Iterable[list[Any]]:
        """Addresses of buffers among bytes: (offset in them, buffer, offset in it)."""
        for index, (word,) in enumerate(struct.iter_unpack("<Q", data[: len(data) // 8 * 8])):
            target = self.memory.at(word)
            if target is not None:
                yield [8 * index, *target]

    def has_address(self, value: bool | int | float) -> bool:
        """Whether a number is the address of a byte of a buffer."""
        return isinstance(value, int) and self.memory.at(value) is not None

    # --- kernels and calls ------------------------------------------------------------------------

    def specialisation(self, described: dict[str, Any]) -> int:
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

    def end_import(self) -> None:
        """End the import: its remaining allocations belong to each plan."""
        gc.collect()
        self.memory.release_dead()
        self._kept = [buffer for buffer in self.memory.buffers if buffer.is_live]

    def end_call(self) -> list[Step]:
        """End a call and return its steps."""
        gc.collect()  # so that releases don't depend on when the collector runs
        self.memory.release_dead()
        return self.steps.end_call()

    def to_json(
        self, calls: Sequence[list[Step]], printed: str, returned: str = ""
    ) -> dict[str, Any]:
        """The whole plan; only for a Recorder from `next_plan`."""
        assert self.imported is not None
        at_import = len(self.imported.steps.noted)
        dropped = _dropped(self.memory.imported, calls, at_import)
        kept = calls
        if dropped:
            kept = [[step for step in call if not dropped & _buffers(step)] for call in calls]
        buffers = [each for each in self.memory.buffers if id(each) not in dropped]
        for number, buffer in enumerate(buffers):
            buffer.number = number
        launched = {step["specialisation"] for call in kept for step in call if _launches(step)}
        numbers = {old: new for new, old in enumerate(sorted(launched))}
        return {
            "version": 1,
            "language": "triton",
            "buffers": [buffer.to_json() for buffer in buffers],
            "specialisations": [self.specialisations[old] for old in numbers],
            "calls": [[_numbered(step, numbers) for step in call] for call in kept],
            "printed": printed[:MAX_PRINTED],
            "returned": returned,
        }


def _numbered(step: Step, numbers: Mapping[int, int]) -> Step:
    """A step with numbers in place of Buffers, and the `numbers` that are left of kernels."""
    if _launches(step):
        step = {**step, "specialisation": numbers[step["specialisation"]]}
    return {name: _with_numbers(value) for name, value in step.items()}


def _with_numbers(value: Any) -> Any:
    if isinstance(value, Buffer):
        return value.number
    if isinstance(value, dict):
        return {key: _with_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_numbers(each) for each in value]
    return value


def _dropped(
    imported: Sequence[Buffer], calls: Sequence[Sequence[Step]], at_import: int
) -> set[int]:
    """The buffers of the import that no call leads to; their steps are no part of the plan.

    A file may test its kernels during the import, on tensors that no call uses. The entry doesn't
    ask for that, so it isn't judged, compiled or run.

    `imported` are the buffers that the import made; the first `at_import` steps of the first call
    are the import's.
    """
    if not imported and not at_import:
        return set()
    first, *others = calls
    own = [*first[at_import:], *(step for call in others for step in call)]
    return {id(each) for each in imported} - _reached(first[:at_import], own)


def _reached(early: Sequence[Step], own: Sequence[Step]) -> set[int]:
    """The buffers that calls use, and those that the import used together with them."""
    needed = {each for step in own if step["do"] != "free" for each in _buffers(step)}
    groups = [_buffers(step) for step in early]
    size = -1
    while size != len(needed):
        size = len(needed)
        for group in groups:
            if group & needed:
                needed |= group
    return needed


def _buffers(value: Any) -> set[int]:
    """The buffers in a step, by their ids."""
    if isinstance(value, Buffer):
        return {id(value)}
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return {each for part in parts for each in _buffers(part)}
    return set()


def _launches(step: Step) -> bool:
    return bool(step["do"] == "launch")

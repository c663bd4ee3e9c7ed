"""Sandboxes that a pool process keeps from one submission to the next.

A submission has sandboxes for itself. Their fork servers, which import torch for a second or more,
go on with the next submission if nothing of this one is left in them (Sandbox.empty); else they
are replaced. The sandbox of baselines, where no submission runs, is kept as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from grader.gpu.devices import DeviceName
from grader.sandbox import Sandbox
from grader.timing.timed_variant import trusted_sandbox

_emptied: dict[DeviceName, Sandbox] = {}  # by device, with nothing of a submission in them
_baselines: list[Sandbox] = []
Sandboxes = tuple[Sandbox, dict[DeviceName, Sandbox]]


@contextlib.contextmanager
def of_a_submission(device: DeviceName, required: bool) -> Iterator[Sandboxes]:
    """Sandboxes with nothing of another submission: of Triton's plans; of programs, by device.

    Programs run in the emulator's, and on "cuda" in another one as well. Raises ConfinementError.
    """
    devices: list[DeviceName] = ["emulator", *([device] if device == "cuda" else [])]
    with contextlib.ExitStack() as stack:
        plans = stack.enter_context(_kept("cpu", required))
        yield plans, {each: stack.enter_context(_kept(each, required)) for each in devices}


def baselines() -> Sandbox:
    """The sandbox of baselines on a GPU; it ends with this process."""
    if not _baselines:
        _baselines.append(trusted_sandbox("cuda"))
    return _baselines[0]


@contextlib.contextmanager
def _kept(device: DeviceName, required: bool) -> Iterator[Sandbox]:
    sandbox = _emptied.pop(device, None) or _new(device, required)
    is_empty = False
    try:
        yield sandbox
        is_empty = sandbox.empty()
    finally:
        if not is_empty:
            sandbox.close()
    if not is_empty:
        sandbox = _new(device, required)
        sandbox.begin()  # imports while nothing is asked
    _emptied[device] = sandbox


def _new(device: DeviceName, required: bool) -> Sandbox:
    is_native = device != "cpu"
    return Sandbox(device, required=required, kind="native" if is_native else "plans")

"""The GPU looked at around a timing: who else is there, and is it as fast as it is?"""

from __future__ import annotations

import contextlib
import multiprocessing
import os

import psutil

from grader.gpu import machine, nvml
from grader.gpu.contention import glance, too_much
from grader.gpu.state import GpuState, Observed, at_work, setting_troubles, troubles


class Watch:
    """The looks at the GPU that one timing runs on; where it runs on none, nothing is seen."""

    def __init__(self, device: str, usual_sm_mhz: float | None) -> None:
        """`usual_sm_mhz` is the clock the GPU had when its roofs were measured."""
        self._on_gpu = device == "cuda"
        self._usual_sm_mhz = usual_sm_mhz
        self._taken: float | None = None

    def taken(self) -> str:
        """That others have too much of the GPU's time just now, or ""; nobody of ours is to."""
        self._taken = glance() if self._on_gpu else None
        return too_much(self._taken)

    def seen(self, state: Observed | None) -> dict[str, str | float | int]:
        """For the evidence: a state, and what others had of the GPU's time when last asked."""
        told = state.as_dict() if state else {}
        if self._taken is not None:
            told["taken_by_others_percent"] = round(100 * self._taken, 1)
        return told

    def look(self, since: Observed | None = None) -> Observed | None:
        """The state of the GPU, best while it is at work; None where there is none."""
        if not self._on_gpu:
            return None
        gpu = machine.gpu_properties()
        return nvml.observe(gpu.uuid if gpu else None, since)

    def setting(self, state: Observed | None) -> list[str]:
        """How the GPU is set up that workers can't share it, a sentence each."""
        return list(setting_troubles(state)) if isinstance(state, GpuState) else []

    def others(self, state: Observed | None) -> list[str]:
        """Who else was at work since the look before, a sentence, or none."""
        return [] if state is None else at_work(state, family())

    def troubles(self, before: Observed | None, after: Observed | None) -> list[str]:
        """Why what was measured between two looks can't be trusted, a sentence each.

        Nothing where nobody can look: the control tells as well.
        """
        if not isinstance(before, GpuState) or not isinstance(after, GpuState):
            return []
        return troubles(before, after, family(), self._usual_sm_mhz)


def family() -> set[int]:
    """The processes of this command: this one, who made it, and all that both have started.

    In a class, others of the pool hold contexts on this GPU, and have made way.
    """
    maker = multiprocessing.parent_process()
    found = {os.getpid()}
    for pid in (os.getpid(), maker.pid if maker else None):
        with contextlib.suppress(psutil.NoSuchProcess):
            if pid is not None:
                found |= {pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))}
    return found

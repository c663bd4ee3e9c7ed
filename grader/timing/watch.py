"""The GPU's state before and after a timing: its clocks, and who else uses it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os

import psutil

from grader.gpu import machine, nvml
from grader.gpu.contention import share_of_others, too_much
from grader.gpu.state import GpuState, Observed, at_work, setting_troubles, troubles


class Watch:
    """Probes the GPU that a timing runs on. Without a GPU, nothing is observed."""

    def __init__(self, device: str, usual_sm_mhz: float | None) -> None:
        """`usual_sm_mhz` is the clock the GPU had when its roofs were measured."""
        self._on_gpu = device == "cuda"
        self._usual_sm_mhz = usual_sm_mhz
        self._share: float | None = None  # of the GPU's time that others had at the last probe
        self._own: set[int] = set()  # processes of this command, those that have ended included

    def load_of_others(self) -> str:
        """Why others' load on the GPU is too high, or ""; our workers must be idle."""
        self._share = share_of_others() if self._on_gpu else None
        return too_much(self._share)

    def as_evidence(self, state: Observed | None) -> dict[str, str | float | int]:
        """A state and the load of others, as rows of the evidence."""
        row = state.as_dict() if state else {}
        if self._share is not None:
            row["taken_by_others_percent"] = round(100 * self._share, 1)
        return row

    def probe(self, since: Observed | None = None) -> Observed | None:
        """The GPU's state, best observed while it is busy; None without a GPU.

        Workers of other checks end meanwhile. So this command's processes are listed before the
        driver lists the GPU's: listed later, one that has just ended would be somebody else's.
        """
        if not self._on_gpu:
            return None
        self._own |= own_processes()
        gpu = machine.gpu_properties()
        return nvml.observe(gpu.uuid if gpu else None, since)

    def setting(self, state: Observed | None) -> list[str]:
        """Why workers can't share the GPU as it is set up, a sentence each."""
        return list(setting_troubles(state)) if isinstance(state, GpuState) else []

    def others_at_work(self, state: Observed | None) -> list[str]:
        """Who else used the GPU between the probe before and this one, a sentence; or nothing."""
        return [] if state is None else at_work(state, self._own)

    def troubles(self, before: Observed | None, after: Observed | None) -> list[str]:
        """Why a measurement between two probes can't be trusted, a sentence each.

        Empty where the state can't be observed: the control shows a disturbance as well.
        """
        if not isinstance(before, GpuState) or not isinstance(after, GpuState):
            return []
        return troubles(before, after, self._own, self._usual_sm_mhz)


def own_processes() -> set[int]:
    """The processes of this command: this one, its parent in a pool, and their descendants.

    The pool's other processes hold contexts on this GPU and have let this one have it.
    """
    maker = multiprocessing.parent_process()
    pids = {os.getpid()}
    for pid in (os.getpid(), maker.pid if maker else None):
        with contextlib.suppress(psutil.NoSuchProcess):
            if pid is not None:
                pids |= {pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))}
    return pids

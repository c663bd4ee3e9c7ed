"""The state of a GPU, and why a measurement between two states can't be trusted. Pure.

nvml.py reads the state before and after a measurement. `troubles` are reasons why a measurement
between the two can't be trusted, `remarks` are notes that don't void it.

Heat or a limit of the power supply slows a GPU for a while. A software power cap doesn't void: it
slows every large matrix product, and candidate and baseline alike, since both are timed in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields

_VOIDING = {
    "hardware slowdown": "the hardware slowed it down, for its heat or its power supply",
    "software thermal slowdown": "it was too hot and slowed down",
    "hardware thermal slowdown": "it was too hot and slowed down by half or more",
    "power brake": "the server's power supply slowed it down",
    "sync boost": "its clocks follow another GPU's (sync boost)",
}
_HARMLESS = frozenset({"idle", "power cap"})  # reasons for a lower clock that come and go

SLOWER = 0.90  # of its earlier or usual clock: below it, times aren't comparable
HEATED_SECONDS = 0.005  # of slowdown by heat between two probes


@dataclass(frozen=True)
class Process:
    """A process with a CUDA context on the GPU, by the driver's process id."""

    pid: int
    name: str = ""
    busy_percent: int | None = None  # of the SMs, since the last probe; None where unknown

    def __str__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        busy = "" if self.busy_percent is None else f", {self.busy_percent} % busy"
        return f"{name}pid {self.pid}{busy}"


@dataclass(frozen=True)
class GpuState:
    """NVML's values at one moment; None where the board or driver lacks one."""

    name: str
    uuid: str
    driver: str
    sm_mhz: int | None = None
    sm_most_mhz: int | None = None
    memory_mhz: int | None = None
    memory_most_mhz: int | None = None
    memory_bus_bits: int | None = None
    celsius: int | None = None
    watts: float | None = None
    watts_most: float | None = None
    busy_percent: int | None = None
    held_back_by: tuple[str, ...] = ()  # names of clock event reasons
    heat_seconds: float | None = None  # slowed by heat, since the driver was loaded
    processes: tuple[Process, ...] = ()
    compute_mode: str = "default"
    is_mig: bool = False
    is_mps: bool = False
    at_microseconds: int = 0  # of Unix time

    def as_dict(self) -> dict[str, str | float | int]:
        """The known values, flat, for the evidence."""
        row: dict[str, str | float | int] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "at_microseconds":
                continue
            if field.name == "processes":
                row["processes"] = len(value)
            elif isinstance(value, tuple):
                row[field.name] = ", ".join(value) or "nothing"
            elif isinstance(value, bool):
                row[field.name] = "yes" if value else "no"
            elif value is not None:
                row[field.name] = value
        return row


@dataclass(frozen=True)
class Unobserved:
    """An unknown state; `reason` says why in one line."""

    reason: str

    def as_dict(self) -> dict[str, str | float | int]:
        return {"unobserved": self.reason}


Observed = GpuState | Unobserved


def troubles(
    before: Observed,
    after: Observed,
    ours: Collection[int] = (),
    usual_sm_mhz: float | None = None,
) -> list[str]:
    """Why a measurement between two probes can't be trusted: a sentence each, or none.

    Both probes have to be made while the GPU is busy, or its clocks mean nothing. `ours` are the
    ids of the grader's processes and workers as this process sees them; `usual_sm_mhz` is the clock
    that the GPU had when its roofs were measured.
    """
    if isinstance(before, Unobserved):
        return [f"The GPU's state can't be seen: {before.reason}."]
    if isinstance(after, Unobserved):
        return [f"The GPU's state can't be seen: {after.reason}."]
    if before.uuid != after.uuid:
        return [f"It is another GPU than before: {before.uuid}, then {after.uuid}."]
    return [
        *setting_troubles(after),
        *_of_sharing(before, after, ours),
        *_of_heat(before, after),
        *_of_clocks(before, after, usual_sm_mhz),
    ]


def at_work(state: Observed, ours: Collection[int]) -> list[str]:
    """Who else used the GPU since the probe before: a sentence, or none."""
    if isinstance(state, Unobserved):
        return []
    others = [each for each in state.processes if each.pid not in ours and each.busy_percent]
    return [f"The GPU is shared with another process: {_listed(others)}."] if others else []


def remarks(after: Observed, ours: Collection[int] = ()) -> list[str]:
    """Notes on a measurement that stands."""
    if isinstance(after, Unobserved):
        return []
    sentences = []
    if "power cap" in after.held_back_by:
        limit = f" of {after.watts_most:.0f} W" if after.watts_most else ""
        sentences.append(f"Its power limit{limit} holds its clock back.")
    if _is_slow(after.sm_mhz, after.sm_most_mhz) and not _HARMLESS & {*after.held_back_by}:
        sentences.append(f"It runs at {after.sm_mhz} of {after.sm_most_mhz} MHz.")
    if after.is_mig:
        sentences.append("It is a slice of a GPU (MIG): the whole GPU's figures don't apply.")
    idle = [p for p in after.processes if p.pid not in ours and p.busy_percent == 0]
    if idle:
        sentences.append(f"Idle, but there: {_listed(idle)}.")
    return sentences


def setting_troubles(after: GpuState) -> Iterator[str]:
    """Settings of the GPU under which workers can't measure reliably."""
    if after.compute_mode != "default":
        yield (
            f"The GPU is in compute mode '{after.compute_mode}', which keeps workers out: "
            "set it to default with nvidia-smi -c 0."
        )
    if after.is_mps:
        yield "MPS is running, which lets processes share the GPU: stop it."


def _of_sharing(before: GpuState, after: GpuState, ours: Collection[int]) -> Iterator[str]:
    """Other processes on the GPU. In a container the driver's process ids may differ from ours:
    where it shows none of ours, their number decides."""
    earlier = {process.pid for process in before.processes}
    later = {process.pid for process in after.processes}
    if not (earlier | later) & set(ours):
        if len(after.processes) > len(ours) or (ours and earlier != later):
            yield f"The GPU is shared with other processes: {_listed(after.processes)}."
        return
    tells = any(process.pid in ours and process.busy_percent for process in after.processes)
    by_pid = {process.pid: process for process in (*before.processes, *after.processes)}
    stayed_idle = {
        process.pid
        for process in after.processes
        if tells and process.busy_percent == 0 and process.pid in earlier
    }
    others = [p for pid, p in by_pid.items() if pid not in ours and pid not in stayed_idle]
    if others:
        yield f"The GPU is shared with another process: {_listed(others)}."


def _of_heat(before: GpuState, after: GpuState) -> Iterator[str]:
    named = dict.fromkeys(
        _VOIDING[reason]
        for reason in (*before.held_back_by, *after.held_back_by)
        if reason in _VOIDING
    )
    for words in named:
        yield f"{words[0].upper()}{words[1:]}{_temperature(after)}."
    if before.heat_seconds is None or after.heat_seconds is None or named:
        return
    hot = after.heat_seconds - before.heat_seconds
    if hot > HEATED_SECONDS:
        yield f"It was slowed down for its heat for {hot:.2f} s{_temperature(after)}."


def _of_clocks(before: GpuState, after: GpuState, usual: float | None) -> Iterator[str]:
    if "idle" not in after.held_back_by and _is_slow(after.memory_mhz, after.memory_most_mhz):
        yield f"Its memory runs at {after.memory_mhz} of {after.memory_most_mhz} MHz."
    if _HARMLESS & {*after.held_back_by, *before.held_back_by}:
        return
    if _is_slow(after.sm_mhz, before.sm_mhz):
        yield f"Its clock fell from {before.sm_mhz} to {after.sm_mhz} MHz while it was measured."
    elif _is_slow(after.sm_mhz, usual):
        yield f"It runs at {after.sm_mhz} MHz, below its usual {usual:.0f} MHz."


def _is_slow(clock: float | None, usual: float | None) -> bool:
    return bool(clock and usual and clock < SLOWER * usual)


def _temperature(state: GpuState) -> str:
    return "" if state.celsius is None else f" ({state.celsius} degrees Celsius)"


def _listed(processes: Collection[Process]) -> str:
    return "; ".join(map(str, sorted(processes, key=lambda process: process.pid)))

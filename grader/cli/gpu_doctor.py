"""`grader doctor --gpu`: the state of the GPU, and its measured bandwidth and compute rates."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timezone

from rich.console import Console
from rich.text import Text

from grader.cases import gpu_memory
from grader.gpu import machine, nvml
from grader.gpu import measured_roofs as roofs
from grader.gpu.contention import share_of_others, too_much
from grader.gpu.machine import GpuProperties
from grader.gpu.measured_roofs import MeasuredRoofs, RoofsError
from grader.gpu.roofline import Peaks
from grader.gpu.state import GpuState, Observed, remarks, troubles
from grader.report import narrow
from grader.report.message import sentence
from grader.sandbox.worker_process import SandboxError
from grader.timing import roofs as roof_timing

NO_GPU = (
    "No NVIDIA GPU that torch can use: there is nothing to measure. `grader doctor` says what "
    "this machine can grade without one."
)


def examine_gpu(console: Console, again: bool = False) -> MeasuredRoofs | None:
    """Print the GPU's state and its roofs; measure them if they aren't kept yet, or `again`.

    None where they can't be had, for a reason that is printed. Roofs that were measured while
    something disturbed are shown, but not kept.
    """
    properties = machine.gpu_properties()
    if properties is None:
        _say(NO_GPU, console, "")
        return None
    before = nvml.observe(properties.uuid or None, None)
    _show_state(properties, before, console)
    identity = roofs.identity_of(properties, before)
    peaks = roofs.peaks_of(properties, before)
    kept = None if again else roofs.load(identity)
    if kept is not None:
        _show_roofs(kept, peaks, console)
        _say(f"Measured {kept.measured_at}; --again measures anew.", console)
        return kept
    try:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with roof_timing.timer() as seconds_of:
            taken = [share_of_others()]
            measured = roofs.measure(identity, seconds_of, properties.memory_bytes, now, peaks)
            taken.append(share_of_others())
    except (RoofsError, SandboxError) as error:
        _say(f"The roofs can't be measured: {error}", console, "red")
        return None
    after = nvml.observe(properties.uuid or None, before)
    if isinstance(after, GpuState):
        measured = replace(measured, sm_mhz=after.sm_mhz)
    _show_roofs(measured, peaks, console)
    noise = troubles(before, after, {os.getpid()}) if isinstance(after, GpuState) else []
    noise += [sentence(words) for words in map(too_much, taken) if words]
    _keep(measured, noise, console)
    return measured


def _keep(measured: MeasuredRoofs, noise: list[str], console: Console) -> None:
    """Keep roofs that nothing disturbed, and say where."""
    if noise:
        for trouble in dict.fromkeys(noise):
            _say(trouble, console, "yellow")
        _say("Not kept: measure again when nothing is in the way.", console)
        return
    try:
        _say(f"Kept in {roofs.store(measured)}.", console)
    except OSError as error:
        _say(f"Not kept: {error.strerror or error}.", console, "yellow")


def _show_state(gpu: GpuProperties, state: Observed, console: Console) -> None:
    version = ".".join(map(str, gpu.capability))
    size = f"{gpu.sm_count} SMs, {gpu.memory_bytes / 2**30:.0f} GiB"
    rows = {"GPU": f"{gpu.name}, compute capability {version}, {size}"}
    if isinstance(state, GpuState):
        rows |= {"driver": state.driver, "clocks": _clocks(state), "drawn": _drawn(state)}
    else:
        rows["state"] = f"unknown: {state.reason}"
    table = narrow.table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value:
            table.add_row(Text(name, "bold"), Text(value))
    narrow.show(table, console)
    ours = {os.getpid()}
    for trouble in troubles(state, state, ours) if isinstance(state, GpuState) else ():
        _say(trouble, console, "yellow")
    for remark in remarks(state, ours):
        _say(remark, console)
    if gpu_memory.reaches_host_memory():
        _say(sentence(gpu_memory.REACHES_HOST_MEMORY), console, "yellow")


def _clocks(state: GpuState) -> str:
    pairs = (
        ("SM", state.sm_mhz, state.sm_most_mhz),
        ("memory", state.memory_mhz, state.memory_most_mhz),
    )
    clocks = [f"{name} {now} of {most} MHz" for name, now, most in pairs if now and most]
    held = f" ({', '.join(state.held_back_by)})" if state.held_back_by else ""
    return ", ".join(clocks) + held if clocks else ""


def _drawn(state: GpuState) -> str:
    readings = []
    if state.watts is not None:
        most = f" of {state.watts_most:.0f}" if state.watts_most else ""
        readings.append(f"{state.watts:.0f}{most} W")
    if state.celsius is not None:
        readings.append(f"{state.celsius} degrees Celsius")
    return ", ".join(readings)


def _show_roofs(measured: MeasuredRoofs, peaks: Peaks | None, console: Console) -> None:
    table = narrow.table()
    table.add_column("roof", no_wrap=True)
    for title in ("measured", "data sheet", "reached"):
        table.add_column(title, justify="right", no_wrap=True)
    published = peaks.bandwidth if peaks else None
    cells = _compared(measured.bandwidth, published, "{:.0f} GB/s", 1e9)
    table.add_row(Text("copy"), *cells)
    for dtype in (*measured.flops, *measured.missing):
        published = peaks.flops.get(dtype) if peaks else None
        cells = _compared(measured.flops.get(dtype), published, "{:.1f} TFLOP/s", 1e12)
        table.add_row(Text(f"matmul {dtype}"), *cells)
    console.print()
    narrow.show(table, console)
    for dtype, reason in measured.missing.items():
        _say(f"{dtype}: {reason}", console)
    if peaks:
        _say(f"Data sheet: {peaks.source}; dense, sums in float32.", console)
    else:
        _say("No data sheet is known of this GPU.", console)


def _compared(
    measured: float | None, published: float | None, unit: str, per_unit: float
) -> tuple[Text, ...]:
    share = f"{100 * measured / published:.0f} %" if measured and published else "-"
    rates = (unit.format(rate / per_unit) if rate else "-" for rate in (measured, published))
    return tuple(map(Text, (*rates, share)))


def _say(text: str, console: Console, style: str = "dim") -> None:
    narrow.tell(Text(text, style), console)

"""The state of a GPU from NVML, the driver's management library.

It uses nvidia-ml-py (extra [gpu]), imported on first use. Without it or a driver, the result is the
reason instead of a state.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grader.gpu.state import GpuState, Observed, Process, Unobserved

MISSING = "nvidia-ml-py isn't installed: pip install 'warpgrade[gpu]'"
# Bits of nvmlDeviceGetCurrentClocksEventReasons (NVML API reference, "Clocks event reasons").
_REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


def observe(uuid: str | None = None, since: Observed | None = None, nvml: Any = None) -> Observed:
    """The state of the GPU with this `uuid` (with or without 'GPU-'), or of the first one.

    Processes' load counts from the probe `since` on. `nvml` replaces the pynvml module in tests.
    Never raises for what a machine lacks.
    """
    earlier = since.at_microseconds if isinstance(since, GpuState) else 0
    try:
        nvml = nvml or importlib.import_module("pynvml")
    except ImportError:
        return Unobserved(MISSING)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Unobserved(f"NVML: {_words(error)}")
    try:
        return _state(nvml, _handle(nvml, uuid), earlier)
    except nvml.NVMLError as error:
        return Unobserved(f"NVML: {_words(error)}")
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _handle(nvml: Any, uuid: str | None) -> Any:
    if not uuid:
        return nvml.nvmlDeviceGetHandleByIndex(0)
    named = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    return nvml.nvmlDeviceGetHandleByUUID(named)


def _state(nvml: Any, device: Any, since: int) -> GpuState:
    def ask(name: str, *arguments: Any) -> Any:
        """NVML's answer, or None where this board, driver or binding doesn't support the query."""
        function: Callable[..., Any] | None = getattr(nvml, f"nvmlDeviceGet{name}", None)
        if function is None:
            return None
        try:
            return function(device, *arguments)
        except nvml.NVMLError:
            return None

    milliwatts, milliwatts_most = ask("PowerUsage"), ask("EnforcedPowerLimit")
    utilization = ask("UtilizationRates")
    heat = ask("ViolationStatus", nvml.NVML_PERF_POLICY_THERMAL)
    mps = ask("MPSComputeRunningProcesses") or []
    processes = _processes(nvml, device, ask, since)
    return GpuState(
        name=_text(nvml.nvmlDeviceGetName(device)),
        uuid=_text(nvml.nvmlDeviceGetUUID(device)),
        driver=_text(nvml.nvmlSystemGetDriverVersion()),
        sm_mhz=ask("ClockInfo", nvml.NVML_CLOCK_SM),
        sm_most_mhz=ask("MaxClockInfo", nvml.NVML_CLOCK_SM),
        memory_mhz=ask("ClockInfo", nvml.NVML_CLOCK_MEM),
        memory_most_mhz=ask("MaxClockInfo", nvml.NVML_CLOCK_MEM),
        memory_bus_bits=ask("MemoryBusWidth"),
        celsius=ask("Temperature", nvml.NVML_TEMPERATURE_GPU),
        watts=None if milliwatts is None else milliwatts / 1000,
        watts_most=None if milliwatts_most is None else milliwatts_most / 1000,
        busy_percent=None if utilization is None else utilization.gpu,
        held_back_by=_reasons(ask),
        heat_seconds=None if heat is None else heat.violationTime / 1e9,
        processes=processes,
        compute_mode=_MODES.get(ask("ComputeMode") or 0, "unknown"),
        is_mig=bool((ask("MigMode") or [0])[0]),
        is_mps=bool(mps) or any("nvidia-cuda-mps" in process.name for process in processes),
        at_microseconds=time.time_ns() // 1000,
    )


def _reasons(ask: Callable[..., Any]) -> tuple[str, ...]:
    bits = ask("CurrentClocksEventReasons")
    if bits is None:  # a binding with the earlier name
        bits = ask("CurrentClocksThrottleReasons")
    return tuple(name for bit, name in _REASONS.items() if (bits or 0) & bit)


def _processes(nvml: Any, device: Any, ask: Callable[..., Any], since: int) -> tuple[Process, ...]:
    """Processes with a CUDA context, and their load where the board reports it."""
    running = ask("ComputeRunningProcesses") or []
    samples = None
    if running:
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(device, since)
        except nvml.NVMLError_NotFound:  # load is reported, and there was none
            samples = ()
        except nvml.NVMLError:
            samples = None
    busy: dict[int, int] = {}
    for sample in samples or ():
        busy[sample.pid] = max(busy.get(sample.pid, 0), sample.smUtil)
    processes = []
    for pid in sorted({process.pid for process in running}):
        percent = busy.get(pid, 0) if samples is not None else None
        processes.append(Process(pid, _process_name(nvml, pid), percent))
    return tuple(processes)


def _process_name(nvml: Any, pid: int) -> str:
    """The program's name without its folder; "" where it isn't visible from here."""
    try:
        return Path(os.fsdecode(nvml.nvmlSystemGetProcessName(pid))).name
    except (nvml.NVMLError, OSError):
        return ""


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _words(error: Exception) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__

"""NVML without a driver: a module whose answers a test sets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """As pynvml's."""


class NVMLError_NotFound(NVMLError):
    """As pynvml's: it was asked for what there is none of."""


def module(**answers: Any) -> SimpleNamespace:
    """A stand-in for pynvml; `answers` by name without 'nvmlDeviceGet'. An exception is raised."""
    found = {
        "Name": b"NVIDIA H100 80GB HBM3",
        "UUID": "GPU-1234",
        "ClockInfo": {1: 1755, 2: 2619},
        "MaxClockInfo": {1: 1980, 2: 2619},
        "MemoryBusWidth": 5120,
        "Temperature": 43,
        "PowerUsage": 512_300,
        "EnforcedPowerLimit": 700_000,
        "UtilizationRates": SimpleNamespace(gpu=97, memory=40),
        "CurrentClocksEventReasons": 0,
        "ViolationStatus": SimpleNamespace(violationTime=2_000_000_000),
        "ComputeRunningProcesses": [],
        "MPSComputeRunningProcesses": [],
        "ProcessUtilization": [],
        "ComputeMode": 0,
        "MigMode": [0, 0],
        **answers,
    }
    calls: list[str] = []

    def asked(name: str):
        def answer(device, *arguments):
            calls.append(name)
            value = found[name]
            if isinstance(value, Exception):
                raise value
            return value[arguments[0]] if isinstance(value, dict) else value

        return answer

    def process_name(pid: int) -> bytes:
        names = {77: b"/usr/bin/python3", 99: b"/usr/bin/nvidia-cuda-mps-server"}
        if pid not in names:
            raise NVMLError("Not Found")
        return names[pid]

    def handle_by_uuid(uuid: str) -> str:
        calls.append(uuid)
        return uuid

    fake = SimpleNamespace(
        NVMLError=NVMLError,
        NVMLError_NotFound=NVMLError_NotFound,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        NVML_PERF_POLICY_THERMAL=1,
        calls=calls,
        nvmlInit=lambda: calls.append("init"),
        nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlSystemGetDriverVersion=lambda: "580.159.04",
        nvmlSystemGetProcessName=process_name,
        nvmlDeviceGetHandleByIndex=lambda index: f"device {index}",
        nvmlDeviceGetHandleByUUID=handle_by_uuid,
    )
    for name in found:
        setattr(fake, f"nvmlDeviceGet{name}", asked(name))
    return fake


def process(pid: int) -> SimpleNamespace:
    """A running process as NVML lists it."""
    return SimpleNamespace(pid=pid, usedGpuMemory=1 << 30)


def sample(pid: int, percent: int) -> SimpleNamespace:
    """How busy a process was."""
    return SimpleNamespace(pid=pid, smUtil=percent, timeStamp=1)

"""This machine's GPU and versions, for reports, evidence and `grader doctor`."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from typing import Any

from grader import __version__
from grader.gpu.devices import DeviceName, has_driver
from grader.gpu.kinds import HostGpu, by_name, capability_of, is_amd
from grader.mistakes import Mistake

CAPABILITY = 90  # of an H100, which is the usual course's GPU


@lru_cache(maxsize=1)
def gpu_name() -> str | None:
    """The first CUDA device torch can use, or None. Raises Mistake for a device of AMD's.

    Without a driver there is none, and torch isn't imported for that.
    """
    if not has_driver():
        return None
    import torch

    try:
        name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    except (RuntimeError, AssertionError):  # an unsuitable driver, a lost device
        return None
    if name is not None and (getattr(torch.version, "hip", None) or is_amd(name)):
        raise Mistake(
            f"{name}: expected an NVIDIA GPU, got AMD's. To grade as on a machine without a GPU, "
            "install PyTorch's CPU build, or hide it: HIP_VISIBLE_DEVICES=-1"
        )
    return name


@dataclass(frozen=True)
class GpuProperties:
    """CUDA's properties of the first device. Clocks in Hz; 0 where this torch lacks them."""

    name: str
    uuid: str  # as NVML has it, "" where this torch lacks it
    sm_count: int
    capability: tuple[int, int]
    memory_bytes: int
    clock_hz: float
    memory_clock_hz: float
    bus_bits: int


def gpu_properties() -> GpuProperties | None:
    """The properties of the device that `gpu_name` names, or None where there is none."""
    name = gpu_name()
    if name is None:
        return None
    import torch

    properties = torch.cuda.get_device_properties(0)
    uuid = str(getattr(properties, "uuid", "") or "")
    return GpuProperties(
        name,
        uuid if not uuid or uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}",
        sm_count=properties.multi_processor_count,
        capability=(properties.major, properties.minor),
        memory_bytes=properties.total_memory,
        clock_hz=1e3 * getattr(properties, "clock_rate", 0),
        memory_clock_hz=1e3 * getattr(properties, "memory_clock_rate", 0),
        bus_bits=getattr(properties, "memory_bus_width", 0),
    )


_compiled_for: int | None = None
_course_has = CAPABILITY
_of_course = ""


def work_for(gpu: str) -> None:
    """Without a GPU here, plan and compile for the course's GPU in this process, from here on."""
    global _course_has, _of_course
    _course_has = (capability_of(gpu) if gpu else None) or CAPABILITY
    _of_course = gpu


def seen_by_host_code() -> HostGpu:
    """The GPU that planners say is there: this machine's, or else the course's."""
    return by_name(gpu_name() or _of_course)


def compile_for(capability: int) -> None:
    """Compile this process's kernels for another GPU than this machine's, from here on."""
    global _compiled_for
    _compiled_for = capability


def capability() -> int:
    """The compute capability that kernels are compiled for, 90 for 9.0.

    This GPU's, or the course's without one, or the one set by `compile_for`.
    """
    if _compiled_for is not None:
        return _compiled_for
    properties = gpu_properties()
    return (
        _course_has
        if properties is None
        else 10 * properties.capability[0] + properties.capability[1]
    )


def gpu_bytes() -> int:
    """The memory of the device that `gpu_name` names; 0 where there is none."""
    properties = gpu_properties()
    return properties.memory_bytes if properties else 0


def device() -> DeviceName:
    """The device that kernels run on: the GPU if there is one."""
    return "cuda" if gpu_name() else "cpu"


def version_of(package: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def environment(device: str, sandbox: str) -> dict[str, Any]:
    """Versions and machine that a verdict may depend on, for the evidence."""
    import torch

    return {
        "gpu": gpu_name() if device == "cuda" else None,
        "device": device,
        "sandbox": sandbox,
        "warpgrade": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }

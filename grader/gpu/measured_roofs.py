"""Measured roofs: the best rates of this machine's GPU, measured once and stored.

Bandwidth is that of a copy, the matrix peaks those of the vendor's product in each dtype, both on
random numbers (zeros draw less power and run faster). The caller passes the clock to `measure`, as
a function that returns seconds per call.

Roofs are stored in the user's cache folder as JSON, by the GPU's UUID and the driver's version.
Another GPU or driver is measured anew, and so is an unreadable file.
"""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pydantic

from grader.emulator.toolchain import cache_root
from grader.gpu import nvml
from grader.gpu.machine import GpuProperties, gpu_properties
from grader.gpu.roofline import Peaks, Roofs, peaks, peaks_from_properties
from grader.gpu.state import GpuState, Observed

SCHEMA = 2  # 1: copies were the driver's
REPEATS = 3  # of each measurement; their median counts
COPY_BYTES = 512 << 20  # each way: long compared with a launch
MATRIX_SIZE = 4096  # rows, columns and terms: not yet limited by an H100's power cap
DTYPES = ("float32", "tf32", "float16", "bfloat16")


class RoofsError(RuntimeError):
    """The roofs can't be measured, or are impossible: the message is one line."""


class WorkloadFailed(RuntimeError):
    """One workload fails on this GPU: the message is one line."""


@dataclass(frozen=True)
class Workload:
    """A workload to time: a copy of `bytes` / 2 bytes, or a square matrix product."""

    name: str  # "copy", "matmul"
    dtype: str  # "uint8" for a copy, one of DTYPES for a product
    size: int  # bytes to copy, or rows, columns and terms
    bytes: int  # read and written
    flops: int


@dataclass(frozen=True)
class Identity:
    """The GPU and the driver that roofs are of."""

    uuid: str
    driver: str
    device: str


@dataclass(frozen=True)
class MeasuredRoofs(Identity):
    """Roofs of one GPU under one driver: bytes/s, and FLOP/s by dtype.

    `missing` has the reason for each dtype without one; `sm_mhz` is the clock after measuring.
    """

    measured_at: str  # ISO 8601
    bandwidth: float
    flops: dict[str, float]
    missing: dict[str, str]
    sm_mhz: float | None = None
    schema: int = SCHEMA

    def roofs(self) -> Roofs:
        """The roofs that kernels are compared with."""
        return Roofs(self.bandwidth, self.flops, is_measured=True)


UNKNOWN_DRIVER = "unknown"


def identity_of(gpu: GpuProperties, state: Observed) -> Identity:
    """The key for storing this GPU's roofs."""
    driver = state.driver if isinstance(state, GpuState) else UNKNOWN_DRIVER
    return Identity(gpu.uuid or gpu.name, driver, gpu.name)


SecondsOf = Callable[[Workload], float]  # per call; raises WorkloadFailed


def peaks_of(gpu: GpuProperties, state: Observed | None = None) -> Peaks | None:
    """This GPU's theoretical peaks, from its data sheet, else its properties, else None.

    The limits use the board's own highest clocks, where `state` has them.
    """
    observed = state if isinstance(state, GpuState) else None
    clock_hz = gpu.clock_hz or 1e6 * ((observed and observed.sm_most_mhz) or 0)
    memory_hz = gpu.memory_clock_hz or 1e6 * ((observed and observed.memory_most_mhz) or 0)
    bus_bits = gpu.bus_bits or (observed and observed.memory_bus_bits) or 0
    published = peaks(gpu.name)
    if published is None and clock_hz and memory_hz and bus_bits:
        published = peaks_from_properties(
            gpu.sm_count, clock_hz, memory_hz, bus_bits, gpu.capability, gpu.name
        )
    if published is None or observed is None:
        return published
    most_hz = 1e6 * max(observed.sm_most_mhz or 0, observed.sm_mhz or 0)
    most_memory_hz = 1e6 * max(observed.memory_most_mhz or 0, observed.memory_mhz or 0)
    return published.at_clocks(most_hz, most_memory_hz, bus_bits)


def copy_workload(memory_bytes: int) -> Workload:
    """A copy for a GPU with this memory: a 64th of it each way, 512 MiB at most.

    It is timed over at least four pairs of buffers, an eighth of the memory.
    """
    each = min(COPY_BYTES, max(memory_bytes // 64 >> 20 << 20, 1 << 20))
    return Workload("copy", "uint8", each, bytes=2 * each, flops=0)


def matrix_workload(dtype: str, size: int = MATRIX_SIZE) -> Workload:
    itemsize = 2 if dtype in ("float16", "bfloat16") else 4
    return Workload("matmul", dtype, size, bytes=3 * size**2 * itemsize, flops=2 * size**3)


def measure(
    identity: Identity,
    seconds_of: SecondsOf,
    memory_bytes: int,
    measured_at: str,
    limits: Peaks | None = None,
    dtypes: Sequence[str] = DTYPES,
) -> MeasuredRoofs:
    """Measure every roof. Raises RoofsError for a copy that fails and for impossible times.

    `limits` are the theoretical peaks: a measured roof above them means a broken clock.
    """
    copied = copy_workload(memory_bytes)
    try:
        bandwidth = copied.bytes / _seconds(seconds_of, copied)
    except WorkloadFailed as error:
        raise RoofsError(f"copying {copied.size >> 20} MiB failed: {error}") from error
    _expect_possible("copy", bandwidth, limits.most_bandwidth if limits else None, "GB/s", 1e9)
    flops, missing = {}, {}
    for dtype in dtypes:
        workload = matrix_workload(dtype)
        try:
            rate = workload.flops / _seconds(seconds_of, workload)
        except WorkloadFailed as error:
            missing[dtype] = str(error)
            continue
        most = limits.most_flops.get(dtype) if limits else None
        _expect_possible(dtype, rate, most, "TFLOP/s", 1e12)
        flops[dtype] = rate
    return MeasuredRoofs(
        **asdict(identity),
        measured_at=measured_at,
        bandwidth=bandwidth,
        flops=flops,
        missing=missing,
    )


def _seconds(seconds_of: SecondsOf, workload: Workload) -> float:
    return statistics.median(_one(seconds_of, workload) for _ in range(REPEATS))


def _one(seconds_of: SecondsOf, workload: Workload) -> float:
    seconds = seconds_of(workload)
    if not (math.isfinite(seconds) and seconds > 0):
        name = f"{workload.name} of {workload.dtype}"
        raise RoofsError(f"{name}: expected a time above 0, the clock says {seconds} s")
    return seconds


def _expect_possible(
    name: str, measured: float, most: float | None, unit: str, per_unit: float
) -> None:
    if most and measured > most:
        raise RoofsError(
            f"{name}: measured {measured / per_unit:.0f} {unit}, where this GPU can do "
            f"{most / per_unit:.0f} at most: the clock can't be trusted here"
        )


# --- the cache -------------------------------------------------------------------------------


def path_of(identity: Identity) -> Path:
    """The file of this GPU's roofs under this driver."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{identity.uuid}-{identity.driver}")
    return cache_root() / f"roofs-{name}.json"


def load(identity: Identity) -> MeasuredRoofs | None:
    """The stored roofs; None where there are none, or invalid ones."""
    try:
        roofs = _ADAPTER.validate_json(path_of(identity).read_bytes())
    except (OSError, ValueError):
        return None
    same = (roofs.uuid, roofs.driver) == (identity.uuid, identity.driver)
    rates = (roofs.bandwidth, *roofs.flops.values())
    if not same or roofs.schema != SCHEMA:
        return None
    return roofs if all(math.isfinite(rate) and rate > 0 for rate in rates) else None


def kept_here() -> MeasuredRoofs | None:
    """The roofs that `grader doctor --gpu` has measured and stored of this GPU, if it has."""
    gpu = gpu_properties()
    return load(identity_of(gpu, nvml.observe(gpu.uuid or None))) if gpu else None


def store(roofs: MeasuredRoofs) -> Path:
    """Store roofs atomically; returns the file. Raises OSError."""
    path = path_of(roofs)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(_ADAPTER.dump_json(roofs, indent=1))
        return part.replace(path)
    finally:
        part.unlink(missing_ok=True)


_ADAPTER = pydantic.TypeAdapter(MeasuredRoofs)

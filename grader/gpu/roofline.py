"""The upper bound on a kernel's speed on a GPU, and how near a kernel comes to it. Pure.

The roofline model (Williams, Waterman and Patterson, "Roofline: an insightful visual performance
model for multicore architectures", Communications of the ACM 52(4), 2009): a kernel that moves
`bytes` and computes `flops` takes at least bytes / bandwidth and at least flops / FLOP rate. The
larger of the two is its floor and names what bounds it. They are equal at the ridge, a number of
FLOP per byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from grader.gpu.datasheets import BY_CAPABILITY, Rates, find

# Three float16 products of split operands are as accurate as one in float32 (Ootomo and Yokota,
# "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
# performance", IJHPCA 36(4), 2022).
PRODUCTS_FOR_FLOAT32 = 3

# Floors must hold for every board, so these factors allow for unpublished figures. NVML's highest
# clocks (`Peaks.at_clocks`) replace the first two.
BEYOND_BOOST = 1.3  # of a clock, on boards that may exceed the published boost clock
BEYOND_MEMORY = 1.2  # of the memory's clock
ROUNDED = 1.03  # bandwidth is published in two or three digits

# The shares of a data sheet's figures that the vendor's copy and matrix product reach on an H100:
# near them, little is left to gain.
REACHED_BY_COPY = 0.88
REACHED_BY_MATMUL = 0.80

# Accesses waste too little to speak of from so many useful bytes on, and up to so many reads.
ENOUGH_OF_A_SECTOR = 24.0  # bytes used of 32
ONCE = 1.2  # reads per element

Bound = Literal["memory", "compute"]


class RooflineError(ValueError):
    """An impossible number: the message has its name, what was expected and what came."""


@dataclass(frozen=True)
class Peaks:
    """A GPU's theoretical peaks.

    `bandwidth` in bytes/s and `flops` in FLOP/s are as published: dense, accumulated in float32,
    by `float32` (on the CUDA cores), `tf32`, `float16` and `bfloat16`; a missing dtype is unknown.
    `most_bandwidth` and `most_flops` are never exceeded: at the highest clock, float16 accumulated
    in float16, and float32 by any units that keep its accuracy.
    """

    device: str
    source: str  # of the figures, for people
    bandwidth: float
    flops: Mapping[str, float]
    most_bandwidth: float
    most_flops: Mapping[str, float]
    sm_count: int
    rates: Rates | None

    def at_clocks(
        self,
        sm_hz: float | None = None,
        memory_hz: float | None = None,
        bus_bits: int | None = None,
    ) -> Peaks:
        """The same with limits from this board's own highest clocks, from NVML."""
        limits = self
        if sm_hz and self.rates:
            limits = replace(limits, most_flops=_most(self.rates, self.sm_count * sm_hz))
        if memory_hz and bus_bits:
            limits = replace(
                limits, most_bandwidth=max(self.bandwidth, _bandwidth(memory_hz, bus_bits))
            )
        return limits

    def roofs(self) -> Roofs:
        """The published figures as roofs."""
        return Roofs(self.bandwidth, self.flops, is_measured=False)


@dataclass(frozen=True)
class Roofs:
    """Roofs that kernels are compared with: bytes/s, and FLOP/s by dtype."""

    bandwidth: float
    flops: Mapping[str, float]
    is_measured: bool


@dataclass(frozen=True)
class Place:
    """A kernel's position below the roofs.

    `intensity` and `ridge` in FLOP/byte; `roof` and `reached` in bytes/s where memory bounds it, in
    FLOP/s where computing does. `attainable` is the fraction of the roof that can be hoped for.
    """

    bound: Bound
    dtype: str
    intensity: float
    ridge: float | None  # None where nothing is computed, or the FLOP rate isn't known
    roof: float
    reached: float
    attainable: float

    @property
    def fraction(self) -> float:
        """Fraction of the roof, above 1 where a measured roof was exceeded."""
        return self.reached / self.roof


@dataclass(frozen=True)
class Counted:
    """How a kernel's accesses used memory, counted without a GPU.

    `useful` has the bytes used of a sector's 32, by "load" and "store"; `reads` how often an
    element of an input is read, by the input's name.
    """

    useful: Mapping[str, float]
    reads: Mapping[str, float]


def peaks(device_name: str) -> Peaks | None:
    """A GPU's peaks from its data sheet, by the driver's name; None if it is unknown."""
    model = find(device_name)
    if model is None:
        return None
    boost, tensor = model.boost_mhz * 1e6, (model.tensor_mhz or model.boost_mhz) * 1e6
    flops = _published(model.rates, model.sms * tensor)
    flops["float32"] = model.rates.float32 * model.sms * boost
    beyond_clock, beyond_memory = (1.0, 1.0) if model.is_fixed else (BEYOND_BOOST, BEYOND_MEMORY)
    most = max(model.gb_s, model.most_gb_s) * 1e9 * ROUNDED * beyond_memory
    return Peaks(
        device_name,
        source=model.source,
        bandwidth=model.gb_s * 1e9,
        flops=flops,
        most_bandwidth=most,
        most_flops=_most(model.rates, model.sms * boost * beyond_clock),
        sm_count=model.sms,
        rates=model.rates,
    )


def peaks_from_properties(
    sm_count: int,
    clock_hz: float,
    memory_clock_hz: float,
    bus_bits: int,
    capability: tuple[int, int],
    device_name: str = "this GPU",
) -> Peaks:
    """Peaks of a GPU without a data sheet, from the driver's properties.

    Clocks in Hz, the memory's as CUDA and NVML report it (two transfers per clock). An unknown
    compute capability gives no FLOP rates.
    """
    for name, value in (
        ("SMs", sm_count),
        ("a clock", clock_hz),
        ("a memory clock", memory_clock_hz),
        ("a memory bus", bus_bits),
    ):
        if not value > 0:
            raise RooflineError(f"expected {name} above 0, got {value}")
    rates = BY_CAPABILITY.get((capability[0], capability[1]))
    bandwidth = _bandwidth(memory_clock_hz, bus_bits)
    version = ".".join(map(str, capability))
    return Peaks(
        device_name,
        source=f"worked out from {sm_count} SMs at {clock_hz / 1e6:.0f} MHz and the rates of "
        f"compute capability {version}",
        bandwidth=bandwidth,
        flops=_published(rates, sm_count * clock_hz) if rates else {},
        most_bandwidth=bandwidth * BEYOND_MEMORY,
        most_flops=_most(rates, sm_count * clock_hz * BEYOND_BOOST) if rates else {},
        sm_count=sm_count,
        rates=rates,
    )


def floor_seconds(peaks: Peaks, bytes: float, flops: float | None, dtype: str) -> float:
    """The least seconds of a kernel that moves `bytes` and computes `flops`.

    `bytes` are between memory and the chip, each counted once: the caller ensures that none is
    cached before. FLOP of a dtype without a known rate don't count. An algorithm with fewer
    operations than counted (Strassen's) could be faster.
    """
    moving = _amount("bytes", bytes) / peaks.most_bandwidth
    rate = peaks.most_flops.get(dtype)
    computing = _amount("flops", flops or 0) / rate if rate else 0.0
    return max(moving, computing)


def place(
    bytes: float, flops: float | None, dtype: str, seconds: float, roofs: Roofs
) -> Place | None:
    """The position of a kernel that took `seconds`; None where a roof that it needs is unknown.

    The bound is the roof that takes longer. Float32 is compared with the CUDA cores: a kernel that
    used tensor cores can exceed it.
    """
    moved, computed = _amount("bytes", bytes), _amount("flops", flops or 0)
    if not (seconds > 0 and math.isfinite(seconds)):
        raise RooflineError(f"expected a time above 0, got {seconds}")
    rate = roofs.flops.get(dtype)
    if not moved or (computed and not rate):
        return None
    ridge = rate / roofs.bandwidth if rate and computed else None
    intensity = computed / moved
    hoped = (1.0, 1.0) if roofs.is_measured else (REACHED_BY_COPY, REACHED_BY_MATMUL)
    if ridge is None or rate is None or intensity <= ridge:
        roof, reached = roofs.bandwidth, moved / seconds
        return Place("memory", dtype, intensity, ridge, roof, reached, hoped[0])
    return Place("compute", dtype, intensity, ridge, rate, computed / seconds, hoped[1])


# Each from this share of the attainable on; the first that holds.
_Advice = tuple[tuple[float, str], ...]
_NEIGHBOURS = "let neighbouring threads touch neighbouring addresses, in loads and in stores: "
_IN_FLIGHT = "keep more bytes in flight: 16 bytes per load and thread, larger blocks or more warps"
_ON_EVERY_SM = "start enough blocks for every SM, and look for long loops that wait for one load"
_AT_THE_ROOF = 0.97  # of the attainable: from here on only fewer bytes help
_MEMORY_ADVICE: _Advice = (
    (
        _AT_THE_ROOF,
        "only fewer bytes make it faster now: fuse it with the kernel before or after it",
    ),
    (0.80, _IN_FLIGHT),
    (
        0.40,
        "count the loads per input: an element that is read again belongs in registers or shared "
        "memory; if each is read once, keep more bytes in flight, 16 per load and thread",
    ),
    (0.12, _NEIGHBOURS + "memory moves sectors of 32 bytes, needed or not"),
    (0.0, _ON_EVERY_SM),
)
# The same below _AT_THE_ROOF, where a kernel's accesses were counted and waste little.
_SPARING_ADVICE: _Advice = ((0.12, _IN_FLIGHT), (0.0, _ON_EVERY_SM))
_MATRIX_ADVICE: _Advice = (
    (0.97, "it is as fast as the vendor's library: nothing cheap is left"),
    (
        0.75,
        "load the next tiles while this one is multiplied (num_stages, cp.async), and order the "
        "blocks so that those that run together share tiles in L2",
    ),
    (
        0.35,
        "larger tiles per block, so that every element loaded is used more often, with 4 to 8 "
        "warps and 3 or more stages",
    ),
    (
        0.0,
        "multiply tiles on the tensor cores: tl.dot on float16 or bfloat16 operands that are not "
        "converted before, at least 64 by 64 per block",
    ),
)
_SCALAR_ADVICE: _Advice = (
    (0.97, "it is as fast as the vendor's library: nothing cheap is left"),
    (0.70, "load the next tiles into registers while this one is multiplied"),
    (
        0.25,
        "compute 8 by 8 results per thread from registers, so that a value read from shared "
        "memory serves eight FMAs",
    ),
    (0.0, "keep tiles of both operands in shared memory, and let all threads of a block use them"),
)


def advice(placed: Place, counted: Counted | None = None) -> str:
    """The next thing to try, as a clause without a capital and a full stop.

    With counts, a kernel bound by memory is told what it wastes, or that it wastes nothing.
    """
    share = placed.fraction / placed.attainable
    if placed.bound != "memory":
        steps = _SCALAR_ADVICE if placed.dtype == "float32" else _MATRIX_ADVICE
    elif counted is None or share >= _AT_THE_ROOF:
        steps = _MEMORY_ADVICE
    elif wasteful := _waste(counted):
        return wasteful
    else:
        steps = _SPARING_ADVICE
    return next(text for least, text in steps if share >= least)


def _waste(counted: Counted) -> str:
    """What a kernel's accesses waste most, as advice; "" where they waste little."""
    access, useful = min(counted.useful.items(), key=lambda each: each[1], default=("", 32.0))
    if useful < ENOUGH_OF_A_SECTOR:
        return f"{_NEIGHBOURS}its {access}s use {useful:.3g} of a sector's 32 bytes"
    name, times = max(counted.reads.items(), key=lambda each: each[1], default=("", 1.0))
    if times > ONCE:
        kept = "keep what is needed again in registers or shared memory"
        often = f"{times:.1f}".removesuffix(".0")
        return f"read every element once: those of {name} are read {often} times; {kept}"
    return ""


def _published(rates: Rates, sm_clocks: float) -> dict[str, float]:
    rates_by_dtype = {
        name: getattr(rates, name) * sm_clocks
        for name in ("float32", "tf32", "float16", "bfloat16")
    }
    return {name: value for name, value in rates_by_dtype.items() if value}


def _most(rates: Rates, sm_clocks: float) -> dict[str, float]:
    """FLOP/s that nothing exceeds, by the dtype whose accuracy the result must have."""
    halves = max(rates.half_sums, rates.float16, rates.bfloat16)
    most = {
        "float32": max(
            rates.float32, rates.tf32 / PRODUCTS_FOR_FLOAT32, halves / PRODUCTS_FOR_FLOAT32
        ),
        "tf32": max(rates.float32, rates.tf32, halves / PRODUCTS_FOR_FLOAT32),
        "float16": halves,
        "bfloat16": halves,
    }
    return {name: rate * sm_clocks for name, rate in most.items()}


def _bandwidth(memory_hz: float, bus_bits: int) -> float:
    """Bytes/s: two transfers per clock, as CUDA and NVML count clocks of all kinds of memory."""
    return 2.0 * memory_hz * bus_bits / 8


def _amount(name: str, value: float) -> float:
    if not (value >= 0 and math.isfinite(value)):
        raise RooflineError(f"expected {name} of 0 or more, got {value}")
    return float(value)

"""Makers' published figures of GPUs: streaming multiprocessors, clocks, memory bandwidth.

Rates are FLOP per SM and clock, a fused multiply-add counted as two, without sparsity. Sources: the
architectures' white papers (V100, Turing, A100, GA102, H100, Ada, Blackwell) and, for the CUDA
cores, the table of arithmetic throughput in the CUDA C++ Programming Guide. Numbers of SMs, boost
clocks and bandwidth are from NVIDIA's data sheets and product pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial


@dataclass(frozen=True)
class Rates:
    """FLOP per SM and clock; 0 where the hardware has no such unit.

    `float32` is of the CUDA cores, the others of the tensor cores accumulating in float32;
    `half_sums` is float16 accumulated in float16.
    """

    float32: int
    tf32: int
    float16: int
    bfloat16: int
    half_sums: int


VOLTA = Rates(128, 0, 1024, 0, 1024)
TURING = VOLTA
AMPERE_SERVER = Rates(128, 1024, 2048, 2048, 2048)
AMPERE = Rates(256, 512, 1024, 1024, 1024)  # GA102 to GA107, Ada and Blackwell alike, per SM
HOPPER = Rates(256, 2048, 4096, 4096, 4096)
BLACKWELL_SERVER = Rates(256, 4096, 8192, 8192, 8192)


def _slow_sums(rates: Rates) -> Rates:
    """GeForce's rates: accumulation in float32 at half the rate."""
    return replace(
        rates, tf32=rates.tf32 // 2, float16=rates.float16 // 2, bfloat16=rates.bfloat16 // 2
    )


GEFORCE_TURING = _slow_sums(TURING)
GEFORCE = _slow_sums(AMPERE)

# By compute capability. For a GeForce and a workstation's board alike, the slower one.
BY_CAPABILITY = {
    (7, 0): VOLTA,
    (7, 5): GEFORCE_TURING,
    (8, 0): AMPERE_SERVER,
    (8, 6): GEFORCE,
    (8, 9): GEFORCE,
    (9, 0): HOPPER,
    (10, 0): BLACKWELL_SERVER,
    (10, 3): BLACKWELL_SERVER,
    (12, 0): GEFORCE,
}


@dataclass(frozen=True)
class Model:
    """One GPU model. Clocks in MHz, bandwidth in GB/s.

    `pattern` matches the driver's name, in lower case and without the brand. `tensor_mhz` is the
    clock behind the published tensor rates where it is below the boost clock. `is_fixed`: no board
    exceeds the boost clock. `most_gb_s` is for names of boards with different memories.
    """

    pattern: str
    rates: Rates
    capability: int  # 90 for 9.0, by NVIDIA's page "CUDA GPU Compute Capability"
    sms: int
    boost_mhz: int
    gb_s: float
    source: str
    tensor_mhz: int = 0
    is_fixed: bool = False
    most_gb_s: float = 0.0


_server = partial(Model, is_fixed=True)


def _geforce(name: str, sms: int, boost_mhz: int, gb_s: float, most_gb_s: float = 0.0) -> Model:
    """A desktop card of the 30, 40 or 50 series; laptops' cards have other names."""
    source = "NVIDIA's GeForce product pages"
    pattern, capability = f"rtx {name}( \\d+gb)?", {"3": 86, "4": 89, "5": 120}[name[0]]
    return Model(pattern, GEFORCE, capability, sms, boost_mhz, gb_s, source, most_gb_s=most_gb_s)


_HOPPER = "NVIDIA H100 data sheet and white paper"
_AMPERE = "NVIDIA A100 data sheet"
_VOLTA = "NVIDIA V100 data sheet"
_ADA = "NVIDIA Ada data sheets"
_PRO = "NVIDIA RTX data sheets"

MODELS = (
    _server(r"b200", BLACKWELL_SERVER, 100, 148, 1965, 8000, "NVIDIA HGX B200 data sheet", 1856),
    _server(r"(h200|h200 sxm5?)( 141gb)?( hbm3e)?", HOPPER, 90, 132, 1980, 4800, _HOPPER, 1830),
    _server(r"h200 nvl", HOPPER, 90, 132, 1785, 4800, _HOPPER, 1545),
    _server(r"gh200 144g hbm3e", HOPPER, 90, 132, 1980, 4900, "NVIDIA GH200 data sheet", 1830),
    _server(r"gh200( 480gb)?", HOPPER, 90, 132, 1980, 4000, "NVIDIA GH200 data sheet", 1830),
    _server(r"h[18]00( sxm5?)?( 80gb)?( hbm3)?", HOPPER, 90, 132, 1980, 3350, _HOPPER, 1830),
    _server(r"h[18]00 (pcie|80gb hbm2e)", HOPPER, 90, 114, 1755, 2000, _HOPPER, 1620),
    _server(r"h100 nvl", HOPPER, 90, 132, 1785, 3900, _HOPPER, 1545),
    _server(r"a[18]00 sxm4? 80gb", AMPERE_SERVER, 80, 108, 1410, 2039, _AMPERE),
    _server(r"a[18]00 (80gb pcie|pcie 80gb)", AMPERE_SERVER, 80, 108, 1410, 1935, _AMPERE),
    _server(r"a100( sxm4?| pcie)?( 40gb)?", AMPERE_SERVER, 80, 108, 1410, 1555, _AMPERE),
    _server(r"a30", AMPERE_SERVER, 80, 56, 1440, 933, "NVIDIA A30 data sheet"),
    _server(r"a40", AMPERE, 86, 84, 1740, 696, "NVIDIA A40 data sheet"),
    _server(r"a10", AMPERE, 86, 72, 1695, 600, "NVIDIA A10 data sheet"),
    _server(r"a10g", GEFORCE, 86, 80, 1710, 600, "NVIDIA A10G data sheet"),
    _server(r"l40s", AMPERE, 89, 142, 2520, 864, _ADA),
    _server(r"l40", GEFORCE, 89, 142, 2490, 864, _ADA),
    _server(r"l4", AMPERE, 89, 58, 2040, 300, _ADA),
    _server(r"t4", TURING, 75, 40, 1590, 320, "NVIDIA T4 data sheet"),
    _server(r"v100 (sxm[23]|dgxs)( \d+gb)?", VOLTA, 70, 80, 1530, 900, _VOLTA),
    _server(r"v100 pcie( \d+gb)?", VOLTA, 70, 80, 1380, 900, _VOLTA),
    _server(r"v100s pcie( \d+gb)?", VOLTA, 70, 80, 1597, 1134, _VOLTA),
    Model(r"rtx pro 6000 blackwell workstation edition", AMPERE, 120, 188, 2617, 1792, _PRO),
    Model(r"rtx 6000 ada( generation)?", AMPERE, 89, 142, 2505, 960, _PRO),
    Model(r"(rtx )?a6000", AMPERE, 86, 84, 1800, 768, _PRO),
    Model(r"(rtx )?a5000", AMPERE, 86, 64, 1695, 768, _PRO),
    Model(r"(rtx )?a4000", AMPERE, 86, 48, 1560, 448, _PRO),
    Model(r"rtx 2080 ti", GEFORCE_TURING, 75, 68, 1545, 616, "NVIDIA Turing white paper"),
    _geforce("3050", 20, 1777, 224),
    _geforce("3060", 28, 1777, 360),
    _geforce("3060 ti", 38, 1665, 448, most_gb_s=608),
    _geforce("3070", 46, 1725, 448),
    _geforce("3070 ti", 48, 1770, 608),
    _geforce("3080", 68, 1710, 760, most_gb_s=912),
    _geforce("3080 ti", 80, 1665, 912),
    _geforce("3090", 82, 1695, 936),
    _geforce("3090 ti", 84, 1860, 1008),
    _geforce("4060", 24, 2460, 272),
    _geforce("4060 ti", 34, 2535, 288),
    _geforce("4070", 46, 2475, 504),
    _geforce("4070 super", 56, 2475, 504),
    _geforce("4070 ti", 60, 2610, 504),
    _geforce("4070 ti super", 66, 2610, 672),
    _geforce("4080", 76, 2505, 717),
    _geforce("4080 super", 80, 2550, 736),
    _geforce("4090", 128, 2520, 1008),
    _geforce("4090 d", 114, 2520, 1008),
    _geforce("5060", 30, 2497, 448),
    _geforce("5060 ti", 36, 2572, 448),
    _geforce("5070", 48, 2512, 672),
    _geforce("5070 ti", 70, 2452, 896),
    _geforce("5080", 84, 2617, 960),
    _geforce("5090", 170, 2407, 1792),
)

_BRANDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "gpu"})


def find(device_name: str) -> Model | None:
    """The model by the driver's name; None for unknown ones, laptops and MIG slices."""
    name = plain(device_name)
    if {"laptop", "mig"} & {*name.split()}:
        return None
    return next((model for model in MODELS if re.fullmatch(model.pattern, name)), None)


def plain(device_name: str) -> str:
    """A GPU's name in lower case, its words apart, without the brand."""
    words = re.sub(r"[^a-z0-9.]+", " ", device_name.lower()).split()
    return " ".join(word for word in words if word not in _BRANDS)

"""The GPU that a submission's host code sees, where it runs without one: this machine's, or the
course's.

Planners answer from it what host code asks of its device. Data sheets have multiprocessors, clocks
and bandwidth (datasheets.py), occupancy.py has what one multiprocessor holds. The sizes of memory,
L2 cache and bus are of NVIDIA's product pages and white papers.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from grader.gpu import datasheets, occupancy
from grader.gpu.kinds import capability_of

DEFAULT = "H100"  # the usual course's


@dataclass(frozen=True)
class HostGpu:
    """Properties as CUDA has them: bytes, kHz, bits."""

    name: str
    capability: int  # 90 for 9.0
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    clock_khz: int
    memory_clock_khz: int
    bus_bits: int
    threads: int  # of a multiprocessor, as the blocks and the shared memory
    blocks: int
    shared_bytes: int
    shared_reserved: int  # of each block, by CUDA

    @property
    def shared_optin(self) -> int:
        """The most bytes of shared memory that a block may ask for."""
        return self.shared_bytes - self.shared_reserved

    def as_json(self) -> dict[str, int | str]:
        """The fields for a planner of Triton (worker/planner/torch_cuda.py)."""
        return {**dataclasses.asdict(self), "shared_optin": self.shared_optin}

    def as_option(self) -> str:
        """The command line's option for a planner of CUDA C++ (worker/native/host.cpp)."""
        fields = self.as_json()
        name = fields.pop("name")
        return f"--gpu={':'.join(map(str, fields.values()))}:{name}"


# By the names that datasheets.py has: the driver's name ("" for NVIDIA's and the course's), memory
# in GiB, L2 cache in MiB, bits of the bus. The first that matches.
_SIZES = (
    (r"h[18]00( sxm5?)?( 80gb)?( hbm3)?", "NVIDIA H100 80GB HBM3", 80, 50, 5120),
    (r"h[18]00.*", "", 80, 50, 5120),
    (r"(gh200|h200).*", "", 141, 50, 6144),
    (r"b200", "", 180, 126, 8192),
    (r"a[18]00.*80gb.*", "", 80, 40, 5120),
    (r"a[18]00.*", "NVIDIA A100-SXM4-40GB", 40, 40, 5120),
    (r"a30", "", 24, 24, 3072),
    (r"a10g?", "", 24, 6, 384),
    (r"l4", "", 24, 48, 192),
    (r"l40s?|rtx 6000 ada.*", "", 48, 96, 384),
    (r"t4", "Tesla T4", 16, 4, 256),
    (r"v100.*", "", 16, 6, 4096),
    (r"rtx 4090.*", "NVIDIA GeForce RTX 4090", 24, 72, 384),
    (r"rtx 5090", "NVIDIA GeForce RTX 5090", 32, 96, 512),
    (r"rtx 2080 ti", "NVIDIA GeForce RTX 2080 Ti", 11, 6, 352),
)
_OTHERS = ("", "", 16, 32, 256)
_BYTES_PER_CLOCK = 2 / 8  # of each bit: two transfers a clock


def by_name(gpu: str) -> HostGpu:
    """A GPU by the name that a course has for it, the default for a name that isn't known."""
    model, capability = datasheets.find(gpu), capability_of(gpu)
    sm = occupancy.BY_CAPABILITY.get(capability or 0)
    if model is None or capability is None or sm is None:
        return by_name(DEFAULT)
    words = datasheets.plain(gpu)
    sizes = next((each for each in _SIZES if re.fullmatch(each[0], words)), _OTHERS)
    _, name, memory, l2, bits = sizes
    return HostGpu(
        name=name or (gpu if gpu.upper().startswith("NVIDIA") else f"NVIDIA {gpu}"),
        capability=capability,
        multiprocessors=model.sms,
        memory_bytes=memory << 30,
        l2_bytes=l2 << 20,
        clock_khz=model.boost_mhz * 1000,
        memory_clock_khz=round(model.gb_s * 1e6 / (bits * _BYTES_PER_CLOCK)),
        bus_bits=bits,
        threads=sm.threads,
        blocks=sm.blocks,
        shared_bytes=sm.shared_bytes,
        shared_reserved=sm.reserved,
    )

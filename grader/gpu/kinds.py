"""GPUs by the names that a course and its thresholds have for them: H100, A100, RTX 4090, T4.

The figures of a model are in datasheets.py, what one of its multiprocessors holds is in
occupancy.py.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from grader.gpu import occupancy
from grader.gpu.datasheets import find, plain

OLDEST = 75  # the first compute capability that Triton and CUDA 13 compile for
KNOWN = "T4, A100, A10, L4, RTX 4090, H100, H200, B200"
_AMD = re.compile(r"\b(amd|instinct|radeon|mi\d{2,3}[a-z]?|rx ?\d{4}|gfx\d+)\b", re.IGNORECASE)


def is_amd(name: str) -> bool:
    """Whether a GPU's name is that of an AMD device."""
    return bool(_AMD.search(name))


def capability_of(name: str) -> int | None:
    """The compute capability of a GPU by its name, 90 for 9.0; None for an unknown one."""
    model = find(name)
    return None if model is None else model.capability


def problem(name: str) -> str:
    """Why a course can't be for a GPU of this name, or ""."""
    if is_amd(name):
        return f"expected an NVIDIA GPU, got {name!r}, which is AMD's: kernels are compiled by CUDA"
    capability = capability_of(name)
    if capability is None:
        return f"expected the name of an NVIDIA GPU such as {KNOWN}, got {name!r}"
    if capability < OLDEST:
        has = f"{capability / 10}"
        return f"expected compute capability {OLDEST / 10} or newer, got {name!r}, which has {has}"
    return ""


def is_of(gpu: str, device: str) -> bool:
    """Whether a device, by its driver's name, is a GPU of this name: an A100 of 80 GB is an A100.

    An L40 is no L4, and an RTX 4070 Ti no RTX 4070.
    """
    name = "[ -]".join(map(re.escape, re.split(r"[ -]+", gpu.strip())))
    longer = r"(?![ -](ti|super|d|laptop)\b)"
    return bool(re.search(rf"(?<![a-z0-9]){name}(?![a-z0-9]){longer}", device, re.IGNORECASE))


# --- what host code sees -------------------------------------------------------------------------

DEFAULT = "H100"  # the usual course's


@dataclass(frozen=True)
class HostGpu:
    """The GPU that a submission's host code sees, where it runs without one.

    It is this machine's, or the course's: planners answer from it what host code asks of its
    device. Properties are as CUDA has them: bytes, kHz, bits.
    """

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


# Of NVIDIA's product pages and white papers.
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
    model, capability = find(gpu), capability_of(gpu)
    sm = occupancy.BY_CAPABILITY.get(capability or 0)
    if model is None or capability is None or sm is None:
        return by_name(DEFAULT)
    words = plain(gpu)
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

"""GPUs by the names that a course and its thresholds have for them: H100, A100, RTX 4090, T4.

Compute capabilities are those of NVIDIA's page "CUDA GPU Compute Capability". The figures of a
model are in datasheets.py, what one of its multiprocessors holds is in occupancy.py.
"""

from __future__ import annotations

import re

from grader.gpu.datasheets import find, plain

OLDEST = 75  # the first compute capability that Triton and CUDA 13 compile for
# By the names that datasheets.py has: the first that matches.
_CAPABILITIES = (
    (r"b200.*", 100),
    (r"(gh200|h[128]00|h20).*", 90),
    (r"(rtx 6000 ada|l40?s?|rtx 40\d\d).*", 89),
    (r"(a[18]00|a30).*", 80),
    (r"(a10g?|a40|(rtx )?a[456]000|rtx 30\d\d).*", 86),
    (r"(t4|rtx 2080).*", 75),
    (r"v100.*", 70),
    (r"(rtx pro 6000|rtx 50\d\d).*", 120),
)
KNOWN = "T4, A100, A10, L4, RTX 4090, H100, H200, B200"
_AMD = re.compile(r"\b(amd|instinct|radeon|mi\d{2,3}[a-z]?|rx ?\d{4}|gfx\d+)\b", re.IGNORECASE)


def is_amd(name: str) -> bool:
    """Whether a GPU's name is that of an AMD device."""
    return bool(_AMD.search(name))


def capability_of(name: str) -> int | None:
    """The compute capability of a GPU by its name, 90 for 9.0; None for an unknown one."""
    if find(name) is None:
        return None
    words = plain(name)
    return next((known for text, known in _CAPABILITIES if re.fullmatch(text, words)), None)


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

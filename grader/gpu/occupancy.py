"""How many blocks of a kernel one streaming multiprocessor (SM) holds at a time, and why no more.

The limits are those of the CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"; how registers and shared memory are handed out is what NVIDIA's occupancy calculator
assumes.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
_WARPS_TOGETHER = 4  # an SM has four parts; registers are handed out to so many warps alike
_REGISTERS_TOGETHER = 256  # of a warp: what is handed out at a time


@dataclass(frozen=True)
class SmLimits:
    """What one SM has. `reserved` bytes of shared memory are CUDA's, of each block."""

    threads: int
    blocks: int
    shared_bytes: int
    reserved: int = 1024
    shared_together: int = 128  # what is handed out at a time
    registers: int = 65_536


_KIB = 1024
BY_CAPABILITY = {
    70: SmLimits(2048, 32, 96 * _KIB, reserved=0, shared_together=256),
    75: SmLimits(1024, 16, 64 * _KIB, reserved=0, shared_together=256),
    80: SmLimits(2048, 32, 164 * _KIB),
    86: SmLimits(1536, 16, 100 * _KIB),
    87: SmLimits(1536, 16, 164 * _KIB),
    89: SmLimits(1536, 24, 100 * _KIB),
    90: SmLimits(2048, 32, 228 * _KIB),
    100: SmLimits(2048, 32, 228 * _KIB),
    103: SmLimits(2048, 32, 228 * _KIB),
    120: SmLimits(1536, 24, 100 * _KIB),
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks on one SM at a time. `limits` names what allows no more of them."""

    blocks: int
    warps: int
    most_warps: int
    limits: tuple[str, ...]


def occupancy(capability: int, threads: int, registers: int, shared: int) -> Occupancy | None:
    """That of blocks of so many threads, with `registers` of each thread and `shared` bytes.

    `shared` is without what CUDA reserves. None for a GPU whose limits aren't known here, and for a
    block without threads.
    """
    sm = BY_CAPABILITY.get(capability)
    if sm is None or threads < 1:
        return None
    warps = _up(threads, WARP) // WARP
    counts = {
        "threads": sm.threads // WARP // warps,
        "blocks": sm.blocks,
        "registers": _by_registers(sm, warps, registers),
        "shared memory": sm.shared_bytes // max(_up(shared + sm.reserved, sm.shared_together), 1),
    }
    if not shared + sm.reserved:
        del counts["shared memory"]
    blocks = min(counts.values())
    limits = tuple(name for name, count in counts.items() if count == blocks)
    return Occupancy(blocks, blocks * warps, sm.threads // WARP, limits)


def _by_registers(sm: SmLimits, warps: int, registers: int) -> int:
    if registers < 1:
        return sm.blocks
    of_warp = _up(registers * WARP, _REGISTERS_TOGETHER)
    held = sm.registers // of_warp // _WARPS_TOGETHER * _WARPS_TOGETHER
    return held // warps


def _up(number: int, step: int) -> int:
    return -(-number // step) * step

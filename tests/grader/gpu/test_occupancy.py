"""Blocks on an SM, against numbers of NVIDIA's occupancy calculator."""

from __future__ import annotations

import pytest

from grader.gpu.occupancy import BY_CAPABILITY, occupancy


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks", "limits"),
    [
        (90, 256, 32, 0, 8, ("threads", "registers")),
        (90, 256, 24, 0, 8, ("threads",)),
        (90, 256, 40, 0, 6, ("registers",)),
        (90, 256, 255, 0, 1, ("registers",)),
        (90, 32, 16, 0, 32, ("blocks",)),
        (90, 128, 32, 100 * 1024, 2, ("shared memory",)),
        (90, 128, 32, 227 * 1024, 1, ("shared memory",)),
        (90, 1024, 64, 0, 1, ("registers",)),
        (90, 1024, 65, 0, 0, ("registers",)),
        (80, 256, 32, 40 * 1024, 4, ("shared memory",)),
        (75, 256, 32, 0, 4, ("threads",)),
        (86, 1024, 40, 0, 1, ("threads", "registers")),
    ],
)
def test_what_allows_no_more_blocks(capability, threads, registers, shared, blocks, limits):
    held = occupancy(capability, threads, registers, shared)
    assert (held.blocks, held.limits) == (blocks, limits)
    assert held.warps == blocks * -(-threads // 32)


def test_warps_are_some_of_those_that_an_sm_holds():
    held = occupancy(90, 256, 40, 0)
    assert (held.warps, held.most_warps) == (48, 64)


def test_nothing_is_said_of_a_gpu_that_is_not_known():
    assert 61 not in BY_CAPABILITY
    assert occupancy(61, 256, 32, 0) is None
    assert occupancy(90, 0, 32, 0) is None

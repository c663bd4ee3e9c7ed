"""Distinct bytes that programs of a wave load, in the order of the launch and by rows of tiles."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from grader.worker.ttir import waves
from grader.worker.ttir.counters import Counters

from .launches import BASE, access, argument, observe

TILES, BLOCK, SIDE = 8, 16, 128  # tiles along a side, of BLOCK elements


def launches(rows: np.ndarray, columns: np.ndarray, wave: int) -> dict:
    """Programs load a row of tiles of A and a column of tiles of B, and store a tile of C."""
    step = np.arange(BLOCK)
    a, b, c = (BASE * (index + 1) for index in range(3))
    row = rows[:, None, None] * BLOCK + step[None, :, None]
    column = columns[:, None, None] * BLOCK + step[None, None, :]
    accesses = []
    for k in range(0, SIDE, BLOCK):
        accesses.append(access("load", 3, a + 4 * (row * SIDE + k + step[None, None, :])))
        accesses.append(access("load", 4, b + 4 * ((k + step[None, :, None]) * SIDE + column)))
    accesses.append(access("store", 5, c + 4 * (row * SIDE + column), stored=1))
    regions = [argument(index, SIDE * SIDE) for index in range(3)]
    make = functools.partial(Counters, wave=wave)
    counters, findings = observe(make, regions, (len(rows), 1, 1), accesses)
    assert findings == []
    [counted] = counters.report()["waves"]
    return counted


STRIP = BLOCK * SIDE * 4  # bytes of a row or a column of tiles


def test_row_major_waves_share_a_row_of_tiles():
    program = np.arange(TILES * TILES)
    counted = launches(program // TILES, program % TILES, wave=TILES)
    expected = TILES * (STRIP + TILES * STRIP)
    assert counted == {
        "programs": 64,
        "waves": 8,
        "bytes": expected,
        "row_major_bytes": expected,
        "asked_bytes": 64 * 2 * STRIP,
        "distinct_bytes": 2 * TILES * STRIP,
    }


def test_grouped_programs_load_less_than_in_row_major_order():
    program = np.arange(TILES * TILES)
    group, within = program // 16, program % 16
    counted = launches(group * 2 + within % 2, within // 2, wave=4)
    assert counted["bytes"] == 16 * 4 * STRIP  # two rows and two columns of tiles
    assert counted["row_major_bytes"] == 16 * 5 * STRIP  # one row and four columns


def test_only_full_waves_count_unless_there_is_none():
    program = np.arange(10)
    counted = launches(program % TILES, program // TILES, wave=4)
    assert (counted["programs"], counted["waves"]) == (10, 2)
    counted = launches(program[:3], program[:3], wave=4)
    assert (counted["waves"], counted["bytes"]) == (1, 6 * STRIP)


@pytest.mark.parametrize("room", [1 << 8, 1 << 20])
def test_too_many_sectors_are_cut(monkeypatch, room):
    monkeypatch.setattr(waves, "MAX_PAIRS", room)
    monkeypatch.setattr(waves, "COMPACT_AT", 64)
    program = np.arange(8)
    counter, _ = observe(
        functools.partial(Counters, wave=4),
        [argument(0, 1 << 14)],
        (8, 1, 1),
        [access("load", 3, BASE + 4 * (program[:, None] * 2048 + np.arange(1024)))] * 3,
    )
    assert counter.report()["cut"] == (room == 1 << 8)

"""Distinct bytes that programs of a wave load, in the order of the launch and by rows of tiles."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from grader.worker.ttir import waves
from grader.worker.ttir.counters import Counters

from .launches import BASE, access, argument, observe

TILES, BLOCK, SIDE = 8, 16, 128  # tiles along a side, of BLOCK elements


def launches(
    rows: np.ndarray, columns: np.ndarray, wave: int, programs: int = 0, tiny_turns: int = 0
) -> dict:
    """Tiles that load a row of tiles of A and a column of tiles of B, and store a tile of C.

    With `programs`, each makes a tile after another, else one. Before each, it loads and stores an
    element `tiny_turns` times.
    """
    step = np.arange(BLOCK)
    a, b, c = (BASE * (index + 1) for index in range(3))
    row = rows[:, None, None] * BLOCK + step[None, :, None]
    column = columns[:, None, None] * BLOCK + step[None, None, :]
    tiles = []
    for _ in range(tiny_turns):
        tiles.append(("load", 1, a + 0 * row))
        tiles.append(("store", 2, c + 4 * (row * SIDE + column)[:, :1, :1]))
    for k in range(0, SIDE, BLOCK):
        tiles.append(("load", 3, a + 4 * (row * SIDE + k + step[None, None, :])))
        tiles.append(("load", 4, b + 4 * ((k + step[None, :, None]) * SIDE + column)))
    tiles.append(("store", 5, c + 4 * (row * SIDE + column)))
    programs = programs or len(rows)
    accesses = [
        access(kind, line, addresses[first : first + programs], stored=1)
        for first in range(0, len(rows), programs)
        for kind, line, addresses in tiles
    ]
    regions = [argument(index, SIDE * SIDE) for index in range(3)]
    make = functools.partial(Counters, wave=wave)
    counters, findings = observe(make, regions, (programs, 1, 1), accesses)
    assert findings == []
    report = counters.report()
    assert not report["cut"], "cut"
    [counted] = report["waves"]
    return counted


STRIP = BLOCK * SIDE * 4  # bytes of a row or a column of tiles


def test_sectors_are_sorted_and_not_hashed(monkeypatch: pytest.MonkeyPatch):
    """NumPy's hashing takes far longer where there are many."""
    monkeypatch.setattr(np, "unique", None)
    program = np.arange(TILES * TILES)
    assert launches(program // TILES, program % TILES, wave=TILES)["waves"] == TILES


def test_row_major_waves_share_a_row_of_tiles():
    program = np.arange(TILES * TILES)
    counted = launches(program // TILES, program % TILES, wave=TILES)
    expected = TILES * (STRIP + TILES * STRIP)
    assert counted == {
        "turns": 64,
        "waves": 8,
        "bytes": expected,
        "row_major_bytes": expected,
        "asked_bytes": 64 * 2 * STRIP,
        "distinct_bytes": 2 * TILES * STRIP,
    }


def grouped() -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of tiles, by two rows at a time."""
    group, within = np.arange(TILES * TILES) // 16, np.arange(TILES * TILES) % 16
    return group * 2 + within % 2, within // 2


def test_grouped_programs_load_less_than_in_row_major_order():
    counted = launches(*grouped(), wave=4)
    assert counted["bytes"] == 16 * 4 * STRIP  # two rows and two columns of tiles
    assert counted["row_major_bytes"] == 16 * 5 * STRIP  # one row and four columns


@pytest.mark.parametrize("programs", [16, 24, 32])
def test_the_tiles_of_persistent_programs_are_waves_as_those_of_others(programs):
    assert launches(*grouped(), 4, programs) == launches(*grouped(), 4)
    row_major = np.divmod(np.arange(TILES * TILES), TILES)
    assert launches(*row_major, 4, programs) == launches(*row_major, 4)


def test_no_more_programs_run_at_once_than_there_are():
    counted = launches(*grouped(), wave=64, programs=4)
    assert (counted["waves"], counted["bytes"]) == (16, 16 * 4 * STRIP)


def test_turns_that_load_little_part_no_others():
    row_major = np.divmod(np.arange(TILES * TILES), TILES)
    counted = launches(*row_major, wave=8, tiny_turns=15)
    assert counted["turns"] == 16 * TILES * TILES
    assert counted["bytes"] == counted["row_major_bytes"]


def test_too_many_turns_are_cut(monkeypatch):
    monkeypatch.setattr(waves, "MAX_TURNS", 64)
    assert launches(*grouped(), 4)["turns"] == 64
    assert launches(*grouped(), 4, programs=16)["turns"] == 64
    monkeypatch.setattr(waves, "MAX_TURNS", 63)
    with pytest.raises(AssertionError, match="cut"):
        launches(*grouped(), 4, programs=16)


def test_only_full_waves_count_unless_there_is_none():
    program = np.arange(10)
    counted = launches(program % TILES, program // TILES, wave=4)
    assert (counted["turns"], counted["waves"]) == (10, 2)
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

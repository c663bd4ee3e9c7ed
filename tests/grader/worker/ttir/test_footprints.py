"""The different bytes that the busiest program touches."""

from __future__ import annotations

import numpy as np

from grader.worker.ttir import counters
from grader.worker.ttir.counters import Counters

from .launches import BASE, access, argument, observe

PROGRAMS, BLOCK = 4, 64


def largest(*accesses) -> tuple[int, int]:
    """The bytes that the busiest program moves, and how many of them differ."""
    regions = [argument(index, 4 * PROGRAMS * BLOCK) for index in range(2)]
    counters, findings = observe(Counters, regions, (PROGRAMS, 1, 1), accesses)
    assert findings == []
    report = counters.report()
    return report["largest_bytes"], report["largest_footprint"]


def blocks(kind: str, size: int = BLOCK, step: int = 1, stored: int | None = None):
    offsets = (np.arange(PROGRAMS)[:, None] * size + np.arange(size)[None, :]) * step
    return access(kind, 2, BASE + 4 * offsets, stored=stored)


def test_what_is_loaded_again_is_touched_once():
    load, store = blocks("load"), blocks("store", stored=1)
    assert largest(load) == (4 * BLOCK, 4 * BLOCK)
    assert largest(load, load, load) == (3 * 4 * BLOCK, 4 * BLOCK)
    assert largest(load, load, store) == (3 * 4 * BLOCK, 2 * 4 * BLOCK)


def test_a_part_of_a_sector_is_no_more_than_what_is_moved():
    assert largest(blocks("load", step=4)) == (4 * BLOCK, 4 * BLOCK)


def test_what_does_not_fit_is_what_is_moved(monkeypatch):
    monkeypatch.setattr(counters, "COMPACT_AT", 4)
    load = blocks("load")
    assert largest(load, load) == (2 * 4 * BLOCK, 4 * BLOCK)
    monkeypatch.setattr(counters, "MAX_KEYS", 4)
    assert largest(load, load) == (2 * 4 * BLOCK, 2 * 4 * BLOCK)
    monkeypatch.setattr(counters, "MAX_PROGRAMS", 2)
    assert largest(load, load) == (2 * 4 * BLOCK, 2 * 4 * BLOCK)

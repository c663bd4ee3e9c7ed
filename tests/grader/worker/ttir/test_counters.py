"""Counters of accesses: against numbers worked out by hand, and lane by lane in plain Python.

The transposes of 256x256 float32 are those of CUDA kernels counted by ncu on an H100: rows of 256
threads that read along rows and write along columns make 2048 requests of 8192 and of 65536
sectors; tiles make 2048 of 8192 on both sides.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from grader.executors.triton import triton_report
from grader.worker.ttir.counters import Counters
from grader.worker.ttir.regions import of_argument, of_scratch

from .launches import BASE, FakeOp, access, argument, observe

SIDE = 256
KINDS = ("load", "store", "atomic")


def counted(accesses, regions, programs: int) -> tuple[dict, list[dict]]:
    """(the counters' report, findings) of one launch, which the grader's reader must accept."""
    counters, findings = observe(Counters, regions, (programs, 1, 1), accesses)
    report = counters.report()
    triton_report.parse({**report, "findings": findings, "copied_bytes": 0})
    return report, findings


def sites(report: dict) -> dict[str, tuple[int, int, int, int]]:
    """(requests, sectors, useful bytes, masked) by kind."""
    names = ("requests", "sectors", "useful_bytes", "masked")
    return {site["kind"]: tuple(site[name] for name in names) for site in report["sites"]}


# --- numbers by hand ------------------------------------------------------------------------------


def square(index: int) -> np.ndarray:
    return (index + 1) * BASE + 4 * np.arange(SIDE * SIDE).reshape(SIDE, SIDE)


def test_a_transpose_by_output_rows_loads_a_sector_for_every_element():
    load = access("load", 3, square(0).T)
    store = access("store", 4, square(1), stored=1)
    report, _ = counted([load, store], [argument(0, SIDE**2), argument(1, SIDE**2)], SIDE)
    assert sites(report) == {"load": (2048, 65536, 262144, 0), "store": (2048, 8192, 262144, 0)}
    assert report["buffers"] == [
        {
            "argument": 0,
            "load_bytes": 262144,
            "store_bytes": 0,
            "distinct_load_bytes": 262144,
            "distinct_store_bytes": 0,
        },
        {
            "argument": 1,
            "load_bytes": 0,
            "store_bytes": 262144,
            "distinct_load_bytes": 0,
            "distinct_store_bytes": 262144,
        },
    ]


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_tiles_are_read_along_the_axis_of_neighbours(along):
    tiles = square(0).reshape(8, 32, 8, 32).swapaxes(1, 2).reshape(64, 32, 32)
    tiles = tiles if along == "rows" else tiles.swapaxes(1, 2)
    report, _ = counted([access("load", 3, tiles)], [argument(0, SIDE**2)], 64)
    assert sites(report) == {"load": (2048, 8192, 262144, 0)}


def test_a_scalar_is_a_request_of_one_lane():
    report, _ = counted([access("load", 3, np.full(8, BASE))], [argument(0, 4)], 8)
    assert sites(report) == {"load": (8, 8, 32, 0)}
    [argument_] = report["buffers"]
    assert (argument_["load_bytes"], argument_["distinct_load_bytes"]) == (32, 4)


def test_masked_lanes_ask_for_nothing():
    lane = np.arange(128)
    load = access("load", 3, BASE + 4 * np.stack([lane, lane + 128]), active=lane < 40)
    report, _ = counted([load], [argument(0, 4096)], 2)
    assert sites(report) == {"load": (4, 10, 320, 176)}


def test_blocks_that_nobody_accesses_are_masked_only():
    load = access("load", 3, np.full((2, 64), -(1 << 50)), active=np.zeros(64, dtype=bool))
    report, findings = counted([load], [argument(0, 64)], 2)
    assert sites(report) == {"load": (0, 0, 0, 128)}
    assert findings == []


def test_atomics_load_and_store():
    bins = access("atomic", 3, np.full((1, 64), BASE))
    report, _ = counted([bins], [argument(0, 64)], 1)
    assert sites(report) == {"atomic": (2, 2, 8, 0)}
    [buffer] = report["buffers"]
    assert (buffer["load_bytes"], buffer["store_bytes"]) == (8, 8)


def test_the_largest_tile_is_the_first_of_its_size():
    counters, _ = observe(Counters, [], (1, 1, 1), [])
    for line, size in ((3, 64), (4, 1024), (5, 1024), (6, 1)):
        counters.value(FakeOp(("kernel.py", line)), size)
    assert (counters.report()["largest_tile"], counters.report()["tile_line"]) == (1024, 4)


def test_scratch_is_counted_in_bytes_and_has_room():
    scratch = of_scratch(2 * BASE, 512)
    store = access("store", 3, 2 * BASE + 4 * np.arange(128)[None], stored=1)
    report, findings = counted([store], [argument(0, 64), scratch], 1)
    assert report["scratch_bytes"] == 512
    assert findings == []


def test_of_scratch_each_word_that_is_stored_to_counts_once():
    scratch = of_scratch(2 * BASE, 511)
    words = 2 * BASE + 4 * np.arange(32)[None]
    stores = [access("store", 3, words, stored=1)] * 2
    others = [access("atomic", 3, words + 64), access("load", 3, words + 128)]
    end = access("store", 3, np.array([[2 * BASE + 508]]), width=2, stored=1)
    report, _ = counted([*stores, *others, end], [argument(0, 64), scratch], 1)
    assert report["scratch_stored_bytes"] == 4 * (32 + 16 + 1)


# --- outside --------------------------------------------------------------------------------------


def test_what_lies_between_padded_rows_is_not_counted():
    rows = of_argument(0, BASE, 4, (4, 30), (32, 1))
    at = BASE + 4 * (32 * np.arange(4)[:, None] + np.arange(32))
    report, findings = counted([access("load", 9, at)], [rows], 4)
    assert [each["kind"] for each in findings] == ["out_of_bounds_read"]
    assert report["buffers"][0]["load_bytes"] == 4 * 30 * 4
    assert report["buffers"][0]["distinct_load_bytes"] == 4 * 30 * 4


def test_overlapping_strides_and_empty_arguments_are_regions():
    windows = of_argument(0, BASE, 4, (5, 3), (1, 1))  # a sliding window
    assert windows.holds(BASE + 4 * np.arange(8), 4).tolist() == [True] * 7 + [False]
    empty = of_argument(0, BASE, 4, (0, 8), (8, 1))
    assert not empty.holds(np.array([BASE]), 4).any()


# --- any blocks at all ----------------------------------------------------------------------------


def by_hand(addresses: np.ndarray, active: np.ndarray, width: int) -> tuple[int, ...]:
    """(requests, lanes, sectors, useful bytes) of one program's block, lane by lane."""

    def neighbours(axis: int) -> int:
        line = np.moveaxis(addresses, axis, 0).reshape(addresses.shape[axis], -1)[:, 0].tolist()
        return sum(after - before == width for before, after in itertools.pairwise(line))

    axes = sorted(range(addresses.ndim), key=neighbours)
    order = addresses.transpose(axes).reshape(-1).tolist()
    lit = active.transpose(axes).reshape(-1).tolist()
    totals = [0, 0, 0, 0]
    for first in range(0, len(order), 32):
        pairs = zip(order[first : first + 32], lit[first : first + 32], strict=True)
        lanes = [address for address, on in pairs if on]
        totals[0] += bool(lanes)
        totals[1] += len(lanes)
        totals[2] += len({address // 32 for address in lanes})
        totals[3] += len(set(lanes)) * width
    return tuple(totals)


@pytest.mark.parametrize("shape", [(8,), (64,), (3, 5), (16, 32), (4, 2, 8), (2, 2, 2, 16)])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_random_blocks_are_counted_as_by_hand(shape, width):
    rng = np.random.default_rng([len(shape), width, *shape])
    for _ in range(20):
        programs = int(rng.integers(1, 5))
        strides = rng.choice([0, 1, 2, 16, 100], (programs, len(shape)))
        index = np.indices(shape)
        elements = np.einsum("pa,a...->p...", strides, index) + rng.integers(0, 50)
        if rng.random() < 0.3:
            elements = rng.integers(0, 4096, elements.shape)
        active = rng.random(elements.shape) < rng.choice([0.0, 0.5, 1.0])
        at = BASE + width * elements
        kind = KINDS[int(rng.integers(3))]
        each = access(kind, 5, at, active=active, width=width)
        report, _ = counted([each], [argument(0, 8192, width)], programs)
        [site] = report["sites"]
        rows = [by_hand(at[row], active[row], width) for row in range(programs)]
        names = ("requests", "lanes", "sectors", "useful_bytes")
        assert tuple(site[name] for name in names) == tuple(map(sum, zip(*rows, strict=True)))
        assert site["masked"] == int((~active).sum())

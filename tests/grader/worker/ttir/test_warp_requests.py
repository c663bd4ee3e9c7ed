"""Requests as a compiled kernel's warps make them, worked out by hand.

That one instruction of a warp is one request, however much a lane takes, is what ncu counted on an
H100: 1024 requests of 16384 sectors for 256x512 float32 in vectors of 16 bytes (transpose_vectors
in tests/grader/emulator/ncu_solutions.csv), which the last test here has again.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from grader.executors.triton import triton_report
from grader.worker.ttir.counters import Counters
from grader.worker.ttir.warp_requests import AccessLayout, Layouts

from .launches import BASE, access, argument, observe

ROWS = ((1, 4), (2, 16), (4, 1), (1, 0))
FLAT = ((8,), (32,), (4,), (0,))
HALVES = 2 * np.arange(1024)[None]
NCU = Path(__file__).resolve().parents[2] / "emulator" / "ncu_solutions.csv"


def counted(each, layouts: Layouts) -> dict:
    """The one site of a launch with one access, which the grader's reader must accept."""
    size = argument(0, 1 << 17, each.width)
    counters, findings = observe(Counters, [size], (len(each.programs), 1, 1), [each], layouts)
    report = counters.report()
    triton_report.parse({**report, "findings": findings, "copied_bytes": 0})
    [site] = report["sites"]
    return site


def compiled(
    each, encoding: tuple[Any, Any, Any, Any], lane_bytes: int, copies: int = 1
) -> tuple[int, ...]:
    """(requests, sectors, useful bytes) of one access by a layout."""
    layout = AccessLayout(each.block, *encoding, lane_bytes, copies)
    site = counted(each, Layouts({(each.op.line[1], each.kind, each.block): layout}))
    return tuple(site["compiled"].values())


def test_sixteen_bytes_of_a_lane_are_one_access():
    # 128 lanes of 16 bytes: 4 requests of 16 sectors.
    assert compiled(access("load", 3, BASE + HALVES, width=2), FLAT, 16) == (4, 64, 2048)


def test_smaller_accesses_touch_each_sector_several_times():
    each = access("load", 3, BASE + HALVES, width=2)
    # An instruction takes 4 of each lane's 16 bytes, so two lanes of it lie in each sector.
    assert compiled(each, FLAT, 4) == (16, 16 * 16, 2048)
    assert compiled(each, FLAT, 2) == (32, 32 * 16, 2048)


def test_warps_that_are_masked_off_make_no_request():
    whole = access("load", 3, BASE + HALVES, width=2, active=np.arange(1024) < 512)
    assert compiled(whole, FLAT, 16) == (2, 32, 1024)
    cut = access("load", 3, BASE + HALVES, width=2, active=np.arange(1024) < 509)
    # 63 lanes have 8 elements and one has 5: three instructions of the second warp have 31 lanes.
    assert compiled(cut, FLAT, 2) == (16, 13 * 16 + 3 * 16, 1018)
    nobody = access("load", 3, BASE + HALVES, width=2, active=np.zeros(1024, bool))
    assert compiled(nobody, FLAT, 16) == (0, 0, 0)


def test_tiles_along_either_axis():
    tile = BASE + 4 * np.arange(64 * 64).reshape(1, 64, 64)
    assert compiled(access("load", 3, tile), ROWS, 16) == (32, 512, 16384)
    across = access("load", 3, tile.swapaxes(1, 2))
    # A lane's four elements lie in four rows: a request takes one of each of its 2 by 16 lanes.
    assert compiled(across, ROWS, 4) == (128, 128 * 16, 16384)


def test_a_small_block_leaves_lanes_idle():
    tile = BASE + 4 * np.arange(16)[None]
    assert compiled(access("load", 3, tile), FLAT, 16) == (2, 4, 64)


def test_warps_with_copies_of_a_block_load_it_too():
    tile = BASE + 4 * np.arange(64)[None]
    narrow = ((1,), (32,), (4,), (0,))
    assert compiled(access("load", 3, tile), narrow, 4, 2) == (4, 16, 512)


def test_a_scalar_is_loaded_by_every_warp_and_stored_by_one():
    at = np.full(6, BASE)
    eight = Layouts({}, warps=8)
    assert counted(access("load", 3, at), eight)["compiled"]["requests"] == 48
    on = np.arange(6) < 2
    assert counted(access("load", 3, at, active=on), eight)["compiled"]["requests"] == 16
    assert tuple(counted(access("store", 3, at), eight)["compiled"].values()) == (6, 6, 24)
    assert counted(access("atomic", 3, at), eight)["compiled"]["requests"] == 6


def test_an_access_without_a_layout_is_counted_by_its_elements():
    each = access("load", 3, BASE + HALVES, width=2)
    site = counted(each, Layouts({}))
    assert (site["requests"], site["sectors"], site["compiled"]) == (32, 64, None)
    layout = AccessLayout((1024,), *FLAT, 16)
    elsewhere = Layouts({(4, "load", (1024,)): layout, (3, "store", (1024,)): layout})
    assert counted(each, elsewhere)["compiled"] is None


def test_metrics_do_not_depend_on_the_layout():
    """What a spec bounds is counted by elements, whatever an instruction takes of a lane."""
    each = access("load", 3, BASE + HALVES, width=2)
    layouts = Layouts({(3, "load", (1024,)): AccessLayout((1024,), *FLAT, 2)})
    site = counted(each, layouts)
    assert site["compiled"]["sectors"] == 512
    assert site == counted(each, Layouts({})) | {"compiled": site["compiled"]}


def test_every_element_has_one_place():
    for shape in ((64, 64), (2, 64), (64, 2), (1, 1), (128, 32)):
        order = AccessLayout(shape, *ROWS, 16).arranged()
        assert sorted(order.tolist()) == list(range(shape[0] * shape[1]))


def test_a_copy_in_vectors_makes_the_requests_that_ncu_counts():
    with NCU.open(encoding="utf-8", newline="") as file:
        [told] = [row for row in csv.DictReader(file) if row["entry"] == "transpose_vectors"]
    names = ("requests", "sectors")
    loads = [int(told[f"l1tex__t_{name}_pipe_lsu_mem_global_op_ld.sum"]) for name in names]
    tiles = BASE + 4 * np.arange(256 * 512).reshape(32, 4096)
    vectors = ((4,), (32,), (8,), (0,))
    assert compiled(access("load", 3, tiles), vectors, 16)[:2] == tuple(loads)

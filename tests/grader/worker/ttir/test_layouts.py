"""The compiler's layouts: read from TTGIR, and the requests that warps make by them."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from grader import triton_report
from grader.worker.ttir.counters import Counters
from grader.worker.ttir.layouts import Blocked, Layouts, read_layouts

from .launches import BASE, access, argument, observe

ROWS = Blocked((1, 4), (2, 16), (4, 1), (1, 0))
FLAT = Blocked((8,), (32,), (4,), (0,))


@triton.jit
def transpose(x, out, R, C, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    m = (r[:, None] < R) & (c[None, :] < C)
    v = tl.load(x + r[:, None] * C + c[None, :], mask=m)
    tl.store(out + c[None, :] * R + r[:, None], v, mask=m)


def test_layouts_are_read_from_what_the_compiler_wrote():
    types = {"x": "*fp32", "out": "*fp32", "R": "i32", "C": "i32", "B": "constexpr"}
    aligned = {(index,): [["tt.divisibility", 16]] for index in range(4)}
    source = ASTSource(transpose, types, {(4,): 64}, aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    layouts = read_layouts(compiled.asm["ttgir"])
    lines, first = inspect.getsourcelines(transpose.fn)
    line_of = {
        kind: first + index
        for index, text in enumerate(lines)
        for kind in ("load", "store")
        if f"tl.{kind}(" in text
    }
    assert layouts.by_place == {
        (line_of["load"], "load", (64, 64)): ROWS,
        (line_of["store"], "store", (64, 64)): Blocked((4, 1), (16, 2), (1, 4), (0, 1)),
    }


TEXT = """
#blocked = #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#linear = #ttg.linear<{register = [[1]], lane = [[2]], warp = [], block = []}>
    %2 = tt.atomic_rmw fadd, acq_rel, gpu, %1, %v : (tensor<1024x!tt.ptr<f16>, #blocked>, tensor<1024xf16, #blocked>) -> tensor<1024xf16, #blocked> loc(#loc4)
    %3 = tt.load %1 : tensor<1024x!tt.ptr<f16>, #linear> loc(#loc3)
    %4 = tt.load %9 : !tt.ptr<f16> loc(#loc3)
#loc1 = loc("/usr/lib/triton/language/standard.py":400:9)
#loc2 = loc("kernel.py":15:5)
#loc3 = loc("v"(#loc2))
#loc4 = loc(callsite(#loc1 at #loc3))
"""  # noqa: E501


def test_a_call_of_the_library_counts_at_the_callers_line():
    assert read_layouts(TEXT).by_place == {(15, "atomic", (1024,)): FLAT}


def test_locations_in_a_circle_have_no_line():
    text = TEXT.replace('"v"(#loc2)', "callsite(#loc4 at #loc3)")
    assert read_layouts(text).by_place == {(0, "atomic", (1024,)): FLAT}


@pytest.mark.parametrize(
    "sizes", [((3,), (32,), (4,), (0,)), ((8,), (32,), (4, 1), (0,)), ((8,), (32,), (4,), (1,))]
)
def test_what_is_no_encoding_is_refused(sizes):
    with pytest.raises(ValueError, match="blocked encoding"):
        Blocked(*sizes)


def site(each, encoding: Blocked, shape: tuple[int, ...]) -> tuple[int, ...]:
    """(requests, lanes, sectors, useful bytes, bytes of a lane) of one access by a layout."""
    layouts = {"kernel": Layouts({(each.op.line[1], each.kind, shape): encoding})}
    make = functools.partial(Counters, layouts=layouts)
    size = argument(0, 1 << 16, each.width)
    counters, findings = observe(make, [size], (len(each.programs), 1, 1), [each])
    report = counters.report()
    triton_report.parse({**report, "findings": findings, "copied_bytes": 0})
    [told] = report["sites"]
    names = ("requests", "lanes", "sectors", "useful_bytes", "bytes")
    return tuple(told[name] for name in names)


def test_sixteen_bytes_of_a_lane_are_one_access():
    at = BASE + 2 * np.arange(1024)[None]
    # 128 lanes of 16 bytes: 4 requests of 16 sectors.
    assert site(access("load", 3, at, width=2), FLAT, (1024,)) == (4, 128, 64, 2048, 16)


def test_addresses_that_are_not_aligned_are_accessed_in_smaller_pieces():
    at = BASE + 4 + 2 * np.arange(1024)[None]
    assert site(access("load", 3, at, width=2), FLAT, (1024,))[::4] == (16, 4)
    at = BASE + 2 + 2 * np.arange(1024)[None]
    requests, lanes, _, useful, width = site(access("load", 3, at, width=2), FLAT, (1024,))
    assert (requests, lanes, useful, width) == (32, 1024, 2048, 2)


def test_a_mask_that_cuts_a_lane_in_two_makes_accesses_of_single_elements():
    at = BASE + 2 * np.arange(1024)[None]
    whole = access("load", 3, at, width=2, active=np.arange(1024) < 512)
    assert site(whole, FLAT, (1024,)) == (2, 64, 32, 1024, 16)
    cut = access("load", 3, at, width=2, active=np.arange(1024) < 509)
    requests, lanes, _, useful, width = site(cut, FLAT, (1024,))
    assert (lanes, useful, width) == (509, 1018, 2)
    assert requests == 2 * 8


def test_tiles_along_either_axis():
    tile = BASE + 4 * np.arange(64 * 64).reshape(1, 64, 64)
    assert site(access("load", 3, tile), ROWS, (64, 64)) == (32, 1024, 512, 16384, 16)
    across = access("load", 3, tile.swapaxes(1, 2))
    # A lane's four elements lie in four rows: a request takes one of each of its 2 by 16 lanes.
    requests, lanes, sectors, useful, width = site(across, ROWS, (64, 64))
    assert (requests, lanes, useful, width) == (128, 4096, 16384, 4)
    assert sectors == 128 * 16


def test_a_small_block_leaves_lanes_idle():
    tile = BASE + 4 * np.arange(16)[None]
    assert site(access("load", 3, tile), FLAT, (16,)) == (2, 4, 4, 64, 16)


def test_every_element_has_one_place():
    for shape in ((64, 64), (2, 64), (64, 2), (1, 1), (128, 32)):
        order = ROWS.arranged(shape)
        assert sorted(order.tolist()) == list(range(shape[0] * shape[1]))

"""Accesses that leave the elements of every argument, with and without counters."""

from __future__ import annotations

import numpy as np
import pytest

from grader.worker.ttir.bounds import Bounds
from grader.worker.ttir.counters import Counters
from grader.worker.ttir.observer import Access
from grader.worker.ttir.regions import of_argument, of_scratch

from .launches import BASE, FakeOp, access, argument, observe

EITHER = pytest.mark.parametrize("observer", [Bounds, Counters])


def padded_rows(rows=4, columns=30, stride=32):
    return of_argument(0, BASE, 4, (rows, columns), (stride, 1))


AT = BASE + 4 * (32 * np.arange(4)[:, None] + np.arange(32))


@EITHER
def test_the_padding_between_rows_is_outside(observer):
    _, [found] = observe(observer, [padded_rows()], (2, 2, 1), [access("load", 9, AT)])
    assert (found["kind"], found["line"], found["count"]) == ("out_of_bounds_read", 9, 8)
    assert (found["program"], found["offset"], found["bytes"]) == ([0, 0, 0], 120, 4)
    late = access(
        "store", 9, AT, stored=1, active=np.arange(32) < np.array([[30], [30], [31], [0]])
    )
    _, [found] = observe(observer, [padded_rows()], (2, 2, 1), [late])
    assert (found["kind"], found["program"]) == ("out_of_bounds_write", [0, 1, 0])
    assert (found["count"], found["offset"]) == (1, 4 * (2 * 32 + 30))


@EITHER
def test_masked_lanes_may_point_anywhere(observer):
    masked = access("load", 9, AT, active=np.arange(32) < 30)
    assert observe(observer, [padded_rows()], (4, 1, 1), [masked])[1] == []


@EITHER
def test_scratch_and_dense_arguments_hold_all_of_their_bytes(observer):
    regions = [argument(0, 128), of_scratch(2 * BASE, 512)]
    accesses = [access("load", 3, AT), access("store", 4, AT + BASE, stored=1)]
    assert observe(observer, regions, (4, 1, 1), accesses)[1] == []
    _, [found] = observe(observer, regions, (4, 1, 1), [access("load", 3, AT + 4)])
    assert (found["count"], found["program"], found["offset"]) == (1, [3, 0, 0], 512)


@EITHER
def test_an_address_is_told_of_the_nearest_memory_be_it_no_argument(observer):
    regions = [argument(0, 128), of_scratch(2 * BASE, 512, line=16)]
    astray = [access("store", 4, AT + BASE + 8, stored=1)]
    _, [found] = observe(observer, regions, (4, 1, 1), astray)
    assert (found["argument"], found["allocated"]) == (None, [512, 16])
    assert (found["count"], found["offset"]) == (2, 512)
    _, [found] = observe(observer, regions, (4, 1, 1), [access("load", 3, AT + 4)])
    assert (found["argument"], "allocated" in found) == (0, False)


@EITHER
def test_an_address_between_two_elements_is_misaligned(observer):
    _, [found] = observe(observer, [argument(0, 129)], (4, 1, 1), [access("load", 3, AT + 2)])
    assert (found["kind"], found["count"], found["offset"]) == ("misaligned", 128, 2)


@EITHER
def test_one_address_for_a_whole_block_is_spread(observer):
    whole = Access(
        FakeOp(("kernel.py", 5)),
        "load",
        4,
        np.array([[BASE + 512]]),
        None,
        np.arange(2),
        None,
        (8,),
    )
    _, [found] = observe(observer, [argument(0, 128)], (2, 1, 1), [whole])
    assert found["kind"] == "out_of_bounds_read"
    assert found["count"] == (16 if observer is Bounds else 2)  # counters: once for each request

"""Data races between programs: what is one, what isn't, and what atomics order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grader.worker.ttir import ordering, overlaps
from grader.worker.ttir import races as races_module
from grader.worker.ttir.errors import NotModelled
from grader.worker.ttir.ordering import Ordering, Synchronisation
from grader.worker.ttir.races import Races

from .launches import BASE, access, argument, observe

OUT = BASE + 4 * np.arange(4096)


def races(accesses, programs: int, regions=()) -> list[dict]:
    """The races of one launch of some programs over 4096 float32 (argument 0)."""
    regions = [argument(0, 4096), *regions]
    return observe(lambda _, findings: Races(findings), regions, (programs, 1, 1), accesses)[1]


def tiles(programs: int, size: int, step: int) -> np.ndarray:
    """Addresses (programs, size): each program's tile begins `step` elements behind the last."""
    return OUT[np.arange(programs)[:, None] * step + np.arange(size)]


def both_orders(accesses):
    """The accesses as one chunk makes them, and as chunks of one program each, either way."""
    count = len(accesses[0].programs)
    yield accesses
    for order in (range(count), reversed(range(count))):
        yield [row(each, index) for index in order for each in accesses]


def row(whole, index: int):
    one = slice(index, index + 1)
    return access(
        whole.kind,
        whole.op.line[1],
        whole.addresses[one],
        programs=whole.programs[one],
        active=None if whole.active is None else whole.active[one],
        stored=None if whole.stored is None else whole.stored[one],
        width=whole.width,
        used=whole.op.used,
        **whole.op.attributes,
    )


# --- without atomics ------------------------------------------------------------------------------


def test_tiles_that_meet_are_no_race():
    stores = access("store", 7, tiles(8, 128, 128), stored=np.arange(128))
    assert races([stores], 8) == []


def test_overlapping_tiles_of_different_values_race():
    values = np.arange(8)[:, None]
    for accesses in both_orders([access("store", 7, tiles(8, 128, 64), stored=values)]):
        [found] = races(accesses, 8)
        assert found["kind"] == "data_race"
        assert (found["line"], found["other_line"]) == (7, 7)
        assert (found["access"], found["other_access"]) == ("store", "store")
        assert found["count"] == 7 * 64
        first, second = sorted([found["program"][0], found["other_program"][0]])
        assert second == first + 1
        assert found["offset"] // 4 in range(64 * second, 64 * second + 64)
        assert (found["argument"], found["bytes"], found["kernel"]) == (0, 4, "kernel")


def test_overlapping_tiles_of_equal_values_are_no_race():
    stored = tiles(8, 128, 64) & 0xFFFF  # an element has one value, whoever writes it
    for accesses in both_orders([access("store", 7, tiles(8, 128, 64), stored=stored)]):
        assert races(accesses, 8) == []


def test_equal_values_that_are_overwritten_by_others_race():
    every = np.broadcast_to(OUT[:256], (4, 256))
    zeros = access("store", 5, every, stored=0)
    own = access("store", 6, tiles(4, 64, 64), stored=1)
    for accesses in both_orders([zeros, own]):
        found = races(accesses, 4)
        assert {(each["line"], each["other_line"]) for each in found} <= {(5, 6), (6, 5)}
        assert found


def test_masked_off_lanes_do_not_race():
    lane = np.arange(128)
    values = np.arange(8)[:, None]
    stores = access("store", 7, tiles(8, 128, 64), active=lane < 64, stored=values)
    assert races([stores], 8) == []


def test_a_histogram_by_plain_loads_and_stores_races():
    bins = OUT[np.random.default_rng(0).integers(0, 16, (32, 64))]
    load, store = access("load", 3, bins), access("store", 4, bins, stored=np.arange(32)[:, None])
    for accesses in both_orders([load, store]):
        lines = {(each["line"], each["other_line"]) for each in races(accesses, 32)}
        assert (4, 3) in lines and (4, 4) in lines


def test_a_stencil_in_place_races_with_its_neighbours():
    centre = tiles(8, 128, 128)
    left = centre[:, :] - 4
    inside = np.ones(left.shape, dtype=bool)
    inside[0, 0] = False
    stencil = [
        access("load", 3, left, active=inside),
        access("load", 4, centre),
        access("store", 5, centre, stored=np.arange(128)),
    ]
    for accesses in both_orders(stencil):
        [found] = races(accesses, 8)
        assert (found["line"], found["other_line"], found["count"]) == (5, 3, 7)
        assert (found["access"], found["other_access"]) == ("store", "load")
        assert found["program"][0] + 1 == found["other_program"][0]


def test_what_every_program_reads_and_one_writes_races():
    everyone = access("load", 3, np.broadcast_to(OUT[:64], (16, 64)))
    one = access("store", 4, OUT[None, :64], programs=[9], stored=1)
    for accesses in ([everyone, one], [one, everyone]):
        [found] = races(accesses, 16)
        assert (found["program"], found["count"]) == ([9, 0, 0], 64)


def test_rows_in_place_are_no_race():
    row_of = tiles(8, 512, 512)
    accesses = [access("load", 3, row_of), access("load", 4, row_of)]
    accesses.append(access("store", 5, row_of, stored=1))
    assert races(accesses, 8) == []


def test_two_dimensional_tiles_in_either_order_of_axes():
    program = np.arange(4)[:, None, None]
    columns, rows = np.arange(16)[None, None, :], np.arange(16)[None, :, None]
    at = BASE + 4 * (program * 16 + columns + 64 * rows)
    stored = program * 1000 + columns
    assert races([access("store", 3, at, stored=stored)], 4) == []
    assert races([access("store", 3, at.swapaxes(1, 2), stored=stored)], 4) == []
    wide = BASE + 4 * (program * 15 + columns + 64 * rows)
    for addresses, values in ((wide, stored), (wide.swapaxes(1, 2), stored.swapaxes(1, 2))):
        values = np.broadcast_to(values, addresses.shape)
        [found] = races([access("store", 3, addresses, stored=values)], 4)
        assert found["count"] == 3 * 16


def test_accesses_of_different_widths_race_by_the_byte():
    words = access("store", 3, BASE + np.array([[0], [4]]), stored=[[0], [0]])
    half = access("store", 4, BASE + np.array([[2]]), programs=[1], stored=[[5]], width=2)
    [found] = races([words, half], 2)
    assert (found["line"], found["other_line"], found["offset"]) == (4, 3, 2)


def test_halves_of_equal_bits_are_no_race():
    words = access("store", 3, BASE + np.array([[0]]), programs=[0], stored=[[0x00050005]])
    half = access("store", 4, BASE + np.array([[2]]), programs=[1], stored=[[5]], width=2)
    assert races([words, half], 2) == []


def test_inputs_are_not_logged_and_one_program_races_with_nobody():
    given = argument(1, 4096, writable=False)
    loads = access("load", 3, np.broadcast_to(2 * BASE + 4 * np.arange(64), (8, 64)))
    assert races([loads], 8, [given]) == []
    everything = access("store", 3, np.zeros((1, 8), dtype=np.int64) + BASE, stored=np.arange(8))
    assert races([everything], 1) == []


def test_contended_elements_are_compared_in_windows(monkeypatch):
    monkeypatch.setattr(overlaps, "WINDOW", 100)
    values = np.arange(8)[:, None]
    found = races([access("store", 7, tiles(8, 128, 64), stored=values)], 8)
    assert sum(each["count"] for each in found) == 7 * 64


# --- with atomics ---------------------------------------------------------------------------------


def rmw(line: int, addresses, programs=None, used=True, order="acq_rel", scope="gpu"):
    return access("atomic", line, addresses, programs=programs, used=used, order=order, scope=scope)


def test_atomics_do_not_race_with_each_other():
    tile = np.broadcast_to(OUT[:256], (8, 256))
    assert races([rmw(3, tile, used=False)], 8) == []
    assert races([rmw(3, tile, used=False, order="relaxed")], 8) == []


@pytest.mark.parametrize("order", ["relaxed", "acq_rel"])
def test_atomics_of_one_programs_scope_race_with_those_of_others(order):
    tile = np.broadcast_to(OUT[:256], (8, 256))
    [found] = races([rmw(3, tile, used=False, order=order, scope="cta")], 8)
    assert (found["line"], found["other_line"]) == (3, 3)
    assert (found["access"], found["other_access"]) == ("cta_atomic", "cta_atomic")
    mixed = [rmw(3, tile[:1], scope="cta", programs=[0]), rmw(4, tile[:1], programs=[1])]
    [found] = races(mixed, 8)
    assert {found["access"], found["other_access"]} == {"cta_atomic", "atomic"}


def test_atomics_of_one_programs_scope_are_fine_in_its_own_elements():
    assert races([rmw(3, tiles(8, 128, 128), used=False, scope="cta")], 8) == []
    everyone = [
        rmw(4, np.full((8, 1), OUT[4000]), used=False, scope=each) for each in ("gpu", "sys")
    ]
    assert races([rmw(3, tiles(8, 128, 128), scope="cta"), *everyone], 8) == []


def test_what_an_atomic_orders_may_have_the_scope_of_one_program():
    partial, count, _, result = last_program_reduces()
    own = rmw(3, partial.addresses, used=False, scope="cta")
    total = rmw(5, np.repeat(OUT[None, :64], 1, axis=0), programs=[63], scope="cta")
    assert races([own, count, total, result], 64) == []


def test_a_plain_access_races_with_an_atomic():
    tile = np.broadcast_to(OUT[:256], (8, 256))
    first = access("store", 2, OUT[None, :256], programs=[0], stored=0)
    [found] = races([first, rmw(3, tile, used=False)], 8)
    assert {found["line"], found["other_line"]} == {2, 3}
    last = access("load", 4, OUT[None, :256], programs=[0])
    [found] = races([rmw(3, tile, used=False), last], 8)
    assert (found["line"], found["access"], found["other_access"]) == (3, "atomic", "load")


COUNTER = OUT[4000]


def last_program_reduces(counter=True, used=True, order="acq_rel", scope="gpu"):
    """Partial results of 64 programs, which the one that counts up to 64 adds up."""
    partial = access("store", 3, OUT[:64, None], stored=np.arange(64)[:, None])
    count = rmw(4, np.full((64, 1), COUNTER), used=used, order=order, scope=scope)
    total = access("load", 5, OUT[None, :64], programs=[63])
    result = access("store", 6, OUT[None, 100:101], programs=[63], stored=1)
    return [partial, *([count] if counter else []), total, result]


def test_the_last_program_of_a_counter_may_read_what_all_wrote():
    assert races(last_program_reduces(), 64) == []


@pytest.mark.parametrize(
    "changed",
    [{"counter": False}, {"used": False}, {"order": "relaxed"}, {"order": "release"}],
    ids=str,
)
def test_without_its_ordering_the_last_program_races(changed):
    [found] = races(last_program_reduces(**changed), 64)
    assert (found["line"], found["other_line"], found["count"]) == (3, 5, 63)


def test_a_search_among_too_many_atomics_proves_nothing(monkeypatch):
    monkeypatch.setattr(ordering, "MAX_EVENTS", 63)
    with pytest.raises(NotModelled, match="more than 63 atomics order programs"):
        races(last_program_reduces(), 64)


def test_a_search_in_too_many_accesses_proves_nothing(monkeypatch):
    monkeypatch.setattr(races_module, "MAX_RUNS", 1)
    stores = access("store", 7, tiles(8, 128, 128), stored=np.arange(128))
    loads = access("load", 8, tiles(8, 128, 128))
    with pytest.raises(NotModelled, match="more than 1 runs"):
        races([stores, loads], 8)


def locked(acquire=True, release=True, programs: int = 16):
    """Programs add to one tile, one after another, under a lock."""
    lock, accesses = np.full((1, 1), COUNTER), []
    for program in range(programs):
        mine: dict[str, Any] = {"programs": [program]}
        if acquire:
            accesses.append(rmw(2, lock, **mine))
        accesses.append(access("load", 3, OUT[None, :64], **mine))
        accesses.append(access("store", 4, OUT[None, :64], stored=program, **mine))
        if release:
            accesses.append(rmw(5, lock, used=False, **mine))
    return accesses


def test_a_lock_orders_what_it_protects():
    assert races(locked(), 16) == []


@pytest.mark.parametrize("changed", [{"acquire": False}, {"acquire": False, "release": False}])
def test_without_its_lock_an_accumulation_races(changed):
    found = races(locked(**changed), 16)
    assert (4, 3) in {(each["line"], each["other_line"]) for each in found}


def test_locks_of_different_tiles_order_nothing_between_them():
    accesses = []
    for program in range(4):
        mine: dict[str, Any] = {"programs": [program]}
        lock = np.full((1, 1), OUT[4000 + program])
        accesses += [
            rmw(2, lock, **mine),
            access("store", 4, OUT[None, :64], stored=program, **mine),
            rmw(5, lock, used=False, **mine),
        ]
    [found] = races(accesses, 4)
    assert (found["line"], found["other_line"]) == (4, 4)


def test_a_volatile_load_that_spins_on_an_atomic_flag_orders():
    flag = np.full((1, 1), COUNTER)
    produce = [
        access("store", 2, OUT[None, :64], programs=[0], stored=1),
        rmw(3, flag, programs=[0], used=False),
    ]
    consume = access("load", 5, OUT[None, :64], programs=[1])
    wait = access("load", 4, flag, programs=[1], isVolatile=True)
    assert races([*produce, wait, consume], 2) == []
    plain = access("load", 4, flag, programs=[1])
    lines = {(each["line"], each["other_line"]) for each in races([*produce, plain, consume], 2)}
    assert lines == {(3, 4), (2, 5)}


def test_what_follows_a_release_is_not_published():
    flag = np.full((1, 1), COUNTER)
    late = [
        rmw(3, flag, programs=[0], used=False),
        access("store", 2, OUT[None, :64], programs=[0], stored=1),
        rmw(4, flag, programs=[1]),
        access("load", 5, OUT[None, :64], programs=[1]),
    ]
    [found] = races(late, 2)
    assert (found["line"], found["other_line"]) == (2, 5)


def test_orders_are_transitive():
    order = Ordering(3)
    both = Synchronisation(True, True)
    for address, program in ((8, 0), (8, 1), (16, 1), (16, 2)):
        order.add(np.array([address]), np.array([0]), np.array([program]), both)
    one = np.array([1])
    sources = (np.array([0, 1, 2, 0]), np.array([0, 1, 0, 1]))
    targets = (np.array([2, 2, 0, 2]), np.array([1, 1, 1, 1]))
    assert order.ordered(sources, targets).tolist() == [True, True, False, False]
    assert order.stamps.tolist() == [1, 2, *one]

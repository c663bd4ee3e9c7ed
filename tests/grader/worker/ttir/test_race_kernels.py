"""Races of kernels, from Triton's frontend through the executor to the findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grader.worker.ttir import own_races
from grader.worker.ttir.findings import Findings
from grader.worker.ttir.own_races import OwnRaces
from grader.worker.ttir.races import Races
from grader.worker.ttir.regions import Regions

from . import race_kernels
from .frontend import ttir
from .launches import BASE, argument

executor = pytest.importorskip("grader.worker.ttir.executor")
memory = pytest.importorskip("grader.worker.ttir.memory")
text = pytest.importorskip("grader.worker.ttir.text")

PROGRAMS, BLOCK = 8, 32
N = PROGRAMS * BLOCK
TYPES = {"float32": "*fp32", "int32": "*i32"}


def races(
    name: str,
    arrays: dict[str, np.ndarray],
    grid=(PROGRAMS, 1, 1),
    one_warp=False,
    **constants: Any,
):
    """The findings about one launch of a kernel, whose parameter `n` is N or its constant."""
    kernel = getattr(race_kernels, name)
    types = {}
    for parameter in kernel.arg_names:
        if parameter in arrays:
            types[parameter] = TYPES[str(arrays[parameter].dtype)]
        else:
            types[parameter] = "i32" if parameter == "n" else "constexpr"
    module = text.read(
        ttir(kernel, types, constants if "B" not in types else {"B": BLOCK, **constants})
    )
    # One array under two names is one buffer.
    numbers: dict[int, int] = {}
    for each in arrays.values():
        numbers.setdefault(id(each), len(numbers))
    distinct = {numbers[id(each)]: each for each in arrays.values()}
    buffers = [
        memory.Buffer(each.view(np.uint8), (number + 1) * BASE, True)
        for number, each in distinct.items()
    ]
    regions = Regions([argument(number, each.size) for number, each in distinct.items()])
    findings = Findings(regions)
    pointers = [(numbers[id(each)] + 1) * BASE for each in arrays.values()]
    size = N // PROGRAMS if name == "locked_sum" else N
    given = [*pointers, *([np.int32(size)] if "n" in types else [])]
    launch = executor.Launch(module, grid, given, one_warp=one_warp)
    observers = (Races(findings), OwnRaces(findings))
    executor.execute(launch, memory.Memory(buffers), observers)
    return findings.report()


def floats(size: int = N) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(size).astype(np.float32)


def line_of(kernel: str, fragment: str) -> int:
    """The line of a kernel that holds a piece of text, the first of them."""
    function = getattr(race_kernels, kernel).fn
    first = function.__code__.co_firstlineno
    with open(race_kernels.__file__) as file:  # noqa: PTH123
        lines = file.read().splitlines()
    for number in range(first, len(lines) + 1):
        if fragment in lines[number - 1]:
            return number
    raise AssertionError(f"no {fragment!r} in {kernel}")


def test_a_histogram_needs_atomics():
    x = np.random.default_rng(0).integers(0, 4, N).astype(np.int32)
    counts = np.zeros(4, np.int32)
    assert races("histogram", {"x": x, "bins": counts}, ATOMIC=True) == []
    assert counts.tolist() == np.bincount(x, minlength=4).tolist()
    found = races("histogram", {"x": x, "bins": counts}, ATOMIC=False)
    assert found and {each["kind"] for each in found} == {"data_race"}
    assert {each["line"] for each in found} == {line_of("histogram", "tl.store(at")}
    assert {each["argument"] for each in found} == {1}


def test_a_histogram_needs_atomics_of_the_gpus_scope():
    x = np.random.default_rng(0).integers(0, 4, N).astype(np.int32)
    arrays = {"x": x, "bins": np.zeros(4, np.int32)}
    assert races("histogram", arrays, ATOMIC=True, SCOPE="sys") == []
    found = races("histogram", arrays, ATOMIC=True, SCOPE="cta")
    assert {each["line"] for each in found} == {line_of("histogram", "tl.atomic_add")}
    assert {each["access"] for each in found} == {"cta_atomic"}


def test_parts_of_a_sum_meet_in_an_atomic():
    x, out = floats(2 * N), np.zeros(2, np.float32)
    grid = (2, PROGRAMS, 1)
    assert races("split_sum", {"x": x, "out": out}, grid, ATOMIC=True) == []
    np.testing.assert_allclose(out, x.reshape(2, N).sum(1), rtol=1e-4, atol=1e-4)
    found = races("split_sum", {"x": x, "out": out}, grid, ATOMIC=False)
    assert found
    assert all(each["program"][0] == each["other_program"][0] for each in found)


def test_a_stencil_may_not_work_in_place():
    x, out = floats(), np.zeros(N, np.float32)
    assert races("stencil", {"x": x, "out": out}) == []
    # A program of several warps also races with itself.
    found = races("stencil", {"x": x, "out": x}, one_warp=True)
    loads = {line_of("stencil", "left ="), line_of("stencil", "right =")}
    assert {each["other_line"] for each in found} == loads
    assert {each["line"] for each in found} == {line_of("stencil", "tl.store")}
    assert {each["count"] for each in found} == {PROGRAMS - 1}


def test_overlapping_tiles_race_where_their_values_differ():
    x, out = floats(), np.zeros(N, np.float32)
    assert races("overlapping", {"x": x, "out": out}, EQUAL=True) == []
    [found] = races("overlapping", {"x": x, "out": out}, EQUAL=False)
    assert found["line"] == found["other_line"] == line_of("overlapping", "tl.store")
    assert found["count"] == (PROGRAMS - 1) * BLOCK // 2


def test_a_lock_protects_a_sum():
    x, out, lock = floats(), np.zeros(BLOCK, np.float32), np.zeros(1, np.int32)
    arrays = {"x": x, "out": out, "lock": lock}
    assert races("locked_sum", arrays, LOCK=True) == []
    np.testing.assert_allclose(out, x.reshape(PROGRAMS, BLOCK).sum(0), rtol=1e-4, atol=1e-4)
    found = races("locked_sum", arrays, LOCK=False)
    assert {each["line"] for each in found} == {line_of("locked_sum", "tl.store")}


def test_a_lock_of_one_programs_scope_protects_nothing():
    arrays = {"x": floats(), "out": np.zeros(BLOCK, np.float32), "lock": np.zeros(1, np.int32)}
    found = races("locked_sum", arrays, LOCK=True, SCOPE="cta")
    lines = {each["line"] for each in found}
    assert lines >= {line_of("locked_sum", "tl.store"), line_of("locked_sum", "tl.atomic_cas")}


def test_the_last_program_is_known_by_an_atomic_counter():
    x = floats()

    def arrays() -> dict[str, np.ndarray]:
        floats_ = {"partial": np.zeros(PROGRAMS, np.float32), "out": np.zeros(1, np.float32)}
        counter = np.zeros(1, np.int32)
        return {"x": x, "partial": floats_["partial"], "counter": counter, "out": floats_["out"]}

    given = arrays()
    assert races("last_reduces", given, ATOMIC=True) == []
    np.testing.assert_allclose(given["out"], x.sum(), rtol=1e-4, atol=1e-4)
    found = races("last_reduces", arrays(), ATOMIC=False)
    assert line_of("last_reduces", "tl.store(counter") in {each["line"] for each in found}


def test_an_atomic_whose_result_is_dropped_orders_nothing_behind_it():
    arrays = {name: np.zeros(PROGRAMS, np.int32) for name in ("partial", "counter", "out")}
    [found] = races("unheard", arrays)
    assert found["line"] == line_of("unheard", "tl.store(partial")
    assert found["other_line"] == line_of("unheard", "tl.load(partial")


def mirrored(way: str, **options: Any) -> list[dict[str, Any]]:
    return races("stored_and_mirrored", {"x": floats(), "out": floats()}, WAY=way, **options)


@pytest.mark.parametrize("way", ["plain", "one element", "half a block", "transposed"])
def test_what_another_warp_has_stored_needs_a_barrier(way):
    found = mirrored(way)
    (finding,) = found
    assert (finding["kind"], finding["access"], finding["other_access"]) == (
        *("data_race", "load"),
        "store",
    )
    assert finding["program"] == finding["other_program"] == [0, 0, 0]
    assert finding["line"] == line_of("stored_and_mirrored", "y = tl.load")
    assert finding["other_line"] == line_of("stored_and_mirrored", "tl.store(out + i, x_value")


@pytest.mark.parametrize("way", ["barrier", "same place", "column", "atomic", "reduction"])
def test_what_the_same_warp_has_stored_needs_none(way):
    assert mirrored(way) == []


def test_what_is_loaded_is_the_last_store():
    (finding,) = mirrored("stored there again")
    assert finding["line"] == line_of("stored_and_mirrored", "tl.store(at, x_value")


def test_a_program_of_one_warp_needs_no_barrier():
    assert mirrored("plain", one_warp=True) == []


def turned(way: str, **options: Any) -> list[dict[str, Any]]:
    return races("turned_in_place", {"out": floats()}, WAY=way, **options)


@pytest.mark.parametrize("way", ["plain", "one element for all"])
def test_what_another_warp_has_yet_to_load_needs_a_barrier(way):
    (finding,) = turned(way)
    assert (finding["kind"], finding["access"], finding["other_access"]) == (
        *("data_race", "store"),
        "load",
    )
    assert finding["line"] == line_of("turned_in_place", "tl.store(out + i")
    assert finding["other_line"] == line_of("turned_in_place", "y = tl.load")


@pytest.mark.parametrize("way", ["barrier", "same place", "maximum", "transposed"])
def test_what_has_been_loaded_may_be_stored_to(way):
    assert turned(way) == []


def test_a_program_of_one_warp_loads_before_it_stores():
    assert turned("plain", one_warp=True) == []


def test_two_stores_of_different_values_need_a_barrier():
    (finding,) = races("stored_twice", {"out": floats()}, WAY="plain")
    assert finding["kind"] == "data_race"
    assert (finding["access"], finding["other_access"]) == ("store", "store")
    assert finding["line"] == line_of("stored_twice", "tl.store(out + at")
    assert finding["other_line"] == line_of("stored_twice", "tl.store(out + i")


@pytest.mark.parametrize("way", ["barrier", "same place", "same values"])
def test_an_element_may_be_stored_twice(way):
    assert races("stored_twice", {"out": floats()}, WAY=way) == []


def sought_one_by_one(step: int, monkeypatch) -> int:
    """How often two accesses of a loop with 1024 of them had their elements looked for."""
    calls = 0
    among = own_races._among

    def counted(*arguments):
        nonlocal calls
        calls += 1
        return among(*arguments)

    monkeypatch.setattr(own_races, "_among", counted)
    types = {"out": "*fp32", "n": "i32", "STEP": "constexpr", "B": "constexpr"}
    module = text.read(ttir(race_kernels.stores_in_steps, types, {"STEP": step, "B": 64}))
    buffer = memory.Buffer(np.zeros(1024 * step + 64, np.float32).view(np.uint8), BASE, True)
    launch = executor.Launch(module, (1, 1, 1), [BASE, np.int32(1024 * step)])
    executor.execute(launch, memory.Memory([buffer]), (OwnRaces(Findings(Regions([]))),))
    return calls


def test_a_long_loop_costs_no_more_time_the_longer_it_is(monkeypatch):
    """Its accesses are compared with those that meet them, and with few where all of them do."""
    assert sought_one_by_one(64, monkeypatch) == 0
    monkeypatch.setattr(own_races, "MAX_SORTED", 1 << 17)
    assert 0 < sought_one_by_one(1, monkeypatch) < 500


def test_a_loop_over_the_same_elements_remembers_one_access_of_a_kind(monkeypatch):
    compared = []
    compare = OwnRaces._compare

    def counted(self, now):
        compared.append(len(self._earlier))
        compare(self, now)

    monkeypatch.setattr(OwnRaces, "_compare", counted)
    sought_one_by_one(1, monkeypatch)
    assert max(compared) > 10
    compared.clear()
    x, out = floats(), np.zeros(N, np.float32)
    races("adds_up", {"x": x, "out": out}, (1, 1, 1))
    assert max(compared) <= N // BLOCK + 2  # loads of x, and a load and a store of out

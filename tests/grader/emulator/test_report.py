"""The run's report is taken only where the runtime can have written it, and told in full."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.emulator.findings import HOST_CHANGES, KINDS
from grader.emulator.report import (
    MAX_BYTES,
    Finding,
    Report,
    ReportError,
    message_of,
    parse,
    status_name_of,
)
from grader.status import Status

FINDING = {
    "kind": "out_of_bounds_read",
    "pc": 4660,
    "other_pc": 0,
    "count": 3,
    "block": [0, 0, 0],
    "thread": [1, 0, 0],
    "other_block": None,
    "other_thread": None,
    "text": "4 bytes at offset 4000 of input, which has 4000 bytes",
}
SITE = {
    "pc": 4660,
    "space": "global",
    "kind": "load",
    "bytes": 4,
    "requests": 2048,
    "lanes": 65536,
    "sectors": 8192,
    "useful_bytes": 262144,
    "wavefronts": 0,
    "conflicts": 0,
    "ways": 0,
}
LAUNCH = {
    "kernel": "transpose_v1",
    "grid": [8, 8, 1],
    "block": [32, 8, 1],
    "dynamic_shared": 0,
    "static_shared": 0,
    "count": 1,
    "simt_efficiency": 0.97,
    "sites": [SITE],
    "largest_bytes": 32,
    "storing_blocks": 0,
}
BUFFER = {
    "argument": 0,
    "load_bytes": 262144,
    "load_sectors": 8192,
    "store_bytes": 0,
    "store_sectors": 0,
}
COPIES = {
    "count": 2,
    "bytes": 80,
    "host_to_device": 1,
    "device_to_host": 1,
    "device_to_device": 0,
}
WHOLE = {
    "error": 700,
    "lost": True,
    "findings": [FINDING],
    "launches": [LAUNCH],
    "buffers": [BUFFER],
    "copies": COPIES,
    "cut": False,
}
SOURCE = ["#include <cuda_runtime.h>", "", "    x   = input[i];", "    tile[i] = `x`;"]


def changed(*path, to):
    """The report with one field of it changed; `...` as the last key removes it."""
    whole = copy.deepcopy(WHOLE)
    place = whole
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return json.dumps(whole)


def finding(**fields) -> Finding:
    return parse(json.dumps({"findings": [{**FINDING, **fields}]})).findings[0]


def test_a_whole_report_is_read_as_it_was_written() -> None:
    report = parse(json.dumps(WHOLE).encode())
    assert (report.error, report.lost, report.cut) == (700, True, False)
    assert report.findings[0].thread == (1, 0, 0)
    assert report.findings[0].other_thread is None
    [launch] = report.launches
    assert (launch.kernel, launch.grid, launch.sites[0].sectors) == (
        "transpose_v1",
        (8, 8, 1),
        8192,
    )
    assert report.buffers[0].load_bytes == 262144
    assert report.copies.count == 2


def test_what_a_run_without_counters_leaves_out_is_empty() -> None:
    assert parse('{"error":0,"lost":false,"findings":[],"cut":false}') == Report()


SITE_AT = ("launches", 0, "sites", 0)
WRONG = {
    "number_as_text": changed("error", to="700"),
    "number_as_fraction": changed("findings", 0, "count", to=3.0),
    "truth_as_number": changed("lost", to=1),
    "number_as_truth": changed("copies", "count", to=True),
    "negative": changed("findings", 0, "pc", to=-1),
    "huge": changed(*SITE_AT, "sectors", to=2**63),
    "pc_beyond_memory": changed("findings", 0, "pc", to=2**48),
    "unknown_kind": changed("findings", 0, "kind", to="perfect"),
    "unknown_field": changed("verdict", to="passed"),
    "unknown_field_inside": changed("copies", "verdict", to="passed"),
    "no_kind": changed("findings", 0, "kind", to=...),
    "no_sectors": changed(*SITE_AT, "sectors", to=...),
    "two_coordinates": changed("findings", 0, "thread", to=[1, 2]),
    "four_coordinates": changed("findings", 0, "thread", to=[1, 2, 3, 4]),
    "coordinates_as_text": changed("findings", 0, "thread", to="123"),
    "long_text": changed("findings", 0, "text", to="x" * 601),
    "long_name": changed("launches", 0, "kernel", to="k" * 1001),
    "many_findings": changed("findings", to=[FINDING] * 17),
    "efficiency_above_one": changed("launches", 0, "simt_efficiency", to=1.01),
    "unknown_space": changed(*SITE_AT, "space", to="host"),
    "unknown_access": changed(*SITE_AT, "kind", to="prefetch"),
    "wide_access": changed(*SITE_AT, "bytes", to=257),
    "lanes_beyond_the_warp": changed(*SITE_AT, "lanes", to=65537),
    "fewer_lanes_than_requests": changed(*SITE_AT, "lanes", to=2047),
    "more_useful_than_moved": changed(*SITE_AT, "useful_bytes", to=262145),
    "more_useful_than_asked": changed(*SITE_AT, "lanes", to=65535),
    "more_conflicts_than_wavefronts": changed(*SITE_AT, "conflicts", to=1),
    "ways_beyond_the_warp": changed(*SITE_AT, "ways", to=33),
    "more_loaded_than_moved": changed("buffers", 0, "load_bytes", to=262145),
    "more_stored_than_moved": changed("buffers", 0, "store_bytes", to=1),
    "argument_twice": changed("buffers", to=[BUFFER, BUFFER]),
    "argument_beyond": changed("buffers", 0, "argument", to=64),
    "copies_that_do_not_add_up": changed("copies", "count", to=1),
    "null": "null",
    "list": "[]",
    "nothing": "",
    "not_json": '{"error":0',
    "more_behind": "{} {}",
    "nan": '{"error":NaN}',
    "infinite_efficiency": changed("launches", 0, "simt_efficiency", to=1).replace(
        '"simt_efficiency": 1', '"simt_efficiency": 1e999'
    ),
    "digits": '{"error":' + "9" * 60_000 + "}",
    "nested": "[" * 60_000,
    "nested_objects": '{"a":' * 10_000,
    "too_long": json.dumps(WHOLE) + " " * MAX_BYTES,
    "half_a_character": '{"error":"\\ud800"}',
    "surrogate": "\ud800",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_report_that_can_not_be_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ReportError) as caught:
        parse(WRONG[name])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ReportError):
        parse(b'{"error":0}\xff')


def test_a_refusal_names_the_field() -> None:
    with pytest.raises(ReportError, match=r"launches\.0\.sites\.0\.bytes"):
        parse(WRONG["wide_access"])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300))
def test_any_bytes_are_a_report_or_refused(data) -> None:
    with contextlib.suppress(ReportError):
        assert isinstance(parse(data), Report)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_report_with_any_field_replaced_is_a_report_or_refused(data) -> None:
    whole = copy.deepcopy(WHOLE)
    place: Any = whole
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not (isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = data.draw(_JSON)
    try:
        text = json.dumps(whole)
    except UnicodeEncodeError:
        return
    with contextlib.suppress(ReportError):
        assert isinstance(parse(text), Report)


# --- kinds and their words ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_failure_with_a_sentence_and_advice(kind: str) -> None:
    status = Status(status_name_of(kind))
    assert status.is_failure
    for fields in ({}, {"block": None, "thread": None, "text": ""}):
        what, hint = message_of(finding(kind=kind, count=1, **fields), "k.cu", SOURCE, 3, 4)
        assert "k.cu:3 (`x = input[i];`)" in what
        assert what.endswith(".") and what[0].isupper() and ".." not in what and "  " not in what
        assert hint.endswith((".", "?")) and len(hint) > 30


def test_a_lane_that_waits_for_ever_is_told_with_the_place_where_the_other_one_waits() -> None:
    words = "lane 1 waits with mask 0xffffffff for lane 0, which waits elsewhere"
    what, _ = message_of(finding(kind="deadlock", text=words), "k.cu", SOURCE, 3, 4)
    assert "elsewhere at k.cu:4" in what and "for ever at k.cu:3" in what
    what, _ = message_of(finding(kind="deadlock", text=words), "k.cu", SOURCE, 3, 0)
    assert "elsewhere. " in what


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_is_told_whatever_is_missing(kind: str) -> None:
    told = finding(kind=kind)
    what, _ = message_of(told, "k.cu", [], 0, 0)
    assert "k.cu" not in what
    assert "thread (1,0,0) of block (0,0,0)" in what[0].lower() + what[1:]


def test_what_host_code_changes_is_recognised_by_its_first_words() -> None:
    told = finding(kind="changed_while_copied", thread=None, block=None)
    assert message_of(told, "k.cu", [], 0, 0)[0].startswith(HOST_CHANGES)


@pytest.mark.parametrize(
    ("thread", "block", "is_begun_outside"),
    [([0, 0, 0], [1, 0, 0], True), ([1, 0, 0], [1, 0, 0], False), ([0, 0, 0], [0, 0, 0], False)],
)
def test_where_a_blocks_first_thread_is_outside_its_part_is_asked_for(
    thread: list[int], block: list[int], is_begun_outside: bool
) -> None:
    _, hint = message_of(finding(thread=thread, block=block), "k.cu", SOURCE, 3)
    assert ("where does a block's part" in hint) == is_begun_outside


@pytest.mark.parametrize(
    ("thread", "other", "is_warp"),
    [
        ([1, 0, 0], [31, 0, 0], True),
        ([1, 0, 0], [32, 0, 0], False),
        ([1, 1, 0], [2, 1, 0], False),  # which warp that is depends on the block's width
    ],
)
def test_of_a_race_within_a_warp_it_is_told_that_its_threads_are_not_in_step(
    thread: list[int], other: list[int], is_warp: bool
) -> None:
    told = finding(
        kind="race", thread=thread, other_thread=other, block=[2, 0, 0], other_block=[2, 0, 0]
    )
    _, hint = message_of(told, "k.cu", SOURCE, 3, 4)
    assert hint.startswith("The threads of a warp don't run in step") == is_warp


def test_what_is_asked_about_a_copy_past_a_variable_is_its_size() -> None:
    text = "128 bytes of local memory: the variable there has fewer, and what lies behind it"
    finding = Finding("out_of_bounds_write", 16, thread=(0, 0, 0), block=(1, 0, 0), text=text)
    what, hint = message_of(finding, "silu.cu", ["memcpy(&one, x, 128);"], 1)
    assert "writes 128 bytes of local memory" in what and "sizeof" in hint


@pytest.mark.parametrize(
    ("place", "is_across"),
    [
        ("8 bytes at offset 0 of a cudaMalloc of 4 bytes", True),
        ("16 bytes at offset 16 of out, which has 24 bytes", True),
        ("16 bytes at offset 24 of out, which has 24 bytes", False),
        ("16 bytes, 8 bytes before the start of out, which has 24 bytes", False),
    ],
)
def test_an_access_that_ends_behind_its_memory_is_told_of_types_and_vectors(
    place: str, is_across: bool
) -> None:
    _, hint = message_of(finding(kind="out_of_bounds_write", text=place), "k.cu", SOURCE, 3)
    assert ("sizeof" in hint and "float4" in hint) == is_across


@pytest.mark.parametrize(
    ("launch", "is_exchanged"),
    [
        ("silu: grid (256, 1, 1), block (65537, 1, 1): a block has at most 1024 threads", True),
        ("silu: grid (2048, 1, 1), block (2048, 1, 1): a block has at most 1024 threads", False),
        ("silu: grid (0, 1, 1), block (256, 1, 1): a grid needs at least one block", False),
        ("silu: grid (1, 1, 96), block (2048, 1, 1): a block has at most 1024 threads", False),
        ("silu: grid (32, 1, 1), block (1, 70000, 1): a block has at most 1024 threads", False),
        # A block of a row's length; of one thread nobody makes a block.
        ("silu: grid (1, 1, 1), block (1088, 1, 1): a block has at most 1024 threads", False),
        ("silu: 64 KiB of shared memory", False),
    ],
)
def test_a_launch_that_could_run_with_grid_and_block_exchanged_is_told(
    launch: str, is_exchanged: bool
) -> None:
    _, hint = message_of(finding(kind="launch_error", text=launch), "k.cu", SOURCE, 3)
    assert ("<<<grid, block>>>" in hint) == is_exchanged
    assert ("rounded down" in hint) == ("grid (0" in launch)


def test_a_variable_that_a_kernel_lacks_is_told_how_to_be_declared() -> None:
    variable = "4 bytes of a global variable of the host code"  # runtime/host_guard.cpp
    for text, thread, is_variable in (
        (variable, (0, 0, 0), True),
        (variable, None, False),  # given to cudaMemset
        ("4 bytes of host memory from malloc", (0, 0, 0), False),
    ):
        each = finding(kind="host_pointer_on_device", text=text, thread=thread)
        _, hint = message_of(each, "k.cu", SOURCE, 3)
        assert ("`static __device__`" in hint) == is_variable


def test_no_kind_but_the_tables_has_a_status() -> None:
    with pytest.raises(KeyError):
        status_name_of("perfect")


def test_an_access_is_told_with_thread_place_and_line() -> None:
    what, hint = message_of(finding(), "silu.cu", SOURCE, 3)
    assert what == (
        "Thread (1,0,0) of block (0,0,0) reads 4 bytes at offset 4000 of input, which has 4000 "
        "bytes, at silu.cu:3 (`x = input[i];`). The same happened 3 times there; this was the "
        "first."
    )
    assert "if (i < n)" in hint


def race(text: str, block) -> str:
    fields = {"thread": [3, 0, 0], "other_thread": [0, 3, 0], "other_block": block, "text": text}
    return message_of(finding(kind="race", count=1, **fields), "transpose.cu", SOURCE, 3, 4)[0]


def test_how_often_host_code_does_so_is_not_told() -> None:
    """A planner calls the entry twice, so the number would be twice as large."""
    of_host = Finding("wrong_copy_direction", count=2, text="cudaMemcpy with ...")
    assert "times" not in message_of(of_host, "silu.cu", [])[0]


def test_a_race_is_told_with_both_threads_and_what_each_does() -> None:
    text = "4 bytes at offset 128 of tile, which has 4096 bytes (a read after a write)"
    assert race(text, [0, 0, 0]) == (
        "Data race: thread (3,0,0) of block (0,0,0) reads 4 bytes at offset 128 of tile at "
        "transpose.cu:3 (`x = input[i];`), which thread (0,3,0) of block (0,0,0) writes at "
        "transpose.cu:4 (`tile[i] = 'x';`), with no barrier between."
    )
    assert race(text, [1, 0, 0]).endswith("with nothing that orders the two.")


def test_a_race_in_other_words_is_told_all_the_same() -> None:
    assert "uses 4 bytes of tile (somehow) at transpose.cu:3" in race(
        "4 bytes of tile (somehow)", None
    )
    assert "uses memory at transpose.cu:3" in race("", None)


def test_a_line_beyond_the_file_is_named_without_text() -> None:
    what, _ = message_of(finding(), "silu.cu", SOURCE, 10**9)
    assert "at silu.cu:1000000000." in what


def test_a_long_line_is_cut() -> None:
    what, _ = message_of(finding(), "silu.cu", ["x" * 5000], 1)
    assert len(what) < 500


@pytest.mark.parametrize("kind", ["shuffle_absent_lane", "bad_warp_mask", "missing_barrier"])
def test_the_title_of_missing_threads_names_warp_functions_too(kind: str) -> None:
    title = Status(status_name_of(kind)).headline
    assert title == "threads missing at a barrier or warp function"

"""The reader of plans takes what a planner writes and refuses, by name, whatever can't be run."""

from __future__ import annotations

import base64
import json
import tracemalloc

import hypothesis
import pytest
from hypothesis import strategies as st

from grader.executors.cuda import emulator_encoding
from grader.executors.executor import Manner
from grader.plan import Limits, PlanError, read, reader, to_json

from .plans import ARGUMENTS, KERNEL, launch, plan, view

FULL = plan(
    {"do": "alloc", "buffer": 2, "line": 20},
    {"do": "fill", "to": view(2, 64), "value": 0},
    {"do": "copy", "to": view(2, 64), "from": view(0, 64), "line": 21},
    {"do": "upload", "to": view(2, 4, dtype="uint8"), "data": base64.b64encode(b"1234").decode()},
    launch(0, 2),
    {"do": "record", "event": 1, "stream": 0},
    {"do": "wait", "event": 1, "stream": 2},
    {"do": "synchronise"},
    {"do": "foreign", "operation": "aten::mul", "inputs": [view(0, 4)], "outputs": [view(2, 4)]},
    {"do": "readback", "bytes": 4, "line": 30},
    {"do": "refused", "kernel": "k", "error": "cudaErrorInvalidValue", "why": "too many threads"},
    {"do": "free", "buffer": 2},
    scratch=(256,),
)


def test_every_kind_of_step_is_read_and_written_again() -> None:
    read_once = read(FULL, ARGUMENTS)
    assert len(read_once.calls[0]) == 12
    assert read(to_json(read_once), ARGUMENTS) == read_once


@pytest.mark.parametrize(
    ("steps", "scratch", "said"),
    [
        ([launch(0, 7)], (), "no buffer 7"),
        ([{"do": "fill", "to": view(2, 4), "value": 0}], (64,), "before it is allocated"),
        ([{"do": "free", "buffer": 0}], (), "not allocated by host code"),
        ([{"do": "alloc", "buffer": 0}], (), "there already"),
        ([{"do": "alloc", "buffer": 2}, {"do": "alloc", "buffer": 2}], (64,), "there already"),
        ([{"do": "fill", "to": view(0, 1025), "value": 0}], (), "which has 4096"),
        ([{"do": "fill", "to": view(0, 4, offset=-1), "value": 0}], (), "from byte -4"),
        ([{"do": "fill", "to": view(0, 4, strides=[-1]), "value": 0}], (), "from byte -12"),
        ([{"do": "copy", "to": view(0, 4), "from": view(1, 5)}], (), "5 elements"),
        ([launch(0)], (), "2 arguments for 3 parameters"),
        ([launch(arguments=[{"scalar": "00", "type": "i32"}] * 3)], (), "'00' is no i32"),
        ([launch(arguments=[{"scalar": "00", "type": "i7"}] * 3)], (), "'00' is no i7"),
        ([launch(0, grid=[1, 1])], (), "three numbers"),
        ([launch(0, grid=[2**31, 2**31, 1])], (), "three numbers"),
        ([launch(0, specialisation=1)], (), "no specialisation 1"),
        ([launch(0, block=[32, 1, 1])], (), "not a launch of a triton plan"),
        ([{"do": "launch_missiles"}], (), "calls.0.0"),
        ([launch(0, surprise=1)], (), "surprise"),
        ([{"do": "fill", "to": view(0, 4), "value": 10**400}], (), "calls.0.0"),
        ([{"do": "upload", "to": view(0, 1), "data": "***="}], (), "base64"),
        ([{"do": "upload", "to": view(0, 2), "data": "AAAAAA=="}], (), "4 bytes for a view of 8"),
        ([{"do": "fill", "to": view(0, 2**36, 2**36, strides=[0, 0]), "value": 0}], (), "elements"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_by_name(steps, scratch, said) -> None:
    with pytest.raises(PlanError, match=said):
        read(plan(*steps, scratch=scratch), ARGUMENTS)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "top level"),
        (b"[]", "top level"),
        (b"\xff\xfe", "top level"),
        (b"[" * 100_000, "top level"),
        (plan(version=2), "version"),
        (plan(calls=[]), "calls"),
        (plan(language="opencl"), "language"),
        (plan(launch(0), language="cuda"), "cuda plan"),
        (b" " * (5 << 20), "at most"),
    ],
)
def test_what_is_no_plan_is_refused(data, said) -> None:
    with pytest.raises(PlanError, match=said):
        read(data, ARGUMENTS)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"block": []}, r"blocks of \(\)"),
        ({"block": [32, -1, 1]}, r"blocks of \(32, -1, 1\)"),
        ({"grid": [-1, 1, 1]}, "three numbers"),
        ({"cluster": [2]}, r"clusters of \(2,\)"),
        ({"parameters": "!"}, "base64"),
    ],
)
def test_a_launch_that_no_encoder_can_write_is_refused(changed, said) -> None:
    """What can't be written as bytes would fail in the grader's own process."""
    step = launch(arguments=[], **{"block": [32, 1, 1]} | changed)
    forged = plan(step, language="cuda", specialisations=[{"kernel": "k"}])
    with pytest.raises(PlanError, match=said):
        read(forged, ARGUMENTS)


def test_places_of_pointers_to_the_host_that_are_none_are_left_out() -> None:
    named = launch(arguments=[], block=[32, 1, 1], attributes={"host_pointers": "8 x 99999999999"})
    whole = read(plan(named, language="cuda", specialisations=[{"kernel": "k"}]), ARGUMENTS)
    right = launch(arguments=[], block=[32, 1, 1], attributes={"host_pointers": "8"})
    fewer = read(plan(right, language="cuda", specialisations=[{"kernel": "k"}]), ARGUMENTS)
    encode = emulator_encoding.document
    assert encode(whole, Manner()) == encode(fewer, Manner())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"buffers": [' + "[]," * reader.MAX_VALUES + "[]]}", "at most"),
        ('{"buffers": [' + "0," * (reader.MAX_VALUES - 9) + "0]}", "version"),
        ('{"calls": [[' + "{}," * (reader.MAX_VALUES // 3) + "{}]]}", "version"),
        (json.dumps(dict.fromkeys(map(str, range(99_999)))), "mistakes"),
    ],
)
def test_a_plan_of_very_many_mistakes_costs_little_memory(text: str, said: str) -> None:
    """A list is read up to its first wrong item, and very many values aren't read at all."""
    tracemalloc.start()
    try:
        with pytest.raises(PlanError, match=said):
            read(text, ARGUMENTS)
        assert tracemalloc.get_traced_memory()[1] < 96 << 20
    finally:
        tracemalloc.stop()


def test_arguments_are_where_the_grader_put_them() -> None:
    for given in [(4096, 4095), (4096,), (4096, None), (None, 4096, 4096)]:
        with pytest.raises(PlanError, match="expected the arguments"):
            read(FULL, given)


def _with_constant(value) -> dict:
    signature = KERNEL["signature"] | {"T": "constexpr"}
    return KERNEL | {"signature": signature, "constants": {"T": value, "BLOCK": 64}}


def test_sums_are_bounded() -> None:
    upload = {"do": "upload", "to": view(0, 4, dtype="uint8"), "data": "AAECAw=="}
    read(plan(upload, upload), ARGUMENTS, Limits(upload_bytes=8))
    with pytest.raises(PlanError, match="8 bytes go from host code"):
        read(plan(upload, upload), ARGUMENTS, Limits(upload_bytes=7))
    alike = {**upload, "data": "AAAAAA=="}  # one value everywhere, as a fill has it
    read(plan(alike, alike), ARGUMENTS, Limits(upload_bytes=2))
    with pytest.raises(PlanError, match="8 bytes go from host code"):  # n, and the constant BLOCK
        read(plan(launch(0, 1)), ARGUMENTS, Limits(upload_bytes=7))
    read(plan(launch(0, 1), launch(0, 1)), ARGUMENTS, Limits(upload_bytes=12))
    table = {"tuple": [*range(250), 0.5]}  # constants count once, however often they are launched
    with_table = plan(launch(0, 1), launch(0, 1), specialisations=[_with_constant(table)])
    with pytest.raises(PlanError, match="1,020 bytes go from host code"):
        read(with_table, ARGUMENTS, Limits(upload_bytes=1019))
    with pytest.raises(PlanError, match="2 launches"):
        read(plan(launch(0, 1), launch(0, 1)), ARGUMENTS, Limits(launches=1))
    allocs = [{"do": "alloc", "buffer": 2}, {"do": "alloc", "buffer": 3}]
    with pytest.raises(PlanError, match="128 bytes are allocated at a time"):
        read(plan(*allocs, scratch=(64, 64)), ARGUMENTS, Limits(device_bytes=127))


def test_what_a_first_call_leaves_is_there_in_the_second() -> None:
    fill = {"do": "fill", "to": view(2, 4), "value": 0}
    calls = [[{"do": "alloc", "buffer": 2}], [fill]]
    assert len(read(plan(scratch=(64,), calls=calls), ARGUMENTS).calls) == 2
    freed = [[{"do": "alloc", "buffer": 2}, {"do": "free", "buffer": 2}], [fill]]
    with pytest.raises(PlanError, match="after"):
        read(plan(scratch=(64,), calls=freed), ARGUMENTS)


def test_a_kernel_may_be_handed_memory_that_was_freed() -> None:
    """Whether it accesses that memory, an executor finds out, and says where."""
    freed = [{"do": "alloc", "buffer": 2}, {"do": "free", "buffer": 2}, launch(0, 2)]
    assert len(read(plan(*freed, scratch=(64,)), ARGUMENTS).launches) == 1


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@hypothesis.settings(max_examples=300, deadline=None, database=None)
@hypothesis.given(st.data())
def test_a_changed_plan_is_read_or_refused_and_nothing_else(data) -> None:
    """One value anywhere in a plan is replaced by another, or left out."""
    document = json.loads(FULL)
    at, key = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(at[key], dict | list) and at[key] and data.draw(st.booleans()):
        at = at[key]
        keys = sorted(at) if isinstance(at, dict) else range(len(at))
        key = data.draw(st.sampled_from(list(keys)))
    if data.draw(st.booleans()):
        at[key] = data.draw(_values)
    else:
        del at[key]
    try:
        plan_read = read(json.dumps(document), ARGUMENTS)
    except PlanError as error:
        assert str(error)
    else:
        assert read(to_json(plan_read), ARGUMENTS) == plan_read


@hypothesis.settings(max_examples=200, deadline=None, database=None)
@hypothesis.given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_a_plan_error(data) -> None:
    with pytest.raises(PlanError):
        read(data, ARGUMENTS)

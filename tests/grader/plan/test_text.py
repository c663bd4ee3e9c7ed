"""A plan is printed so that a student recognises their launcher in it."""

from __future__ import annotations

import pytest

from grader.plan import lines, read, summary

from .plans import ARGUMENTS, KERNEL, launch, plan, view

NAMES = ("x", "out")


def test_a_summary_is_one_sentence() -> None:
    made = read(plan(launch(0, 1, grid=[512, 1, 1])), ARGUMENTS)
    assert summary(made, NAMES, "silu.py") == "launches silu_kernel on 512 programs"
    steps = [{"do": "alloc", "buffer": 2}, launch(0, 2, grid=[4, 8, 1])]
    made = read(plan(*steps, scratch=(4096,)), ARGUMENTS)
    assert summary(made, NAMES, "silu.py") == (
        "allocates 4,096 bytes and launches silu_kernel on 4 x 8 programs"
    )
    assert summary(read(plan(), ARGUMENTS), NAMES, "silu.py") == "asks nothing of the device"
    copy = {"do": "copy", "to": view(1, 16), "from": view(0, 16)}
    upload = {"do": "upload", "to": view(1, 1), "data": "AAAAAA=="}
    made = read(plan(*steps, copy, copy, upload, scratch=(4096,)), ARGUMENTS)
    assert summary(made, NAMES, "silu.py") == (
        "allocates 4,096 bytes, launches silu_kernel on 4 x 8 programs, and asks for 2 copies and "
        "1 upload"
    )


def test_a_launch_names_arguments_constants_and_the_line() -> None:
    [line] = lines(read(plan(launch(0, 1)), ARGUMENTS), NAMES, "silu.py")
    assert (line.verb, line.place) == ("launch", "silu.py:22")
    assert line.target == "silu_kernel on 1 program: x, out, 1024; BLOCK=1024, 4 warps"


def test_a_copy_says_what_it_does_to_the_elements() -> None:
    copy = {"do": "copy", "to": view(1, 16, 4), "from": view(0, 16, 4, strides=[1, 16])}
    [line] = lines(read(plan(copy), ARGUMENTS), NAMES, "silu.py")
    assert line.target == "x (16 x 4, float32) to out (16 x 4, float32): it permutes elements"


def test_a_second_call_is_shown_where_it_differs() -> None:
    made = read(plan(calls=[[launch(0, 1)], [launch(0, 1)]]), ARGUMENTS)
    assert len(lines(made, NAMES, "silu.py")) == 1
    made = read(plan(calls=[[launch(0, 1)], []]), ARGUMENTS)
    assert [line.target for line in lines(made, NAMES, "silu.py")][-1] == "nothing at all"


def test_a_second_call_on_memory_of_its_own_is_no_other() -> None:
    first = [{"do": "alloc", "buffer": 2}, launch(0, 2)]
    second = [{"do": "alloc", "buffer": 3}, launch(0, 3)]
    made = read(plan(calls=[first, second], scratch=(64, 64)), ARGUMENTS)
    assert [line.verb for line in lines(made, NAMES, "silu.py")] == ["allocate", "launch"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"tuple": [32, {"float": "inf"}, {"tuple": [1]}]}, "(32, inf, (1,))"),
        ({"tuple": list(range(99))}, "(0, 1, 2, 3, 4, 5, 6, 7, ...)"),
        ({"tuple": [1, 2], "fields": ["a", "b"], "name": "Pair"}, "(1, 2)"),
        ({"dtype": "fp32"}, "fp32"),
        ({"kernel": {"function": "twice"}}, "twice"),
        (2.5, "2.5"),
    ],
)
def test_a_constant_is_shown_by_its_value(value, shown) -> None:
    kernel = KERNEL | {"constants": {"T": value}}
    [line] = lines(read(plan(launch(0, 1), specialisations=[kernel]), ARGUMENTS), NAMES, "silu.py")
    assert line.target.endswith(f"; T={shown}, 4 warps")


def test_a_long_plan_is_cut_and_says_so() -> None:
    shown = lines(read(plan(*[launch(0, 1)] * 100), ARGUMENTS), NAMES, "silu.py")
    assert len(shown) == 61
    assert shown[-1].target == "and 40 more steps"

"""Plans of one case that differ are told by what differs, with both values and the line."""

from __future__ import annotations

import pytest

from grader.plan import difference, read

from .plans import ARGUMENTS, KERNEL, launch, plan, view

ONE = plan(launch(0, 1))
ALLOC = {"do": "alloc", "buffer": 2, "line": 20}
COPY = {"do": "copy", "to": view(1, 16), "from": view(0, 16), "line": 21}
SMALLER = KERNEL | {"constants": {"BLOCK": 512}}
WIDER = KERNEL | {"options": {"num_warps": 8}}
OTHER = KERNEL | {"function": "gelu_kernel"}
SCALAR = {"scalar": "00080000", "type": "i32"}
SAME = " of the same case"
DIFFERENT = {
    "a constant": (
        plan(launch(0, 1, grid=[2, 1, 1]), specialisations=[SMALLER]),
        "launches silu_kernel with BLOCK=1024 in one plan and BLOCK=512 in another" + SAME,
    ),
    "an option": (
        plan(launch(0, 1), specialisations=[WIDER]),
        "launches silu_kernel with num_warps=4 in one plan and num_warps=8 in another" + SAME,
    ),
    "the kernel": (
        plan(launch(0, 1), specialisations=[OTHER]),
        "launches silu_kernel in one plan and gelu_kernel in another" + SAME,
    ),
    "the grid": (
        plan(launch(0, 1, grid=[2, 1, 1])),
        "launches silu_kernel on 1 program in one plan and 2 programs in another" + SAME,
    ),
    "a buffer": (
        plan(launch(1, 1)),
        "launches silu_kernel with x_ptr=x in one plan and x_ptr=out in another" + SAME,
    ),
    "a number": (
        plan(launch(0, 1, arguments=[{"pointer": [0, 0]}, {"pointer": [1, 0]}, SCALAR])),
        "launches silu_kernel with n=1024 in one plan and n=2048 in another" + SAME,
    ),
    "a launch more": (
        plan(launch(0, 1), launch(0, 1, line=30)),
        "silu.py:30 launches silu_kernel on 1 program: x, out, 1024; BLOCK=1024, 4 warps in one "
        "plan of a case only",
    ),
    "a copy instead": (
        plan(COPY),
        "silu.py:22 launches silu_kernel on 1 program: x, out, 1024; BLOCK=1024, 4 warps in one "
        "plan and copies x (16, float32) to out (16, float32) in another" + SAME,
    ),
}


@pytest.mark.parametrize(("other", "said"), DIFFERENT.values(), ids=DIFFERENT)
def test_a_difference_has_both_values_and_its_line(other: str, said: str) -> None:
    first, again = read(ONE, ARGUMENTS), read(other, ARGUMENTS)
    told = difference(first, again, ("x", "out"), "silu.py")
    assert told == (said if said.startswith("silu.py") else f"silu.py:22 {said}")
    assert difference(again, first)


def test_plans_that_are_alike_differ_in_nothing() -> None:
    assert difference(read(ONE, ARGUMENTS), read(ONE, ARGUMENTS)) == ""


def test_memory_of_another_size_is_told_by_its_line() -> None:
    one, other = (read(plan(ALLOC, scratch=(size,)), ARGUMENTS) for size in (4096, 64))
    assert difference(one, other, file="silu.py") == (
        "silu.py:20 allocates 4,096 bytes in one plan and 64 bytes in another of the same case"
    )


def test_whatever_differs_is_told() -> None:
    first = read(ONE, ARGUMENTS)
    for other in (
        plan(launch(0, 1), scratch=(64,)),
        plan(launch(0, 1), specialisations=[KERNEL, OTHER]),
        plan(calls=[[launch(0, 1)], [launch(0, 1)]]),
        plan(launch(0, 1, stream=1)),
        plan(launch(0, 1, line=23)),
    ):
        assert difference(first, read(other, ARGUMENTS))

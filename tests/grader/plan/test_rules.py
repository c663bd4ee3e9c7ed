"""The rules on plans: which torch results and which copies cost a submission its points."""

from __future__ import annotations

from typing import Any

import pytest

from grader.plan import Allowed, Layout, allow, read, repeats, violations

from .plans import ARGUMENTS, launch, plan, view

MUL = {"do": "foreign", "operation": "aten::mul.Tensor", "inputs": [], "line": 12}
ALLOC = {"do": "alloc", "buffer": 2}


def rules_broken(*steps, allowed: Allowed | None = None, scratch=(4096,)) -> list[str]:
    made = read(plan(*steps, scratch=scratch), ARGUMENTS)
    allowed = allowed or Allowed()
    return [each.rule for each in violations(allow(made, allowed), allowed)]


def test_a_torch_result_in_an_argument_is_a_violation() -> None:
    assert rules_broken(MUL | {"outputs": [view(1, 4)]}, launch(0, 1)) == ["torch"]


def test_a_torch_result_that_a_kernel_gets_is_a_violation() -> None:
    assert rules_broken(ALLOC, MUL | {"outputs": [view(2, 4)]}, launch(2, 1)) == ["torch"]


def test_a_torch_result_is_followed_through_copies() -> None:
    copy = {"do": "copy", "to": view(1, 4), "from": view(2, 4)}
    assert rules_broken(ALLOC, MUL | {"outputs": [view(2, 4)]}, copy) == ["torch"]


def test_a_torch_result_that_goes_nowhere_is_none() -> None:
    """A self-test, an assertion, a hint for a grid: it computes nothing that is handed in."""
    assert rules_broken(ALLOC, MUL | {"outputs": [view(2, 4)]}, launch(0, 1)) == []


def test_memory_allocated_anew_holds_no_result() -> None:
    free = {"do": "free", "buffer": 2}
    steps = [ALLOC, MUL | {"outputs": [view(2, 4)]}, free, ALLOC, launch(2, 1)]
    assert rules_broken(*steps) == []


@pytest.mark.parametrize("names", [{"mul"}, {"*"}])
def test_a_spec_allows_operations_by_name(names) -> None:
    allowed = Allowed(torch=frozenset(names))
    assert rules_broken(MUL | {"outputs": [view(1, 4)]}, allowed=allowed) == []
    assert rules_broken(MUL | {"outputs": [view(1, 4)]}, allowed=Allowed(frozenset({"mm"})))


def test_a_copy_of_all_of_an_argument_of_one_column_selects_nothing() -> None:
    """However far apart its rows lie; the first column of a wider one is a selection."""
    copy = {"do": "copy", "to": view(2, 16, 1), "from": view(0, 16, 1, strides=[11, 1], offset=8)}
    allowed = Allowed(moves_data=True)
    made = read(plan(ALLOC, copy, scratch=(4096,)), ARGUMENTS)
    narrow, wide = Layout((16, 1), (11, 1), 8), Layout((16, 4), (11, 1), 8)
    elsewhere = Layout((16, 1), (11, 1), 0)
    assert violations(made, allowed, {0: narrow}) == []
    for arguments in ({}, {0: wide}, {0: elsewhere}, {1: narrow}):
        assert [each.rule for each in violations(made, allowed, arguments)] == ["copy"]


STRAIGHT = {"do": "copy", "to": view(2, 16, 4), "from": view(0, 16, 4), "line": 3}
PADDED = {"do": "copy", "to": view(2, 16, 4), "from": view(0, 16, 4, strides=[11, 1])}
TRANSPOSED = {"do": "copy", "to": view(2, 16, 4), "from": view(0, 16, 4, strides=[1, 16])}
COLUMN = {"do": "copy", "to": view(2, 16), "from": view(0, 16, strides=[64])}
REPEATED = {"do": "copy", "to": view(2, 16, 4), "from": view(0, 16, 4, strides=[1, 0])}
REVERSED = {"do": "copy", "to": view(2, 16), "from": view(0, 16, strides=[-1], offset=15)}
CAST = {"do": "copy", "to": view(2, 16, dtype="float16"), "from": view(0, 16)}
ONE = {"do": "copy", "to": view(2, 1, 1), "from": view(0, 1, 1, strides=[9, 9])}


@pytest.mark.parametrize("copy", [TRANSPOSED, COLUMN, REPEATED, REVERSED, CAST])
def test_a_copy_that_changes_places_or_types_is_the_exercise_where_that_is_the_lesson(copy) -> None:
    assert rules_broken(ALLOC, copy, allowed=Allowed(moves_data=True)) == ["copy"]
    assert rules_broken(ALLOC, copy) == []
    assert rules_broken(ALLOC, copy, allowed=Allowed(frozenset({"copy_"}), True)) == []


@pytest.mark.parametrize("copy", [STRAIGHT, PADDED, ONE])
def test_a_copy_that_keeps_places_is_none(copy) -> None:
    assert rules_broken(ALLOC, copy, allowed=Allowed(moves_data=True)) == []


def test_what_a_copy_gives_an_output_a_kernel_has_made_where_moving_is_the_lesson() -> None:
    moving, to_output = Allowed(moves_data=True), {"do": "copy", "to": view(1, 64)}
    from_input, from_own = (to_output | {"from": view(number, 64)} for number in (0, 2))
    for steps, broken in (
        ([from_input], ["copy"]),
        ([ALLOC, STRAIGHT, from_own], ["copy"]),
        ([ALLOC, launch(0, 2), from_own], []),
    ):
        assert rules_broken(*steps, allowed=moving) == broken
        assert rules_broken(*steps) == []
        assert rules_broken(*steps, allowed=Allowed(frozenset({"copy_"}), True)) == []


def test_copies_are_counted() -> None:
    assert rules_broken(ALLOC, *[STRAIGHT] * 16) == []
    assert rules_broken(ALLOC, *[STRAIGHT] * 17) == ["copy"]


@pytest.mark.parametrize(("operation", "broken"), [("aten::silu", ["torch"]), ("aten::mm", [])])
def test_what_is_allowed_is_said_by_the_spec_and_not_by_the_plan(operation, broken) -> None:
    """A planner that calls its own operation allowed would have torch compute the result."""
    step = {"do": "host_op", "operation": operation, "inputs": [view(0, 4)]}
    allowed = Allowed(torch=frozenset({"mm"}))
    assert rules_broken(step | {"outputs": [view(1, 4)]}, allowed=allowed) == broken


AGAIN = {"do": "alloc", "buffer": 3}
KEEPS = [ALLOC, launch(0, 2), launch(2, 1)]
SECOND_CALLS = {
    "the same on memory of its own": ([AGAIN, launch(0, 3), launch(3, 1)], True),
    "the same on other lines": ([AGAIN, launch(0, 3), launch(3, 1, line=99)], True),
    "no trials any more": ([AGAIN, launch(0, 3), launch(3, 1)], True),
    "on the first one's memory": ([launch(0, 2), launch(2, 1)], False),
    "only what the first one left": ([launch(2, 1)], False),
    "on other programs": ([AGAIN, launch(0, 3), launch(3, 1, grid=[2, 1, 1])], False),
    "nothing": ([], False),
}


def on_streams(kernel: int, other: int, event: int, waits: int) -> list[dict[str, Any]]:
    """Two launches on streams, the second behind an event if `waits` for it."""
    return [
        launch(0, 1, stream=kernel),
        {"do": "record", "event": event, "stream": kernel},
        {"do": "wait", "event": waits, "stream": other},
        launch(1, 0, stream=other),
    ]


@pytest.mark.parametrize(
    ("second", "same"),
    [
        (on_streams(3, 4, 7, 7), True),  # streams and events that each call makes
        (on_streams(3, 3, 7, 7), False),
        (on_streams(3, 0, 7, 7), False),  # stream 0 is the same one in each call
        (on_streams(3, 4, 7, 8), False),
    ],
)
def test_streams_and_events_of_a_call_are_its_own(second, same) -> None:
    made = read(plan(*on_streams(1, 2, 5, 5), calls=[on_streams(1, 2, 5, 5), second]), ARGUMENTS)
    assert repeats(made) == same


@pytest.mark.parametrize(("second", "same"), SECOND_CALLS.values(), ids=SECOND_CALLS)
def test_a_second_call_repeats_the_first_or_does_other_work(second, same) -> None:
    first = [launch(0, 1, trial=0), *KEEPS] if same else KEEPS
    made = read(plan(*KEEPS, scratch=(4096, 4096), calls=[first, second]), ARGUMENTS)
    assert repeats(made) == same


def test_what_to_do_about_too_many_copies_is_no_advice_about_elements() -> None:
    copy = {"do": "copy", "to": view(1, 16), "from": view(0, 16)}
    made = read(plan(*[copy] * 17), ARGUMENTS)
    [broken] = violations(made, Allowed())
    assert broken.what == "17 copies in one call; at most 16 are allowed"
    assert broken.instead == "Write to the output in the kernel, or copy once."

"""Yardsticks' workers serve one case of a variant after the other, where that changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil
import pytest
import torch

from grader.cases import Case, fixed_case
from grader.sandbox import Sandbox
from grader.spec import Variant, load_all
from grader.timing import lanes
from grader.timing.pairs import TimedPairs
from grader.timing.yardsticks import CONTROL_BYTES, Yardsticks

EXERCISE = load_all()["rmsnorm"]
VARIANT = EXERCISE.variants["triton"]


def case(rows: int, cols: int, dtype: str = "float32") -> Case:
    return fixed_case(EXERCISE, VARIANT, {"rows": rows, "cols": cols, "dtype": dtype}, 7)


# The second is the largest, the last one has more columns than any.
CASES = [case(16, 512), case(64, 512), case(8, 64, "float16"), case(1, 2000)]


def asking(*names: str) -> Variant:
    """The variant with thresholds of these yardsticks."""
    kind = type(VARIANT.performance.thresholds[0])
    made = tuple(
        kind.model_validate({"speed_vs": name, "at_least": 0.5, "points": 1}) for name in names
    )
    return VARIANT.model_copy(
        update={"performance": VARIANT.performance.model_copy(update={"thresholds": made})}
    )


@pytest.fixture
def opened() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def process_of(lane: TimedPairs) -> int:
    return lane._worker._worker.pid


def has_ended(lane: TimedPairs) -> bool:
    return not psutil.pid_exists(process_of(lane))


def timed(lane: TimedPairs) -> None:
    """A pair, and nothing of it was there before."""
    lane.settle()
    for number in range(lane._sets.count):
        for _, view in lane._sets._views(number, "output"):
            view.fill_(7)
    lane.pair()


def outputs_of(lane: TimedPairs) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Of each set the first input and the output."""
    sets = lane._sets
    return [
        tuple(next(iter(sets._views(number, role)))[1] for role in ("input", "output"))
        for number in range(sets.count)
    ]


@pytest.mark.parametrize("name", ["copy", "torch"])
def test_one_worker_serves_every_case(python_sandbox, opened, name):
    serves_every_case(python_sandbox, opened, name)


@pytest.mark.gpu
def test_on_a_gpu_one_worker_serves_every_case(opened):
    with Sandbox("cuda") as sandbox:
        serves_every_case(sandbox, opened, "copy")
        serves_every_case(sandbox, opened, "torch")


def serves_every_case(sandbox: Sandbox, opened: contextlib.ExitStack, name: str) -> None:
    processes = set()
    with Yardsticks(sandbox, EXERCISE, asking("copy", "torch"), CASES) as yardsticks:
        for each in [*CASES, CASES[0]]:
            lane = yardsticks.begin(name, each, opened).ready()
            timed(lane)
            processes.add(process_of(lane))
            moved = yardsticks.moved_by(name, each)
            assert lane._sets._layout == lanes.layout_of(name, EXERCISE, VARIANT, each, moved)
            if name == "copy":  # torch's own operator allocates what it returns
                copied = [torch.equal(given, out) for given, out in outputs_of(lane)]
                assert sum(copied) >= lane.calls
    assert len(processes) == 1


@pytest.mark.parametrize("name", ["reference", "compile"])
def test_what_may_remember_another_size_starts_anew(python_sandbox, opened, monkeypatch, name):
    # What is compiled needs a compiler here: that it is asked for again is all that counts.
    monkeypatch.setitem(lanes._SOURCES, "compile", lanes._SOURCES["torch"])
    with Yardsticks(python_sandbox, EXERCISE, asking(name), CASES[:2]) as yardsticks:
        processes = [process_of(yardsticks.begin(name, each, opened).ready()) for each in CASES[:2]]
    assert len({*processes}) == 2


def test_after_noise_all_are_new_and_the_old_ones_have_ended(python_sandbox, opened):
    with Yardsticks(python_sandbox, EXERCISE, asking("copy"), CASES[:2]) as yardsticks:
        first = yardsticks.begin("copy", CASES[0], opened).ready()
        yardsticks.renew()
        assert has_ended(first)
        second = yardsticks.begin("copy", CASES[0], opened).ready()
        assert process_of(first) != process_of(second)
    assert has_ended(second)


def test_of_a_single_case_it_ends_with_that(python_sandbox):
    with Yardsticks(python_sandbox, EXERCISE, asking("copy"), CASES[:1]) as yardsticks:
        with contextlib.ExitStack() as opened:
            lane = yardsticks.begin("copy", CASES[0], opened).ready()
        assert has_ended(lane)


def test_a_case_that_the_buffers_do_not_hold_is_said(python_sandbox, opened):
    with Yardsticks(python_sandbox, EXERCISE, asking("torch"), CASES[2:]) as yardsticks:
        starting = yardsticks.begin("torch", CASES[2], opened)
        starting.ready()
        layout = lanes.layout_of("torch", EXERCISE, VARIANT, case(4096, 2048), 0)
        with pytest.raises(lanes.TooLittleMemory, match=r"4 sets of buffers have \d+ MiB, and"):
            starting.again(layout)


def test_a_control_that_no_threshold_names_copies_enough_on_a_gpu():
    class OnGpu(Sandbox):
        def __init__(self) -> None:
            self.device = "cuda"

    small = 2 * 16 * 512 * 4
    for names, device, expected in [
        (("torch",), OnGpu(), CONTROL_BYTES),
        (("torch", "copy"), OnGpu(), small),
    ]:
        yardsticks = Yardsticks(device, EXERCISE, asking(*names), CASES)
        assert yardsticks.moved_by("copy", CASES[0]) == expected
        assert yardsticks.moved_by("torch", CASES[0]) == small

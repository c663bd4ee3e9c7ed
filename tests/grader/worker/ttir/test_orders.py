"""Programs in an order of their own, and the launches in which atomics may tell the order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from grader.worker.ttir.executor import MAX_WAITING
from grader.worker.ttir.orders import WINDOW, Atomics, Order, sampled

from . import race_kernels as kernels
from .launching import launching

ORDERS = [Order(7, backwards, 16, 10_000_000) for backwards in (False, True)]


@triton.jit
def order_of(out, counter):
    tl.store(out + tl.program_id(0), tl.atomic_add(counter, 1))


@triton.jit
def chain(out, flags):
    """Program p waits for what program p - 1 has made."""
    pid = tl.program_id(0)
    made = 0
    while (made == 0) & (pid > 0):
        made = tl.atomic_add(flags + pid - 1, 0)
    tl.store(out + pid, made + 1)
    tl.atomic_xchg(flags + pid, made + 1)


@pytest.mark.parametrize(
    ("count", "numbers"),
    [
        (0, []),
        (1, [0]),
        (3, [0, 1, 2]),
        (1 << 40, [0, *(((1 << 40) - 1) * n // 4 for n in (1, 2, 3, 4))]),
    ],
)
def test_a_sample_has_the_first_program_and_the_last(count, numbers) -> None:
    assert sampled(count).tolist() == numbers


def test_every_program_runs_once_in_a_drawn_order_and_in_its_reverse() -> None:
    turns = []
    for order in ORDERS:
        out = torch.full((1000,), -1, dtype=torch.int32)
        with launching(order=order):
            order_of[(1000,)](out, torch.zeros(1, dtype=torch.int32))
        assert sorted(out.tolist()) == list(range(1000))
        turns.append(out)
    assert (turns[0] + turns[1] == 999).all()
    assert (turns[0].diff() < 0).any() and (turns[0].diff() > 1).any()


@pytest.mark.parametrize("order", ORDERS)
def test_programs_that_wait_may_wait_for_all_that_a_gpu_has_started(order) -> None:
    count = MAX_WAITING + 2 * WINDOW  # more than can wait at a time
    out, flags = (torch.zeros(count, dtype=torch.int32) for _ in range(2))
    with launching(order=order):
        chain[(count,)](out, flags)
    assert out.tolist() == list(range(1, count + 1))


def test_the_windows_of_programs_that_wait_follow_each_other() -> None:
    numbers = ORDERS[0].waiting_programs(WINDOW + 3)
    assert sorted(numbers[:WINDOW]) == list(range(WINDOW))
    assert sorted(numbers[WINDOW:]) == [WINDOW, WINDOW + 1, WINDOW + 2]
    assert not np.array_equal(numbers, np.sort(numbers))
    assert ORDERS[0].waiting_programs(0).size == 0


def test_a_lock_works_in_any_order() -> None:
    x = torch.arange(12.0).reshape(6, 2)
    for order in ORDERS:
        out, lock = torch.zeros(2), torch.zeros(1, dtype=torch.int32)
        with launching(order=order):
            kernels.locked_sum[(6,)](x, out, lock, 2, LOCK=True, B=2)
        assert out.tolist() == x.sum(0).tolist()


def told(kernel, grid, *args, **constants) -> list[dict[str, int]]:
    """What is told of the atomics of one launch."""
    atomics = Atomics()
    with launching([atomics]) as launches:
        kernel[grid](*args, **constants)
    atomics.launched(5, grid[0], launches.results[0])
    return atomics.report()


def test_atomics_of_several_programs_are_told_with_their_line() -> None:
    out, counter = torch.zeros(3, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    (seen,) = told(order_of, (3,), out, counter)
    assert (seen["kernel"], seen["programs"]) == (5, 3)
    assert seen["line"] == order_of.starting_line_number + 2
    assert 0 < seen["group_steps"] <= seen["steps"]


@triton.jit
def left_by_the_one_before(left, out):
    pid = tl.program_id(0)
    tl.atomic_add(left + pid, 1)
    tl.store(out + pid, tl.load(left + pid - 1, mask=pid > 0, other=0, volatile=True))


def test_a_volatile_load_of_what_sums_left_may_tell_the_order() -> None:
    left, out = (torch.zeros(3, dtype=torch.int32) for _ in range(2))
    (seen,) = told(left_by_the_one_before, (3,), left, out)
    assert seen["line"] == left_by_the_one_before.starting_line_number + 4


def test_nothing_is_told_of_one_program_or_of_sums_nobody_looks_at() -> None:
    out, counter = torch.zeros(3, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    assert told(order_of, (1,), out, counter) == []
    x, bins = torch.tensor([0, 1, 1, 2], dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    assert told(kernels.histogram, (2,), x, bins, 4, ATOMIC=True, B=2) == []
    assert (
        told(kernels.split_sum, (2, 2), torch.ones(2, 4), torch.zeros(2), 4, ATOMIC=True, B=2) == []
    )

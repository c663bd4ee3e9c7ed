"""Branches, loops, calls and programs that part ways or wait for each other."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl

from grader.worker.ttir.errors import LimitExceeded, NeverEnds, WaitsForever
from grader.worker.ttir.state import Limits

from .launching import launching


@triton.jit
def _collatz(x, out):
    pid = tl.program_id(0)
    n = tl.load(x + pid)
    steps = 0
    while n != 1:
        if n % 2 == 0:  # noqa: SIM108
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(out + pid, steps)


def test_while_loops_of_different_lengths():
    x = torch.arange(1, 40, dtype=torch.int32)
    out = torch.empty_like(x)
    with launching() as launches:
        _collatz[(39,)](x, out)

    def collatz(n):
        return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)

    assert out.tolist() == [collatz(n) for n in range(1, 40)]
    assert launches.findings == []


@triton.jit
def _triangle(out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((B,), tl.int32)
    last = -1
    for i in range(pid, n, 3):
        if i > 5:
            total += i
            for j in range(i):
                total += tl.where(tl.arange(0, B) == j, 1, 0)
        last = i
    tl.store(out + pid * B + tl.arange(0, B), total + last)


def test_for_loops_and_branches_that_differ_between_programs():
    out = torch.empty(12, 8, dtype=torch.int32)
    with launching():
        _triangle[(12,)](out, 11, B=8)
    for pid in range(12):
        total, last = [0] * 8, -1
        for i in range(pid, 11, 3):
            if i > 5:
                total = [each + i + (place < i) for place, each in enumerate(total)]
            last = i
        assert out[pid].tolist() == [each + last for each in total]


@triton.jit
def _early(x, out, n):
    pid = tl.program_id(0)
    if pid == 3:
        return
    value = tl.load(x + pid)
    if value < 0:
        tl.store(out + pid, -1.0)
        return
    tl.store(out + pid, value * 2)


def test_early_returns():
    x = torch.tensor([1.0, -2.0, 3.0, 4.0, -5.0])
    out = torch.zeros(5)
    with launching():
        _early[(5,)](x, out, 5)
    assert out.tolist() == [2.0, -1.0, 6.0, 0.0, -1.0]


@triton.jit
def _clamped(a, b):
    if a > b:
        return b, a
    if a < 0:
        return a * 0, a
    return a, b


@triton.jit(noinline=True)
def _apart(a, n):
    return a + n


@triton.jit
def _calls(x, out, B: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    low, high = 0.0, 0.0
    for j in range(3):
        value = tl.load(x + pid * 3 + j)
        a, b = _clamped(value, 1.0)
        low += a
        high += b
    total = _apart(tl.sum(tl.load(x + i)), pid)
    tl.store(out + pid * 3, low)
    tl.store(out + pid * 3 + 1, high)
    tl.store(out + pid * 3 + 2, total)


def test_functions_that_stay_functions():
    x = torch.tensor([0.5, 2.0, -3.0, 1.5, -1.0, 0.25, 7.0, 0.0])
    out = torch.empty(2, 3)
    with launching() as launches:
        _calls[(2,)](x, out, B=8)
    assert any("tt.call" in text for text in launches.texts)
    for pid in range(2):
        values = [float(x[pid * 3 + j]) for j in range(3)]
        pairs = [(1.0, v) if v > 1 else (0.0, v) if v < 0 else (v, 1.0) for v in values]
        expected = [sum(p[0] for p in pairs), sum(p[1] for p in pairs), float(x.sum()) + pid]
        assert out[pid].tolist() == pytest.approx(expected)


@triton.jit
def _locked(lock, total, out, rounds):
    pid = tl.program_id(0)
    for _ in range(rounds):
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        value = tl.load(total)
        tl.store(total, value + pid)
        tl.atomic_xchg(lock, 0)
    tl.store(out + pid, pid)


def test_a_spin_lock():
    lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    out = torch.empty(20, dtype=torch.int32)
    with launching():
        _locked[(20,)](lock, total, out, 3)
    assert total.item() == 3 * 190
    assert lock.item() == 0


@triton.jit
def _barrier(arrived, x, out, n: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(x + pid, pid + 1)
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < n:
        pass
    tl.store(out + pid, tl.sum(tl.load(x + tl.arange(0, n))))


def test_programs_that_wait_for_later_ones():
    arrived, x = torch.zeros(1, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    out = torch.empty(16, dtype=torch.int32)
    with launching():
        _barrier[(16,)](arrived, x, out, n=16)
    assert out.tolist() == [136] * 16


@triton.jit
def _volatile(flag, out):
    pid = tl.program_id(0)
    if pid == 0:
        while tl.load(flag, volatile=True) == 0:
            pass
        tl.store(out, 7)
    else:
        tl.store(flag, 1)


def test_a_flag_that_is_polled_by_volatile_loads():
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with launching():
        _volatile[(2,)](flag, out)
    assert out.item() == 7


def test_waiting_for_nobody_ends():
    arrived, x = torch.zeros(1, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    with launching(limits=Limits(idle_turns=20)), pytest.raises(WaitsForever):
        _volatile[(1,)](arrived, x)


@triton.jit
def _polls(flag, out):
    pid = tl.program_id(0)
    if pid == 0:
        n = 0
        while n < 100:  # longer than a wait may be
            n += 1
        tl.store(out, n)
        tl.atomic_xchg(flag, 1)
    else:
        while tl.atomic_add(flag, 0) != 1:
            pass


def test_a_program_that_computes_while_others_wait_is_waited_for():
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with launching(limits=Limits(idle_turns=20)):
        _polls[(3,)](flag, out)
    assert out.item() == 100 and flag.item() == 1


def test_atomics_that_change_nothing_are_a_wait():
    flag = torch.full((1,), 1 << 20, dtype=torch.int32)
    with launching(limits=Limits(idle_turns=20)), pytest.raises(WaitsForever):
        _waits_for_all[(2,)](flag, flag)


@triton.jit
def _waits_for_all(flag, out):
    while tl.atomic_add(flag, 0) != tl.num_programs(0):
        pass
    tl.store(out, 0)


@triton.jit
def _passed_on(flags, values, early: tl.constexpr):
    pid = tl.program_id(0)
    before = 0
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0) == 0:
            pass
        before = tl.atomic_add(values + pid - 1, 0)
    if early:
        tl.atomic_xchg(flags + pid, 1)
        tl.atomic_xchg(values + pid, before + 1)
    else:
        tl.atomic_xchg(values + pid, before + 1)
        tl.atomic_xchg(flags + pid, 1)


@pytest.mark.parametrize("early", [False, True])
def test_a_flag_that_is_set_before_its_value_is_seen_before_it(early):
    flags, values = torch.zeros(9, dtype=torch.int32), torch.zeros(9, dtype=torch.int32)
    with launching():
        _passed_on[(9,)](flags, values, early)
    assert (values.tolist() == list(range(1, 10))) is not early


@triton.jit
def _growing(out):
    n = 1
    while n > 0:
        n += 1
    tl.store(out, n)


def test_an_endless_loop_ends():
    named = "operations executed in a launch: the limit is 10,000"
    with launching(limits=Limits(steps=10_000)), pytest.raises(LimitExceeded, match=named):
        _growing[(1,)](torch.zeros(1, dtype=torch.int32))


@triton.jit
def _going_round(out):
    n = 1
    while n > 0:
        n = (n + 1) % 100 + 1
    tl.store(out, n)


@triton.jit
def _counting(out):
    n = tl.load(out)
    while tl.load(out) < n + 100:
        tl.store(out, tl.load(out) + 1)


def test_a_loop_whose_values_come_again_never_ends():
    place = inspect.getsourcelines(_going_round.fn)[1] + 3
    with launching(), pytest.raises(NeverEnds) as raised:
        _going_round[(1,)](torch.zeros(1, dtype=torch.int32))
    assert raised.value.line == place


def test_a_loop_that_changes_memory_is_let_go_on():
    out = torch.zeros(1, dtype=torch.int32)
    with launching():
        _counting[(1,)](out)
    assert out.item() == 100


def test_a_program_that_waits_for_nobody_has_a_line():
    arrived, x = torch.zeros(1, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    with launching(limits=Limits(idle_turns=20)), pytest.raises(WaitsForever) as raised:
        _volatile[(1,)](arrived, x)
    source, first = inspect.getsourcelines(_volatile.fn)
    assert "while" in source[raised.value.line - first]


@triton.jit
def _last_block(x, partial, counter, out, n: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(partial + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B))))
    if tl.atomic_add(counter, 1) == n - 1:
        tl.store(out, tl.sum(tl.load(partial + tl.arange(0, n))))


def test_the_last_program_to_arrive_sees_all_parts():
    x, partial = torch.rand(8 * 32), torch.empty(8)
    counter, out = torch.zeros(1, dtype=torch.int32), torch.empty(1)
    with launching():
        _last_block[(8,)](x, partial, counter, out, n=8, B=32)
    torch.testing.assert_close(out[0], x.sum())


@triton.jit
def _queue(counter, out, n, B: tl.constexpr):
    tile = tl.atomic_add(counter, 1)
    while tile < n:
        tl.store(out + tile * B + tl.arange(0, B), tile)
        tile = tl.atomic_add(counter, 1)


def test_a_queue_of_tiles():
    counter, out = torch.zeros(1, dtype=torch.int32), torch.zeros(10, 4, dtype=torch.int32)
    with launching():
        _queue[(3,)](counter, out, 10, B=4)
    assert out[:, 3].tolist() == list(range(10))
    assert counter.item() == 13


@triton.jit
def _shares(counter, shares, n):
    while tl.atomic_add(counter, 1) < n:
        mine = shares + tl.program_id(0)
        tl.store(mine, tl.load(mine) + 1)


def test_no_program_takes_much_more_of_a_queue_than_others():
    """Programs that a GPU starts together share the tiles; the first one doesn't take most."""
    counter, shares = torch.zeros(1, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    with launching():
        _shares[(64,)](counter, shares, 64)
    assert shares.sum() == 64
    assert shares.max() <= 2


@triton.jit
def _grid(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + x + nx * (y + ny * z), x + 10 * y + 100 * z + 1000 * tl.num_programs(2))


def test_grids_of_three_dimensions():
    out = torch.empty(4, 3, 2, dtype=torch.int32)
    with launching():
        _grid[(2, 3, 4)](out)
    assert out[3, 2, 1].item() == 4321
    assert out[0, 0, 1].item() == 4001


@triton.jit
def _polled(flags, out, n):
    pid = tl.program_id(0)
    if pid + 1 < n:
        tl.atomic_poll(flags + pid + 1, 1)
    total = tl.atomic_load(out) + pid
    tl.atomic_store(out, total)
    tl.atomic_store(flags + pid, 1)


@pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="this Triton has no atomic_poll")
def test_polling_for_the_next_program():
    flags, out = torch.zeros(9, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with launching() as launches:
        _polled[(9,)](flags, out, 9)
    assert out.item() == 36
    assert flags.tolist() == [1] * 9
    assert launches.findings == []

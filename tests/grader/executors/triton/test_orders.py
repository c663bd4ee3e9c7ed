"""Results that hang on the order of programs are told; those that wait for others or draw a number,
or of which the order shows in the rounding only, are right in every order.

Each submission is a SiLU.
"""

from __future__ import annotations

import pytest

from grader.cases.compare import Verdict
from grader.executors import program_orders
from grader.executors.runner import CaseResult
from grader.status import Status
from tests.support.planned import case, results

HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def of(x_ptr, offs, n):
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    return x * tl.sigmoid(x)

"""
HONEST = {
    "a number from a counter": """
@triton.jit
def kernel(x_ptr, out_ptr, counter, n, B: tl.constexpr):
    offs = tl.atomic_add(counter, 1) * B + tl.arange(0, B)
    tl.store(out_ptr + offs, of(x_ptr, offs, n), mask=offs < n)


def silu(x, out):
    counter = torch.zeros(1, dtype=torch.int32, device=x.device)
    kernel[(triton.cdiv(x.numel(), 64),)](x, out, counter, x.numel(), B=64)
""",
    "a chain of flags that each program waits for": """
@triton.jit
def kernel(x_ptr, out_ptr, w_ptr, flags, n, B: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * B + tl.arange(0, B)
    tl.store(w_ptr + offs, of(x_ptr, offs, n), mask=offs < n)
    tl.debug_barrier()
    if pid > 0:
        while tl.atomic_add(flags + pid - 1, 0) == 0:
            pass
    tl.atomic_xchg(flags + pid, 1)
    before = offs - B
    mask = (before >= 0) & (before < n)
    tl.store(out_ptr + before, tl.load(w_ptr + before, mask=mask), mask=mask)


def silu(x, out):
    count = triton.cdiv(x.numel(), 64) + 1
    flags = torch.zeros(count, dtype=torch.int32, device=x.device)
    w = torch.empty(x.numel(), dtype=torch.float32, device=x.device)
    kernel[(count,)](x, out, w, flags, x.numel(), B=64)
""",
    "the last to come does the rest": """
@triton.jit
def kernel(x_ptr, out_ptr, w_ptr, counter, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(w_ptr + offs, of(x_ptr, offs, n), mask=offs < n)
    tl.debug_barrier()
    if tl.atomic_add(counter, 1) == tl.num_programs(0) - 1:
        for first in range(0, n, B):
            at = first + tl.arange(0, B)
            tl.store(out_ptr + at, tl.load(w_ptr + at, mask=at < n), mask=at < n)


def silu(x, out):
    counter = torch.zeros(1, dtype=torch.int32, device=x.device)
    w = torch.empty(x.numel(), dtype=torch.float32, device=x.device)
    kernel[(triton.cdiv(x.numel(), 64),)](x, out, w, counter, x.numel(), B=64)
""",
    "sums of parts, whose rounding the order shows in": """
@triton.jit
def kernel(x_ptr, w_ptr, seen, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    part = of(x_ptr, offs, n) / (1.5 + tl.program_id(1))
    part = tl.where(tl.program_id(1) == 2, of(x_ptr, offs, n) * (1 - 1 / 1.5 - 1 / 2.5), part)
    tl.atomic_add(w_ptr + offs, part, mask=offs < n)
    tl.atomic_max(seen, tl.program_id(0))


def silu(x, out):
    seen = torch.zeros(1, dtype=torch.int32, device=x.device)
    w = torch.zeros(x.numel(), dtype=torch.float32, device=x.device)
    kernel[(triton.cdiv(x.numel(), 64), 3)](x, w, seen, x.numel(), B=64)
    out.copy_(w.view(x.shape))
""",
}
# Each is right from first to last.
HANGING = {
    "what the one before left": (
        """
@triton.jit
def kernel(x_ptr, out_ptr, w_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_xchg(w_ptr + offs, of(x_ptr, offs, n), mask=offs < n)  # HERE
    before = offs - B
    mask = (before >= 0) & (before < n)
    y = tl.atomic_add(w_ptr + before, tl.zeros([B], tl.float32), mask=mask)
    tl.store(out_ptr + before, y, mask=mask)


def silu(x, out):
    w = torch.zeros(x.numel(), dtype=torch.float32, device=x.device)
    kernel[(triton.cdiv(x.numel(), 64) + 1,)](x, out, w, x.numel(), B=64)
"""
    ),
    "the last exchange": (
        """
@triton.jit
def kernel(x_ptr, w_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) // 3 * B + tl.arange(0, B)
    y = tl.where(tl.program_id(0) % 3 == 1, 0.0, of(x_ptr, offs, n))
    tl.atomic_xchg(w_ptr + offs, y, mask=offs < n)  # HERE


def silu(x, out):
    w = torch.empty(x.numel(), dtype=torch.float32, device=x.device)
    kernel[(triton.cdiv(x.numel(), 64) * 3,)](x, w, x.numel(), B=64)
    out.copy_(w.view(x.shape))
"""
    ),
    "a number that is the program's in the order from first to last": (
        """
@triton.jit
def kernel(x_ptr, out_ptr, counter, n, B: tl.constexpr):
    number = tl.atomic_add(counter, 1)  # HERE
    offs = tl.program_id(0) * B + tl.arange(0, B)
    y = tl.where(number == tl.program_id(0), of(x_ptr, offs, n), 0.0)
    tl.store(out_ptr + offs, y, mask=offs < n)


def silu(x, out):
    counter = torch.zeros(1, dtype=torch.int32, device=x.device)
    kernel[(triton.cdiv(x.numel(), 64),)](x, out, counter, x.numel(), B=64)
"""
    ),
    "what the next one leaves, where programs go in step": (
        """
@triton.jit
def kernel(x_ptr, out_ptr, w_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_xchg(w_ptr + offs, of(x_ptr, offs, n), mask=offs < n)  # HERE
    behind = (offs + B) % (B * tl.num_programs(0))
    mask = behind < n
    y = tl.atomic_add(w_ptr + behind, tl.zeros([B], tl.float32), mask=mask)
    tl.store(out_ptr + behind, y, mask=mask)


def silu(x, out):
    w = torch.zeros(x.numel(), dtype=torch.float32, device=x.device)
    kernel[(triton.cdiv(x.numel(), 64),)](x, out, w, x.numel(), B=64)
"""
    ),
    "in the second call alone": (
        """
@triton.jit
def right(x_ptr, out_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out_ptr + offs, of(x_ptr, offs, n), mask=offs < n)


@triton.jit
def kernel(x_ptr, w_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) // 2 * B + tl.arange(0, B)
    y = tl.where(tl.program_id(0) % 2 == 1, of(x_ptr, offs, n), 0.0)
    tl.atomic_xchg(w_ptr + offs, y, mask=offs < n)  # HERE


kept = {}


def silu(x, out):
    count = triton.cdiv(x.numel(), 64)
    if (x.numel(), x.data_ptr()) not in kept:
        w = torch.empty(x.numel(), dtype=torch.float32, device=x.device)
        kept[x.numel(), x.data_ptr()] = w
        right[(count,)](x, out, x.numel(), B=64)
        return
    w = kept[x.numel(), x.data_ptr()]
    kernel[(count * 2,)](x, w, x.numel(), B=64)
    out.copy_(w.view(x.shape))
"""
    ),
}


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_what_is_right_in_every_order_passes(sandbox, text) -> None:
    cases = [case("float32", n=1), case("float32", n=1000), case("float32", n=20_000)]
    for shown in results(sandbox, "silu", HEAD + text, cases):
        assert shown.status is Status.passed, shown


@pytest.mark.parametrize("text", HANGING.values(), ids=HANGING)
def test_what_hangs_on_the_order_of_programs_is_nondeterministic(sandbox, text) -> None:
    text = HEAD + text
    line = 1 + next(at for at, each in enumerate(text.splitlines()) if "# HERE" in each)
    first, again = results(sandbox, "silu", text, [case("float32", n=1000)] * 2)
    assert first.status is again.status is Status.nondeterministic, first
    assert program_orders.DEPENDS.format(unit="program") in first.verdict.what
    assert first.line == line
    assert f"silu.py:{line}" in first.hint


def test_a_kernel_is_tried_again_on_a_much_larger_grid_only() -> None:
    seen = [program_orders.Atomics(kernel=0, line=3, programs=10, steps=50, group_steps=5)]
    larger = [program_orders.Atomics(kernel=0, line=3, programs=40, steps=50, group_steps=5)]
    right, wrong = (
        CaseResult(None, Verdict(status, "")) for status in (Status.passed, Status.wrong_values)
    )
    reordered = program_orders.Reordered("silu.py")

    def runs(atomics, name: str, result=right) -> int:
        """How often a kernel's case runs in another order, if that gives the result."""
        orders: list[program_orders.Order] = []

        def run(order: program_orders.Order) -> CaseResult:
            orders.append(order)
            return result

        reordered.failure(case("float32", n=8), atomics, {0: name}, run)
        return len(orders)

    assert runs(seen, "a") == 2
    assert runs(seen, "a") == 0
    assert runs(seen, "b") == 2
    assert runs(larger, "a", wrong) == 1
    assert runs(seen, "a") == 2


@pytest.mark.parametrize("told", [3, [3], [{}], [{"kernel": -1}], {"a": 1}, ["x"]])
def test_nonsense_about_atomics_is_told(told) -> None:
    with pytest.raises(ValueError, match="validation error"):
        program_orders.read({"atomics": told})


def test_an_executor_that_was_ended_by_the_clock_shows_nothing() -> None:
    late = Verdict(Status.timed_out, "no answer")
    assert program_orders.shows_nothing(CaseResult(None, late))
    assert not program_orders.shows_nothing(CaseResult(None, late, observed_by="worker"))
    assert not program_orders.shows_nothing(CaseResult(None, Verdict(Status.wrong_values, "")))

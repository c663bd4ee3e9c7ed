"""Plans that one planner makes one after another: each is as if it were the only one."""

from __future__ import annotations

import pytest

from .planning import tensor

KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, value * 2, mask=at < n)

def run(x, out):
    double[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)

"""

STATELESS = {
    "scratch": """
def f(x, out):
    scratch = torch.zeros_like(x)
    run(x, scratch)
    run(scratch, out)
""",
    "made at import": """
ones = torch.ones(64, device="cuda")
side, done = torch.cuda.Stream(), torch.cuda.Event()

def f(x, out):
    run(ones, ones)
    with torch.cuda.stream(side):
        run(x, out)
        done.record()
    torch.cuda.current_stream().wait_event(done)
""",
    "printed": """
print("hello")

def f(x, out):
    print(x.shape[0])
    run(x, out)
    torch.cuda.Event().elapsed_time(torch.cuda.Event())
""",
    "kept by shape": """
kept = {}

def f(x, out):
    if x.shape not in kept:
        kept[x.shape] = torch.zeros_like(x)
    run(x, kept[x.shape])
    run(kept[x.shape], out)
""",
}
STATEFUL = {
    "a workspace": """
kept = []

def f(x, out):
    if not kept:
        kept.append(torch.zeros(4096, device="cuda"))
    run(x, kept[0])
    run(kept[0], out)
""",
    "an argument": """
kept = []

def f(x, out):
    kept.append(x)
    run(kept[0], out)
""",
    "what the import made": """
kept = torch.zeros(4096, device="cuda")

def f(x, out):
    global kept
    run(x, out)
    kept = None
""",
    "an event": """
done = None

def f(x, out):
    global done
    if done is None:
        done = torch.cuda.Event()
    run(x, out)
    done.record()
""",
    "a stream": """
side = []

def f(x, out):
    side or side.append(torch.cuda.Stream())
    with torch.cuda.stream(side[0]):
        run(x, out)
""",
}


@pytest.mark.parametrize("more", STATELESS.values(), ids=STATELESS)
def test_a_plan_does_not_depend_on_the_ones_before(planning, tmp_path, more) -> None:
    sizes = (10, 1000, 64, 333)
    for size in sizes:
        arguments = [tensor(size), tensor(size)]
        before = [[tensor(each), tensor(each)] for each in sizes if each != size]
        alone = planning.plan(tmp_path, KERNEL + more, arguments)
        assert alone["calls"][0]
        assert planning.plan(tmp_path, KERNEL + more, arguments, before=before) == alone


@pytest.mark.parametrize("more", STATEFUL.values(), ids=STATEFUL)
def test_a_plan_that_depends_on_another_is_refused(planning, tmp_path, more) -> None:
    arguments = [tensor(100), tensor(100)]
    assert planning.plan(tmp_path, KERNEL + more, arguments)["calls"][0]
    refused = planning.plan(tmp_path, KERNEL + more, arguments, before=[arguments])
    assert refused["type"] == "KeptState"


def test_what_only_the_import_used_is_no_part_of_a_plan(planning, tmp_path) -> None:
    text = (
        KERNEL
        + """
x = torch.randn(1000, device="cuda")
y = torch.empty_like(x)
run(x, y)
assert torch.allclose(y, x + x)
print(f"largest difference: {(y - x - x).abs().max():.2e}")
kept = torch.ones(64, device="cuda")
run(kept, kept)

@triton.jit
def copy(x_ptr, out_ptr, n):
    at = tl.arange(0, 128)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)

def f(x, out):
    copy[(1,)](x, out, 64)
    copy[(1,)](kept, out, 64)
"""
    )
    plan = planning.plan(tmp_path, text, [tensor(100), tensor(100)])
    first = [(step["do"], step["line"]) for step in plan["calls"][0]]

    assert [do for do, _ in first] == ["alloc", "fill", "launch", "launch", "launch"]
    assert len(plan["buffers"]) == 3
    assert [each["function"] for each in plan["specialisations"]] == ["double", "copy"]
    assert [step["specialisation"] for step in plan["calls"][1]] == [1, 1]

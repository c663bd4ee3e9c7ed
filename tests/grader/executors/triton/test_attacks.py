"""Ways around the design that aren't whole submissions: encodings, other people's kernels, second
calls, plans that were changed at random, compilers and answers without end.

Attacks that are whole submissions lie in tests/submissions/attacks: see
tests/grader/grading/test_attacks.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from grader import plan
from grader.cases import Case
from grader.executors.compile import kernels
from grader.executors.runner import CaseResult
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.executors.triton.ttir_executor import TritonExecutor
from grader.sandbox import Sandbox
from grader.spec.task import Task
from grader.status import Status
from tests.support.planned import SPECS, case, results

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=offs < n)


def launch(x, out):
    silu_kernel[(triton.cdiv(out.numel(), 256),)](x, out, out.numel(), BLOCK=256)
"""
HONEST = f"{KERNEL}\ndef silu(x, out):\n    launch(x, out)\n"
LIBRARY = f"{KERNEL}\ndef silu(x, out):\n    out.copy_(torch.nn.functional.silu(x))  # café\n"
CASE = case("float32", n=1000)


def run(sandbox: Sandbox, text: str, *cases: Case) -> CaseResult:
    """What the last of some cases of a silu.py shows."""
    return results(sandbox, "silu", text, cases or (CASE,))[-1]


def run_bytes(sandbox: Sandbox, data: bytes) -> CaseResult:
    """As `run`, of a file that need not be text."""
    exercise = SPECS["silu"]
    variant = exercise.variants["triton"]
    path = sandbox.hold(variant.file, data)
    with PlannedTritonRunner(sandbox, Task(exercise, variant), path) as runner:
        return runner.run(CASE)


# --- encodings ------------------------------------------------------------------------------------

ENCODED = {
    "declared latin-1": (b"# -*- coding: latin-1 -*-\n", "latin-1"),
    "declared utf-7": (b"# coding: utf-7\n", "utf-7"),
    "declared cp1252 on line 2": (b"\n# vim: set fileencoding=cp1252 :\n", "cp1252"),
    "a byte order mark": (b"\xef\xbb\xbf", "utf-8"),
}


@pytest.mark.parametrize(("head", "encoding"), ENCODED.values(), ids=ENCODED)
def test_an_encoding_that_python_reads_changes_nothing(sandbox, head, encoding) -> None:
    """Nobody reads the source for rules: what torch computes is seen in the plan."""
    refused = run_bytes(sandbox, head + LIBRARY.encode(encoding))
    assert refused.status is Status.policy_violation, refused
    assert run_bytes(sandbox, head + HONEST.encode(encoding)).status is Status.passed


UNDECODABLE = {
    "latin-1, undeclared": LIBRARY.encode("latin-1"),
    "utf-16": LIBRARY.encode("utf-16"),
    "a zero byte": LIBRARY.encode() + b"\0",
    "an encoding that there isn't": b"# coding: klingon\n" + LIBRARY.encode(),
    "no text at all": bytes(range(256)) * 40,
}


@pytest.mark.parametrize("data", UNDECODABLE.values(), ids=UNDECODABLE)
def test_what_python_can_not_read_is_an_import_error(sandbox, data) -> None:
    assert run_bytes(sandbox, data).status is Status.import_error


# --- other people's kernels -----------------------------------------------------------------------

FOREIGN = {
    "a library's kernel": """
from torch.sparse import _triton_ops
def silu(x, out):
    kernel = next(k for k in vars(_triton_ops).values() if isinstance(k, triton.JITFunction))
    kernel[(1,)](*[x] * len(kernel.arg_names))
""",
    "a library's helper in a kernel": """
from torch._inductor.runtime import triton_helpers
@triton.jit
def helped(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, triton_helpers.maximum(x, 0.0), mask=offs < n)
def silu(x, out):
    helped[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
""",
    "what Inductor makes": """
@torch.compile
def made(x):
    return x * torch.sigmoid(x)
def silu(x, out):
    out.copy_(made(x))
""",
    "a kernel whose function was exchanged": """
from torch._inductor.runtime import triton_helpers
silu_kernel.fn = triton_helpers.maximum.fn
silu_kernel.raw_src = triton_helpers.maximum.raw_src
silu_kernel.starting_line_number = triton_helpers.maximum.starting_line_number
def silu(x, out):
    launch(x, out)
""",
}


@pytest.mark.parametrize("more", FOREIGN.values(), ids=FOREIGN)
def test_a_kernel_of_somebody_else_earns_nothing(sandbox, more) -> None:
    assert run(sandbox, KERNEL + more).status in (Status.policy_violation, Status.compile_error)


# --- the second call ------------------------------------------------------------------------------

WORKSPACE = """
MADE = []

def silu(x, out):
    if not MADE or MADE[-1].shape != x.shape:
        MADE.append(torch.empty_like(x))
    launch(x, MADE[-1])
    out.copy_(MADE[-1])
"""
COUNTING = """
@triton.jit
def counted(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    seen = tl.load(count_ptr + tl.program_id(0))
    tl.store(count_ptr + tl.program_id(0), seen + 1)
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)) + seen, mask=offs < n)

MADE = []

def silu(x, out):
    programs = triton.cdiv(x.numel(), 256)
    if not MADE or MADE[-1].numel() != programs:
        MADE.append(torch.zeros(programs, device=x.device))
    counted[(programs,)](x, out, MADE[-1], x.numel(), BLOCK=256)
"""


def test_a_workspace_that_is_kept_is_right_in_the_second_call_too(sandbox) -> None:
    assert run(sandbox, KERNEL + WORKSPACE).status is Status.passed


def test_a_workspace_that_the_first_call_leaves_dirty_is_found_in_the_second(sandbox) -> None:
    result = run(sandbox, KERNEL + COUNTING)
    assert result.status is Status.nondeterministic, result
    assert "the first call is right, a second one on other values isn't" in result.verdict.what


def test_values_that_both_calls_get_wrong_are_not_the_second_calls_fault(sandbox) -> None:
    text = KERNEL.replace("mask=offs < n).to", "mask=offs < n, other=0.0).abs().to") + WORKSPACE
    cases = [replace(case("float32", n=1), seed=seed) for seed in range(8)]
    seen = {each.status for each in results(sandbox, "silu", text, cases)}
    assert seen == {Status.passed, Status.wrong_values}


def test_a_second_call_like_the_first_isnt_run(sandbox) -> None:
    with mock.patch.object(TritonExecutor, "repeat") as again:
        assert run(sandbox, HONEST).status is Status.passed
    assert not again.called


# --- plans changed at random ----------------------------------------------------------------------

COPYING = """
def silu(x, out):
    y = torch.empty_like(x)
    y.copy_(x)
    torch.zeros(4, device=x.device)
    launch(y, out)
"""
VALUES: list[Any] = [0, 1, -1, 7, 1 << 31, 1 << 36, "", "ff", "i1", "fp64", "bool", "nan", None]
VALUES += [True, 1.5, [], [0], [-1], {}, {"pointer": [0, 0]}, {"scalar": "00", "type": "i8"}]
TRIES = 20


def places(value: Any, at: tuple = ()) -> Iterator[tuple]:
    """The way to each value inside a document."""
    yield at
    parts = enumerate(value) if isinstance(value, list) else ()
    for key, part in value.items() if isinstance(value, dict) else parts:
        yield from places(part, (*at, key))


def changed(document: dict, draw: random.Random) -> dict:
    """A plan with one of its values exchanged, removed or doubled."""
    document = json.loads(json.dumps(document))
    *way, last = draw.choice([each for each in places(document) if len(each) > 1])
    owner = document
    for key in way:
        owner = owner[key]
    what = draw.random()
    if what < 0.15 and isinstance(owner, list):
        owner.append(owner[last])
    elif what < 0.3:
        del owner[last]
    else:
        owner[last] = draw.choice(VALUES)
    return document


@pytest.mark.parametrize("seed", range(2))
def test_a_plan_changed_at_random_is_the_submissions_trouble(sandbox, seed) -> None:
    """No plan that is read makes an executor fail in a way that is taken for the grader's own."""
    draw, read = random.Random(seed), plan.read

    def forged(data: str, *given: Any) -> plan.Plan:
        for _ in range(100):
            try:
                return read(json.dumps(changed(json.loads(data), draw)), *given)
            except plan.PlanError:
                continue
        return read(data, *given)

    exercise = SPECS["silu"]
    variant = exercise.variants["triton"]
    path = sandbox.hold(variant.file, (KERNEL + COPYING).encode())
    with mock.patch.object(plan, "read", forged):
        for _ in range(TRIES):
            with PlannedTritonRunner(sandbox, Task(exercise, variant), path) as runner:
                result = runner.run(CASE)
            assert result.status not in (Status.grader_error, Status.not_measured), result


# --- compilers without end ------------------------------------------------------------------------

SLOW = """
@triton.jit
def slow(x_ptr, out_ptr, n, NUMBER: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    for _ in tl.static_range(300):
        x = x + NUMBER
    tl.store(out_ptr + offs, x, mask=offs < n)

def silu(x, out):
    for number in range(100):
        slow[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), NUMBER=number, BLOCK=256)
"""


def test_many_slow_kernels_are_too_slow_together(sandbox) -> None:
    with mock.patch.object(kernels, "COMPILE_SECONDS", 1.0):
        result = run(sandbox, KERNEL + SLOW)
    assert result.status is Status.compile_error, result
    assert "too long, all of them together" in result.verdict.what


ON_UNWRITTEN = f"""{KERNEL}
@triton.jit
def once(count_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if tl.load(count_ptr) {{compared}} 0:
        x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
        tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=offs < n)


def silu(x, out):
    count = torch.empty(1, dtype=torch.int32, device=x.device)
    once[(1,)](count, x, out, x.numel(), BLOCK=1024)
"""


@pytest.mark.parametrize("compared", ["<", ">"])
def test_integers_that_nobody_wrote_are_of_either_sign(sandbox, compared):
    cases = [case("float32", n=n) for n in range(900, 916)]
    seen = results(sandbox, "silu", ON_UNWRITTEN.format(compared=compared), cases)
    assert any(not each.verdict.passed for each in seen)


WAITS = "        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())\n"
ON_ANOTHER_STREAM = f"""{KERNEL}
def silu(x, out):
    y = torch.empty_like(x)
    silu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    z = torch.empty_like(x)  # memory comes from a pool: nothing waits
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
{{waits}}        z.copy_(y)
        out.copy_(z)
    torch.cuda.current_stream().wait_stream(side)
"""
ON_THE_FIRST = f"""{KERNEL}
def silu(x, out):
    stream, y = torch.cuda.Stream(), torch.empty_like(x)
    with torch.cuda.stream(stream):
        silu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
{{waits}}    out.copy_(y)
"""


@pytest.mark.parametrize(
    ("source", "waits"),
    [
        (ON_ANOTHER_STREAM, WAITS),
        (ON_THE_FIRST, "    stream.synchronize()\n"),
        (ON_THE_FIRST, "    torch.cuda.current_stream().wait_stream(stream)\n"),
    ],
)
def test_a_missing_wait_between_streams_is_a_race(sandbox, source, waits) -> None:
    for text, status in ((waits, Status.passed), ("", Status.data_race)):
        [seen] = results(sandbox, "silu", source.format(waits=text), [CASE])
        assert seen.status is status, seen.verdict
    assert "wait for each other by luck alone" in seen.verdict.what


TRANSPOSING = """
import torch
import triton
import triton.language as tl


@triton.jit
def transposing(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # of one row or one column
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@triton.jit
def nothing(x_ptr):
    pass


def transpose_v1(input, output):
    n = input.numel()
    y = torch.empty_like(output)
"""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("transposing[(triton.cdiv(n, 64),)](input, y, n, BLOCK=64); output.copy_(y)", "passed"),
        ("output.view(-1).copy_(input.view(-1))", "policy_violation"),
        ("y.view(-1).copy_(input.view(-1)); output.copy_(y)", "policy_violation"),
        ("y.view(-1).copy_(input.view(-1)); nothing[(1,)](y); output.copy_(y)", "policy_violation"),
    ],
)
def test_copies_alone_earn_nothing_where_moving_is_the_lesson(sandbox, body, status) -> None:
    """With one column the transpose is a copy, and a kernel that does nothing makes it no other."""
    text, narrow = f"{TRANSPOSING}    {body}\n", case("float32", rows=7, cols=1)
    [seen] = results(sandbox, "transpose", text, [narrow], "triton_v1")
    assert seen.status.value == status, seen.verdict


def test_a_copy_behind_a_kernel_is_none_alone_where_the_one_element_is_nan(sandbox) -> None:
    """Memory that no kernel has written is NaN too: the result is right without the kernel."""
    kernel = "transposing[(1,)](input, y, n, BLOCK=64); output.copy_(y)"
    one = case("bfloat16", [("output", "row_padded")], rows=1, cols=1)
    nan = replace(one, data="any_bits", seed=2026)
    [seen] = results(sandbox, "transpose", f"{TRANSPOSING}    {kernel}\n", [nan], "triton_v1")
    assert seen.status is Status.passed, seen.verdict

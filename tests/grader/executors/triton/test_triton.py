"""Triton submissions by plan: honest launchers work as they are, and host code earns nothing.

Each submission is a SiLU; its kernel is right unless a test says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from grader.evidence import PartEvidence
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.grading.check import check_part
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import Worker
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from tests.support.planned import case

SPECS = load_all()
LITTLE = Effort(
    edges=3, drawn=2, shrink_runs=3, shrink_seconds=2, probe_seconds=1, reruns=2, repair_seconds=0
)
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=mask)


def launch(x, out):
    n = out.numel()
    silu_kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory, sandbox) -> Callable[..., PartEvidence]:
    """Grades one size class of a submission whose silu.py is KERNEL and more, or other bytes."""

    def grade(
        more: str = "",
        data: bytes | None = None,
        dtype: str = "float32",
        effort: Effort = LITTLE,
        **files: str,
    ):
        folder: Path = tmp_path_factory.mktemp("submission")
        (folder / "silu.py").write_bytes(data if data is not None else (KERNEL + more).encode())
        for name, text in files.items():
            path = folder / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        with Session(folder, SPECS, Options(effort=effort), sandbox=sandbox) as session:
            return check_part(
                session, Task(SPECS["silu"], SPECS["silu"].variants["triton"]), dtype, "ragged"
            )

    return grade


def test_cases_are_planned_while_others_are_executed(graded, monkeypatch):
    names: list[str] = []
    post, wait = Worker.post, Worker.wait_at_length

    def posted(self, operation, *args, **more):
        names.append(operation.name)
        return post(self, operation, *args, **more)

    def waited(self, *args):
        names.append("waited")
        return wait(self, *args)

    monkeypatch.setattr(Worker, "post", posted)
    monkeypatch.setattr(Worker, "wait_at_length", waited)
    entry = "\n\ndef silu(x, out):\n    launch(x, out)\n"
    assert graded(entry).status is Status.passed
    ahead = [names[i : i + 3] for i in range(len(names)) if names[i] == "execute"]
    assert ahead[0] == ahead[1] == ["execute", "plan", "waited"]
    assert names.count("plan") <= names.count("execute") + 2  # none is planned in vain


def test_a_planner_that_ends_over_a_case_ahead_is_held_against_no_other(sandbox):
    entry = """
def silu(x, out):
    if x.numel() == 7:
        import os
        os._exit(3)
    launch(x, out)
"""
    first, fatal, other, *_ = cases = [case("float32", n=n) for n in (5, 7, 9)]
    variant = SPECS["silu"].variants["triton"]
    path = sandbox.hold(variant.file, (KERNEL + entry).encode())
    with PlannedTritonRunner(sandbox, Task(SPECS["silu"], variant), path) as runner:
        runner.expect(cases)
        assert runner.run(first).status is Status.passed
        assert runner.plans._ahead == fatal
        assert runner.run(other).status is Status.passed
        assert runner.run(fatal).status is Status.crashed


def test_a_launcher_that_is_refused_takes_no_planner_for_each_case(sandbox):
    variant = SPECS["silu"].variants["triton"]
    refused = "\n\ndef silu(x, out):\n    if x.max() > 0:\n        launch(x, out)\n"
    planners = []
    worker = Sandbox.worker

    def counted(*args, role: str):
        started = worker(*args, role=role)
        if role == "planner":
            planners.append(started)
        return started

    with mock.patch.object(Sandbox, "worker", counted):
        path = sandbox.hold(variant.file, (KERNEL + refused).encode())
        with PlannedTritonRunner(sandbox, Task(SPECS["silu"], variant), path) as runner:
            for n in range(1, 9):
                assert runner.run(case("float32", n=n)).status is Status.policy_violation
            assert len(planners) == 1
            runner.run(case("float16", n=9))
            assert len(planners) == 2  # the first of a dtype meets a fresh one


def told(part: PartEvidence) -> str:
    """All that the first failure says."""
    failure = part.failures[0]
    return f"{failure.what} {failure.hint} {failure.where}"


HONEST = {
    "checks its arguments": """
def silu(x, out):
    assert x.is_cuda and out.is_cuda and x.device.type == "cuda" and x.is_contiguous()
    with torch.cuda.device(x.device):
        launch(x, out)
    torch.cuda.synchronize()
""",
    "asks for the device's properties": """
def silu(x, out):
    properties = torch.cuda.get_device_properties(x.device)
    driver = triton.runtime.driver.active
    sms = driver.utils.get_device_properties(driver.get_current_device())["multiprocessor_count"]
    assert sms == properties.multi_processor_count > 0
    launch(x, out)
""",
    "an autograd function and a temporary": """
class SiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        launch(x, y)
        ctx.save_for_backward(x)
        return y

def silu(x, out):
    out.copy_(SiLU.apply(x))
""",
    "a module, a view and an unused import": """
import numpy as np

class Layer(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros(x.shape, device=x.device, dtype=x.dtype)
        launch(x.view(-1), y)
        return y

def silu(x, out):
    out[:] = Layer()(x)
""",
    "autotuned, a lambda as grid": """
@triton.autotune([triton.Config({"BLOCK": b}, num_warps=4) for b in (128, 1024)], ["n"])
@triton.jit
def tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=offs < n)

def silu(x, out):
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
""",
    "a workspace that is kept": """
workspaces = {}

def silu(x, out):
    kept = workspaces.get(x.dtype)
    if kept is None or kept.numel() < x.numel():
        kept = torch.empty(max(1 << 20, x.numel()), dtype=x.dtype, device=x.device)
        workspaces[x.dtype] = kept
    silu_kernel[(triton.cdiv(x.numel(), 256),)](x, kept, x.numel(), BLOCK=256)
    out.copy_(kept[: x.numel()].view(out.shape))
""",
    "a factory of kernels": """
def made(block):
    @triton.jit
    def kernel(x_ptr, out_ptr, n):
        offs = tl.program_id(0) * block + tl.arange(0, block)
        x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
        tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=offs < n)
    return kernel

kernel = made(tl.constexpr(256))

def silu(x, out):
    print("launching", x.shape)
    kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel())
""",
}


@pytest.mark.parametrize("more", HONEST.values(), ids=[name.replace(" ", "-") for name in HONEST])
def test_an_honest_launcher_works_as_it_is(graded, more) -> None:
    part = graded(more)
    assert part.status is Status.passed, part


def test_kernels_may_come_from_a_sibling_module(graded) -> None:
    data = b"from kernels import launch\n\ndef silu(x, out):\n    launch(x, out)\n"
    part = graded(data=data, kernels=KERNEL)
    assert part.status is Status.passed
    [note] = part.notes  # a class's grade takes the files that specs name, each by itself
    assert note.startswith("it imports kernels.py. In a class's grade each file stands alone")


# What host code computes, however it got there, earns nothing: it has no data to compute with.
LAUNDERED = {
    "torch by attribute": """
def silu(x, out):
    out.copy_(getattr(torch.nn.functional, "si" + "lu")(x))
""",
    "wraps as getattr and setattr": """
import functools
def silu(x, out):
    holder = functools.wraps(torch.nn.functional, assigned=("silu",), updated=())(lambda: None)
    out.copy_(holder.silu(x))
""",
    "an exception's object": """
def silu(x, out):
    try:
        x.no_such_name
    except AttributeError as error:
        found = error.obj
    out.copy_(found * torch.sigmoid(found))
""",
    "Enum runs code at import": """
import enum
class Ops(enum.Enum):
    silu = torch.nn.functional.silu
    def __init__(self, function):
        type(self).run = staticmethod(function)
Ops.run = staticmethod(torch.nn.functional.silu)
def silu(x, out):
    out.copy_(Ops.run(x))
""",
    "a descriptor": """
class Reader:
    def __get__(self, owner, kind):
        return torch.nn.functional.silu
class Holder:
    go = Reader()
def silu(x, out):
    out.copy_(Holder().go(x))
""",
    "torch.compile": "def silu(x, out):\n    out.copy_(torch.compile(torch.nn.functional.silu)(x))",
    "a torch result as a kernel's input": """
@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)
def silu(x, out):
    y = torch.nn.functional.silu(x)
    copy_kernel[(triton.cdiv(x.numel(), 256),)](y, out, x.numel(), BLOCK=256)
""",
}


@pytest.mark.parametrize("more", LAUNDERED.values(), ids=[n.replace(" ", "-") for n in LAUNDERED])
def test_what_torch_computes_is_named_and_earns_nothing(graded, more) -> None:
    part = graded(more)
    assert part.status is Status.policy_violation, part
    assert "PyTorch computed" in told(part)
    assert "silu.py:" in told(part)


def test_an_encoding_hides_nothing(graded) -> None:
    """A latin-1 file was once not read for violations at all: now there is nothing to be read."""
    more = "def silu(x, out):\n    out.copy_(torch.nn.functional.silu(x))  # caf\xe9\n"
    data = ("# -*- coding: latin-1 -*-\n" + KERNEL + more).encode("latin-1")
    assert graded(data=data).status is Status.policy_violation


NEEDS_DATA = {
    "item": "def silu(x, out):\n    if x.sum().item() > 0:\n        launch(x, out)",
    "cpu and numpy": """
import numpy as np
def silu(x, out):
    a = x.cpu().numpy()
    out.copy_(torch.from_numpy(a / (1 + np.exp(-a))))
""",
    "a tensor as a condition": "def silu(x, out):\n    if x.max() > 0:\n        launch(x, out)",
    "tolist": "def silu(x, out):\n    out.copy_(torch.tensor([v for v in x.tolist()]))",
}


@pytest.mark.parametrize("more", NEEDS_DATA.values(), ids=[n.replace(" ", "-") for n in NEEDS_DATA])
def test_an_operation_that_needs_data_is_named_at_its_line(graded, more) -> None:
    part = graded(more)
    assert part.status is Status.policy_violation, part
    assert "silu.py:" in told(part)


def test_a_constant_that_the_compiler_was_never_shown_is_none(graded) -> None:
    """The value of a constexpr is compiled into the kernel, so a tensor can't be one."""
    part = graded("""
@triton.jit
def give(out_ptr, n, values: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, values, mask=offs < n)

def silu(x, out):
    give[(triton.cdiv(x.numel(), 256),)](out, x.numel(), torch.nn.functional.silu(x), BLOCK=256)
""")
    assert part.status is not Status.passed


@pytest.mark.parametrize(
    "body",
    [
        "tl.core.builtins.exec('import os; os._exit(3)')",
        "tl.__loader__.load_module('os')",
        "torch.nn.functional.silu(x_ptr)",
    ],
)
def test_a_kernel_leads_to_the_language_and_nowhere_else(graded, body) -> None:
    part = graded(f"""
@triton.jit
def leading(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    {body}

def silu(x, out):
    leading[(1,)](x, out, x.numel(), BLOCK=256)
""")
    assert part.status is Status.compile_error, part
    assert "silu.py:" in told(part)


def test_a_generated_kernel_is_refused(graded) -> None:
    """Kernels come from the submission's text: what exec made stands in no file."""
    part = graded('''
import linecache
text = """
@triton.jit
def generated(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=offs < n)
"""
linecache.cache["<made>"] = (len(text), None, text.splitlines(True), "<made>")
exec(compile(text, "<made>", "exec"))

def silu(x, out):
    generated[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
''')
    assert part.status in (Status.policy_violation, Status.import_error, Status.compile_error), part


def test_a_planner_that_answers_for_itself_gives_a_plan_that_is_refused(graded) -> None:
    """Host code may write what it likes into its own process: the reader takes nothing on trust."""
    part = graded("""
import json, sys
host = next(m for n, m in sys.modules.items() if n.endswith("planner.host"))
forged = {"version": 1, "language": "triton", "buffers": [], "specialisations": [], "calls": [[]]}
host.Planner.plan = lambda self, arguments: forged

def silu(x, out):
    launch(x, out)
""")
    assert part.status is Status.launch_error, part
    assert "expected the arguments" in told(part)


def test_a_plan_that_copies_what_it_was_not_given_is_refused(graded) -> None:
    part = graded("""
import sys
host = next(m for n, m in sys.modules.items() if n.endswith("planner.host"))
honest = host.Planner.plan
def plan(self, arguments):
    made = honest(self, arguments)
    view = {"buffer": 1, "dtype": "float32", "shape": [1 << 30], "strides": [1], "offset": 0}
    made["calls"][0].append({"do": "fill", "to": view, "value": 0})
    return made
host.Planner.plan = plan

def silu(x, out):
    launch(x, out)
""")
    assert part.status is Status.launch_error, part


def test_plans_that_differ_between_fresh_planners_are_told(graded) -> None:
    part = graded("""
import time
def silu(x, out):
    block = 1 << (time.time_ns() // 1000 % 8)
    silu_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
""")
    assert part.status in (Status.nondeterministic, Status.passed), part
    if part.status is Status.nondeterministic:
        said = r"silu.py:\d+ launches silu_kernel with BLOCK=(\d+) in one plan and BLOCK=(\d+) in "
        assert re.match(said, part.failures[0].what), part
        assert part.failures[0].occurrences == "" and ".." not in told(part)


DICE = """
import os, random, sys
if not os.path.exists("dice"):
    with open("dice", "w") as left:
        left.write(str(random.randrange(1 << 30)))
    home = os.getcwd()
    for _ in range(1200):  # far deeper than Python recurses
        os.mkdir("d")
        os.chdir("d")
    os.chdir(home)
DRAWN = int(open("dice").read())

@triton.jit
def drawn_kernel(x_ptr, out_ptr, n, DRAWN: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=offs < n)

def silu(x, out):
    grid = (triton.cdiv(x.numel(), 256),)
    drawn_kernel[grid](x, out, x.numel(), DRAWN=DRAWN, BLOCK=256)
"""


def test_what_a_planner_leaves_in_its_folder_is_gone_for_the_next(graded) -> None:
    part = graded(DICE)
    assert part.status is Status.nondeterministic, part
    assert "launches drawn_kernel with DRAWN=" in part.failures[0].what


def test_a_size_that_is_only_planned_needs_a_launch_too(graded) -> None:
    part = graded("\ndef silu(x, out):\n    if x.numel() < 1 << 20:\n        launch(x, out)\n")
    assert part.status is Status.not_written, part
    assert "othing is launched for n=67108864" in told(part)
    assert "grader plan silu/triton --case 'n=67108864" in part.failures[0].reproduce


def test_a_false_promise_to_the_compiler_is_told_at_its_line(graded) -> None:
    text = KERNEL.replace("    offs = ", "    tl.assume(n % BLOCK == 0)\n    offs = ", 1)
    assert text != KERNEL
    part = graded(data=f"{text}\ndef silu(x, out):\n    launch(x, out)\n".encode())
    assert part.status is Status.crashed, part
    assert "breaks what tl.assume promises the compiler" in told(part)
    line = text[: text.index("tl.assume")].count("\n") + 1
    assert part.failures[0].where == f"silu.py:{line}"


MANY = "\ndef silu(x, out):\n    for i in range(5000):\n        launch(x, out)\n"


def test_more_launches_than_a_plan_has_are_a_launch_error_with_advice(graded) -> None:
    part = graded(MANY)
    assert part.status is Status.launch_error, part
    assert part.failures[0].what == "the launcher makes more than 4,096 launches in one call"
    assert part.failures[0].hint == "Give the kernel a grid instead of looping over launches."


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "async def silu(x, out):\n    launch(x, out)",
            "`silu` is a coroutine: the grader calls it",
        ),
        ("def silu(x, out):\n    yield launch(x, out)", "`silu` is a generator"),
        (
            "def silu(x, out):\n    out = torch.empty_like(x)\n    launch(x, out)\n    return out",
            "store into the `out` that the entry gets.",
        ),
    ],
)
def test_an_entry_that_gives_something_back_and_writes_nothing_is_told_so(
    graded, more, said
) -> None:
    part = graded(more + "\n")
    assert part.status is Status.not_written, part
    assert said in told(part)


def test_an_entry_that_returns_its_argument_is_judged_by_what_it_wrote(graded) -> None:
    part = graded("def silu(x, out):\n    return out\n")
    assert part.status is Status.not_written and "returned" not in told(part)


def test_what_gives_no_times_is_noted_of_a_part_that_passes_too(graded) -> None:
    part = graded("""
import triton.testing
def silu(x, out):
    triton.testing.do_bench(lambda: launch(x, out))
    print("[grader] 100 points gives no times here")
    launch(x, out)
""")
    assert part.status is Status.passed, part
    [note] = part.notes
    assert note.startswith("triton.testing.do_bench gives no times here: nothing runs while ")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (("mask=mask)\n\n\ndef", ")\n\n\ndef"), Status.wrote_out_of_bounds),
        (("x / (1 + tl.exp(-x))", "x / (1 + tl.exp(x))"), Status.wrong_values),
        (("tl.load(x_ptr + offs, mask=mask)", "tl.load(x_ptr + offs)"), Status.invalid_read),
        (("tl.store(out_ptr", "tl.store(x_ptr"), Status.modified_input),
        (("tl.program_id(0) * BLOCK", "tl.program_id(0) * 0"), Status.not_written),
        (("x / (1", "undefined_name / (1"), Status.compile_error),
    ],
)
def test_a_wrong_kernel_gets_its_status(graded, change, status) -> None:
    text = KERNEL.replace(*change)
    assert text != KERNEL
    part = graded(data=(text + "\ndef silu(x, out):\n    launch(x, out)\n").encode())
    assert part.status is status, part


OF_OWN_MEMORY = """
def silu(x, out):
    n = out.numel()
    small = torch.empty(8, dtype=out.dtype, device=out.device)  # too small
    silu_kernel[(triton.cdiv(n, 256),)](x, small, n, BLOCK=256)
"""


def test_a_store_outside_of_own_memory_names_the_line_that_allocated_it(graded) -> None:
    part = graded(OF_OWN_MEMORY)
    assert part.status is Status.wrote_out_of_bounds, part
    line = (KERNEL + OF_OWN_MEMORY).splitlines().index(OF_OWN_MEMORY.splitlines()[3]) + 1
    behind = f"right behind the 32 bytes that silu.py:{line} allocated"
    assert behind in part.failures[0].what


def test_what_the_gpus_compiler_refuses_is_a_compile_error_though_it_ran(graded) -> None:
    """The executor knows no warps; the kernel is compiled for the GPU as well."""
    part = graded("""
def silu(x, out):
    n = out.numel()
    silu_kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256, num_warps=64)
""")
    assert part.status is Status.compile_error, part
    assert part.failures[0].hint == ""  # it is not about the language
    assert "64 warps" in told(part)


@pytest.mark.parametrize("tuning", ["", "@triton.autotune([triton.Config({'B': 256})], key=[])"])
def test_a_compile_error_has_a_message_and_an_excerpt_beside_it(graded, tuning) -> None:
    """A kernel that is tuned is compiled where it is planned, and says the same."""
    launched = "silu_wrong[(1,)](x, out, x.numel()" + (")" if tuning else ", B=256)")
    part = graded(f"""
{tuning}
@triton.jit
def silu_wrong(x_ptr, out_ptr, n, B: tl.constexpr):
    try:
        x = tl.load(x_ptr)
    except Exception:
        x = 0.0


def silu(x, out):
    {launched}
""")
    failure = part.failures[0]
    assert failure.status is Status.compile_error, part
    assert failure.what == "the kernel can't be compiled: unsupported AST node type: Try"
    assert failure.detail == "try:\n^"
    assert failure.hint.startswith("Triton compiles a part of Python")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_that_is_not_brought_along_is_named(graded, is_there) -> None:
    folder = {"pkg/kernels": KERNEL} if is_there else {}
    text = "from pkg.kernels import launch\n\ndef silu(x, out):\n    launch(x, out)\n"
    part = graded(data=text.encode(), **folder)
    assert part.status is Status.import_error, part
    assert part.failures[0].hint == (
        "Folders aren't handed in with a file: put what it needs into silu.py."
        if is_there
        else "No such module is installed here, and none is beside the file: leave the import "
        "out, or the call that needs it, or put what it needs into the file."
    )


def test_where_a_file_may_write_is_told(graded) -> None:
    part = graded(data=b'raise PermissionError(13, "Permission denied", "/tmp/cache")\n')
    assert part.failures[0].status is Status.import_error
    assert "writes only to the folder in which it starts" in part.failures[0].hint


@pytest.mark.parametrize(
    ("precision", "scale", "told"),
    [
        ("", 1, "tl.dot rounds float32 inputs to TF32, 10 bits of mantissa, unless it gets"),
        ("", 2, ""),  # that is wrong in IEEE's precision too
        (', input_precision="ieee"', 2, ""),
    ],
)
def test_where_tf32_is_what_makes_float32_wrong_the_hint_says_so(
    graded, precision, scale, told
) -> None:
    """SiLU of 16 rows, each a product with the identity."""
    part = graded(
        f"""
@triton.jit
def by_dot(x_ptr, out_ptr, n, ONE: tl.constexpr):
    i = tl.program_id(0) * 256 + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    unit = tl.where(tl.arange(0, 16)[:, None] == tl.arange(0, 16)[None, :], ONE, 0.0)
    tl.store(out_ptr + i, tl.dot(x * tl.sigmoid(x), unit{precision}), mask=i < n)


def silu(x, out):
    by_dot[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), ONE={scale})
"""
    )
    assert part.status is Status.wrong_values, part
    assert part.failures[0].hint.startswith("tl.dot") == bool(told)
    assert told in part.failures[0].hint


def test_an_exception_of_host_code_is_told_without_a_hint_about_kernels(graded) -> None:
    part = graded(
        """
def silu(x, out):
    grid = (triton.cdiv(x.numel(), 256 // x.numel()),)
    silu_kernel[grid](x, out, x.numel(), BLOCK=256)
""",
        effort=Effort(drawn=0),
    )
    failure = part.failures[0]
    assert failure.pattern.startswith("Every case with n > 256 fails")
    assert failure.status is Status.crashed, part
    assert "ZeroDivisionError" in failure.what
    assert failure.hint == ""


def test_a_race_between_programs_is_found_though_it_came_out_right(graded) -> None:
    """Every program adds 1 to a counter without an atomic; the output is right all the same."""
    part = graded("""
@triton.jit
def counting(x_ptr, out_ptr, count_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=offs < n)
    tl.store(count_ptr, tl.load(count_ptr) + 1)

def silu(x, out):
    count = torch.zeros(1, dtype=torch.int32, device=x.device)
    counting[(triton.cdiv(x.numel(), 64),)](x, out, count, x.numel(), BLOCK=64)
""")
    assert part.status is Status.data_race, part
    assert "silu.py:" in told(part)

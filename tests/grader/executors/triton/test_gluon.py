"""Gluon kernels without a GPU: nobody runs them, and compilers and the plan say what they can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import spec
from grader.cases import Case, fixed_case, inputs
from grader.cases.arena import described
from grader.executors import gpu
from grader.executors.runner import CaseResult
from grader.grading.check import check_part
from grader.grading.grade import grade_task
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.plan import Plan
from grader.plan.model import DescriptorArgument
from grader.plan.text import literal
from grader.sandbox import Sandbox
from grader.spec.task import Task
from grader.status import Status
from tests.support.planned import case, results

SPECS = spec.load_all()
EXPERT = Path(__file__).resolve().parents[4] / "reference" / "expert"
LITTLE = Effort(
    edges=2, drawn=1, shrink_runs=1, shrink_seconds=1, probe_seconds=1, reruns=2, repair_seconds=0
)
SILU = """
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: gl.constexpr, LAYOUT: gl.constexpr):
    offs = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=LAYOUT)
    mask = offs < n
    x = gl.load(x_ptr + offs, mask=mask).to(gl.float32)
    gl.store(out_ptr + offs, x / (1 + gl.exp(-x)), mask=mask)


def silu(x, out):
    n = out.numel()
    layout = gl.BlockedLayout([1], [32], [4], [0])
    silu_kernel[(triton.cdiv(n, 256),)](x, out, n, 256, layout)
"""
TOO_LARGE = SILU.replace(
    "    mask =",
    "    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])\n"
    "    memory = gl.allocate_shared_memory(gl.int32, [1024, BLOCK], plain)\n"
    "    memory.index(1).store(offs)\n    mask =",
)


def graded(sandbox: Sandbox, folder: Path, text: str) -> tuple[Status, str]:
    """The status of one size class of a silu.py, and the first thing that is said of it."""
    (folder / "silu.py").write_text(text)
    with Session(folder, SPECS, Options(effort=LITTLE), sandbox=sandbox) as session:
        exercise = SPECS["silu"]
        part = check_part(session, Task(exercise, exercise.variants["triton"]), "float32", "ragged")
    return part.status, part.failures[0].what


def test_it_is_not_measured_and_says_why(sandbox, tmp_path):
    (shown,) = results(sandbox, "silu", SILU, [case("float32", n=300)])
    assert shown.status is Status.not_measured
    assert shown.verdict.what == "silu_kernel is written in Gluon: it runs on a GPU only."
    assert shown.line == 8

    assert graded(sandbox, tmp_path, SILU) == (Status.not_measured, shown.verdict.what)


def test_what_the_frontend_refuses_is_a_compile_error(sandbox, tmp_path):
    status, what = graded(sandbox, tmp_path, SILU.replace("gl.exp(-x)", "gl.expo(-x)"))

    assert status is Status.compile_error
    assert "expo" in what


def test_what_the_backend_refuses_is_found_without_a_gpu(sandbox, tmp_path):
    (tmp_path / "silu.py").write_text(TOO_LARGE)
    with Session(tmp_path, SPECS, Options(effort=LITTLE), sandbox=sandbox) as session:
        seen = grade_task(session, Task(SPECS["silu"], SPECS["silu"].variants["triton"]))
    said = [failure for part in seen.parts for failure in part.failures]

    refused = [each.what for each in said if each.status is Status.compile_error]
    assert refused and "of shared memory, the GPU has 232,448" in refused[0], said
    assert not any("the kernel runs" in each for each in refused)


# --- the expert's ---------------------------------------------------------------------------------


def encoded(session: Session, exercise: str, variant: str, asked: Case) -> tuple[Plan, bytes]:
    """A case of the expert's: its plan, and as the executor on a GPU takes it."""
    task = Task(SPECS[exercise], SPECS[exercise].variants[variant])
    plans = session.runners.plans_of(task)
    blank = inputs.blank(task, asked)
    planned = plans.planned(asked, blank.arguments(described(blank.slots)))
    assert not isinstance(planned, CaseResult), planned
    document = gpu.document(plans, asked, planned, timed=True)
    assert isinstance(document, bytes), document
    return planned, document


def measured(exercise: str, variant: str) -> list[Case]:
    """The cases that a variant's speed is measured on."""
    asked = SPECS[exercise].variants[variant]
    given = asked.performance.every_case
    return [fixed_case(Task(SPECS[exercise], asked), each, seed=7) for each in given]


@pytest.fixture(scope="module")
def expert(sandbox) -> Iterator[Session]:
    with Session(EXPERT, SPECS, Options(policy=False), sandbox=sandbox) as session:
        yield session


@pytest.mark.parametrize(
    ("exercise", "variant"),
    [
        ("silu", "triton"),
        ("softmax", "triton"),
        ("rmsnorm", "triton"),
        ("gemm", "triton_v4"),
        ("flash_attention", "triton"),
    ],
)
def test_what_is_timed_of_the_experts_is_encoded_for_a_gpu(expert, exercise, variant):
    for asked in measured(exercise, variant):
        planned, document = encoded(expert, exercise, variant, asked)
        assert planned.launches and b"\x7fELF" in document


WIDE = {"rows": 64, "cols": 65536}
LONG = {"Z": 2, "H": 16, "N_CTX": 8192, "N_KV": 8192, "HEAD_DIM": 128}


@pytest.mark.parametrize(
    ("exercise", "variant", "asked", "in_gluon", "descriptors"),
    [
        ("softmax", "triton", case("bfloat16", (), **WIDE), {"softmax_held_kernel"}, 0),
        ("rmsnorm", "triton", case("float32", (), **WIDE), {"rmsnorm_held_kernel"}, 0),
        (
            "gemm",
            "triton_v4",
            case("float16", M=1030, N=1030, K=1030),
            {"align_kernel", "gemm_hopper_kernel"},
            2,
        ),
        (
            "flash_attention",
            "triton",
            case("float16", (), **LONG),
            {"flash_attention_hopper_kernel"},
            8,  # of two launches
        ),
    ],
    ids=["softmax", "rmsnorm", "gemm", "flash_attention"],
)
def test_the_experts_gluon_is_encoded_for_a_gpu(
    expert, exercise, variant, asked, in_gluon, descriptors
):
    planned, document = encoded(expert, exercise, variant, asked)
    named = {each.function for each in planned.specialisations if each.language == "gluon"}
    arguments = [each for launch in planned.launches for each in launch.arguments]

    assert named == in_gluon
    assert all(name.encode() in document for name in named)
    assert sum(isinstance(each, DescriptorArgument) for each in arguments) == descriptors


def test_a_program_that_may_begin_early_says_so(expert):
    """The second of two kernels begins while the first one ends; the first of a call never does."""
    planned, _ = encoded(expert, "flash_attention", "triton", case("float16", (), **LONG))

    assert [each.attributes for each in planned.launches] == [{}, {"pdl": True}]


def test_a_layout_among_constants_is_shown_by_its_name():
    assert literal({"layout": "BlockedLayout", "order": [0]}) == "BlockedLayout"

"""Every feature of the docs' table runs, and the table lists exactly these."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.cases import Case
from grader.emulator import toolchain
from grader.emulator.build import Entry, build
from grader.emulator.linking import Linked, Linker
from grader.executors.cuda import cuda_build
from grader.executors.cuda.native_planner import NativePlanner
from grader.executors.gpu import gpu_runner
from grader.executors.gpu.gpu_runner import held_program
from grader.plan import Plan
from grader.sandbox import Sandbox, worker_process
from grader.spec import load_all
from grader.spec.task import Task
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply
from tests.support import emulator_features
from tests.support.emulated import Call, Outcome
from tests.support.emulator_features import Feature
from tests.support.native import Placement, vector

N = 64
ENTRY = Entry("feature", ("pointer:int32", "int"))
FEATURES = emulator_features.features()

needs_gcc = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


OPTIONS = ["--arguments=output:inout,n:input"]
CASE = Case((("n", N),), "int32", seed=1)
SILU = load_all()["silu"]


def as_a_task() -> Task:
    """A feature as a variant of an exercise, whose name doesn't matter."""
    tensors = [
        each.model_copy(update={"dtype": "int32", "role": "inout"}) for each in SILU.arguments
    ]
    changed = {"entry": ENTRY.name, "arguments": ("out", "n")}
    variant = SILU.variants["cuda"].model_copy(update=changed)
    more = {"arguments": tuple(tensors), "variants": {"cuda": variant}}
    return Task(SILU.model_copy(update=more), variant)


def outcome_in_the_emulator(source: Path, folder: Path) -> tuple[Outcome, list[int]]:
    """The outcome of the entry, and what it leaves in its output."""
    made = build(source, [ENTRY], folder, toolchain.prepare())
    assert made.executable is not None and made.problems == (), made.problems
    with Placement([vector("output", torch.zeros(N, dtype=torch.int32), role="inout")]) as placed:
        arguments = [*placed.arguments, Argument(Kind.int64, scalar=N)]
        outcome = Call(made, ENTRY.name, arguments, placed.arena.buffers, OPTIONS).run()
        return outcome, placed.values("output").tolist()


def in_the_emulator(source: Path, folder: Path) -> list[int]:
    """What the entry leaves in its output; fails where something was found."""
    outcome, values = outcome_in_the_emulator(source, folder)
    assert outcome.code is Code.ok, outcome
    return values


@pytest.fixture(scope="module")
def gpu() -> Iterator[tuple[Sandbox, Sandbox]]:
    """Where features are compiled and planned, and where plans are executed."""
    if reason := cuda_build.why_not("gpu"):
        pytest.skip(reason)
    cuda_build.prepare()
    cuda_build.prepare_planner()
    with (
        Sandbox("emulator", kind="native") as planning,
        Sandbox("cuda", kind="native") as executing,
    ):
        yield planning, executing


def on_the_gpu(source: Path, gpu: tuple[Sandbox, Sandbox]) -> list[int]:
    """What the entry leaves in its output; fails where something was found."""
    planning, executing = gpu
    entries = [(ENTRY.name, ENTRY.arguments)]
    program = cuda_build.build(planning, source.name, source.read_bytes(), entries, "gpu")
    assert program.path is not None, program.problems
    slot = vector("output", torch.zeros(N, dtype=torch.int32), role="inout")
    with (
        Placement([slot]) as placed,
        contextlib.closing(NativePlanner(planning, as_a_task(), source, program)) as plans,
    ):
        arguments = [*placed.arguments, Argument(Kind.int64, scalar=N)]
        planned = plans.planned(CASE, arguments)
        assert isinstance(planned, Plan), planned
        document = gpu_runner.document(plans, CASE, planned)
        assert isinstance(document, bytes), document
        executor = executing.worker(
            held_program(executing), "", placed.arena.buffers, worker_process.Limits()
        )
        answer = executor.ask(Operation.execute, arguments, document=document)
        assert isinstance(answer, Reply) and answer.code is Code.ok, (answer, executor.log)
        return placed.values("output").tolist()


@needs_gcc
@pytest.mark.parametrize("feature", FEATURES, ids=[feature.path.stem for feature in FEATURES])
def test_a_supported_feature_does_what_a_gpu_does(feature: Feature, tmp_path: Path) -> None:
    assert in_the_emulator(feature.path, tmp_path / "built") == [1] * N


@needs_gcc
def test_the_cpp_library_in_host_code_is_no_matter_where_it_is_linked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems have no shared one for the linker: its templates are the submission's, too."""
    link = Linker._link

    def statically(self: Linker, *parts: str, ours: Path | None = None) -> Linked:
        return link(self, *parts, "-static-libstdc++", ours=ours)

    monkeypatch.setattr(Linker, "_link", statically)
    feature = emulator_features.FOLDER / "language_host_library.cu"
    assert in_the_emulator(feature, tmp_path / "built") == [1] * N
    linked = (tmp_path / "built" / "executor").read_bytes()
    assert b"libstdc++.so" not in linked


@pytest.mark.gpu
@pytest.mark.parametrize("feature", FEATURES, ids=[feature.path.stem for feature in FEATURES])
def test_a_gpu_does_the_same(feature: Feature, gpu: tuple[Sandbox, Sandbox]) -> None:
    assert on_the_gpu(feature.path, gpu) == [1] * N


@needs_gcc
def test_a_feature_that_computes_something_else_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    text = (emulator_features.FOLDER / "warps_votes.cu").read_text()
    source.write_text(text.replace("0xaaaaaaaau", "0xaaaaaaabu"))
    assert in_the_emulator(source, tmp_path / "built") == [0] * N


@needs_gcc
def test_an_output_of_assembly_begins_undefined(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    text = (emulator_features.FOLDER / "language_inline_assembly.cu").read_text()
    source.write_text(text.replace('"+r"(guarded)', '"=r"(guarded)'))
    assert in_the_emulator(source, tmp_path / "built") == [0, 1] * (N // 2)


RELEASE, RELAXED = "memory_order_release", "memory_order_relaxed"
ARRIVES = "bar.arrive_and_wait();"
# A feature used wrongly: its test, what is changed, and the kind of the finding.
MISUSES = [
    (
        "atomics_with_order",
        f"ready.store(1, cuda::{RELEASE}",
        f"ready.store(1, cuda::{RELAXED}",
        "race",
    ),
    (
        "atomics_with_order",
        "ready.load(cuda::memory_order_acquire",
        f"ready.load(cuda::{RELAXED}",
        "race",
    ),
    ("atomics_with_order", "memory_order_acq_rel", RELAXED, "race"),
    ("atomics_with_order", "memory_order_acq_rel", "memory_order_acquire", "race"),
    (
        "atomics_with_order",
        "int, cuda::thread_scope_device> t",
        "int, cuda::thread_scope_block> t",
        "race",
    ),
    ("atomics_with_order", "fence(cuda::memory_order_acquire,", f"fence(cuda::{RELAXED},", "race"),
    ("atomics_with_order", "fence(cuda::memory_order_release,", f"fence(cuda::{RELAXED},", "race"),
    (
        "atomics_with_order",
        f"fence(cuda::{RELEASE},",
        "fence(cuda::memory_order_acquire,",
        "race",
    ),
    (
        "atomics_with_order",
        "fence(cuda::memory_order_acquire,",
        f"fence(cuda::{RELEASE},",
        "race",
    ),
    ("barriers_in_two_steps", "        bar.wait(std::move(token));", "", "race"),
    (
        "barriers_in_two_steps",
        f"bar);\n    {ARRIVES}",
        "bar);\n    auto one = bar.arrive();\n    if (t != 63) bar.wait(std::move(one));",
        "race",
    ),
    ("barriers_in_two_steps", "init(&bar, blockDim.x)", "init(&bar, blockDim.x / 2)", "race"),
    ("barriers_in_two_steps", "init(&bar, blockDim.x)", "init(&bar, blockDim.x + 1)", "deadlock"),
    ("barriers_in_two_steps", "    __syncthreads();", "", "race"),
    ("barriers_in_two_steps", f"{ARRIVES}\n    good =", "good =", "race"),
    ("barriers_in_two_steps", "block.barrier_wait(std::move(token))", "", "misused_barrier"),
    (
        "barriers_in_two_steps",
        "const int own = in[t];\n        block",
        "const int own = in[t];\n        __syncthreads();\n        block",
        "misused_barrier",
    ),
    ("barriers_in_two_steps", "block.sync()", "", "race"),
    ("memory_shared_pipelines", "        pipe.consumer_wait();\n        good", "good", "race"),
    ("memory_shared_pipelines", "            pipe.consumer_wait();\n", "", "race"),
    ("memory_shared_pipelines", "63 - t;\n        pipe.consumer_release();", "63 - t;", "deadlock"),
    (
        "memory_shared_pipelines",
        "            pipe.producer_acquire();\n            cuda::memcpy_async(block",
        "            cuda::memcpy_async(block",
        "race",
    ),
    (
        "language_inline_assembly",
        'asm volatile("cp.async.wait_group %0;\\n" :: "n"(0));',
        "",
        "uninitialised_read",
    ),
    ("language_inline_assembly", '"n"(0));\n    __syncthreads();', '"n"(0));', "race"),
    (
        "language_inline_assembly",
        'ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(SHARED(s + 63 - t))',
        'ld.global.f32 %0, [%1];" : "=f"(x) : "l"(s + 63 - t)',
        "out_of_bounds_read",
    ),
    (
        "language_ptx_instructions",
        '"r"(SHARED(s[t])), "l"(g)',
        '"r"(SHARED(s[t])), "l"(g + 1)',
        "misaligned",
    ),
    (
        "language_ptx_instructions",
        "bool right = true;\n    const int t",
        'int far; asm volatile("ld.global.s32 %0, [%1];" : "=r"(far) : "l"(g - 64));\n'
        "    bool right = true;\n    const int t",
        "out_of_bounds_read",
    ),
    ("language_ptx_instructions", "SHARED(s[lane])", "SHARED(s[lane] + 4)", "misaligned"),
    (
        "language_structures",
        "    const Pair pair = pairs[t].pair;",
        "    const int4 four = *(int4*)&pairs[t].pair;\n    const Pair pair{four.x, four.z};",
        "misaligned",
    ),
    ("language_ptx_instructions", '"barrier.sync 0', '"// ', "race"),
    ("language_ptx_instructions", '"bar.arrive 3, 64', '"// ', "deadlock"),
    ("language_ptx_instructions", '"bar.sync 3, 64', '"// ', "race"),
    ("warps_matrix_fragments", "c[i] = i;\n    __syncwarp();", "c[i] = i;", "race"),
    ("warps_matrix_fragments", "sum, S, order);\n    __syncwarp();", "sum, S, order);", "race"),
    ("warps_matrix_fragments", "S = 40", "S = 36", "misaligned"),
    ("warps_matrix_fragments", "(left, a, S)", "(left, a + 2, S)", "misaligned"),
    ("warps_matrix_fragments", "(sum, c, 16,", "(sum, c + 16, 16,", "out_of_bounds_read"),
]


@needs_gcc
@pytest.mark.parametrize(("feature", "right", "wrong", "kind"), MISUSES)
def test_a_feature_used_wrongly_is_found(
    feature: str, right: str, wrong: str, kind: str, tmp_path: Path
) -> None:
    # A misuse shows with a feature's first type; the others take seconds to compile.
    lines = (emulator_features.FOLDER / f"{feature}.cu").read_text().splitlines(keepends=True)
    text = "".join(each for each in lines if not each.endswith("// another type\n"))
    assert right in text
    source = tmp_path / "wrong.cu"
    source.write_text(text.replace(right, wrong, 1))
    outcome, _ = outcome_in_the_emulator(source, tmp_path / "built")
    assert outcome.report is not None, outcome
    assert outcome.report.findings[0].kind == kind, outcome.report.findings


def test_the_tables_of_the_docs_are_made_from_these_tests() -> None:
    document = emulator_features.DOCUMENT.read_text(encoding="utf-8")
    assert emulator_features.written_into(document) == document, (
        "docs/emulator.md is out of date: run python -m tests.support.emulator_features"
    )

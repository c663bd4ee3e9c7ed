"""Every feature of the docs' table runs, and the table lists exactly these."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.cases import Case
from grader.emulator import toolchain
from grader.emulator.build import Entry, build
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
from tests.support.emulated import Call
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


def in_the_emulator(source: Path, folder: Path) -> list[int]:
    """What the entry leaves in its output; fails where something was found."""
    made = build(source, [ENTRY], folder, toolchain.prepare())
    assert made.executable is not None and made.problems == (), made.problems
    with Placement([vector("output", torch.zeros(N, dtype=torch.int32), role="inout")]) as placed:
        arguments = [*placed.arguments, Argument(Kind.int64, scalar=N)]
        outcome = Call(made, ENTRY.name, arguments, placed.arena.buffers, OPTIONS).run()
        assert outcome.code is Code.ok, outcome
        return placed.values("output").tolist()


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
        NativePlanner(planning, as_a_task(), source, program) as plans,
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


def test_the_tables_of_the_docs_are_made_from_these_tests() -> None:
    document = emulator_features.DOCUMENT.read_text(encoding="utf-8")
    assert emulator_features.written_into(document) == document, (
        "docs/emulator.md is out of date: run python -m tests.support.emulator_features"
    )

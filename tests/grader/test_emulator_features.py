"""Every feature of the docs' table runs, and the table lists exactly these."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from grader.emulator import toolchain
from grader.emulator.build import Entry, build
from grader.worker import builder
from grader.worker.builder import Wanted
from grader.worker.protocol import Argument, Code, Kind, Operation
from tests.grader import emulator_features
from tests.grader.emulated import Call
from tests.grader.emulator_features import Feature
from tests.grader.native import NativeWorker, Placement, vector

N = 64
ENTRY = Entry("feature", ("pointer:int32", "int"))
FEATURES = emulator_features.features()

needs_gcc = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


OPTIONS = ["--arguments=output:inout,n:input"]


def in_the_emulator(source: Path, folder: Path) -> list[int]:
    """What the entry leaves in its output; fails where something was found."""
    made = build(source, [ENTRY], folder, toolchain.prepare())
    assert made.executable is not None and made.problems == (), made.problems
    with Placement([vector("output", torch.zeros(N, dtype=torch.int32), role="inout")]) as placed:
        arguments = [*placed.arguments, Argument(Kind.int64, scalar=N)]
        outcome = Call(made, ENTRY.name, arguments, placed.arena.buffers, OPTIONS).run()
        assert outcome.code is Code.ok, outcome
        return placed.values("output").tolist()


def for_the_gpu(source: Path, folder: Path) -> Path:
    """The program for the GPU."""
    builder.load_emulator()
    folder.mkdir()
    entry = {"name": ENTRY.name, "arguments": list(ENTRY.arguments)}
    made = builder.build(source, Wanted(backend="gpu", entries=(entry,)), folder)
    assert made.executable is not None, made.problems
    return made.executable


def on_the_gpu(program: Path) -> list[int]:
    """What the entry leaves in its output; fails where something was found."""
    slot = vector("output", torch.zeros(N, dtype=torch.int32), role="inout")
    with Placement([slot]) as placement:
        buffers = placement.arena.buffers
        with NativeWorker(program, ENTRY.name, buffers, OPTIONS) as worker:
            assert worker.receive() is not None
            assert worker.load(2).code is Code.ok
            arguments = [*placement.arguments, Argument(Kind.int64, scalar=N)]
            reply = worker.ask(Operation.run, arguments)
            _, printed = worker.ends_with()
        assert reply is not None, f"the process died: {printed}"
        assert reply.code is Code.ok, reply.text
        return placement.values("output").tolist()


@needs_gcc
@pytest.mark.parametrize("feature", FEATURES, ids=[feature.path.stem for feature in FEATURES])
def test_a_supported_feature_does_what_a_gpu_does(feature: Feature, tmp_path: Path) -> None:
    assert in_the_emulator(feature.path, tmp_path / "built") == [1] * N


@pytest.mark.gpu
@pytest.mark.parametrize("feature", FEATURES, ids=[feature.path.stem for feature in FEATURES])
def test_a_gpu_does_the_same(feature: Feature, tmp_path: Path) -> None:
    assert on_the_gpu(for_the_gpu(feature.path, tmp_path / "built")) == [1] * N


@needs_gcc
def test_a_feature_that_computes_something_else_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    text = (emulator_features.FOLDER / "warps_votes.cu").read_text()
    source.write_text(text.replace("0xaaaaaaaau", "0xaaaaaaabu"))
    assert in_the_emulator(source, tmp_path / "built") == [0] * N


def test_the_tables_of_the_docs_are_made_from_these_tests() -> None:
    document = emulator_features.DOCUMENT.read_text(encoding="utf-8")
    assert emulator_features.written_into(document) == document, (
        "docs/emulator.md is out of date: run python -m tests.grader.emulator_features"
    )

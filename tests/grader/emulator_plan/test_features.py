"""Every feature that the emulator supports does by way of a plan what a GPU does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from grader import native_plan, plan
from grader.emulator import toolchain
from grader.emulator.build import build
from grader.worker.protocol import Argument, Code, Kind
from tests.grader.emulated import NEEDS_COMPILER
from tests.grader.emulator_plan.planned import PlanWorker
from tests.grader.native import Placement, vector
from tests.grader.test_emulator_features import ENTRY, FEATURES, Feature, N

pytestmark = NEEDS_COMPILER
OPTIONS = ["--arguments=output:inout,n:input"]


# Their host code looks at what kernels have left, which a planner doesn't know.
READ_BACK = {"language_device_variables", "runtime_memory", "runtime_memory_2d"}
PLANNED = [each for each in FEATURES if each.path.stem not in READ_BACK]


@pytest.mark.parametrize("feature", PLANNED, ids=[feature.path.stem for feature in PLANNED])
def test_a_supported_feature_does_what_a_gpu_does(feature: Feature, tmp_path: Path) -> None:
    made = build(feature.path, [ENTRY], tmp_path, toolchain.prepare(), planned=True)
    assert made.problems == ()
    slot = vector("output", torch.zeros(N, dtype=torch.int32), role="inout")
    with Placement([slot]) as placement:
        arguments = [*placement.arguments, Argument(Kind.int64, scalar=N)]
        with PlanWorker(made.executable, ENTRY.name, (), OPTIONS) as planner:
            assert planner.receive().code is Code.ok
            assert planner.load(2).code is Code.ok
            reply, text = planner.plan(arguments)
        assert reply is not None and reply.code is Code.ok, reply
        planned = plan.read(text, [4 * N, None])
        buffers = placement.arena.buffers
        with PlanWorker(made.executor, "execute", buffers, OPTIONS) as executor:
            assert executor.receive().code is Code.ok
            done = executor.execute(arguments, native_plan.document(planned))
        assert done is not None and done.code is Code.ok, done
        assert placement.values("output").tolist() == [1] * N

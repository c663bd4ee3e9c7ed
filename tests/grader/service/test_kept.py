"""The same source asked again: its plans and builds are kept, its verdict is made anew."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from unittest import mock

import pytest

from benchmarks.serve import CUDA, TRITON
from grader.cases import inputs as inputs_of_case
from grader.executors import executor
from grader.executors.compile.kept_builds import Store
from grader.executors.cuda import cuda_build
from grader.grading.session import Lent, Options
from grader.sandbox import Sandbox
from grader.service.single import EFFORTS, check_source, exercises_of, task_named
from grader.status import Status

EXERCISES = exercises_of(None)
FIXED = replace(EFFORTS["quick"], edges=2, drawn=0)  # cases whose sizes no seed changes


class Watched:
    """Checks sources, and counts the processes that each check starts, by what they are for."""

    def __init__(self, name: str, sandbox: Sandbox | None, lent: Lent) -> None:
        self.task, self.sandbox, self.lent = task_named(EXERCISES, name), sandbox, lent
        self.started: Counter[str] = Counter()
        self.inputs: list[list] = []

    def check(self, source: str, seed: int):
        self.started, self.inputs = Counter(), []
        options = Options(seed=seed, device="cpu", effort=FIXED, keeps_builds=False)
        fork, make = Sandbox._forked, inputs_of_case.make

        def forked(sandbox, request, *given):
            by_path = "executor" if "-executor-" in request["path"] else "planner"
            kind = "build" if "build" in request else request.get("role") or by_path
            self.started[kind] += 1
            return fork(sandbox, request, *given)

        def made(task, case):
            inputs = make(task, case)
            self.inputs.append([each.tolist() for each in inputs.tensors.values()])
            return inputs

        with (
            mock.patch.object(Sandbox, "_forked", forked),
            mock.patch.object(inputs_of_case, "make", made),
        ):
            return check_source(
                self.task, source, options, timed=False, sandbox=self.sandbox, lent=self.lent
            )


@pytest.fixture
def triton(shared_sandbox) -> Watched:
    return Watched("silu/triton", shared_sandbox, Lent(store=Store(16 << 20)))


def test_a_triton_source_is_planned_and_compiled_once_and_judged_each_time(triton):
    assert triton.check(TRITON, 1).passed
    assert triton.started["planner"] and triton.started["compiler"]
    before = triton.inputs
    assert triton.check(TRITON, 2).passed
    assert set(triton.started) == {"executor", "planner"}
    assert triton.started["planner"] == 1  # of a size near the memory's, which a seed draws
    assert len(triton.inputs) == len(before)
    assert all(one != other for one, other in zip(before, triton.inputs, strict=True))
    assert triton.check(TRITON + "# changed\n", 2).passed
    assert triton.started["planner"] and triton.started["compiler"]
    sources = {source for source, _ in triton.lent.store._texts}
    assert len(sources) == 2  # each has what it led to, and nothing is found by both


def test_a_verdict_follows_from_the_outputs_of_each_time(triton):
    assert triton.check(TRITON, 1).passed
    judge, wrong = executor.judge, []

    def judged(*given):
        verdict = judge(*given)
        wrong.append(verdict)
        return replace(verdict, status=Status.wrong_values, what="as the test says")

    with mock.patch.object(executor, "judge", judged):
        assert triton.check(TRITON, 1).message == "as the test says"
    assert all(each.passed for each in wrong)


def test_a_kept_text_is_read_as_untrusted(triton):
    assert triton.check(TRITON, 1).passed
    store = triton.lent.store
    for key in [each for each in store._texts if "cubin" not in each[1]]:
        store.put(key, "{}")
    result = triton.check(TRITON, 2)
    assert result.status is Status.launch_error
    assert "can't be planned" in result.message


def test_a_cuda_source_is_built_once_for_the_same_entries():
    if cuda_build.why_not("emulator"):
        pytest.skip("no C++ compiler")
    with Sandbox("emulator", kind="native") as native:
        cuda = Watched("silu/cuda", None, Lent(native={"emulator": native}, store=Store(16 << 20)))
        assert cuda.check(CUDA, 1).passed
        assert cuda.started["build"] and cuda.started["planner"]
        before = cuda.inputs
        assert native.empty() or native.description == "limits"
        assert not list((native.scratch.parent / "submission").iterdir())
        assert cuda.check(CUDA, 2).passed
        assert set(cuda.started) == {"executor", "planner"}
        assert cuda.started["planner"] == 1  # as above
        assert all(one != other for one, other in zip(before, cuda.inputs, strict=True))


def test_a_store_is_bounded_and_each_source_finds_its_own():
    store = Store(4000)
    one, other = store.of("one"), store.of("other")
    one.put("key", "of one")
    other.put("key", "of another")
    assert (one.get("key"), other.get("key")) == ("of one", "of another")
    assert one.get("elsewhere") is None
    for number in range(100):
        other.put(f"{number}", "x" * 100)
        assert one.get("key") == "of one"  # what is used stays
        assert store.bytes <= 4000
    assert other.get("key") is None and other.get("99") == "x" * 100
    one.put("large", "x" * 5000)
    assert one.get("large") is None
    one.forget(["key", "missing"])
    assert one.get("key") is None
    assert store.bytes == sum(map(sys.getsizeof, store._texts.values()))

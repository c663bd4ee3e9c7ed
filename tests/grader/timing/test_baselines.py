"""Baselines in workers of our own: over the CPU all is as on a GPU, but where the buffers lie.

The workers serve one case of a variant after the other, where that changes nothing.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from grader.cases import Case, fixed_case
from grader.cases.arena import OUTPUTS, Role
from grader.cases.oracle import ORACLES
from grader.evidence import PerformanceEvidence
from grader.grading import session as sessions
from grader.grading.session import Session
from grader.sandbox import Sandbox
from grader.spec import Variant, load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import contenders, sequential, timed_variant
from grader.timing.attempt import Options
from grader.timing.baselines import CONTROL_BYTES, Baselines
from grader.timing.buffer_sets import Layout
from grader.timing.contenders import FEWEST_BUFFER_SETS, MOST_BUFFER_SETS
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.graph_replays import Replays
from grader.worker.protocol import Code, Operation
from tests.support.clocked import RMSNORM, InPython, without_doubts

EXERCISE = load_all()["rmsnorm"]
VARIANT = EXERCISE.variants["triton"]


def case(rows: int, cols: int, dtype: str = "float32") -> Case:
    return fixed_case(Task(EXERCISE, VARIANT), {"rows": rows, "cols": cols, "dtype": dtype}, 7)


# The second is the largest, the last one has more columns than any.
CASES = [case(16, 512), case(64, 512), case(8, 64, "float16"), case(1, 2000)]


@pytest.fixture(autouse=True)
def few_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """To draw inputs takes longer than anything else here."""
    monkeypatch.setattr(contenders, "MOST_BUFFER_SETS", 8)


def asking(*names: str, at_least: float = 0.5) -> Variant:
    """The variant with thresholds of these baselines."""
    kind = type(VARIANT.performance.thresholds[0])
    made = tuple(
        kind.model_validate({"speed_vs": name, "at_least": at_least, "points": 1}) for name in names
    )
    given = {"rows": 16, "cols": 512, "dtype": "float32"}
    performance = VARIANT.performance.model_copy(update={"thresholds": made, "case": given})
    return VARIANT.model_copy(update={"performance": performance})


@pytest.fixture
def opened() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def baselines_of(sandbox: Sandbox, *names: str, cases: list[Case] = CASES) -> Baselines:
    return Baselines(sandbox, sandbox, Task(EXERCISE, asking(*names)), cases, None)


def process_of(replays: Replays) -> int:
    return replays._worker.pid


def has_ended(replays: Replays) -> bool:
    return not psutil.pid_exists(process_of(replays))


def outputs_of(replays: Replays) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Of each set the first input and the output."""
    sets = replays._sets

    def first(number: int, role: Role) -> torch.Tensor:
        return next(iter(sets._views(number, role)))[1]

    return [(first(number, "input"), first(number, "output")) for number in range(sets.count)]


def test_one_that_is_expected_is_there_before_it_is_asked_for(python_sandbox, opened):
    with baselines_of(python_sandbox, "torch") as baselines:
        baselines.expect(["copy", "torch", "reference"])
        assert set(baselines._kept) == {"copy", "torch"}
        standing = baselines._kept["torch"]
        assert psutil.pid_exists(standing.worker.pid)
        replays = baselines.begin("torch", CASES[0], opened)
        assert process_of(replays) == standing.worker.pid
        assert replays.settle() > 0


def test_why_one_that_was_expected_does_not_load_is_told_by_whoever_needs_it(
    python_sandbox, opened, monkeypatch
):
    monkeypatch.setitem(
        contenders._FUNCTIONS, "torch", ("raise ValueError('nothing here')\n", "own")
    )
    with baselines_of(python_sandbox, "torch") as baselines:
        baselines.expect(["torch"])
        with pytest.raises(TimingFailed, match="ValueError: nothing here"):
            baselines.begin("torch", CASES[0], opened)


@pytest.mark.parametrize("name", ["copy", "torch"])
def test_one_worker_serves_every_case(python_sandbox, opened, name):
    serves_every_case(python_sandbox, opened, name)


@pytest.mark.gpu
def test_on_a_gpu_one_worker_serves_every_case(opened):
    with Sandbox("cuda") as sandbox:
        serves_every_case(sandbox, opened, "torch")


@pytest.fixture(scope="module")
def executors() -> Iterator[Sandbox]:
    """A sandbox for executors of plans on the GPU."""
    exercises = load_all()
    silu = exercises["silu"]
    with Session(ORACLES.parent, exercises, sessions.Options(device="cuda")) as session:
        yield session.stopwatch.planned(Task(silu, silu.variants["triton"])).sandbox


def copying(executors: Sandbox, bytes: int, opened: contextlib.ExitStack) -> Replays:
    """Replays of the grader's copy of so many bytes."""
    layout = Layout.of_inputs(contenders.copied(bytes))
    return contenders.copy(contenders.executor(executors, [layout], opened), layout)


@pytest.mark.gpu
@pytest.mark.parametrize("bytes", [1, 3, 4, 20, 4096, 4100, (1 << 20) + 12])
def test_on_a_gpu_a_copy_copies_every_byte_and_no_more(executors, opened, bytes):
    replays = copying(executors, bytes, opened)
    sets = replays._sets
    around = [sets._set_bytes(OUTPUTS, number) for number in range(sets.count)]
    for each in around:
        each.fill_(201)
    replays.settle()
    replays.seconds()
    copied = [torch.equal(given, out) for given, out in outputs_of(replays)]
    assert sum(copied) >= replays.calls
    start = sets._layout.offsets[1]
    assert all((each[:start] == 201).all() for each in around)
    assert all((each[start + bytes :] == 201).all() for each in around)


@pytest.mark.gpu
def test_on_a_gpu_a_copys_speed_doesnt_depend_on_the_number_of_bytes(executors):
    """The driver's own is a third slower for some of these."""
    speeds = []
    for mib in (148.703125, 256, 290.875, 512, 640):
        with contextlib.ExitStack() as opened:
            replays = copying(executors, int(mib * (1 << 20)), opened)
            replays.settle()
            speeds.append(mib / statistics.median(replays.seconds() for _ in range(9)))
    assert max(speeds) < 1.12 * min(speeds)


def serves_every_case(sandbox: Sandbox, opened: contextlib.ExitStack, name: str) -> None:
    processes = set()
    with baselines_of(sandbox, "copy", "torch") as baselines:
        for each in [*CASES, CASES[0]]:
            replays = baselines.begin(name, each, opened)
            for _, out in outputs_of(replays):
                out.fill_(7)
            assert replays.settle() > 0
            assert replays.seconds() > 0 and 1 <= replays.calls <= 8
            processes.add(process_of(replays))
            moved = baselines.moved_by(name, each)
            layout = contenders.layout_of(name, Task(EXERCISE, VARIANT), each, moved)
            assert replays._sets._layout == layout
            if name == "copy":  # torch's own operator allocates what it returns
                copied = [torch.equal(given, out) for given, out in outputs_of(replays)]
                assert sum(copied) >= replays.calls
    assert len(processes) == 1


def test_a_copy_copies_the_sets_of_its_order_and_no_others(python_sandbox, opened):
    with baselines_of(python_sandbox, "copy") as baselines:
        replays = baselines.begin("copy", CASES[0], opened)
        replays.calls = 3
        for _, out in outputs_of(replays):
            out.fill_(7)
        replays.prepare()
        replays.replay()
        order = set(replays._order)
        for number, (given, out) in enumerate(outputs_of(replays)):
            assert torch.equal(given, out) is (number in order)


def test_only_baselines_in_python_keep_their_graph_of_calls(python_sandbox, opened):
    with baselines_of(python_sandbox, "torch") as baselines:
        assert baselines.begin("torch", CASES[0], opened)._keeps_order
    worker = SimpleNamespace(post=lambda *_: None, close=lambda: None)
    sandbox: Any = SimpleNamespace(device="cpu", worker=lambda *_, **__: worker)
    layouts = [Layout.of(Task(EXERCISE, VARIANT), CASES[0])]
    assert not contenders.start(sandbox, Path("executor"), "", layouts, opened)._is_python


def test_a_baseline_returns_its_output_so_that_a_replay_can_keep_it():
    """Freed memory would be the next call's output, which would find it in the cache."""
    made: dict[str, Any] = {}
    exec(contenders.source_of("torch", Task(EXERCISE, EXERCISE.variants["triton"])), made)
    made["function"] = lambda **given: given["x"] + 1
    assert made["baseline"](torch.zeros(3), None, None, 1e-6).tolist() == [1, 1, 1]


def test_torchs_compiler_is_started_once_and_compiles_each_size_by_itself(
    python_sandbox, opened, monkeypatch
):
    made = contenders.source_of("compile", Task(EXERCISE, EXERCISE.variants["triton"]))
    assert "torch.compile(own, dynamic=False)" in made
    # What is compiled needs a compiler here: which process is asked is all that counts.
    monkeypatch.setitem(contenders._FUNCTIONS, "compile", contenders._FUNCTIONS["torch"])
    with baselines_of(python_sandbox, "compile") as baselines:
        processes = [process_of(baselines.begin("compile", each, opened)) for each in CASES[:2]]
    assert len({*processes}) == 1


def test_after_noise_all_are_new_and_the_old_ones_have_ended(python_sandbox, opened):
    with baselines_of(python_sandbox, "copy") as baselines:
        first = baselines.begin("copy", CASES[0], opened)
        baselines.renew()
        assert has_ended(first)
        second = baselines.begin("copy", CASES[0], opened)
        assert process_of(first) != process_of(second)
    assert has_ended(second)


def test_variants_whose_baselines_are_the_same_python_share_their_workers(python_sandbox, opened):
    in_cuda = Task(EXERCISE, EXERCISE.variants["cuda_vector"])
    larger = [fixed_case(Task(EXERCISE, in_cuda.variant), {"rows": 64, "cols": 2000}, 7)]
    again = Task(EXERCISE, asking("torch", at_least=0.7))
    later = [(again, larger), (in_cuda, larger)]
    first = Task(EXERCISE, asking("copy"))
    with Baselines(python_sandbox, python_sandbox, first, CASES, None, later) as baselines:

        def processes(case: Case) -> list[int]:
            return [process_of(baselines.begin(name, case, opened)) for name in ("copy", "torch")]

        before = processes(CASES[0])
        baselines.turn_to(again, None)
        assert processes(larger[0]) == before
        assert baselines.needed == {"torch"}
        baselines._kept["torch"].worker.close()
        baselines.turn_to(again, None)
        assert not {*processes(larger[0])} & {*before}
        before = processes(larger[0])
        baselines.turn_to(in_cuda, None)  # whose parameters are others
        assert not {*processes(larger[0])} & {*before}
        assert not any(map(psutil.pid_exists, before))


def test_where_memory_lacks_for_later_variants_each_has_its_own_workers(
    python_sandbox, opened, monkeypatch
):
    later = Task(EXERCISE, asking("torch"))
    large = [fixed_case(Task(EXERCISE, VARIANT), {"rows": 256, "cols": 512, "dtype": "float32"}, 7)]
    given = (Task(EXERCISE, asking("copy")), CASES, None, [(later, large)])
    monkeypatch.setattr(contenders, "_room", lambda on_gpu: 5 << 20)
    with Baselines(python_sandbox, python_sandbox, *given) as baselines:
        before = process_of(baselines.begin("torch", CASES[0], opened))
        baselines.turn_to(later, None)
        assert not psutil.pid_exists(before)
        monkeypatch.setattr(contenders, "_room", lambda on_gpu: 1 << 30)
        assert baselines.begin("torch", large[0], opened).settle() > 0


def test_the_baselines_of_two_languages_are_the_same_python():
    silu = load_all()["silu"]
    for name in ("torch", "compile"):
        of = [contenders.source_of(name, Task(silu, silu.variants[v])) for v in ("triton", "cuda")]
        assert of[0] == of[1]
    made: dict[str, Any] = {}
    exec(contenders.source_of("torch", Task(silu, silu.variants["cuda"])), made)
    given = torch.tensor([0.0, 1.0, -3.0])
    expected = torch.nn.functional.silu(given)
    assert torch.allclose(made["baseline"](given, None, 3), expected)


def test_a_reference_is_started_only_when_it_is_asked_for(python_sandbox, opened):
    asked: list[object] = []

    class Solution:
        def begin(
            self, case: Case, opened: contextlib.ExitStack, graded: bool, executor: str | None
        ) -> str:
            asked.append((graded, executor))
            return "its replays"

    what = (python_sandbox, python_sandbox, Task(EXERCISE, asking("copy")), CASES)
    with Baselines(*what, Solution) as baselines:
        assert baselines.has_reference
        baselines.begin("copy", CASES[0], opened)
        assert not asked
        assert baselines.begin("reference", CASES[0], opened) == "its replays"
    assert asked == [(False, None)]  # its outputs aren't judged
    with Baselines(*what, None) as baselines:
        assert not baselines.has_reference


def test_a_case_that_was_only_begun_leaves_its_worker_to_the_next(python_sandbox, opened):
    what = (python_sandbox, python_sandbox, Task(EXERCISE, asking("copy")), CASES)
    with Baselines(*what, None) as baselines:
        baselines.begin("copy", CASES[0], opened).begin()
        assert baselines.begin("copy", CASES[-1], opened).settle() > 0


def test_where_students_work_there_is_no_reference(tmp_path, python_sandbox):
    what = (python_sandbox, python_sandbox, Task(EXERCISE, asking("reference")), CASES)
    assert Baselines(*what, lambda: None).has_reference
    elsewhere = EXERCISE.model_copy()
    elsewhere.belongs_to(tmp_path)
    what = (*what[:2], Task(elsewhere, asking("reference")), CASES)
    assert not Baselines(*what, lambda: None).has_reference


def test_a_control_that_no_threshold_names_copies_enough_on_a_gpu():
    on_gpu = SimpleNamespace(device="cuda")
    small = 2 * 16 * 512 * 4
    for names, expected in [(("torch",), CONTROL_BYTES), (("torch", "copy"), small)]:
        baselines = baselines_of(on_gpu, *names)
        assert baselines.moved_by("copy", CASES[0]) == expected
        assert baselines.moved_by("torch", CASES[0]) == small


# --- how many sets --------------------------------------------------------------------------------


def test_where_too_little_is_free_it_is_said(python_sandbox, opened, monkeypatch):
    monkeypatch.setattr(contenders, "_room", lambda on_gpu: 4096)
    with (
        baselines_of(python_sandbox, "torch") as baselines,
        pytest.raises(
            TooLittleMemory, match=rf"{FEWEST_BUFFER_SETS} sets of buffers have \d+ MiB, and"
        ),
    ):
        baselines.begin("torch", CASES[0], opened)


@pytest.mark.parametrize(
    ("set_bytes", "free", "count"),
    [
        (1 << 20, 80 << 30, 256),  # no more than the most
        (8 << 20, 80 << 30, 128),  # enough is a GiB
        (512 << 20, 80 << 30, FEWEST_BUFFER_SETS),
        (512 << 20, 3 << 30, FEWEST_BUFFER_SETS),
        (1 << 20, 40 << 20, 32),  # what fits
        (1 << 20, 7 << 20, FEWEST_BUFFER_SETS),
    ],
)
def test_as_many_sets_as_are_enough_and_fit(monkeypatch, set_bytes, free, count):
    monkeypatch.setattr(contenders, "MOST_BUFFER_SETS", MOST_BUFFER_SETS)
    layout = Layout.of_inputs(contenders.copied(set_bytes // 2))
    half = -(-set_bytes // 2)
    assert half <= layout.lengths[0] <= layout.lengths[1] <= half + (16 << 10)
    slack = 1.02  # for what guards the outputs
    found = contenders._count(layout, int(free * slack))
    assert found == count or abs(found - count) <= 1


def test_a_worker_has_room_for_the_largest_of_its_cases(python_sandbox, opened):
    with baselines_of(python_sandbox, "torch") as baselines:
        replays = [baselines.begin("torch", each, opened) for each in CASES]
    assert all(each._sets.count >= FEWEST_BUFFER_SETS for each in replays)
    assert replays[0]._sets.count == 8  # the fewer bytes a set has, the more of them


# --- what fails -----------------------------------------------------------------------------------

COPY = "def copy(source, to):\n    "


@pytest.mark.parametrize(
    ("source", "status", "told"),
    [
        (
            "def copy(source, to):\n    raise RuntimeError('first\\nsecond')\n",
            Status.crashed,
            "Runt",
        ),
        ("import os\ndef copy(source, to):\n    os._exit(3)\n", Status.crashed, "exit status 3"),
        (
            "def copy(source, to):\n    raise MemoryError\n",
            Status.not_measured,
            "too little memory",
        ),
        ("nonsense(\n", Status.crashed, "SyntaxError"),
        ("def other(): ...\n", Status.crashed, "AttributeError"),
    ],
)
def test_what_a_baseline_says_of_its_end(python_sandbox, opened, source, status, told):
    path = python_sandbox.hold("failing_baseline.py", source.encode())
    layout = Layout.of_inputs(contenders.copied(4096))
    with pytest.raises(TimingFailed) as caught:
        contenders.start(python_sandbox, path, "copy", [layout], opened).ungraded(layout).settle()
    assert caught.value.status is status and told in str(caught.value)


def test_its_host_answers_to_nothing_else(python_sandbox, opened):
    layout = Layout.of_inputs(contenders.copied(4096))
    given = (python_sandbox, contenders.BASELINES, "copy", [layout], opened)
    replays = contenders.start(*given).ungraded(layout)
    for operation in (Operation.execute, Operation.plan, Operation.adopt):
        assert replays._worker.ask(operation).code is Code.bad_request
    assert replays.settle() > 0


# --- from the request to the evidence -------------------------------------------------------------


def in_python(sandbox: Sandbox, source: str) -> PerformanceEvidence:
    candidate: Any = InPython.of(sandbox, Task(EXERCISE, asking("torch", at_least=0.001)), source)
    budget = sequential.Budget(seconds=60.0, pairs=sequential.MIN_PAIRS)
    return timed_variant.measure(candidate, 7, trusted=sandbox, options=Options(budget=budget))


def test_a_kernel_is_timed_from_the_request_to_the_evidence(python_sandbox, monkeypatch):
    without_doubts(monkeypatch, 3)
    seen = in_python(python_sandbox, RMSNORM)
    assert seen.status is Status.passed, seen
    assert {each.name for each in seen.baselines} == {"copy", "torch"}
    assert seen.microseconds > 0 and seen.samples == 3


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("+ eps)", "+ 2 * eps + 0.01)", Status.wrong_values),
        ("out.copy_(wide * scale", "out[:8].copy_((wide * scale)[:8]", Status.not_written),
        ("out.copy_(", "out.clone().copy_(", Status.not_written),
        ("out.copy_(wide", "out.copy_(float('nan') * wide", Status.not_finite),
    ],
)
def test_a_wrong_kernel_is_not_timed_but_judged(python_sandbox, monkeypatch, old, new, status):
    without_doubts(monkeypatch, 3)
    assert old in RMSNORM
    seen = in_python(python_sandbox, RMSNORM.replace(old, new))
    assert seen.status is status and "in a timed call" in seen.reason, seen
    assert seen.microseconds is None

"""What is timed of a submission is its plan: no host code of it is where the clock runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from grader.cases import Case, fixed_case
from grader.cases.compare import Verdict
from grader.evidence import PerformanceEvidence
from grader.executors import gpu
from grader.executors.cuda import cuda_build
from grader.executors.gpu.bundle import MOST_CONFIGURATIONS
from grader.executors.runner import CaseResult
from grader.grading.measure import measure
from grader.grading.session import Options, Session
from grader.instruments import bench
from grader.spec import Exercise, Variant, load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import contenders, submission
from grader.timing.buffer_sets import Layout
from grader.timing.contenders import FromPlans, Planned
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.submission import Stopwatch
from tests.support.clocked import sandbox
from tests.support.small_exercise import ROOT

EXERCISES = load_all()
SILU = EXERCISES["silu"]
N = 3000
REFERENCE = ROOT / "reference"
TUNED = """
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"B": b}) for b in (128, 256, 512)], ["n"])
@triton.jit
def kernel(x_ptr, out_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=offs < n)


def silu(x, out):
    n = x.numel()
    kernel[lambda meta: (triton.cdiv(n, meta["B"]),)](x, out, n)
"""


def with_a_case(name: str, *baselines: str, n: int = N) -> Variant:
    """A variant of silu with something to time it by."""
    before = SILU.variants["triton"].performance
    kind = type(before.thresholds[0])
    thresholds = tuple(
        kind.model_validate({"speed_vs": each, "at_least": 0.001, "points": 1})
        for each in baselines
    )
    update = {"case": {"n": n, "dtype": "float32"}, "thresholds": thresholds}
    performance = before.model_copy(update=update)
    return SILU.variants[name].model_copy(update={"performance": performance})


def of_silu(variant: Variant) -> dict[str, Exercise]:
    return {"silu": SILU.model_copy(update={"variants": {variant.name: variant}})}


def case_of(variant: Variant) -> Case:
    assert variant.performance is not None and variant.performance.case is not None
    return fixed_case(Task(SILU, variant), variant.performance.case, 7)


# --- documents ------------------------------------------------------------------------------------


class Plans:
    """Plans that are made up: configurations whose documents are what they are told to be."""

    def __init__(self, *documents: bytes | CaseResult) -> None:
        self.made = documents

    def planned(self, case: Case, arguments: Sequence) -> object:
        return "a plan"

    def configurations_of(self, planned: object) -> list[int]:
        return [] if len(self.made) == 1 else list(range(len(self.made)))


@pytest.fixture
def documents(monkeypatch) -> Callable[[Any], Sequence[bytes]]:
    def of(plans: Any) -> Sequence[bytes]:
        asked = lambda _, case, planned, timed, number: plans.made[number or 0]  # noqa: E731
        monkeypatch.setattr(gpu, "document", asked)
        return FromPlans(plans).documents(case_of(with_a_case("triton")), [])

    return of


BROKEN = CaseResult(None, Verdict(Status.compile_error, "too many registers"))


def test_each_configuration_of_a_tuned_kernel_is_one_document(documents):
    assert documents(Plans(b"only")) == [b"only"]
    assert documents(Plans(b"one", b"two")) == [b"one", b"two"]
    assert documents(Plans(b"one", b"two", b"one")) == [b"one", b"two"]  # nothing is tried twice


def test_of_configurations_that_do_not_compile_the_others_are_left(documents):
    assert documents(Plans(BROKEN, b"two", BROKEN)) == [b"two"]
    with pytest.raises(TimingFailed, match="too many registers") as caught:
        documents(Plans(BROKEN, BROKEN))
    assert caught.value.status is Status.compile_error


def test_so_many_configurations_are_tried(documents):
    made = [b"%d" % number for number in range(MOST_CONFIGURATIONS + 9)]
    assert documents(Plans(*made)) == made[:MOST_CONFIGURATIONS]


def test_where_there_is_no_plan_its_reason_is_the_timings(documents):
    plans = Plans(b"none")
    plans.planned = lambda *_: CaseResult(None, Verdict(Status.launch_error, "no such grid"))
    with pytest.raises(TimingFailed, match="no such grid") as caught:
        documents(plans)
    assert caught.value.status is Status.launch_error


def test_plans_are_made_before_a_worker_is_there_and_tuned_before_it_is_timed(monkeypatch):
    order: list[str] = []
    variant = with_a_case("triton")

    class Source:
        def documents(self, case: Case, arguments: Sequence) -> Sequence[bytes]:
            order.append("documents")
            assert arguments == Layout.of(Task(SILU, variant), case).arguments(0)
            return [b"a"]

    class Standing:
        def serve(self, layout: Layout, make_sets) -> SimpleNamespace:
            order.append("serve")
            return SimpleNamespace(adopt=lambda document: order.append(f"adopt {document}"))

    monkeypatch.setattr(gpu, "held_program", lambda _: "program")
    monkeypatch.setattr(contenders, "start", lambda *_: order.append("start") or Standing())
    planned = Planned(sandbox("cuda"), Task(SILU, variant), Source())
    planned.begin(case_of(variant), contextlib.ExitStack())
    assert order == ["documents", "start", "serve", "adopt b'a'"]


@pytest.mark.parametrize(
    ("source", "count"),
    [((REFERENCE / "silu.py").read_text(), 1), (TUNED, 3)],
    ids=["the solution", "a tuned kernel"],
)
def test_a_session_plans_what_is_timed_without_a_gpu(shared_sandbox, tmp_path, source, count):
    variant = with_a_case("triton")
    (tmp_path / "silu.py").write_text(source)
    arguments = Layout.of(Task(SILU, variant), case_of(variant)).arguments(0)
    exercises = of_silu(variant)
    with Session(tmp_path, exercises, Options(device="cpu"), sandbox=shared_sandbox) as session:
        plans = session.runners.plans_of(Task(exercises["silu"], variant))
        made = FromPlans(plans).documents(case_of(variant), arguments)
    assert len(made) == count and all(isinstance(each, bytes) and each for each in made)


def test_what_was_prepared_is_not_planned_again(monkeypatch):
    made: list[Case] = []
    plans = Plans(b"one")
    variant = with_a_case("triton")
    monkeypatch.setattr(gpu, "document", lambda _, case, *__: made.append(case) or b"one")
    planned = Planned(sandbox("cuda"), Task(SILU, variant), FromPlans(plans))
    planned.prepare(case_of(variant))
    arguments = Layout.of(Task(SILU, variant), case_of(variant)).arguments(0)
    assert planned.plans.documents(case_of(variant), arguments) == [b"one"]
    assert made == [case_of(variant)]


# --- a submission's clock -------------------------------------------------------------------------


@pytest.fixture
def watch(monkeypatch) -> Iterator[Stopwatch]:
    plans = Plans(b"one")
    monkeypatch.setattr(gpu, "document", lambda _, case, planned, timed, number: plans.made[0])
    runners: Any = SimpleNamespace(sandbox_of=sandbox, plans_of=lambda task: plans)
    made = Stopwatch("cpu", 7, EXERCISES, runners)
    monkeypatch.setattr(Stopwatch, "trusted", sandbox())
    yield made


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (TimingFailed("it hung", Status.timed_out), Status.timed_out, "it hung"),
        (KeyError("Boom"), Status.grader_error, "Boom"),
    ],
)
def test_how_a_timing_fails_is_its_evidence(watch, monkeypatch, error, status, told):
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(submission, "measure", fails)
    seen = watch.time(Task(SILU, with_a_case("triton")))
    assert seen.status is status and told in seen.reason


def test_plans_are_made_before_the_gpu_is_taken(watch, monkeypatch):
    order: list[str] = []
    monkeypatch.setattr(gpu, "document", lambda *_: order.append("planned") or b"one")
    monkeypatch.setattr(submission, "measure", lambda *_, **__: order.append("measured"))

    watch.time(Task(SILU, with_a_case("triton")))
    # Of the spec's case, and of the one beside it.
    assert order == ["planned", "planned", "measured"]


def test_what_has_no_plan_takes_no_gpu(watch, monkeypatch):
    broken = lambda *_: BROKEN  # noqa: E731
    monkeypatch.setattr(gpu, "document", broken)
    monkeypatch.setattr(submission, "measure", lambda *_, **__: pytest.fail("it was taken"))
    seen = watch.time(Task(SILU, with_a_case("triton")))
    assert (seen.status, seen.reason) == (Status.compile_error, "too many registers")


def test_the_staffs_solution_is_no_candidate_unless_it_is_asked_for(watch, monkeypatch):
    asked: list[dict] = []
    monkeypatch.setattr(submission, "measure", lambda *_, **more: asked.append(more))
    variant = with_a_case("triton")
    watch.time(Task(SILU, variant))
    [given] = asked
    assert "_staff" not in vars(watch)  # no sandbox, no runner
    monkeypatch.setattr(SILU, "_reference", ROOT / "nowhere")
    with pytest.raises(TimingFailed, match="the staff's solution isn't here") as caught:
        given["reference"]()
    assert caught.value.status is Status.not_measured


def test_solutions_in_cuda_are_compiled_before_their_turn(monkeypatch):
    monkeypatch.setattr(contenders, "has_reference", lambda task: True)
    begun: list[tuple[str, str]] = []
    nothing: Any = SimpleNamespace(begin=lambda: None)
    watch = Stopwatch("cuda", 7, EXERCISES, nothing, trusted=nothing)
    programs = SimpleNamespace(begin=lambda *given: begun.append(given))
    vars(watch)["_staff"] = (SimpleNamespace(programs=programs), nothing)
    watch.begin([Task(SILU, SILU.variants[name]) for name in ("triton", "cuda")])
    assert begun == [("silu.cu", "gpu")]


def test_without_a_compiler_for_the_gpu_it_is_not_measured(monkeypatch):
    monkeypatch.setattr(cuda_build, "why_not", lambda backend: f"no compiler for the {backend}")
    variant = with_a_case("cuda", "torch")
    exercises = of_silu(variant)
    with Session(REFERENCE, exercises, Options(device="cuda")) as session:
        evidence = session.blank_evidence(Task(exercises["silu"], variant))
        seen = measure(session, Task(exercises["silu"], variant), evidence).performance
        assert (seen.status, seen.reason) == (Status.not_measured, "no compiler for the gpu")
        refused = bench.why_not(session, Task(exercises["silu"], variant))
        assert refused == (Status.not_measured, "no compiler for the gpu")


# --- on a GPU -------------------------------------------------------------------------------------


def timed_on_the_gpu(folder, variant: Variant) -> PerformanceEvidence:
    exercises = of_silu(variant)
    with Session(folder, exercises, Options(device="cuda")) as session:
        return session.stopwatch.time(Task(exercises["silu"], variant))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["triton", "cuda"])
def test_on_a_gpu_the_solution_is_as_fast_as_itself(name):
    if name == "cuda" and cuda_build.why_not("gpu"):
        pytest.skip(cuda_build.why_not("gpu"))
    variant = with_a_case(name, "torch", "reference", n=2**26)
    seen = timed_on_the_gpu(REFERENCE, variant)
    assert seen.status is Status.passed, seen
    ratios = {each.name: each.ratio for each in seen.baselines}
    assert set(ratios) == {"copy", "torch", "reference"}
    assert ratios["reference"] == pytest.approx(1.0, abs=0.02), seen
    # The lesson's CUDA kernel loads 4 bytes per thread: on an H100 it had 0.75 of torch's speed,
    # which is a copy's there, and on an H200, whose memory is faster, 0.59.
    assert 0.5 < ratios["torch"] < 1.2 and 0.5 < ratios["copy"] < 1.2, seen


@pytest.mark.gpu
def test_on_a_gpu_a_tuned_kernel_is_timed_as_its_fastest_configuration(tmp_path):
    slow = TUNED.replace("(128, 256, 512)", "(16, 512)")
    (tmp_path / "silu.py").write_text(slow)
    seen = timed_on_the_gpu(tmp_path, with_a_case("triton", "torch", n=2**26))
    assert seen.status is Status.passed, seen
    assert {each.name: each.ratio for each in seen.baselines}["torch"] > 0.8


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("x * tl.sigmoid(x)", "x * tl.sigmoid(x) * 1.1", Status.wrong_values),
        ("mask=offs < n)\n\n\ndef", "mask=offs < n - 1)\n\n\ndef", Status.not_written),
        ("mask=offs < n)\n\n\ndef", "mask=offs < n + 1)\n\n\ndef", Status.wrote_out_of_bounds),
    ],
)
def test_on_a_gpu_what_is_wrong_under_the_clock_has_its_status(tmp_path, old, new, status):
    assert old in TUNED
    (tmp_path / "silu.py").write_text(TUNED.replace(old, new))
    seen = timed_on_the_gpu(tmp_path, with_a_case("triton", "torch"))
    assert seen.status is status and "in a timed call" in seen.reason, seen


@pytest.mark.gpu
def test_on_a_gpu_without_room_for_the_sets_it_is_said(monkeypatch):
    monkeypatch.setattr(contenders, "MEMORY_SHARE", 1e-9)
    seen = timed_on_the_gpu(REFERENCE, with_a_case("triton", "torch"))
    assert seen.status is Status.not_measured and "sets of buffers have" in seen.reason
    assert TooLittleMemory.__name__ not in seen.reason

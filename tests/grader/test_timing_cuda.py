"""CUDA C++ under the clock: what a program computes there is judged. Programs run on a GPU; without
one, the tests' own (plain_backend.cpp) stands in, whose entries run on the CPU."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from grader.timing.pairs import TimedPairs
from grader.timing.worker import TimingFailed, expect_ok

from grader import native, race, stopwatch
from grader.cases import fixed_case
from grader.evidence import VariantEvidence
from grader.instruments import bench
from grader.native import Program
from grader.sandbox import Sandbox
from grader.session import Session
from grader.spec import Variant, load_all
from grader.status import Status
from grader.task import Task
from grader.timing import kernels, lanes, measure, programs
from grader.worker.protocol import Code, Reply
from tests.grader.clocked import without_doubts
from tests.grader.native import compile_plain_host

EXERCISE = load_all()["silu"]
SOLUTION = Path(__file__).resolve().parents[2] / "reference" / "silu.cu"
N = 3000
MOVED = 2 * 4 * N

# Entries beside the solution's, one for each way to fail under the clock.
FAILING = """
__global__ void all_but(const float* input, float* output, int n, int left_out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && i != left_out) output[i] = input[i] / (1.0f + expf(-input[i]));
}

extern "C" void leaves_one_out(const float* input, float* output, int n) {
    all_but<<<(n + 255) / 256, 256>>>(input, output, n, n / 2);
}

extern "C" void writes_past_the_end(const float* input, float* output, int n) {
    all_but<<<(n + 256) / 256, 256>>>(input, output, n + 1, -1);
}

extern "C" void is_wrong(const float* input, float* output, int n) {
    all_but<<<(n + 255) / 256, 256>>>(input + 1, output, n - 1, -1);
    all_but<<<1, 1>>>(input, output + n - 1, 1, -1);
}

extern "C" void never_returns(const float* input, float* output, int n) {
    volatile int forever = 1;
    while (forever) {}
}

extern "C" void ends_the_process(const float* input, float* output, int n) { __builtin_trap(); }

extern "C" void launches_too_much(const float* input, float* output, int n) {
    all_but<<<1, 4096>>>(input, output, n, -1);
}
"""
ENTRIES = (
    *("silu", "leaves_one_out", "writes_past_the_end", "is_wrong"),
    *("never_returns", "ends_the_process", "launches_too_much"),
)

needs_emulator = pytest.mark.skipif(
    bool(native.why_not("emulator")), reason=native.why_not("emulator")
)
needs_nvcc = pytest.mark.skipif(bool(native.why_not("gpu")), reason=native.why_not("gpu"))
BACKENDS = [
    pytest.param("plain", marks=needs_emulator),
    pytest.param("gpu", marks=[pytest.mark.gpu, needs_nvcc]),
]


def with_a_case(n: int, *yardsticks: str) -> Variant:
    """The CUDA variant with something to time it by."""
    before = EXERCISE.variants["triton"].performance
    kind = type(before.thresholds[0])
    thresholds = tuple(
        kind.model_validate({"speed_vs": name, "at_least": 0.001, "points": 1})
        for name in yardsticks
    )
    case = {"n": n, "dtype": "float32"}
    performance = before.model_copy(update={"case": case, "thresholds": thresholds})
    return EXERCISE.variants["cuda"].model_copy(update={"performance": performance})


VARIANT = with_a_case(N, "torch")
CASE = fixed_case(EXERCISE, VARIANT, VARIANT.performance.case, 7)


@pytest.fixture(scope="module")
def plain_program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The tests' program: the solution and the entries that fail, on the CPU."""
    return compile_plain_host(tmp_path_factory.mktemp("plain")).read_bytes()


@pytest.fixture
def plain(plain_program: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is compiled becomes that."""

    class Building:
        def __init__(self, sandbox: Sandbox, name: str, *_: object, **__: object) -> None:
            self.held = sandbox.hold(f"{name}-plain", plain_program, program=True)

        def finish(self) -> Program:
            return Program(self.held, "gpu")

    monkeypatch.setattr(native, "begin", Building)
    programs._compiled.cache_clear()
    yield
    programs._compiled.cache_clear()


@pytest.fixture(scope="module", params=BACKENDS)
def built(
    request: pytest.FixtureRequest, plain_program: bytes
) -> Iterator[tuple[Sandbox, Program]]:
    """The solution, with entries that fail beside it."""
    backend = request.param
    if backend == "plain":
        with Sandbox("emulator", native=True) as sandbox:
            yield sandbox, Program(sandbox.hold("plain", plain_program, program=True), "gpu")
        return
    native.prepare()
    kinds = native.signature(EXERCISE, VARIANT)
    with Sandbox("cuda", native=True) as sandbox:
        data = SOLUTION.read_bytes() + FAILING.encode()
        entries = [(name, kinds) for name in ENTRIES]
        program = native.build(sandbox, "timed.cu", data, entries, backend)
        assert program.path is not None and not program.problems, program
        yield sandbox, program


@contextlib.contextmanager
def standing_by(
    built: tuple[Sandbox, Program], entry: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TimedPairs]:
    monkeypatch.setattr(lanes, "SETS", (4,))
    sandbox, program = built
    variant = VARIANT.model_copy(update={"entry": entry})
    with contextlib.ExitStack() as opened:
        yield lanes.candidate(sandbox, EXERCISE, variant, CASE, program.path, opened)


def test_an_honest_program_gives_pairs_and_everything_of_it_is_right(built, monkeypatch):
    with standing_by(built, "silu", monkeypatch) as candidate:
        candidate.settle()
        found = [candidate.pair() for _ in range(3)]
    for pair in found:
        assert 1 <= pair.short_calls < pair.long_calls <= 4
        assert 0 < pair.inside_seconds < pair.long_seconds


@pytest.mark.parametrize(
    ("entry", "statuses", "told"),
    [
        ("leaves_one_out", {Status.not_written}, "in a timed call"),
        ("is_wrong", {Status.wrong_values}, "in a timed call"),
        ("writes_past_the_end", {Status.wrote_out_of_bounds}, "in a timed call"),
        ("ends_the_process", {Status.crashed}, "killed by SIGILL"),
        pytest.param(
            *("launches_too_much", {Status.launch_error}, "in a timed call"),
            marks=[pytest.mark.gpu, needs_nvcc],
        ),
    ],
)
def test_what_fails_under_the_clock_has_its_status(built, monkeypatch, entry, statuses, told):
    if entry == "launches_too_much" and built[1].path.name == "plain":
        pytest.skip("the program without a GPU launches nothing")
    with (
        pytest.raises(TimingFailed) as caught,
        standing_by(built, entry, monkeypatch) as candidate,
    ):
        candidate.settle()
        candidate.pair()
    assert caught.value.status in statuses, caught.value
    assert told in str(caught.value)


def test_a_program_that_never_answers_is_given_up(built, monkeypatch):
    monkeypatch.setattr(TimedPairs, "_limit", lambda self, count: 0.3)
    with (
        pytest.raises(TimingFailed) as caught,
        standing_by(built, "never_returns", monkeypatch) as candidate,
    ):
        candidate.settle()
    assert caught.value.status is Status.timed_out


def test_its_kernels_are_not_listed_and_it_is_said_why(built, monkeypatch):
    with standing_by(built, "silu", monkeypatch) as candidate:
        candidate.settle()
        answer = candidate.profiled()
    seen = kernels.listed(answer, EXERCISE, VARIANT, built[1].path)
    assert seen == kernels.Listed(unlisted="kernels of a CUDA C++ program are not listed")


@needs_emulator
@pytest.mark.parametrize("name", ["copy", "torch", "reference"])
def test_it_has_the_yardsticks_that_a_python_file_has(name, python_sandbox, plain, monkeypatch):
    monkeypatch.setattr(lanes, "SETS", (4,))
    with contextlib.ExitStack() as opened:
        lane = lanes.yardstick(python_sandbox, name, EXERCISE, VARIANT, CASE, MOVED, opened).ready()
        lane.settle()
        pair = lane.pair()
    assert 0 < pair.inside_seconds < pair.long_seconds


@needs_emulator
def test_a_reference_that_does_not_compile_is_nobodys_fault(monkeypatch, tmp_path, python_sandbox):
    (tmp_path / VARIANT.file).write_text('extern "C" void silu() { nothing; }\n')
    monkeypatch.setattr(lanes, "REFERENCE", tmp_path)
    with contextlib.ExitStack() as opened, pytest.raises(TimingFailed) as caught:
        lanes.yardstick(python_sandbox, "reference", EXERCISE, VARIANT, CASE, MOVED, opened)
    assert caught.value.status is Status.not_measured and "silu.cu" in str(caught.value)


@pytest.fixture
def noisy(monkeypatch) -> None:
    """Over the CPU no two clocks agree, and no request costs what another does."""
    without_doubts(monkeypatch, 2)


@needs_emulator
def test_a_program_is_timed_from_the_request_to_the_evidence(noisy, plain):
    budget = race.Budget(seconds=60.0, pairs=2)
    variant = with_a_case(N, "torch", "reference")
    with contextlib.ExitStack() as opened:
        data = SOLUTION.read_bytes()
        sandbox, path = programs.start(EXERCISE, variant, data, "emulator", opened)
        seen = measure.measure(sandbox, EXERCISE, variant, path, 7, budget=budget, profile=True)
    assert seen.status is Status.passed, seen
    assert {each.name for each in seen.yardsticks} == {"copy", "torch", "reference"}
    assert seen.microseconds > 0 and seen.samples == 2
    assert seen.kernels == () and "are not listed" in seen.unlisted


# --- answers ------------------------------------------------------------------------------------


def finding(kind: str, **fields: object) -> dict:
    return {"kind": kind, **fields}


def answer(code: Code, **fields: object) -> Reply:
    return Reply(1, code, json.dumps(fields))


@pytest.mark.parametrize(
    ("reply", "status", "told"),
    [
        (
            answer(Code.found, findings=[finding("leak"), finding("misaligned"), finding("race")]),
            Status.out_of_memory,
            "in a timed call",
        ),
        (answer(Code.found, findings=[]), Status.crashed, "makes no sense"),
        (answer(Code.found, findings=[finding("none of these")]), Status.crashed, "no sense"),
        (answer(Code.not_modelled, message="a\x1b[2Jgraph"), Status.not_measured, "graph"),
        (
            answer(Code.device_failed, type="cudaErrorIllegalAddress", message="an\nillegal one"),
            Status.crashed,
            "failed: cudaErrorIllegalAddress: an illegal one$",
        ),
        (answer(Code.out_of_memory), Status.not_measured, "too little memory"),
    ],
)
def test_what_a_program_says_of_its_end_is_read_as_a_strangers_word(reply, status, told):
    with pytest.raises(TimingFailed, match=told) as caught:
        expect_ok(reply)
    assert caught.value.status is status and "\x1b" not in str(caught.value)


# --- in a grade and in a bench --------------------------------------------------------------------


def of_silu(variant: Variant) -> dict:
    return {"silu": EXERCISE.model_copy(update={"variants": {"cuda": variant}})}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "silu.cu").write_bytes(SOLUTION.read_bytes())
    return tmp_path


def test_without_a_compiler_for_the_gpu_it_is_not_measured(folder, monkeypatch):
    monkeypatch.setattr(native, "why_not", lambda backend: f"no compiler for the {backend}")
    exercises = of_silu(VARIANT)
    with Session(folder, exercises, device="cuda") as session:
        exercise, variant = exercises["silu"], VARIANT
        evidence = session.unseen(exercise, variant)
        seen = session.alone(exercise, variant, evidence).performance
        assert (seen.status, seen.reason) == (Status.not_measured, "no compiler for the gpu")
        refused = bench.why_not(session, exercise, variant)
        assert refused == (Status.not_measured, "no compiler for the gpu")


@needs_emulator
def test_a_grade_times_the_program_whose_correctness_it_checked(folder, monkeypatch):
    handed: list[tuple] = []
    monkeypatch.setattr(stopwatch, "measure", lambda *what, **_: handed.append(what))
    exercises = of_silu(VARIANT)
    exercise = exercises["silu"]
    with Session(folder, exercises, device="interpreter") as session:
        [runner] = session.runners.of(Task(exercise, VARIANT))
        monkeypatch.setattr(session, "device", "cuda")
        monkeypatch.setattr(stopwatch, "backend_on", lambda device: "emulator")
        alone_on = "grader.session.gpu_turns.alone_on"
        monkeypatch.setattr(alone_on, lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(VariantEvidence, "correctness", Status.passed)
        session.alone(exercise, VARIANT, session.unseen(exercise, VARIANT))
        [(sandbox, _, variant, path, seed)] = handed
        assert (sandbox, path) == (runner.sandbox, runner.program.path)
        assert sandbox.native and (variant, seed) == (VARIANT, session.seed)


@needs_emulator
def test_what_does_not_compile_for_the_clock_is_told(folder, monkeypatch):
    exercises = of_silu(VARIANT)
    (folder / "silu.cu").write_text('extern "C" void silu(float* x) { x = nullptr; }\n')
    with Session(folder, exercises, device="interpreter") as session:
        with pytest.raises(TimingFailed) as caught:
            session.stopwatch.file(exercises["silu"], VARIANT)
        assert caught.value.status is Status.compile_error
        [seen] = bench.run(session, session.sandbox, [(exercises["silu"], VARIANT)])
        assert seen.evidence.status is Status.compile_error and seen.size is None


@needs_emulator
def test_a_bench_times_it_beside_the_solution(folder, python_sandbox, noisy, plain, monkeypatch):
    monkeypatch.setattr(bench, "YARDSTICKS", ("copy", "reference"))
    exercises = of_silu(VARIANT)
    budget = race.Budget(seconds=60.0, pairs=2)
    with Session(folder, exercises, device="interpreter", sandbox=python_sandbox) as session:
        chosen = [(exercises["silu"], VARIANT)]
        seen = list(bench.run(session, python_sandbox, chosen, [500], budget=budget))
    assert [(each.size, each.evidence.status) for each in seen] == [
        (N, Status.passed),
        (500, Status.passed),
    ]
    assert {each.name for each in seen[0].evidence.yardsticks} == {"copy", "reference"}


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_nvcc
def test_on_a_gpu_the_solution_is_as_fast_as_itself_and_torch():
    variant = with_a_case(2**26, "torch", "reference")
    with contextlib.ExitStack() as opened:
        sandbox, path = programs.start(EXERCISE, variant, SOLUTION.read_bytes(), "gpu", opened)
        seen = measure.measure(sandbox, EXERCISE, variant, path, 7, profile=True)
    assert seen.status is Status.passed, seen
    ratios = {each.name: each.ratio for each in seen.yardsticks}
    assert set(ratios) == {"copy", "torch", "reference"}
    assert ratios["reference"] == pytest.approx(1.0, abs=0.03), seen
    # The lesson's kernel loads 4 bytes per thread: on an H100 it had 0.75 of torch's speed, which
    # is a copy's there.
    assert 0.6 < ratios["torch"] < 1.1 and 0.6 < ratios["copy"] < 1.1, seen
    assert seen.kernels == () and "are not listed" in seen.unlisted

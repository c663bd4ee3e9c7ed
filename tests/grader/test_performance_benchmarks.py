"""tests/test_performance.py: what students get of it with a GPU and without, run over the CPU."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import tests.test_performance as target
from grader.cases import fixed_case
from grader.grade import Session
from grader.instruments import rounds
from grader.spec import load_all
from grader.status import Status
from grader.timing import lanes, pairs
from grader.timing.pairs import FixedCost, Pair
from grader.timing.worker import TimingFailed
from tests.grader.small_exercise import ROOT

EXERCISES = load_all()
SOLUTION = (ROOT / "reference" / "rmsnorm.py").read_text()
SMALL = {"rows": 2, "cols": 64, "dtype": "float32"}

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the file in this process, as pytest is run; its exit status and what it prints."""
    # Or, beside others, the plugin would switch itself off.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    # Loading all plugins, and collecting garbage at the end, takes longer than the rest.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ("-p", "pytest_benchmark.plugin", "-p", "no:unraisableexception")

    def run_(*words: object) -> SimpleNamespace:
        file = str(ROOT / "tests" / "test_performance.py")
        code = pytest.main([file, *plugins, *map(str, words)])
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out + captured.err)

    return run_


@pytest.fixture
def on_the_cpu(monkeypatch: pytest.MonkeyPatch, python_sandbox) -> None:
    """As if there were something to time here: small cases, few rounds, one sandbox for all."""
    monkeypatch.setattr(rounds, "why_none", lambda: "")
    monkeypatch.setattr(rounds, "case_of", lambda e, v, seed: fixed_case(e, v, SMALL, seed))
    monkeypatch.setattr(rounds, "ROUNDS", 3)
    monkeypatch.setattr(rounds, "PAIRS", 2)
    monkeypatch.setattr(lanes, "SETS", (4,))
    # Beside other tests a long run may take less than a short one.
    by_length = lambda pair, fixed: pair.long_seconds / pair.long_calls  # noqa: E731
    monkeypatch.setattr(rounds, "credited", by_length)
    monkeypatch.setattr(target, "Session", partial(Session, sandbox=python_sandbox))
    trusted = lambda *_: contextlib.nullcontext(python_sandbox)  # noqa: E731
    monkeypatch.setattr(target, "Sandbox", trusted)


def submission(folder: Path, source: str = SOLUTION) -> Path:
    folder.mkdir()
    (folder / "rmsnorm.py").write_text(source)
    return folder


def test_without_a_gpu_all_is_skipped_with_the_reason(run, monkeypatch):
    monkeypatch.setattr(rounds.machine, "gpu_name", lambda: None)
    ran = run("-k", "rmsnorm")
    assert ran.code == 0
    assert "timing needs an NVIDIA GPU; there is none here" in ran.out
    assert "4 skipped" in ran.out and "not used at all" not in ran.out


def test_a_group_has_the_student_the_solution_torch_and_torch_compile(monkeypatch):
    every = [each.id for each in target.KERNELS if each.id.startswith("softmax-")]
    kernels = ("student", "reference", "torch", "torch.compile")
    assert every == [f"softmax-triton-{kernel}" for kernel in kernels]
    # Where the solutions aren't, as with students, there is none to time.
    monkeypatch.setattr(lanes, "REFERENCE", ROOT / "nowhere")
    variant = EXERCISES["softmax"].variants["triton"]
    assert rounds.kernels_of(variant) == ["student", "torch", "torch.compile"]


def test_rounds_are_compared_stored_and_written_as_json(run, on_the_cpu, tmp_path):
    folder = submission(tmp_path / "mine")
    storage = f"--benchmark-storage=file://{tmp_path / 'storage'}"
    words = (f"--submission={folder}", storage, "-q", "-k")
    file = tmp_path / "now.json"
    ran = run(*words, "rmsnorm and not compile", "--benchmark-autosave", f"--benchmark-json={file}")
    assert ran.code == 0, ran.out
    assert "'rmsnorm/triton (4 calls a round)': 3 tests" in ran.out
    found = {each["param"]: each for each in json.loads(file.read_text())["benchmarks"]}
    names = [f"rmsnorm-triton-{kernel}" for kernel in ("student", "reference", "torch")]
    assert sorted(found) == sorted(names)
    for each in found.values():
        assert each["stats"]["rounds"] == 3
        told = each["extra_info"]
        assert told["calls_per_round"] == 4
        low, per_call, high = (told[f"microseconds_{key}"] for key in ("low", "per_call", "high"))
        assert 0 < low <= per_call <= high
        assert told["case"].startswith("rows=2 cols=64 dtype=float32 ")
    ran = run(*words, "rmsnorm-triton-torch and not compile", "--benchmark-compare")
    assert ran.code == 0, ran.out
    assert "Comparing against benchmarks from" in ran.out
    assert "rmsnorm-triton-torch] (0001" in ran.out and "rmsnorm-triton-torch] (NOW)" in ran.out


@pytest.mark.parametrize(
    ("source", "code", "told"),
    [
        (
            (ROOT / "assignment" / "rmsnorm.py").read_text(),
            0,
            "rmsnorm/triton: not attempted: rmsnorm() is still the stub",
        ),
        (
            SOLUTION.replace("/ n_cols + eps", "/ n_cols + 2 * eps + 0.01"),
            1,
            "rmsnorm/triton (student): wrong values: in a timed call: out[",
        ),
    ],
)
def test_what_can_not_be_timed_of_a_student_is_told(run, on_the_cpu, tmp_path, source, code, told):
    ran = run(f"--submission={submission(tmp_path / 'mine', source)}", "-k", "rmsnorm and student")
    assert ran.code == code
    assert told in " ".join(ran.out.split())
    assert "Traceback" not in ran.out and "not used at all" not in ran.out


def test_an_ordinary_pytest_runs_no_benchmarks(monkeypatch):
    monkeypatch.chdir(ROOT)
    seen = []
    collects = SimpleNamespace(pytest_collection_finish=lambda session: seen.extend(session.items))
    assert pytest.main(["--collect-only", "-q", "-k", "rmsnorm"], plugins=[collects]) == 0
    assert seen and {item.path.name for item in seen} == {"test_assignment.py"}


class Lane:
    """A worker's pairs, made up: `fixed` seconds beside 10 us for each call."""

    most_calls = 32

    def __init__(self, fixed: float) -> None:
        self._fixed = fixed

    def pair(self) -> Pair:
        return Pair(self._fixed + 160e-6, self._fixed + 40e-6, 16, 4)


def test_the_time_of_a_call_is_what_the_clock_credits():
    fixed = FixedCost()
    fixed.add(Lane(30e-6).pair())
    assert rounds.Rounds(Lane(30e-6), fixed).seconds_per_call().median == pytest.approx(10e-6)
    sleeping = rounds.Rounds(Lane(30e-6 + 2 * pairs.SLACK_SECONDS), fixed)
    with pytest.raises(TimingFailed, match="most timed pairs are void: its requests cost") as seen:
        sleeping.seconds_per_call()
    assert seen.value.status is Status.not_measured
    assert rounds.Rounds(Lane(1.0), None).seconds_per_call().median == pytest.approx(10e-6)
    assert rounds.Rounds(Lane(0.0), None).calls == rounds.CALLS

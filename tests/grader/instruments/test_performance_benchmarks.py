"""tests/test_performance.py: what students get of it with a GPU and without, run over the CPU."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import tests.test_performance as target
from grader.cases import fixed_case
from grader.grading.session import Options, Session
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import contenders
from grader.timing.failures import TimingFailed
from grader.timing.submission import Stopwatch
from tests.support.clocked import RMSNORM, InPython
from tests.support.small_exercise import ROOT

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
def on_the_cpu(monkeypatch: pytest.MonkeyPatch, python_sandbox) -> Callable[[str], None]:
    """As if there were something to time here: small cases, few rounds, one sandbox for all.

    Of the submission, and of the staff's solution, a function of torch's is timed.
    """

    def use(source: str = RMSNORM) -> None:
        of = lambda text: lambda _, task: InPython.of(python_sandbox, task, text)  # noqa: E731
        monkeypatch.setattr(Stopwatch, "planned", of(source))
        monkeypatch.setattr(Stopwatch, "reference", of(RMSNORM))

    monkeypatch.setattr(target, "why_none", lambda: "")
    monkeypatch.setattr(target, "case_of", lambda e, v, seed: fixed_case(Task(e, v), SMALL, seed))
    monkeypatch.setattr(target, "ROUNDS", 3)
    monkeypatch.setattr(contenders, "MOST_BUFFER_SETS", 4)
    monkeypatch.setattr(target, "Session", partial(Session, options=Options(device="cpu")))
    trusted = lambda *_: contextlib.nullcontext(python_sandbox)  # noqa: E731
    monkeypatch.setattr(target, "Sandbox", trusted)
    use()
    return use


def submission(folder: Path, source: str = SOLUTION) -> Path:
    folder.mkdir()
    (folder / "rmsnorm.py").write_text(source)
    return folder


def test_without_a_gpu_all_is_skipped_with_the_reason(run, monkeypatch):
    monkeypatch.setattr(target.machine, "gpu_name", lambda: None)
    ran = run("-k", "rmsnorm-triton")
    assert ran.code == 0
    assert "timing needs an NVIDIA GPU; there is none here" in ran.out
    assert "4 skipped" in ran.out and "not used at all" not in ran.out


def test_a_group_has_the_student_the_solution_torch_and_torch_compile():
    every = [each.id for each in target.KERNELS if each.id.startswith("softmax-triton-")]
    kernels = ("student", "reference", "torch", "torch.compile")
    assert every == [f"softmax-triton-{kernel}" for kernel in kernels]
    # Where the solutions aren't, as with students, there is none to time.
    softmax = EXERCISES["softmax"].model_copy()
    softmax.belongs_to(ROOT / "nowhere")
    task = Task(softmax, softmax.variants["triton"])
    assert target.kernels_of(task) == ["student", "torch", "torch.compile"]


def test_rounds_are_compared_stored_and_written_as_json(run, on_the_cpu, tmp_path):
    folder = submission(tmp_path / "mine")
    storage = f"--benchmark-storage=file://{tmp_path / 'storage'}"
    words = (f"--submission={folder}", storage, "-q", "-k")
    file = tmp_path / "now.json"
    ran = run(
        *words, "rmsnorm-triton and not compile", "--benchmark-autosave", f"--benchmark-json={file}"
    )
    assert ran.code == 0, ran.out
    assert re.search(r"'rmsnorm/triton \(\d calls a round\)': 3 tests", ran.out)
    found = {each["param"]: each for each in json.loads(file.read_text())["benchmarks"]}
    names = [f"rmsnorm-triton-{kernel}" for kernel in ("student", "reference", "torch")]
    assert sorted(found) == sorted(names)
    for each in found.values():
        assert each["stats"]["rounds"] == 3
        told = each["extra_info"]
        assert 1 <= told["calls_per_round"] <= 4
        low, per_call, high = (told[f"microseconds_{key}"] for key in ("low", "per_call", "high"))
        assert 0 < low <= per_call <= high
        assert told["case"].startswith("rows=2 cols=64 dtype=float32 ")
    ran = run(*words, "rmsnorm-triton-torch and not compile", "--benchmark-compare")
    assert ran.code == 0, ran.out
    assert "Comparing against benchmarks from" in ran.out
    assert "rmsnorm-triton-torch] (0001" in ran.out and "rmsnorm-triton-torch] (NOW)" in ran.out


def test_what_is_not_attempted_is_skipped(run, on_the_cpu, tmp_path):
    stub = (ROOT / "assignment" / "rmsnorm.py").read_text()
    ran = run(f"--submission={submission(tmp_path / 'mine', stub)}", "-k", "rmsnorm and student")
    assert ran.code == 0
    assert "rmsnorm/triton: not attempted: rmsnorm() is still the stub" in " ".join(ran.out.split())
    assert "Traceback" not in ran.out and "not used at all" not in ran.out


def test_a_wrong_output_in_any_round_fails(run, on_the_cpu, tmp_path):
    on_the_cpu(RMSNORM.replace("+ eps)", "+ 2 * eps + 0.01)"))
    ran = run(f"--submission={submission(tmp_path / 'mine')}", "-k", "rmsnorm and student")
    assert ran.code == 1
    told = "rmsnorm/triton (student): wrong values: in a timed call: out["
    assert told in " ".join(ran.out.split())
    assert "Traceback" not in ran.out and "not used at all" not in ran.out


def test_an_ordinary_pytest_runs_no_benchmarks(monkeypatch):
    monkeypatch.chdir(ROOT)
    seen = []
    collects = SimpleNamespace(pytest_collection_finish=lambda session: seen.extend(session.items))
    assert pytest.main(["--collect-only", "-q", "-k", "rmsnorm"], plugins=[collects]) == 0
    assert seen and {item.path.name for item in seen} == {"test_assignment.py"}


class Stands:
    """Replays, made up: 4 calls of 10 us each; the third one is wrong."""

    calls = 4

    def __init__(self) -> None:
        self.asked: list[str] = []

    def prepare(self) -> None:
        self.asked.append("prepare")

    def replay(self) -> float:
        self.asked.append("replay")
        return 40e-6

    def finish(self) -> None:
        self.asked.append("finish")
        if self.asked.count("finish") == 3:
            raise TimingFailed("in a timed call: out[0] is 1", Status.wrong_values)


def test_every_round_is_judged_once_before_the_next_one_or_in_the_end():
    timed = target.Rounds(replays := Stands())
    for _ in range(2):
        timed.prepare()
        timed.run()
    timed.finish()
    timed.finish()
    assert replays.asked == ["prepare", "replay", "finish"] * 2
    assert timed.seconds_per_call().median == pytest.approx(10e-6)
    timed.prepare()
    timed.run()
    with pytest.raises(TimingFailed, match="in a timed call"):
        timed.prepare()

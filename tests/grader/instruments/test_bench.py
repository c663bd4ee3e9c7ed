"""`grader bench` times what there is to time, says what it isn't, and keeps what was done."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch
import typer
from rich.console import Console

from grader.cases import Case
from grader.cli import bench_command
from grader.evidence import Baseline, PerformanceEvidence
from grader.gpu.roofline import Roofs, peaks
from grader.grading.session import Options, Session, selected
from grader.instruments import bench, bench_report, plots
from grader.instruments.bench import NO_GPU, Timed, parse, plan, scaled_names, with_a_case
from grader.mistakes import Mistake
from grader.spec import Exercise, load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import sequential
from grader.timing.failures import TimingFailed
from grader.timing.submission import Stopwatch
from tests.support.clocked import RMSNORM, InPython, without_doubts
from tests.support.commandline import call
from tests.support.small_exercise import ROOT

EXERCISES = load_all()
ROOFS = Roofs(2957e9, {"bfloat16": 792e12}, is_measured=True)


def variant_of(name: str):
    exercise, _, variant = name.partition("/")
    return EXERCISES[exercise], EXERCISES[exercise].variants[variant]


# --- which sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "scaled", "sizes"),
    [
        ("silu/triton", ("n",), [2**26, 2**23, 2**24, 2**25, 2**27]),
        ("rmsnorm/triton", ("rows", "cols"), [8192, 1024, 2048, 4096, 16384]),
        ("flash_attention/triton", ("N_CTX", "N_KV"), [4096, 512, 1024, 2048, 8192]),
        ("gemm/triton_v3", ("M", "N", "K"), [4096, 512, 1024, 2048, 8192]),
    ],
)
def test_the_case_comes_first_and_then_an_eighth_to_twice_its_largest_size(name, scaled, sizes):
    exercise, variant = variant_of(name)
    assert scaled_names(Task(exercise, variant)) == scaled
    planned = plan(Task(exercise, variant))
    assert [each.size for each in planned] == sizes
    assert [each.is_scored for each in planned] == [True, False, False, False, False]
    first = variant.performance.every_case[0]
    for each in planned:
        assert {k: v for k, v in each.given.items() if k not in scaled} == {
            k: v for k, v in first.items() if k not in scaled
        }
        assert all(each.given[size] == each.size for size in scaled)


def test_of_several_cases_all_are_timed_and_the_first_is_varied():
    exercise, variant = variant_of("gemm/triton_v4")
    planned = plan(Task(exercise, variant))
    assert [p.given for p in planned if p.is_scored] == list(variant.performance.every_case)
    assert [p.size for p in planned] == [4096, None, None, None, None, None, 512, 1024, 2048, 8192]


def test_sizes_given_by_hand_stand_in_for_those_derived():
    exercise, variant = variant_of("rmsnorm/triton")
    assert [p.size for p in plan(Task(exercise, variant), [300, 8192, 300])] == [8192, 300]
    assert parse("300, 8192") == [300, 8192]


@pytest.mark.parametrize("text", ["", "0", "-1", "1e3", "12,", "²", "9" * 20])
def test_sizes_that_are_none_are_told(text):
    with pytest.raises(Mistake, match="expected whole numbers from 1 on"):
        parse(text)


# --- what is refused ------------------------------------------------------------------------------


def test_without_a_gpu_one_line_says_so(capsys, monkeypatch):
    monkeypatch.setattr(bench_command.machine, "gpu_name", lambda: None)
    done = call(capsys, "bench", "rmsnorm", "--submission", ROOT / "assignment")
    assert (done.code, done.out, done.err) == (0, f"{NO_GPU}\n", "")


def test_a_course_without_a_performance_case_says_so():
    task = Task(EXERCISES["copy_first_column"], EXERCISES["copy_first_column"].variants["cuda"])
    with pytest.raises(Mistake, match="case, and no exercise has one: see docs/spec"):
        bench.with_a_case([task], [task])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["copy_first_column"],
            "copy_first_column/cuda: expected a variant with a performance case: gelu/triton",
        ),
        (["gemm/torch_v0"], "gemm/torch_v0: expected a variant with a performance case"),
        (["rmsnrom"], "rmsnrom: expected the name of an exercise"),
        (["rmsnorm", "--sizes", "8,x"], "--sizes: expected whole numbers from 1 on, as in"),
        (["rmsnorm", "--submission", "nowhere"], "nowhere: expected a folder like assignment/"),
        (["rmsnorm", "--json", "nowhere/x.json"], "nowhere/x.json: expected a folder that exists"),
    ],
)
def test_a_mistake_of_the_user_is_one_line(capsys, words, told):
    done = call(capsys, "bench", *words)
    assert done.code == 2 and not done.out
    assert done.err.startswith(told) and done.err.count("\n") == 1, done.err


def test_variants_that_have_no_case_are_passed_over_where_others_have_one():
    every = selected(EXERCISES)
    names = [each.variant.name for each in with_a_case(selected(EXERCISES, ["gemm"]), every)]
    assert names == [*(f"triton_v{rung}" for rung in (1, 2, 3, 4)), "cuda_tiled"]
    with pytest.raises(Mistake, match="silu/triton"):
        with_a_case(selected(EXERCISES, ["copy_first_column"]), every)


def submission(folder: Path, source: str | None) -> Path:
    folder.mkdir()
    if source is not None:
        (folder / "rmsnorm.py").write_text(source)
    return folder


SOLUTION = (ROOT / "reference" / "rmsnorm.py").read_text()


@pytest.mark.parametrize(
    ("source", "status", "reason"),
    [
        (None, Status.not_attempted, "there is no rmsnorm.py"),
        ("\n", Status.not_attempted, "the file is empty"),
        (
            (ROOT / "assignment" / "rmsnorm.py").read_text(),
            Status.not_attempted,
            "rmsnorm() is still the stub",
        ),
    ],
)
def test_what_a_grade_would_not_run_is_not_timed(tmp_path, monkeypatch, source, status, reason):
    monkeypatch.setattr(bench, "measure_case", lambda *_, **__: pytest.fail("it was run"))
    folder = submission(tmp_path / "mine", source)
    with Session(folder, EXERCISES, Options(device="cpu")) as session:
        [seen] = bench.run(session, session.sandbox, [Task(*variant_of("rmsnorm/triton"))])
    assert seen.evidence.status is status
    assert seen.evidence.reason.startswith(reason)


def test_what_breaks_a_rule_is_not_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "measure_case", lambda *_, **__: pytest.fail("it was run"))
    folder = submission(tmp_path / "mine", None)
    solution = (ROOT / "reference" / "rmsnorm.cu").read_text()
    (folder / "rmsnorm.cu").write_text(solution + "\n#include <fstream>\nstd::ofstream kept;\n")
    exercise, timed = variant_of("rmsnorm/triton")
    in_cuda = exercise.variants["cuda_vector"]
    variant = in_cuda.model_copy(update={"performance": timed.performance})
    with Session(folder, EXERCISES, Options(device="emulator")) as session:
        [seen] = bench.run(session, session.sandbox, [Task(exercise, variant)])
    assert seen.evidence.status is Status.policy_violation
    assert seen.evidence.reason.startswith("rmsnorm.cu:")


# --- over the CPU ---------------------------------------------------------------------------------


@pytest.fixture
def planned(monkeypatch, python_sandbox) -> Callable[[str], None]:
    """What is timed of the submission: a function of torch's, where no plan can be."""

    def use(source: str) -> None:
        of = lambda _, task: InPython.of(python_sandbox, task, source)  # noqa: E731
        monkeypatch.setattr(Stopwatch, "planned", of)

    return use


@pytest.fixture
def small(monkeypatch, planned) -> Iterator[dict[str, Exercise]]:
    """rmsnorm with a small case, few buffers, and nothing void beside other tests."""
    planned(RMSNORM)
    without_doubts(monkeypatch, 2)
    monkeypatch.setattr(bench, "BASELINES", ("copy", "torch"))  # compiling takes long
    exercise, variant = variant_of("rmsnorm/triton")
    case = {"rows": 2, "cols": 64, "dtype": "float32"}
    performance = variant.performance.model_copy(update={"case": case})
    changed = variant.model_copy(update={"performance": performance})
    yield {"rmsnorm": exercise.model_copy(update={"variants": {"triton": changed}})}


BUDGET = sequential.Budget(seconds=60.0, pairs=2)


def benched(
    exercises, folder: Path, python_sandbox, tmp_path: Path, sizes=(32,), **options
) -> Path:
    with Session(folder, exercises, Options(device="cpu")) as session:
        out = tmp_path / "out"
        bench_command.run(
            session,
            python_sandbox,
            selected(exercises),
            sizes,
            bench_command.Output(ROOFS, out, tmp_path / "bench.json"),
            BUDGET,
            **options,
        )
    return out


@pytest.fixture
def printed(monkeypatch) -> io.StringIO:
    """What is printed, in a window of 100 columns."""
    text = io.StringIO()
    window = Console(file=text, width=100, color_system=None)
    monkeypatch.setattr("grader.cli.console.console", window)
    monkeypatch.setattr(bench_command, "console", window)
    return text


def test_a_kernel_is_timed_over_sizes_and_leaves_tables_plots_and_json(
    small, python_sandbox, tmp_path, printed, monkeypatch
):
    pytest.importorskip("matplotlib")
    axes = {}  # without drawing them, which test_plots.py does

    def save(figure, stem: Path) -> tuple[Path]:
        axes[stem] = figure.axes[0].get_xlabel()
        return (stem.with_suffix(".png"),)

    monkeypatch.setattr(plots, "_save", save)
    here = lambda figures: [path for figure in figures for path in figure()]  # noqa: E731
    monkeypatch.setattr(plots, "draw_all", here)
    folder = submission(tmp_path / "mine", SOLUTION)
    out = benched(small, folder, python_sandbox, tmp_path)
    told = printed.getvalue()
    assert "rmsnorm/triton cols=64 " in told and "rmsnorm/triton cols=32 " in told
    assert "rmsnorm/triton rows=2 cols=64 float32: moves 1.02 kB in" in " ".join(told.split())
    assert "Your speed over each baseline's" in told
    stems = [out / f"rmsnorm-triton-{what}" for what in ("sizes", "roofline")]
    assert list(axes) == stems and axes[stems[0]] == "cols (rows = 2, float32)"
    assert all(f"{stem}.png" in told for stem in stems)
    found = json.loads((tmp_path / "bench.json").read_text())
    assert found["schema"] == 1 and found["roofs"]["is_measured"]
    assert [each["size"] for each in found["timings"]] == [64, 32]
    for each in found["timings"]:
        assert {y["name"] for y in each["evidence"]["baselines"]} == {"copy", "torch"}
        assert each["evidence"]["status"] == "passed"


def test_a_case_with_points_has_an_executor_of_its_own(
    small, python_sandbox, tmp_path, printed, monkeypatch
):
    shared: dict[int, object] = {}

    def seen(candidate: InPython, baselines: object, case: Case, options: object) -> Any:
        shared[case.size("cols")] = candidate.shared
        return TIMED.evidence

    monkeypatch.setattr(bench, "measure_case", seen)
    monkeypatch.setattr(bench_report, "figures", lambda *_: [])
    folder = submission(tmp_path / "mine", SOLUTION)
    benched(small, folder, python_sandbox, tmp_path, sizes=(16, 32))
    assert [*shared] == [64, 16, 32]
    assert shared[64] is None and shared[16] is shared[32] is not None


def test_a_wrong_output_under_the_clock_ends_it_with_its_message(
    small, planned, python_sandbox, tmp_path, printed
):
    planned(RMSNORM.replace("+ eps)", "+ 2 * eps + 0.01)"))
    out = benched(small, submission(tmp_path / "mine", SOLUTION), python_sandbox, tmp_path)
    told = " ".join(printed.getvalue().split())
    assert "rmsnorm/triton: wrong values: in a timed call: out[" in told
    assert not out.exists()
    [only] = json.loads((tmp_path / "bench.json").read_text())["timings"]
    assert only["evidence"]["status"] == "wrong_values"


# --- what is left of it ---------------------------------------------------------------------------

TIMED = Timed(
    "rmsnorm",
    "triton",
    8192,
    True,
    PerformanceEvidence(
        Status.passed,
        device="NVIDIA H100 80GB HBM3",
        case="rows=8192 cols=8192 dtype=bfloat16 seed=7",
        microseconds=93.1,
        microseconds_low=92.84,
        microseconds_high=93.42,
        bytes=268435456,
        baselines=(
            Baseline("torch", 140.0, 1.5, 1.48, 1.52),
            Baseline("copy", 91.0, 0.98, 0.97, 0.99),
            Baseline("reference", 92.0, 0.99, 0.98, 1.0),
            Baseline("compile", 93.0, 1.0, 0.99, 1.01),
        ),
    ),
)


class Interrupting:
    """measure_case, until somebody presses Ctrl-C during the second case."""

    def __init__(self) -> None:
        self.left = 1

    def __call__(self, *_, **__) -> PerformanceEvidence:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return TIMED.evidence


def test_what_was_done_before_an_interrupt_is_kept(
    small, python_sandbox, tmp_path, printed, monkeypatch
):
    monkeypatch.setattr(bench, "measure_case", Interrupting())
    monkeypatch.setattr(bench_report, "figures", lambda *_: [])
    folder = submission(tmp_path / "mine", SOLUTION)
    with pytest.raises(typer.Exit) as ended:
        benched(small, folder, python_sandbox, tmp_path)
    assert ended.value.exit_code == 130
    assert len(json.loads((tmp_path / "bench.json").read_text())["timings"]) == 1
    assert "interrupted: this is what was timed until then" in printed.getvalue()


def test_without_matplotlib_a_line_says_so_and_the_table_is_there(
    small, python_sandbox, tmp_path, printed, monkeypatch
):
    monkeypatch.setattr(bench, "measure_case", lambda *_, **__: TIMED.evidence)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    benched(small, submission(tmp_path / "mine", SOLUTION), python_sandbox, tmp_path)
    assert plots.MISSING in printed.getvalue()
    assert "93.1 us" in printed.getvalue()


def shown(timings, roofs=ROOFS) -> str:
    text = io.StringIO()
    bench_report.show(timings, roofs, Console(file=text, width=100, color_system=None))
    return text.getvalue()


def test_every_baseline_has_a_column_in_one_order():
    told = shown([TIMED])
    header, row = told.split("yours is faster:\n")[1].splitlines()[:2]
    assert header.split() == ["case", "copy", "torch", "compile", "reference"]
    assert row.split()[2:] == [
        *("0.98", "(0.97-0.99)", "1.50", "(1.48-1.52)"),
        *("1.00", "(0.99-1.01)", "0.99", "(0.98-1.00)"),
    ]
    assert max(map(len, told.splitlines())) <= 100


def test_only_cases_that_are_scored_are_explained_and_short_ones_are_marked():
    larger = replace(TIMED, size=16384, is_scored=False)
    told = shown([TIMED, larger])
    assert told.count("Next:") == 1
    assert bench_report.SHORT.split()[0] not in told.split()
    short = replace(TIMED.evidence, microseconds=12.0)
    assert "Below 50 us a time is" in shown([TIMED, replace(larger, evidence=short)])


def test_what_disturbed_a_timing_is_told():
    noted = replace(TIMED.evidence, disturbed="copy took 4.2% longer beside the kernel")
    told = shown([replace(TIMED, evidence=noted)])
    assert "rmsnorm/triton rows=8192 cols=8192: copy took 4.2% longer" in told
    noted = replace(TIMED.evidence, reason="compile is left out: it failed.")
    assert "cols=8192: compile is left out" in shown([replace(TIMED, evidence=noted)])


def test_baselines_are_curves_and_a_copy_is_none_where_something_is_computed(tmp_path, monkeypatch):
    drawn = []
    keep = lambda series, *_: drawn.append([each.name for each in series]) or ()  # noqa: E731
    monkeypatch.setattr(plots, "over_sizes", keep)
    monkeypatch.setattr(plots, "below_roofline", keep)
    computing = replace(TIMED, evidence=replace(TIMED.evidence, flops=4e9))
    other = replace(TIMED, size=None)
    for timed in (TIMED, computing):
        for figure in bench_report.figures([timed, other], EXERCISES, ROOFS, tmp_path):
            figure()
    every = ["yours", "copy", "torch", "compile", "reference"]
    computes = [each for each in every if each != "copy"]
    assert drawn == [every, every, computes, computes]


def test_failures_and_unknown_roofs_leave_no_plots(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "over_sizes", lambda *_: (tmp_path / "a",))
    failed = replace(TIMED, evidence=PerformanceEvidence(Status.crashed, "it ended"))
    assert bench_report.figures([failed], EXERCISES, ROOFS, tmp_path) == []
    [over_sizes] = bench_report.figures([TIMED], EXERCISES, None, tmp_path)
    assert over_sizes() == (tmp_path / "a",)


def test_roofs_are_the_measured_ones_where_they_are_kept_else_the_data_sheets(monkeypatch):
    gpu = SimpleNamespace(
        name="NVIDIA H100 80GB HBM3", uuid="GPU-1", clock_hz=0, memory_clock_hz=0, bus_bits=0
    )
    monkeypatch.setattr(bench.machine, "gpu_properties", lambda: gpu)
    monkeypatch.setattr(bench.nvml, "observe", lambda *_: SimpleNamespace(reason="no NVML"))
    monkeypatch.setattr(bench.measured_roofs, "load", lambda identity: None)
    assert bench.roofs_here() == peaks(gpu.name).roofs()
    monkeypatch.setattr(
        bench.measured_roofs, "load", lambda identity: SimpleNamespace(roofs=lambda: ROOFS)
    )
    assert bench.roofs_here() is ROOFS
    monkeypatch.setattr(bench.machine, "gpu_properties", lambda: None)
    assert bench.roofs_here() is None


class Failing(InPython):
    """A candidate that fails as it's begun."""

    error: Exception

    def executor(self, *_: object) -> Any:
        return SimpleNamespace(wait=lambda: None)

    def begin(self, *_: object, **__: object) -> NoReturn:
        raise self.error


def timed_with(error: Exception, exercises, python_sandbox, tmp_path, monkeypatch) -> list[Timed]:
    """What a bench shows of a kernel whose timing ends like this."""
    monkeypatch.setattr(Failing, "error", error, raising=False)
    failing = lambda _, task: Failing.of(python_sandbox, task, "")  # noqa: E731
    monkeypatch.setattr(Stopwatch, "planned", failing)
    monkeypatch.setattr(bench, "BASELINES", ())
    folder = submission(tmp_path / "mine", SOLUTION)
    with Session(folder, exercises, Options(device="cpu")) as session:
        return list(bench.run(session, python_sandbox, selected(exercises), [32]))


def test_a_size_that_the_gpu_has_no_memory_for_is_told_and_the_next_one_tried(
    small, python_sandbox, tmp_path, monkeypatch
):
    refused = torch.cuda.OutOfMemoryError("no")
    seen = timed_with(refused, small, python_sandbox, tmp_path, monkeypatch)
    assert [each.evidence.status for each in seen] == [Status.not_measured] * 2
    assert all("too little memory" in each.evidence.reason for each in seen)


def test_a_failure_of_one_variant_is_the_last_timing_of_it(
    small, python_sandbox, tmp_path, monkeypatch
):
    failure = TimingFailed("the timed run ended: timed out", Status.timed_out)
    seen = timed_with(failure, small, python_sandbox, tmp_path, monkeypatch)
    assert [each.evidence.status for each in seen] == [Status.timed_out]


def test_a_variant_without_a_plan_is_told(small, python_sandbox, tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise TimingFailed("it needs what has no answer", Status.crashed)

    monkeypatch.setattr(Stopwatch, "planned", none)
    folder = submission(tmp_path / "mine", SOLUTION)
    with Session(folder, small, Options(device="cpu")) as session:
        [seen] = bench.run(session, python_sandbox, selected(small), [32])
    assert (seen.evidence.status, seen.size) == (Status.crashed, None)
    assert seen.evidence.reason == "it needs what has no answer"

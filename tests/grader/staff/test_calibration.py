"""Thresholds from timings: what is proposed, what the lint says, and how it gets into a spec."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from grader.cli import calibrate
from grader.cli.console import console
from grader.evidence import Baseline, PerformanceEvidence
from grader.grading.session import selected
from grader.mistakes import Mistake
from grader.spec import EXERCISES as FOLDER
from grader.spec import Course, Exercise, Variant, load, load_all
from grader.spec.blocks import Threshold
from grader.spec.task import Task
from grader.staff.calibration import corpus, readings, timings
from grader.staff.calibration.lint import lint
from grader.staff.calibration.proposals import FULL, MARGIN, down, propose, up
from grader.staff.calibration.readings import LadderReadings, Readings, VariantReadings
from grader.staff.calibration.spec_edit import changed
from grader.status import Status
from tests.support.commandline import call
from tests.support.small_exercise import ROOT

LAB_PERFORMANCE = """\
    performance:
      case: {n: 33554432, dtype: float32}
      bytes: 2 * n * itemsize
      flops: 2 * n
      thresholds: [{speed_vs: copy, at_least: 0.5, points: 1, missed_by: [adds_twice]}]
"""
SLOW_IN_A_HEADER = """\
- name: adds_twice
  mistake: it adds where it could multiply
  handed_in: helper.cuh
  edits: [{old: 2.0f * x + 1.0f, new: 1.0f + x + x}]
  status: target_missed
  check: performance
"""
EXERCISES = load_all()
GPU = "NVIDIA H100 80GB HBM3"
RMSNORM = EXERCISES["rmsnorm"]
SHIPPED = RMSNORM.variants["triton"].performance.thresholds[0].at_least  # of a copy
TIMED = [
    (exercise, variant)
    for exercise in EXERCISES.values()
    for variant in exercise.variants.values()
    if variant.is_graded_on_speed
]


def baseline(name: str, ratio: float, width: float = 0.01) -> Baseline:
    return Baseline(name, 100.0, ratio, ratio * (1 - width), ratio * (1 + width))


def timing(**ratios: float) -> PerformanceEvidence:
    """A timing with a ratio to each baseline."""
    found = tuple(baseline(name, ratio) for name, ratio in ratios.items())
    return PerformanceEvidence(Status.passed, device=GPU, microseconds=90.0, baselines=found)


NOT = PerformanceEvidence(Status.not_measured, "the GPU is too noisy")


def of_rmsnorm(reference=None, **edits: PerformanceEvidence) -> VariantReadings:
    reference = reference or timing(copy=1.0, torch=1.5)
    found = {
        "reads_x_twice_from_memory": timing(copy=0.66, torch=0.99),
        "small_blocks": timing(copy=0.3, torch=0.45),
    }
    return VariantReadings("rmsnorm", "triton", reference, {**found, **edits})


def asking(variant: Variant, *thresholds: dict) -> Variant:
    made = tuple(Threshold.model_validate(each) for each in thresholds)
    performance = variant.performance.model_copy(update={"thresholds": made})
    return variant.model_copy(update={"performance": performance})


def numbers(variant: Variant, found: VariantReadings) -> list[float | None]:
    return [each.at_least for each in propose(variant, found)]


# --- proposals ------------------------------------------------------------------------------------


def test_all_points_are_for_nine_tenths_of_what_the_solution_reaches():
    variant = RMSNORM.variants["triton"]
    assert FULL == 0.9
    for reached, wanted in ((1.0, 0.90), (1.1, 0.99), (0.956, 0.86), (1.049, 0.94)):
        found = of_rmsnorm(timing(copy=reached, torch=2.0))
        assert numbers(variant, found)[0] == wanted


def test_what_stands_below_stays_unless_a_slow_one_comes_too_near():
    variant = RMSNORM.variants["triton"]
    assert numbers(variant, of_rmsnorm()) == [0.9, 1.0]
    near = of_rmsnorm(small_blocks=timing(copy=0.3, torch=1.05))
    [full, lower] = propose(variant, near)
    # Its interval ends at 1.05 * 1.01, and there is a margin.
    assert lower.at_least == up(1.05 * 1.01 * (1 + MARGIN)) == 1.09
    assert lower.fastest[0] == "small_blocks" and full.fastest[0] == "reads_x_twice_from_memory"


def test_a_lower_threshold_stays_below_the_one_above_and_what_the_solution_reaches():
    same = asking(
        RMSNORM.variants["triton"],
        {"speed_vs": "copy", "at_least": 0.9, "points": 2, "missed_by": ["small_blocks"]},
        {"speed_vs": "copy", "at_least": 0.88, "points": 1, "missed_by": ["small_blocks"]},
    )
    assert numbers(same, of_rmsnorm(timing(copy=0.8))) == [0.72, down(0.72 * 0.95)]
    other = RMSNORM.variants["triton"]
    assert numbers(other, of_rmsnorm(timing(copy=0.8, torch=0.9))) == [0.72, 0.81]


def test_linear_points_begin_in_proportion():
    variant = asking(
        RMSNORM.variants["triton"],
        {"speed_vs": "copy", "from": 0.5, "at_least": 1.0, "points": 2},
    )
    [made] = propose(variant, of_rmsnorm(timing(copy=0.9)))
    assert (made.from_, made.at_least) == (0.40, 0.81)


def test_of_several_cases_the_slowest_counts():
    slow = replace(timing(torch=0.7), case="M=16")
    reference = replace(timing(torch=0.95), further=(slow,))
    found = VariantReadings("gemm", "triton_v4", reference, {})
    assert numbers(EXERCISES["gemm"].variants["triton_v4"], found)[0] == 0.63


def test_a_limit_in_milliseconds_leaves_the_same_room():
    variant = asking(
        RMSNORM.variants["triton"],
        {"milliseconds": {"gpu": "H100", "at_most": 0.2}, "points": 2},
    )
    [made] = propose(variant, of_rmsnorm(timing(**{"0.2 ms": 2.2})))
    assert made.at_most == 0.1  # 90 us / 0.9
    assert made.at_least is None


def test_of_what_was_not_measured_nothing_is_proposed():
    assert numbers(RMSNORM.variants["triton"], of_rmsnorm(NOT)) == [None, None]


@pytest.mark.parametrize(("value", "below", "above"), [(0.9, 0.9, 0.9), (0.86399, 0.86, 0.87)])
def test_ratios_are_cut_or_raised_to_two_digits(value, below, above):
    assert (down(value), up(value)) == (below, above)


# --- lint -----------------------------------------------------------------------------------------


def lines(found: VariantReadings, exercise: Exercise = RMSNORM, device: str = GPU) -> list[str]:
    known = {"triton": ["reads_x_twice_from_memory", "small_blocks"]}
    made = lint(exercise, Readings(device, (found,)), known)
    return [".".join(map(str, each.path[1:])) + ": " + each.message for each in made]


def calibrated(exercise: Exercise, name: str, **update: object) -> Exercise:
    """The exercise, calibrated on this GPU."""
    variant = exercise.variants[name]
    performance = variant.performance.model_copy(update={"device": "H100", **update})
    made = variant.model_copy(update={"performance": performance})
    return exercise.model_copy(update={"variants": {**exercise.variants, name: made}})


def test_where_the_spec_says_what_was_measured_there_is_nothing_to_say():
    assert lines(of_rmsnorm(), calibrated(RMSNORM, "triton")) == []


def test_a_spec_calibrated_elsewhere_or_nowhere_is_told():
    assert lines(of_rmsnorm()) == []  # by an H100, as the course's specs are
    [line] = lines(of_rmsnorm(), calibrated(RMSNORM, "triton", device=None))
    assert line.startswith("triton.performance.device: expected") and line.endswith("got none")
    [line] = lines(of_rmsnorm(), calibrated(RMSNORM, "triton", device="A100"))
    assert line.endswith(f"{GPU}, the GPU of this calibration, got A100")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            of_rmsnorm(timing(copy=0.85, torch=1.5)),
            [f"0.at_least: expected what the solution surely reaches, got {SHIPPED}", "about 0.76"],
        ),
        (of_rmsnorm(timing(copy=1.1, torch=1.5)), ["0.at_least: expected about 0.99 by this"]),
        (
            of_rmsnorm(small_blocks=timing(copy=0.3, torch=1.0)),
            ["1.at_least: expected about 1.04", "1.missed_by: expected small_blocks to miss 1 "],
        ),
        (
            of_rmsnorm(reads_x_twice_from_memory=timing(copy=0.88, torch=1.3)),
            [
                f"expected reads_x_twice_from_memory to miss {SHIPPED} of copy, got 0.880 [0.8",
                "tells them",
            ],
        ),
        (of_rmsnorm(small_blocks=NOT), ["expected a time of small_blocks, got not_measured: the"]),
        (of_rmsnorm(NOT), ["expected a time of the solution, got not_measured: the GPU is too"]),
        (
            of_rmsnorm(replace(timing(copy=1.0, torch=1.5), disturbed="copy took 9 % longer")),
            ["expected nothing to disturb the solution, got: copy took 9 % longer"],
        ),
    ],
)
def test_what_the_measurement_contradicts_is_told(found, said):
    told = lines(found, calibrated(RMSNORM, "triton"))
    assert len(told) == len(said), told
    for line, words in zip(told, said, strict=True):
        assert words in line


def test_a_threshold_names_slow_submissions_that_exist():
    variant = asking(
        RMSNORM.variants["triton"],
        {"speed_vs": "copy", "at_least": 0.9, "points": 2, "missed_by": ["small_block"]},
        {"speed_vs": "torch", "at_least": 1.0, "points": 1},
    )
    exercise = calibrated(RMSNORM, "triton", thresholds=variant.performance.thresholds)
    unknown, none = lines(of_rmsnorm(), exercise)
    assert unknown.endswith("got small_block, did you mean 'small_blocks'?")
    assert none.endswith(
        "1.missed_by: expected missed_by: the names of submissions that miss it, got none"
    )


def of_ladder(*ratios: float) -> list[str]:
    exercise = EXERCISES["transpose"]
    names = ["triton_v1", "triton_v2", "triton_v3", "triton_v4"]
    rungs = {name: timing(copy=ratio) for name, ratio in zip(names, ratios, strict=True)}
    ladder = LadderReadings("transpose", rungs)
    return [each.message for each in lint(exercise, Readings(GPU, ladders=(ladder,)), {})]


def test_a_later_rung_is_not_slower_but_may_be_as_fast():
    assert of_ladder(0.2, 0.2, 0.6, 0.97) == []
    assert of_ladder(0.2, 0.198, 0.6, 0.97) == []  # within the doubt
    [slower] = of_ladder(0.2, 0.19, 0.6, 0.97)
    assert "expected no slower a solution than that of triton_v1, 0.200 [0.198, 0.202]" in slower
    assert len(of_ladder(0.2, 0.3, 0.6, 0.25)) == 1


def test_rung_0_is_a_baseline_and_earns_nothing():
    exercise = EXERCISES["gemm"]
    assert lint(exercise, Readings(GPU), {}) == []
    v0 = exercise.variants["torch_v0"].model_copy(update={"points": {"aligned": 2.0}})
    changed = exercise.model_copy(update={"variants": {**exercise.variants, "torch_v0": v0}})
    [mistake] = lint(changed, Readings(GPU), {})
    assert mistake.path == ("variants", "torch_v0") and "worth nothing, got 2 points" in mistake[1]


# --- what is timed --------------------------------------------------------------------------------


class Clock:
    """Times everything alike, and notes what it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[Exercise, Variant, bytes]] = []

    def __call__(self, task: Task, source: bytes) -> PerformanceEvidence:
        self.seen.append((task.exercise, task.variant, source))
        names = {"copy", *(t.speed_vs for t in task.variant.performance.thresholds if t.speed_vs)}
        return timing(**dict.fromkeys(sorted(names), 1.0))


def test_a_lab_is_timed_with_all_its_files_whichever_of_them_is_edited(tmp_path):
    shutil.copytree(ROOT / "tests" / "lab_course", tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "exercises" / "scale.yaml"
    text = spec.read_text(encoding="utf-8").replace("{ragged: 2}", "{ragged: 2, performance: 1}")
    spec.write_text(text + LAB_PERFORMANCE, encoding="utf-8")
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "scale_cuda.yaml").write_text(SLOW_IN_A_HEADER, encoding="utf-8")
    course, clock = Course(tmp_path), Clock()
    readings.take(GPU, selected(course.exercises), clock, course=course)
    solution, slow = (each[2].decode() for each in clock.seen)
    for part in ("#define THREADS 64", "int blocks_for(", "scaled(float x) {", "void scale_f32("):
        assert part in solution and part in slow
    assert "2.0f * x + 1.0f" in solution and "1.0f + x + x" in slow
    (tmp_path / "reference" / "kernel.cu").unlink()
    with pytest.raises(Mistake, match=r"kernel\.cu: expected the staff's solution"):
        readings.take(GPU, selected(course.exercises), clock, course=course)


@pytest.fixture(scope="module")
def everything() -> SimpleNamespace:
    clock = Clock()
    chosen = selected(EXERCISES)
    return SimpleNamespace(clock=clock, found=readings.take(GPU, chosen, clock))


def test_every_timed_variant_has_its_solution_and_those_its_thresholds_name(everything):
    of = {(each.exercise, each.variant): each for each in everything.found.variants}
    assert set(of) == {(exercise.name, variant.name) for exercise, variant in TIMED}
    for exercise, variant in TIMED:
        named = {name for each in variant.performance.thresholds for name in each.missed_by}
        assert named and named <= set(of[exercise.name, variant.name].edits)
    sources = [source for _, variant, source in everything.clock.seen if variant.name == "triton"]
    assert len(set(sources)) == len(sources)


def test_every_slow_submission_of_the_corpus_is_named_by_a_threshold():
    every = [*corpus.load("wrong"), *corpus.load("wrong", "cuda")]
    slow = [each for each in every if each.check == "performance"]
    assert len(slow) >= 18
    for each in slow:
        variant = EXERCISES[each.exercise].variants[each.variant]
        assert variant.is_graded_on_speed, each.id
        assert any(each.name in t.missed_by for t in variant.performance.thresholds), each.id


def test_the_rungs_of_a_ladder_are_timed_on_one_case_in_a_dtype_all_take(everything):
    ladders = [(ladder.exercise, list(ladder.rungs)) for ladder in everything.found.ladders]
    triton, cuda = ([f"{name}_v{rung}" for rung in (1, 2, 3, 4)] for name in ("triton", "cuda"))
    assert ladders == [("transpose", cuda), ("transpose", triton), ("gemm", triton)]
    exercise = EXERCISES["transpose"]
    cases = [
        variant.performance.case
        for seen, variant, _ in everything.clock.seen[-8:]
        if seen.name == "transpose" and variant.language == "triton"
    ]
    top = exercise.variants["triton_v4"].performance.case
    assert cases == [{**top, "dtype": "float32"}] * 4


def test_readings_are_json_in_and_out(everything, tmp_path):
    path = tmp_path / "readings.json"
    path.write_text(readings.to_json(everything.found))
    assert readings.read(path) == everything.found
    path.write_text('{"device": 1}')
    with pytest.raises(Mistake, match=r"readings\.json: device: "):
        readings.read(path)
    with pytest.raises(Mistake, match="can't be read"):
        readings.read(tmp_path / "none.json")


def test_what_was_timed_is_kept_at_once_and_not_timed_again(everything):
    rmsnorm = selected(EXERCISES, ["rmsnorm/triton"])
    gemm = selected(EXERCISES, ["gemm/triton_v4"])

    class Interrupted(Clock):
        def __call__(self, *given) -> PerformanceEvidence:
            if len(self.seen) == 6:
                raise KeyboardInterrupt
            return super().__call__(*given)

    clock, so_far = Interrupted(), []
    with pytest.raises(KeyboardInterrupt):
        readings.take(GPU, [*rmsnorm, *gemm], clock, on_reading=so_far.append)
    assert len(so_far) == 6 == len(clock.seen)
    assert len(so_far[-1].variants) == 2 and not so_far[-1].ladders

    rest = Clock()
    whole = readings.take(GPU, [*rmsnorm, *gemm], rest, known=so_far[-1], on_reading=so_far.append)
    assert whole == readings.take(GPU, [*rmsnorm, *gemm], Clock()) == so_far[-1]
    [ladder] = whole.ladders
    assert len(ladder.rungs) == 4 and len(rest.seen) == 4
    again = Clock()
    assert readings.take(GPU, [*rmsnorm, *gemm], again, known=whole) == whole and not again.seen
    with pytest.raises(Mistake, match="expected timings taken on A100, got NVIDIA H100"):
        readings.take("A100", rmsnorm, Clock(), known=whole)


# --- into the specs -------------------------------------------------------------------------------

TEXT = """\
# About it.
variants:
  triton:   {file: silu.py}    # inline
  other:
    performance:
      case: {n: 5}
      thresholds:                        # the first that holds
        - {speed_vs: copy, at_least: 0.90, points: 2, missed_by: [slow]}   # all
        - {speed_vs: copy, at_least: 0.5,  points: 1}
"""
PLACE = ("variants", "other", "performance")


def test_numbers_change_in_place_and_every_other_letter_stays():
    values = {
        (*PLACE, "thresholds", 0, "at_least"): 0.87,
        (*PLACE, "thresholds", 1, "at_least"): 0.6,
        (*PLACE, "device"): GPU,
    }
    wanted = TEXT.replace("0.90", "0.87").replace("0.5,", "0.60,")
    wanted = wanted.replace("      thresholds:", f"      device: {GPU}\n      thresholds:")
    once = changed(TEXT, values)
    assert once == wanted
    assert changed(once, values) == once
    assert changed(once, {(*PLACE, "device"): "A100"}) == wanted.replace(GPU, "A100")


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        (TEXT, (*PLACE, "thresholds"), "expected one value"),
        (TEXT, ("variants", "triton", "device"), "expected a place for it"),
        (TEXT, (*PLACE, "thresholds", 7, "at_least"), "expected a place for it"),
        ("a: &x {n: 1}\nb: *x\n", ("a", "n"), "are there aliases"),
    ],
)
def test_what_can_not_be_changed_in_place_is_said(text, path, said):
    with pytest.raises(Mistake, match=said):
        changed(text, {path: 2.0}, "x.yaml")


def copied(folder) -> Mapping[str, Exercise]:
    for path in FOLDER.glob("*.yaml"):
        (folder / path.name).write_text(path.read_text(encoding="utf-8"))
    return load_all(folder)


def test_proposals_are_written_with_the_gpu_and_the_specs_stay_valid(tmp_path, everything):
    exercises = copied(tmp_path)
    written = timings.written(exercises, everything.found, tmp_path)
    assert {path.stem for path in written} == {exercise.name for exercise, _ in TIMED}
    for exercise, variant in TIMED:
        after = load(tmp_path / f"{exercise.name}.yaml").variants[variant.name].performance
        assert after.device == GPU
        assert after.thresholds[0].at_least == 0.9
        assert after.thresholds[0].missed_by == variant.performance.thresholds[0].missed_by
        before = (FOLDER / f"{exercise.name}.yaml").read_text(encoding="utf-8")
        text = (tmp_path / f"{exercise.name}.yaml").read_text(encoding="utf-8")
        comments = [line.partition("#")[2] for line in before.splitlines()]
        assert [line.partition("#")[2] for line in text.splitlines()] == comments
    assert timings.written(load_all(tmp_path), everything.found, tmp_path) == []


def test_what_a_spec_would_not_allow_is_not_written(tmp_path, monkeypatch, everything):
    exercises = copied(tmp_path)
    before = {path: path.read_text() for path in tmp_path.glob("*.yaml")}
    monkeypatch.setattr(timings, "_numbers", lambda place, proposal: {(*place, "at_least"): -1.0})
    with pytest.raises(Mistake, match="not written, the spec would be refused"):
        timings.written(exercises, everything.found, tmp_path)
    assert {path: path.read_text() for path in tmp_path.glob("*.yaml")} == before


# --- the command ----------------------------------------------------------------------------------


def run(capsys, monkeypatch, *words: object) -> SimpleNamespace:
    monkeypatch.setattr(console, "_width", 160)
    return call(capsys, "calibrate", *words)


def test_readings_kept_are_told_without_a_gpu(capsys, monkeypatch, tmp_path, everything):
    path = tmp_path / "readings.json"
    found = replace(everything.found, variants=(of_rmsnorm(timing(copy=0.85, torch=1.5)),))
    path.write_text(readings.to_json(found))
    seen = run(capsys, monkeypatch, "--readings", path, "--only", "rmsnorm")
    assert seen.code == 0, seen
    assert "rmsnorm/triton" in seen.out and "0.850 [0.842, 0.858]" in seen.out
    assert "small_blocks 0.300" in seen.out and "0.76" in seen.out
    assert "rungs" not in seen.out  # of other exercises
    [line] = [line for line in seen.out.splitlines() if "surely reaches" in line]
    number = int(line.split(":")[1])
    assert line.startswith(f"rmsnorm.yaml:{number}: variants.triton.performance.thresholds[0]")
    text = (FOLDER / "rmsnorm.yaml").read_text(encoding="utf-8")
    assert f"at_least: {SHIPPED}" in text.splitlines()[number - 1]


def test_without_a_gpu_there_is_nothing_to_calibrate_on(capsys, monkeypatch):
    monkeypatch.setattr("grader.gpu.machine.gpu_name", lambda: None)
    seen = run(capsys, monkeypatch)
    assert (seen.code, seen.out) == (2, "")
    assert seen.err.strip() == "expected an NVIDIA GPU to calibrate on, found none"


@pytest.fixture
def made_up(monkeypatch) -> Clock:
    """A GPU that isn't here, and its clock."""
    made = Clock()
    monkeypatch.setattr("grader.gpu.machine.gpu_name", lambda: GPU)
    monkeypatch.setattr(calibrate, "clock", lambda: contextlib.nullcontext(made))
    return made


def test_a_calibration_tells_each_timing_and_goes_on_where_it_was(
    capsys, monkeypatch, tmp_path, made_up
):
    path = tmp_path / "readings.json"
    only = ("--only", "rmsnorm", "--out", path)
    seen = run(capsys, monkeypatch, *only)
    assert seen.code == 0, seen
    assert seen.err.splitlines()[0] == "rmsnorm/triton reference"
    assert readings.read(path).variants[0].exercise == "rmsnorm"
    timed = len(made_up.seen)
    run(capsys, monkeypatch, *only, "--resume")
    assert len(made_up.seen) == timed > 2
    run(capsys, monkeypatch, *only)
    assert len(made_up.seen) == 2 * timed
    assert [each.name for each in tmp_path.iterdir()] == ["readings.json"]


def test_going_on_needs_a_file_and_something_to_time(capsys, monkeypatch, tmp_path):
    path = tmp_path / "readings.json"
    path.write_text(readings.to_json(Readings(GPU)))
    refused = run(capsys, monkeypatch, "--resume")
    assert refused.code == 2 and "expected --out too" in refused.err
    refused = run(capsys, monkeypatch, "--readings", path, "--out", path, "--resume")
    assert refused.code == 2 and "--readings times nothing" in refused.err


@pytest.mark.gpu
def test_on_a_gpu_one_variant_is_calibrated():
    with timings.clock() as clock:
        found = readings.take(GPU, selected(EXERCISES, ["rmsnorm/triton"]), clock)
    [seen] = found.variants
    assert seen.reference.status is Status.passed, seen.reference
    made = propose(RMSNORM.variants["triton"], seen)
    assert made[0].at_least is not None and 0.5 < made[0].at_least < 1.1

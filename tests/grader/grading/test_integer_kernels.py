"""Kernels on integers that hold for small numbers alone lose their points; right ones keep them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from grader.cases import inputs, parse
from grader.evidence import VariantEvidence
from grader.grading.check import check
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.spec import Course
from grader.spec.task import Task
from grader.status import Status
from grader.timing import contenders
from grader.timing.buffer_sets import BufferSets, Layout

COURSE = Path(__file__).parents[2] / "integer_course"
EXERCISES = Course(COURSE).exercises
BRIEF = Effort(
    edges=6,
    drawn=1,
    shrink_runs=0,
    probe_seconds=0.0,
    reruns=1,
    enough=1,
    compile_ahead=False,
    repair_seconds=0,
)
MISTAKES = {  # in the solutions' text
    "integers.cu": {
        "int sum = 0;": "short sum = 0;",
        "long long row = index[i / D];": "long long row = index[i / D] & 15;",
        "counts[x[i]]": "counts[x[i] % 9]",
        "half[i] = x[i] * 0.5f;": "half[i] = (int)x[i] * 0.5f;",
    },
    "integers.py": {
        "row = tl.load(index_ptr + pid)": "row = tl.load(index_ptr + pid) & 15",
        "x.to(tl.float32) * 0.5": "tl.minimum(x.to(tl.float32), 1.0) * 0.5",
        "offs, -1), axis=0))": "offs + 1000000, -1), axis=0))",
    },
}
NAMES = [f"{each.name}/{variant}" for each in EXERCISES.values() for variant in each.variants]


def evidence_on(folder: Path) -> dict[str, VariantEvidence]:
    """What is observed of each variant of a submission."""
    with Session(folder, EXERCISES, Options(seed=7, device="cpu", effort=BRIEF)) as session:
        tasks = (Task(e, v) for e in EXERCISES.values() for v in e.variants.values())
        return {str(task): check(session, task) for task in tasks}


@pytest.fixture(scope="module")
def right():
    """The evidence on the solutions."""
    return evidence_on(COURSE / "reference")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """The evidence on the solutions with the mistakes above."""
    folder = tmp_path_factory.mktemp("wrong")
    for file, edits in MISTAKES.items():
        text = (COURSE / "reference" / file).read_text(encoding="utf-8")
        for old, new in edits.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (folder / file).write_text(text, encoding="utf-8")
    return evidence_on(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_right_kernel_on_integers_passes(right, name):
    assert right[name].correctness is Status.passed, right[name].parts


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_that_holds_for_small_integers_alone_has_wrong_values(wrong, name):
    assert wrong[name].parts
    for part in wrong[name].parts:
        assert part.status is Status.wrong_values, part


def test_an_own_check_that_fails_on_what_a_kernel_wrote_refuses_it(wrong):
    [part] = wrong["peak/triton"].parts
    assert "peak_check can't judge these values: IndexError" in part.failures[0].what


def test_a_timed_baseline_gets_indices_that_its_spec_allows():
    task = Task(EXERCISES["embedding"], EXERCISES["embedding"].variants["cuda"])
    case = parse("n=300 D=2 V=3", task, seed=1)
    layout = Layout.of(task, case)
    memory = SimpleNamespace(
        **{
            name: torch.zeros(size, dtype=torch.uint8)
            for name, size in zip(("inputs", "outputs"), layout.bytes(2), strict=True)
        }
    )
    sets = BufferSets(memory, layout, 2)
    sets.fill([0, 1])
    for number in (0, 1):
        values = {slot.name: view for slot, view in sets._views(number, "input")}
        assert values["index"].unique().tolist() == [0, 1, 2]


def test_torchs_operator_gets_the_sizes_that_it_names(tmp_path):
    oracles = tmp_path / "oracles.py"
    text = (COURSE / "reference" / "oracles.py").read_text(encoding="utf-8")
    oracles.write_text(text.replace("def peak(x: torch.Tensor)", "def peak(x, rows, cols)"))
    peak = EXERCISES["peak"].model_copy()
    peak.belongs_to(tmp_path)
    task = Task(peak, peak.variants["triton"])
    source = contenders.source_of("torch", task)
    assert "function(x=x, rows=x.shape[0], cols=x.shape[1])" in source
    case = parse("rows=3 cols=5", task, seed=1)
    names: dict[str, object] = {}
    exec(source, names)  # the grader's own text
    names["baseline"](inputs.make(task, case).tensors["x"], None)

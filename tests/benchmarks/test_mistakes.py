"""The corpus of single mistakes holds together; its benchmark writes what it is asked for."""

from __future__ import annotations

import ast
import io
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from grader import spec
from grader.mistakes import Mistake
from tests.support import mistakes
from tests.support.modules import module_of

ROOT = Path(__file__).resolve().parents[2]
CASES = mistakes.load()
EXERCISES = spec.load_all()
HELD = "341555cb96ac9afcb1ee94c55c4e8ba8fd84b08be735a38f5f241e1b96e959a4"  # SHA-256 of its names
# What does not parse hides the line that is meant, so every Triton case does.
PARSED = [case for case in CASES if case.file.endswith(".py")]


@pytest.fixture(scope="module")
def benchmark_of_mistakes():
    return module_of(ROOT / "benchmarks" / "mistakes.py")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty corpus of its own, with `silu.yaml` to be written."""
    monkeypatch.setattr(mistakes, "FOLDER", tmp_path)
    return tmp_path


def _entry(**changes):
    entry = {
        "name": "some_name",
        "exercise": "silu",
        "variant": "triton",
        "kind": "launches",
        "cause": "The block has half as many elements as it should have.",
        "edit": {"old": "BLOCK = 2048", "new": "BLOCK = 1024"},
    }
    return {**entry, **changes}


def _write(folder, *entries, name="silu.yaml"):
    (folder / name).write_text(mistakes.yaml.safe_dump(list(entries)))


# --- the corpus -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_edit_fits_exactly_once_and_changes_the_file(case):
    assert case.text() != case.original()


@pytest.mark.parametrize("case", PARSED, ids=lambda case: case.name)
def test_a_python_file_still_parses(case):
    ast.parse(case.text())


def test_every_variant_is_one_that_the_spec_has():
    for case in CASES:
        assert EXERCISES[case.exercise].variants[case.variant].file == case.file, case.name


def test_names_and_blind_names_are_unique():
    assert Counter(case.name for case in CASES).most_common(1)[0][1] == 1
    assert Counter(case.id for case in CASES).most_common(1)[0][1] == 1


def test_what_is_handed_in_differs_from_case_to_case():
    assert len({case.text() for case in CASES}) == len(CASES)


def test_every_exercise_and_every_kind_occurs():
    assert {case.exercise for case in CASES} == set(EXERCISES)
    assert {case.kind for case in CASES} == set(mistakes.Kind.__args__)


def test_both_halves_have_at_least_sixty_and_share_nothing():
    work, held = ({case.name for case in mistakes.half_of(half)} for half in ("work", "held"))
    assert len(work) >= 60
    assert len(held) >= 60
    assert not work & held
    assert work | held == {case.name for case in CASES}


def test_the_halves_are_balanced_over_the_files():
    work, held = (
        Counter((case.exercise, case.file) for case in mistakes.half_of(half))
        for half in ("work", "held")
    )
    assert all(abs(work[file] - held[file]) <= 1 for file in work | held)
    assert abs(work.total() - held.total()) <= 1


def test_the_held_half_is_the_one_that_was_drawn():
    # A case that is added, removed or renamed moves others into the half that somebody has read.
    held = "\n".join(sorted(case.name for case in mistakes.half_of("held")))
    assert mistakes.hashlib.sha256(held.encode()).hexdigest() == HELD


def test_no_line_of_a_stub_is_handed_in():
    for case in CASES:
        for words in ("#|", "//|", "BEGIN SOLUTION", "END SOLUTION", "TODO"):
            assert words not in case.text(), case.name


def test_a_blind_name_tells_the_exercise_and_no_more():
    for case in CASES:
        exercise, digest = case.id.rsplit("-", 1)
        assert exercise == case.exercise
        assert int(digest, 16) >= 0


# --- the loader -----------------------------------------------------------------------------------


def test_an_edit_that_does_not_fit_once_is_refused(folder):
    _write(folder, _entry(edit={"old": "BLOCK", "new": "B"}))
    [case] = mistakes.load()
    with pytest.raises(Mistake, match=r"some_name: .* got "):
        case.text()


def test_a_name_that_occurs_twice_is_refused(folder):
    _write(folder, _entry(), _entry())
    with pytest.raises(ValueError, match="named twice: some_name"):
        mistakes.load()


def test_a_case_in_the_file_of_another_exercise_is_refused(folder):
    _write(folder, _entry(), name="gelu.yaml")
    with pytest.raises(ValueError, match=r"gelu\.yaml: some_name is of silu/triton"):
        mistakes.load()


@pytest.mark.parametrize("changes", [{"kind": "typo"}, {"cause": ""}, {"keywords": ["mask"]}])
def test_an_entry_with_a_wrong_field_is_refused(folder, changes):
    _write(folder, _entry(**changes))
    with pytest.raises(ValueError, match=r"mistakes/silu\.yaml"):
        mistakes.load()


def test_an_edit_is_looked_for_in_its_section_alone(folder):
    edit = {"old": "int row = blockIdx.x;", "new": "int row = 0;"}
    entry = _entry(exercise="transpose", variant="cuda_v2", base=True, edit=edit)
    _write(folder, {**entry, "section": "v2"}, name="transpose_cuda.yaml")
    [case] = mistakes.load()
    v1, v2 = case.text().split("// --- v2 ")
    assert "int row = blockIdx.x;" in v1
    assert "int row = 0;" in v2
    _write(folder, {**entry, "section": "v9"}, name="transpose_cuda.yaml")
    [case] = mistakes.load()
    with pytest.raises(ValueError, match="section 'v9': expected it once, got 0"):
        case.text()


def test_a_solution_is_handed_in_without_its_comments():
    region = '# BEGIN SOLUTION\n#| # TODO\n    # why\n    y = "#"\n# END SOLUTION\n'
    text = f"x = 1  # kept\n# kept\n{region}"
    assert mistakes.solution(text) == 'x = 1  # kept\n# kept\n    y = "#"\n'


# --- the benchmark --------------------------------------------------------------------------------


def _collect(benchmark, out, half, shown, monkeypatch, graded=None):
    """Three cases of a half, collected with a stand-in for the grading; what was graded."""
    seen = []

    def stand_in(file, text, task):
        seen.append(task)
        return graded or benchmark.Graded(True, "one\n\ntwo\n", 1.5)

    monkeypatch.setattr(benchmark, "graded", stand_in)
    chosen = [(half, case) for case in mistakes.half_of(half)[:3]]
    rows = benchmark.collect(out, chosen, shown, 2, Console(file=io.StringIO()))
    return seen, [rows[case.name] for _, case in chosen]


def test_a_row_tells_what_a_judge_counts(benchmark_of_mistakes, tmp_path, monkeypatch):
    seen, rows = _collect(benchmark_of_mistakes, tmp_path, "work", {"work"}, monkeypatch)
    assert len(seen) == 3
    assert all((row.caught, row.lines, row.half) == (True, 2, "work") for row in rows)
    assert list(benchmark_of_mistakes.read_rows(tmp_path).values()) == sorted(
        rows, key=lambda row: row.name
    )
    case = mistakes.half_of("work")[0]
    assert (tmp_path / "cases" / case.id / "message.txt").read_text() == "one\n\ntwo\n"
    assert (tmp_path / "cases" / case.id / case.file).read_text() == case.text()


def test_the_held_half_has_rows_and_no_messages_unless_it_is_asked_for(
    benchmark_of_mistakes, tmp_path, monkeypatch
):
    seen, rows = _collect(benchmark_of_mistakes, tmp_path, "held", {"work"}, monkeypatch)
    assert len(seen) == 3
    assert all(row.half == "held" for row in rows)
    assert not (tmp_path / "cases").exists()
    again, _ = _collect(benchmark_of_mistakes, tmp_path, "held", {"held"}, monkeypatch)
    assert len(again) == 3
    assert len(list((tmp_path / "cases").iterdir())) == 3


def test_what_out_holds_is_not_graded_again_unless_the_case_changed(
    benchmark_of_mistakes, tmp_path, monkeypatch
):
    _collect(benchmark_of_mistakes, tmp_path, "work", {"work"}, monkeypatch)
    assert _collect(benchmark_of_mistakes, tmp_path, "work", {"work"}, monkeypatch)[0] == []
    changed = mistakes.half_of("work")[0]
    rows = benchmark_of_mistakes.read_rows(tmp_path)
    rows[changed.name] = benchmark_of_mistakes.replace(rows[changed.name], code="another")
    benchmark_of_mistakes.write_rows(tmp_path, rows)
    again, _ = _collect(benchmark_of_mistakes, tmp_path, "work", {"work"}, monkeypatch)
    assert again == [changed.task]


def test_messages_are_what_stands_between_the_points_and_the_sum(benchmark_of_mistakes):
    output = (
        "warpgrade: x\nGPU: none\n\nSiLU (silu)\n  aligned 0/1\n\na\n  b\n\nc\n\nEarned 0 of 1.\n"
    )
    assert benchmark_of_mistakes.messages_of(output) == "a\n  b\n\nc\n"


@pytest.mark.parametrize(
    ("status", "score", "gradable", "lost"),
    [
        ("passed", 2.0, 2.0, False),
        ("passed", 1.0, 2.0, True),
        ("wrong_values", 0.0, 0.0, True),  # gelu, which is worth no points
        ("passed", 0.0, 0.0, False),
    ],
)
def test_a_mistake_is_caught_where_points_are_lost_or_the_variant_fails(
    benchmark_of_mistakes, status, score, gradable, lost
):
    variant = {"status": status, "score": score, "gradable": gradable}
    assert benchmark_of_mistakes.lost(variant) is lost


def test_the_right_solution_is_not_caught_and_a_wrong_one_is(benchmark_of_mistakes):
    [case] = [case for case in CASES if case.name == "gelu_cu_coefficient"]
    right = benchmark_of_mistakes.graded(case.file, case.original(), case.task)
    assert right.caught is False
    wrong = benchmark_of_mistakes.graded(case.file, case.text(), case.task)
    assert wrong.caught is True
    assert wrong.lines > 0
    assert "Earned" not in wrong.message

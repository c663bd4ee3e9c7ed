"""The corpus itself holds together; what the grader says about it is tested with the grader."""

import ast
from collections import Counter

import pytest

from grader import spec
from grader.mistakes import Mistake
from grader.spec.exercise import REFERENCE
from grader.staff.calibration import corpus
from grader.status import Status
from tests.support import expected

WRONG = corpus.load("wrong")
HONEST = corpus.load("honest")
WRONG_CUDA = corpus.load("wrong", "cuda")
HONEST_CUDA = corpus.load("honest", "cuda")
EXERCISES = spec.load_all()


def _ids(submission):
    return f"{submission.kind}-{submission.id}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty corpus of its own."""
    monkeypatch.setattr(corpus, "HOME", tmp_path)
    (tmp_path / "reference").symlink_to(REFERENCE)
    (tmp_path / "wrong").mkdir()
    (tmp_path / "honest").mkdir()
    return tmp_path


def _entry(**changes):
    entry = {
        "name": "some_name",
        "mistake": "some mistake",
        "edits": [{"old": "BLOCK = 2048", "new": "BLOCK = 1024"}],
        "status": "wrong_values",
        "classes": ["aligned"],
    }
    return {key: value for key, value in {**entry, **changes}.items() if value is not None}


def _load(folder, entries, kind="wrong", language="triton"):
    name = "silu.yaml" if language == "triton" else "silu_cuda.yaml"
    (folder / kind / name).write_text(corpus.yaml.safe_dump(entries))
    return corpus.load(kind, language)


@pytest.mark.parametrize("exercise", ["silu", "rmsnorm"])
def test_there_are_enough_of_each(exercise):
    assert Counter(entry.exercise for entry in WRONG)[exercise] >= 12
    assert Counter(entry.exercise for entry in HONEST)[exercise] >= 4


@pytest.mark.parametrize("submission", WRONG + HONEST, ids=_ids)
def test_every_edit_fits_the_reference_and_changes_it(submission, tmp_path):
    path = expected.write(submission, tmp_path / "handed_in")
    text = path.read_text(encoding="utf-8")
    assert text != (REFERENCE / submission.file).read_text(encoding="utf-8")
    assert [path] == list((tmp_path / "handed_in").iterdir())
    if submission.name == "syntax_error":
        with pytest.raises(SyntaxError):
            ast.parse(text)
    else:
        ast.parse(text)


@pytest.mark.parametrize("submission", WRONG + HONEST, ids=_ids)
def test_expectations_speak_of_classes_and_dtypes_that_exist(submission):
    variant = EXERCISES[submission.exercise].variants[submission.variant]
    assert {*submission.classes, *submission.passes} <= {*variant.size_classes}
    assert {*submission.dtypes, *submission.passes_dtypes} <= {*variant.dtypes}


def test_what_only_newer_versions_of_triton_notice_is_not_asked_of_older_ones():
    [late] = [each for each in WRONG if each.since_triton]
    assert late.id == "gemm-triton_v4-key_misspelt"
    assert not expected.unnoticed_by(late, "3.9.0") and not expected.unnoticed_by(late, "3.10.1")
    assert expected.unnoticed_by(late, "3.8.0") == "Triton 3.8.0 takes no notice of it, 3.9 does"


def test_the_statuses_a_triton_kernel_can_earn_without_a_gpu_all_occur():
    expected = {
        Status.import_error,
        Status.compile_error,
        Status.crashed,
        Status.timed_out,
        Status.out_of_memory,
        Status.modified_input,
        Status.wrote_out_of_bounds,
        Status.nondeterministic,
        Status.not_written,
        Status.not_finite,
        Status.wrong_values,
    }
    assert {submission.status for submission in WRONG} >= expected


def test_several_lines_are_found_whatever_their_indentation(folder):
    lines = "n_elements = x.numel()\n# 8 elements"
    [submission] = _load(folder, [_entry(edits=[{"old": lines, "new": "one = 1\ntwo = 2"}])])
    assert "\n    one = 1\n    two = 2 for each of" in submission.text()


def test_several_lines_may_have_the_indentation_of_the_file(folder):
    lines = "    n_elements = x.numel()\n    # 8 elements"
    edit = {"old": lines, "new": "    one = 1\n    two = 2"}
    [submission] = _load(folder, [_entry(edits=[edit])])
    assert "\n    one = 1\n    two = 2 for each of" in submission.text()
    twice = {"old": "    # BEGIN SOLUTION\n    #|", "new": ""}
    [submission] = _load(folder, [_entry(edits=[twice])])
    with pytest.raises(Mistake, match=r"once in the file it edits, got [2-9]$"):
        submission.text()


@pytest.mark.parametrize(
    ("old", "times"), [("no such text", 0), ("tl.arange(0, BLOCK", 2), ("# BEGIN SOLUTION", 2)]
)
def test_an_edit_that_does_not_fit_once_is_refused(folder, old, times):
    [submission] = _load(folder, [_entry(edits=[{"old": old, "new": ""}])])
    with pytest.raises(Mistake, match=f"silu.yaml: some_name: .* got {times}$"):
        submission.text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "wrong_value"}, "status: expected .*, did you mean 'wrong_values'"),
        ({"check": "memry"}, "check: expected one of sizes, memory, .*, did you mean 'memory'"),
        ({"status": "passed"}, "status: expected the status that must be found, got passed"),
        ({"classes": None}, "classes: expected"),
        ({"whole": "pass"}, "either edits or whole"),
        ({"edits": None}, "either edits or whole"),
        ({"mistake": None}, "expected mistake"),
        ({"passes": ["aligned"]}, "both fail and pass: aligned"),
        ({"mistaek": "x"}, "mistaek: expected a field .*, got 'mistaek', did you mean 'mistake'"),
        ({"name": "Some name"}, "name: .*, got 'Some name'"),
        ({"mistake": 64}, "mistake: expected text, got 64: put it in quotes"),
        ({"edits": [{"old": "BLOCK"}]}, "edits.0.new: expected the field 'new', which is missing"),
    ],
)
def test_a_mistake_in_an_entry_is_named(folder, changes, message):
    with pytest.raises(Mistake, match=message):
        _load(folder, [_entry(**changes)])


def test_names_are_unique_within_a_file(folder):
    with pytest.raises(Mistake, match="named twice: some_name"):
        _load(folder, [_entry(), _entry()])


def test_a_field_that_an_entry_has_twice_is_named_with_both_lines(folder):
    twice = "- name: ab\n  mistake: a\n  status: crashed\n  status: wrong_values\n"
    (folder / "wrong" / "silu.yaml").write_text(twice)
    message = r"wrong/silu\.yaml:3: status: expected each key once, got it again on line 4$"
    with pytest.raises(Mistake, match=message):
        corpus.load("wrong")


def test_yaml_that_does_not_parse_is_named(folder):
    (folder / "wrong" / "silu.yaml").write_text("- name: ab\n  mistake: a: b\n")
    message = r"wrong/silu\.yaml:2: can't be read as YAML: mapping values are not allowed here$"
    with pytest.raises(Mistake, match=message):
        corpus.load("wrong")


# --- CUDA variants --------------------------------------------------------------------------------


def test_there_are_enough_cuda_submissions_of_each():
    assert len(WRONG_CUDA) >= 60
    wrong = Counter((entry.exercise, entry.variant) for entry in WRONG_CUDA)
    honest = Counter((entry.exercise, entry.variant) for entry in HONEST_CUDA)
    for name, exercise in EXERCISES.items():
        for variant in exercise.variants.values():
            if variant.language == "cuda" and variant.max_points > 0:
                assert wrong[name, variant.name] >= 4, f"{name}/{variant.name}"
                assert honest[name, variant.name] >= 2, f"{name}/{variant.name}"


@pytest.mark.parametrize("submission", WRONG_CUDA + HONEST_CUDA, ids=_ids)
def test_a_cuda_submission_differs_from_the_reference_and_its_lines_are_found(submission, tmp_path):
    path = expected.write(submission, tmp_path / "handed_in")
    text = path.read_text(encoding="utf-8")
    assert path.name == EXERCISES[submission.exercise].variants[submission.variant].file
    assert text != (REFERENCE / submission.file).read_text(encoding="utf-8")
    assert "//|" not in text
    for number, wanted in zip(expected.lines(submission), submission.line, strict=True):
        assert wanted in text.splitlines()[number - 1]


@pytest.mark.parametrize("submission", WRONG_CUDA + HONEST_CUDA, ids=_ids)
def test_what_is_expected_of_a_cuda_submission_can_be(submission):
    variant = EXERCISES[submission.exercise].variants[submission.variant]
    assert variant.language == "cuda"
    assert {*submission.classes, *submission.passes} <= {*variant.size_classes}
    assert not submission.dtypes
    assert not submission.passes_dtypes
    assert submission.check == "sizes" or variant.memory is not None


def test_the_statuses_of_cuda_all_occur():
    expected = {
        Status.policy_violation,
        Status.import_error,
        Status.compile_error,
        Status.launch_error,
        Status.crashed,
        Status.timed_out,
        Status.out_of_memory,
        Status.modified_input,
        Status.wrote_out_of_bounds,
        Status.invalid_read,
        Status.misaligned_access,
        Status.wrong_memory_space,
        Status.barrier_error,
        Status.data_race,
        Status.uninitialised_read,
        Status.not_written,
        Status.not_finite,
        Status.wrong_values,
        Status.target_missed,
    }
    assert {submission.status for submission in WRONG_CUDA} >= expected


def _cuda_entry(**changes):
    edit = {"old": "input[i];", "new": "input[0];"}
    return _entry(**{"edits": [edit], "classes": ["ragged"], **changes})


def test_a_file_of_cuda_submissions_is_read_as_such(folder):
    [submission] = _load(folder, [_cuda_entry()], language="cuda")
    assert (submission.exercise, submission.variant) == ("silu", "cuda")
    assert (submission.file, submission.id) == ("silu.cu", "silu-cuda-some_name")
    assert corpus.load("wrong") == []


def test_behind_a_text_an_edit_and_a_line_are_the_first_ones(folder):
    edits = [{"old": "const float*", "new": "float*"}]
    [plain] = _load(folder, [_cuda_entry(edits=edits)], language="cuda")
    with pytest.raises(Mistake, match=r"silu_cuda\.yaml: some_name: .* got 2$"):
        plain.text()
    after = 'extern "C" void silu('
    entry = _cuda_entry(edits=edits, after=after, line="float* input")
    [submission] = _load(folder, [entry], language="cuda")
    assert "silu_kernel(const float* input" in submission.text()
    assert f"{after}float* input" in submission.text()
    [number] = expected.lines(submission)
    assert after in submission.text().splitlines()[number - 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"line": "no such line"}, "line: expected 'no such line' once, got 0"),
        ({"line": "float"}, "line: expected 'float' once, got "),
        ({"after": "const"}, "after: expected 'const' once, got "),
        ({"after": "no such text"}, "after: expected 'no such text' once, got 0"),
    ],
)
def test_a_place_that_is_not_there_once_is_refused(folder, changes, message):
    [submission] = _load(folder, [_cuda_entry(**changes)], language="cuda")
    with pytest.raises(Mistake, match=message):
        expected.lines(submission)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "target_missed"},
        {"check": "memory"},
        {"check": "performance"},
        {"check": "time"},
    ],
)
def test_a_missed_target_belongs_to_a_check_of_memory_or_speed(folder, changes):
    with pytest.raises(Mistake, match="check: "):
        _load(folder, [_cuda_entry(**changes)], language="cuda")

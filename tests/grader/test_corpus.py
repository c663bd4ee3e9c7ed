"""The corpus itself holds together; what the grader says about it is tested with the grader."""

import ast
from collections import Counter

import pytest

from grader import spec
from grader.status import Status
from tests.grader import corpus

WRONG = corpus.load("wrong")
HONEST = corpus.load("honest")
EXERCISES = spec.load_all()


def _ids(submission):
    return f"{submission.kind}-{submission.id}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty corpus of its own."""
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
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


def _load(folder, entries, kind="wrong"):
    (folder / kind / "silu.yaml").write_text(corpus.yaml.safe_dump(entries))
    return corpus.load(kind)


@pytest.mark.parametrize("exercise", ["silu", "rmsnorm"])
def test_there_are_enough_of_each(exercise):
    assert Counter(entry.exercise for entry in WRONG)[exercise] >= 12
    assert Counter(entry.exercise for entry in HONEST)[exercise] >= 4


@pytest.mark.parametrize("submission", WRONG + HONEST, ids=_ids)
def test_every_edit_fits_the_reference_and_changes_it(submission, tmp_path):
    path = submission.write(tmp_path / "handed_in")
    text = path.read_text(encoding="utf-8")
    assert text != (corpus.REFERENCE / submission.file).read_text(encoding="utf-8")
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


@pytest.mark.parametrize(
    ("old", "times"), [("no such text", 0), ("tl.arange(0, BLOCK", 2), ("# BEGIN SOLUTION", 2)]
)
def test_an_edit_that_does_not_fit_once_is_refused(folder, old, times):
    [submission] = _load(folder, [_entry(edits=[{"old": old, "new": ""}])])
    with pytest.raises(corpus.CorpusError, match=f"silu.yaml: some_name: .* got {times}$"):
        submission.text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "wrong_value"}, "some_name: status: "),
        ({"status": "passed"}, "some_name: status: got passed"),
        ({"classes": None}, "classes: expected"),
        ({"whole": "pass"}, "either edits or whole"),
        ({"edits": None}, "either edits or whole"),
        ({"mistake": None}, "expected mistake"),
        ({"passes": ["aligned"]}, "both fail and pass: aligned"),
        ({"unknown": 1}, "unknown: "),
        ({"name": "Some name"}, "name: "),
    ],
)
def test_a_mistake_in_an_entry_is_named(folder, changes, message):
    with pytest.raises(corpus.CorpusError, match=message):
        _load(folder, [_entry(**changes)])


def test_names_are_unique_within_a_file(folder):
    with pytest.raises(corpus.CorpusError, match="named twice: some_name"):
        _load(folder, [_entry(), _entry()])


def test_yaml_that_does_not_parse_is_named(folder):
    (folder / "wrong" / "silu.yaml").write_text("- name: [")
    with pytest.raises(corpus.CorpusError, match=r"wrong/silu\.yaml"):
        corpus.load("wrong")

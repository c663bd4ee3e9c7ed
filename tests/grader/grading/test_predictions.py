"""Answers to a spec's questions: drawn numbers, the file, its form, and what is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader.batch.course.records import Member
from grader.batch.missing_results import with_owner
from grader.batch.store.keys import Conditions, Keys
from grader.batch.tasks import HandinTask, Wanted, grade_files, hash_of
from grader.cli import predict_command
from grader.cli.app import app
from grader.evidence import Prediction, PredictionsEvidence, VariantEvidence, variant_from_json
from grader.grading import predictions
from grader.grading.session import Options, Session
from grader.scoring.score import score_variant
from grader.spec import Exercise, SpecError, load, load_all
from grader.spec.predictions import PREDICTIONS, QUANTITIES, asked, drawn, number_of
from grader.spec.task import Task
from grader.staff import release
from grader.status import Status

ROOT = Path(__file__).resolve().parents[3]
SPEC = """\
title: Doubled
arguments:
  - {name: x, shape: [n], dtype: $dtype}
  - {name: out, shape: [n], dtype: $dtype, role: output}
sizes:
  any: {n: [1, 100]}
variants:
  triton:
    file: doubled.py
    entry: doubled
    dtypes: [float32, bfloat16]
    points: {any: 1}
    performance:
      case: {n: 67108864, dtype: bfloat16}
      bytes: 2 * n * itemsize
      flops: 3 * n
predictions:
  points: 2
  questions:
    bytes:
      ask: How many bytes for {n}?
      draw: {n: [1000, 900000]}
      dtype: bfloat16
      answer: bytes
    bound:
      ask: What bounds it?
      choices: [memory, compute]
      answer: bound
    blocks:
      ask: Blocks of {threads} threads with {registers} registers on an SM?
      draw: {threads: 256, registers: {one_of: [64]}}
      answer: blocks_per_sm
    time:
      ask: Microseconds for {n}?
      draw: {n: 33500000}
      answer: floor_us
      accept: 0.05
"""


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> Exercise:
    path = tmp_path_factory.mktemp("specs") / "doubled.yaml"
    path.write_text(SPEC)
    return load(path)


def made(exercise: Exercise, text: str, *, checks: bool) -> VariantEvidence:
    options = Options(device="cpu", checks_answers=checks)
    files = {"answers.yaml": text.encode()}
    with Session(ROOT, {exercise.name: exercise}, options, files=files) as session:
        return predictions.check(session, exercise)


def scored(exercise: Exercise, evidence: VariantEvidence) -> tuple[Status, float, float, str]:
    task = Task(exercise, exercise.graded[PREDICTIONS])
    [check] = score_variant(task, evidence, has_gpu=False).checks
    return check.status, check.score, check.gradable, check.message


def test_numbers_are_a_students_own(doubled: Exercise) -> None:
    assert doubled.predictions is not None
    question = doubled.predictions.questions["bytes"]
    numbers = {name: drawn("doubled", "bytes", question, name)["n"] for name in ("Ada", "Bob")}
    assert numbers["Ada"] == drawn("doubled", "bytes", question, "  aDA ")["n"] != numbers["Bob"]
    assert asked(question, {"n": 1234}) == "How many bytes for 1,234?"


def test_each_answer_has_its_share(doubled: Exercise) -> None:
    assert doubled.predictions is not None
    n = drawn("doubled", "bytes", doubled.predictions.questions["bytes"], "Ada")["n"]
    text = f"student: Ada\ndoubled:\n  bytes: {4 * n}\n  bound: memory\n  blocks: 4\n  time: 81.5\n"
    # 33.5e6 elements of float32 are 268 MB, which 3350 GB/s move in 80 us.
    evidence = made(doubled, text, checks=True)
    assert scored(doubled, evidence) == (Status.passed, 2, 2, "4 of 4 answers are right")
    wrong = made(
        doubled, text.replace("memory", "luck").replace("blocks: 4", "blocks: 5"), checks=True
    )
    message = "2 of 4 answers are right; not bound, blocks"
    assert scored(doubled, wrong) == (Status.wrong_values, 1, 2, message)


def test_a_question_that_is_still_open_is_no_failure(doubled: Exercise) -> None:
    text = "student: Ada\ndoubled: {bytes: 1, time:, blocks: 1}\n"
    message = f"no answer yet to bound, time; {predictions.UNDECIDED}"
    evidence = made(doubled, text, checks=False)
    assert scored(doubled, evidence) == (Status.not_measured, 0, 0, message)
    told = "0 of 4 answers are right; not bytes, bound, blocks, time"
    assert scored(doubled, made(doubled, text, checks=True)) == (Status.wrong_values, 0, 2, told)


def test_at_home_only_the_form_is_checked(doubled: Exercise) -> None:
    text = "student: Ada\ndoubled: {bytes: 1, bound: memory, blocks: 1, time: 1}\n"
    evidence = made(doubled, text, checks=False)
    assert scored(doubled, evidence) == (Status.not_measured, 0, 0, predictions.UNDECIDED)
    assert evidence.predictions is not None
    assert [(each.expected, each.is_right) for each in evidence.predictions.answers] == [
        ("", False)
    ] * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("doubled: {bytes: 1}", "expected the line 'student: your name'"),
        ("student: Ada\ndoubled: 7", "doubled: expected a mapping of bytes, bound, blocks, time"),
        ("student: Ada\ndoubled: {bytes: 1e3x}", "doubled.bytes: expected a number, got '1e3x'"),
        ("student: Ada\ndoubled: {bytes: nan}", "doubled.bytes: expected a number, got 'nan'"),
        ("student: Ada\ndoubled: {bound: luck}", "bound: expected one of memory, compute"),
        ("student: Ada\ndoubled: {byte: 1}", "doubled: expected one of bytes, bound, blocks, time"),
        ("student: [", "can't be read as YAML"),
        ('student: "\\UFFFFFFFF"', "an escape is of no character"),
        ('student: "\\U00110000"', "an escape is of no character"),
        ('a: 1\nstudent: "A\\ud800"', "line 2: can't be read as YAML: expected characters"),
        ('student: Ada\n"\\udfff": 1', "line 2: can't be read as YAML: expected characters"),
        ("student: " + "[" * 30000, "nested too deeply"),
        (
            "student: Ada\nsilu:\n  a: 1\n  a: 2\n",
            "line 4: can't be read as YAML: expected each name once",
        ),
        ("- Ada", "expected a mapping"),
        (" " * (1 << 17), "expected at most 64 KiB"),
    ],
)
def test_mistakes_in_the_form_are_named(doubled: Exercise, text: str, expected: str) -> None:
    evidence = made(doubled, text, checks=False)
    status, score, gradable, message = scored(doubled, evidence)
    is_read = text.startswith("student: Ada\ndoubled: {")
    expected_status = Status.wrong_values if is_read else Status.import_error
    assert (status, score, gradable) == (expected_status, 0, 2)
    assert expected in message


def test_a_thousand_unknown_names_make_a_short_message(doubled: Exercise) -> None:
    names = "".join(f"  name{number}: 1\n" for number in range(1000))
    *_, message = scored(doubled, made(doubled, f"student: Ada\ndoubled:\n{names}", checks=False))
    assert "and 992 more unknown names" in message
    assert len(message) < 1000


def test_aliases_and_merges_of_yaml_stay_small(doubled: Exercise) -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 30)]
    assert predictions.parsed("\n".join([*lines, "student: Ada"]).encode())["student"] == "Ada"


def test_an_answer_that_is_a_list_of_aliases_is_never_written_out(doubled: Exercise) -> None:
    lines = ["student: Ada", "a0: &a0 [x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 5)]
    text = "\n".join([*lines, "doubled: {bytes: *a4, bound: memory}"])
    evidence = made(doubled, text, checks=False)
    assert evidence.predictions is not None
    assert [each.given for each in evidence.predictions.answers][:2] == ["", "memory"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("for {n}?", "for {m}?", "expected n in braces, as `draw` has it; got m"),
        ("answer: bytes", "answer: byte", "got the name 'byte'"),
        ("[memory, compute]", "[]", "expected `choices` for an answer in words"),
        ("dtype: bfloat16\n      answer", "dtype: float16\n      answer", "a dtype of the variant"),
        ("answer: floor_us", "answer: floor_us\n      variant: cuda", "expected one of triton"),
    ],
)
def test_mistakes_in_questions_have_a_line(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    path = tmp_path / "doubled.yaml"
    assert old in SPEC
    path.write_text(SPEC.replace(old, new, 1))
    with pytest.raises(SpecError, match=r"doubled.yaml:[0-9]+: predictions.questions") as error:
        load(path)
    assert expected in str(error.value)


def test_a_class_counts_what_the_solution_does() -> None:
    """The one end-to-end run: a question of ours whose answer is counted in the emulator."""
    exercises = load_all()
    question = exercises["silu"].predictions.questions["sectors"]  # type: ignore[union-attr]
    n = drawn("silu", "sectors", question, "Ada")["n"]
    text = f"student: Ada\nsilu: {{bytes: 1, time: 1, sectors: {n // 8}, resident: 0}}\n".encode()
    key = Keys(exercises, Conditions(7, "cpu")).of("silu", PREDICTIONS, hash_of(text))
    wanted = (Wanted("silu", PREDICTIONS, key),)
    task = HandinTask({"answers.yaml": text}, wanted, exercises, 7, require_sandbox=False)
    [result] = grade_files(task).results
    found = variant_from_json(result.evidence).predictions
    assert found is not None
    assert {each.question: each.is_right for each in found.answers} == {
        "bytes": False, "time": False, "sectors": True, "resident": False,
    }  # fmt: skip


def test_a_neighbours_answers_count_for_nothing() -> None:
    right = (Prediction("bytes", "4", "4", is_right=True),)
    mine = PredictionsEvidence(Status.passed, student="Bob Stone", answers=right)
    evidence = VariantEvidence("silu", PREDICTIONS, "answers.yaml", predictions=mine)
    ada, bob = Member("1", "Ada Lovelace", "ada@x.org"), Member("2", "Stone, Bob")
    assert with_owner(evidence, [bob]) == with_owner(evidence, [ada, bob]) == evidence
    assert with_owner(evidence, [Member("login")]) == evidence
    other = with_owner(evidence, [ada]).predictions
    assert other is not None
    assert (other.status, other.reason) == (
        Status.wrong_values,
        "answers.yaml names 'Bob Stone', who isn't Ada Lovelace",
    )
    named = replace(mine, student="ádá")
    assert with_owner(replace(evidence, predictions=named), [ada]).predictions == named


def test_predict_keeps_every_line(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    before = (
        "# mine\nstudent: Ada\nsilu:\n    time: 80  # a guess\n\n# later\ngemm:\n  bound: memory\n"
    )
    file.write_text(before)
    arguments = ["predict", "silu", "--submission", str(tmp_path)]
    shown = CliRunner().invoke(app, [*arguments, "--show"])
    assert (shown.exit_code, file.read_text()) == (0, before)
    told = CliRunner().invoke(app, arguments, input="x\n1e6\n\n4\n")
    assert told.exit_code == 0
    assert "expected a number (bytes), got 'x'" in told.output
    lines = file.read_text().splitlines()
    assert [line for line in lines if line in before.splitlines()] == before.splitlines()
    assert lines[4:6] == ["    bytes: 1e6", "    resident: 4"]
    assert f"3 of 4 answered, in {file}; checked when the class is graded" in told.output
    other = CliRunner().invoke(app, [*arguments, "--student", "Bob"])
    assert other.exit_code == 2


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("114,000,000", 114e6), ("1,234.5", 1234.5), ("-1,000", -1000.0), ("2.28e8", 2.28e8),
        ("1,5", None), ("1,0000", None), (",000", None), ("1,000,", None), ("60 us", None),
    ],
)  # fmt: skip
def test_a_number_may_have_separators_of_thousands(text: str, number: float | None) -> None:
    assert number_of(text) == number


def test_predict_says_what_to_do_without_standard_input(tmp_path: Path) -> None:
    arguments = ["predict", "silu", "--submission", str(tmp_path), "--student", "Ada"]
    ended = CliRunner().invoke(app, arguments, input="57,000,000\n")
    assert ended.exit_code == 2
    assert "standard input has ended: run it in a terminal" in " ".join(ended.output.split())
    assert "Aborted" not in ended.output
    assert 'bytes: "57,000,000"' in (tmp_path / "answers.yaml").read_text()


def test_predict_begins_a_file(tmp_path: Path) -> None:
    arguments = ["predict", "softmax", "--submission", str(tmp_path), "--student", "Ada: B"]
    assert CliRunner().invoke(app, arguments, input="\n\nmemory\n").exit_code == 0
    text = (tmp_path / "answers.yaml").read_text()
    assert text == 'student: "Ada: B"\nsoftmax:\n  bound: memory\n'
    assert predict_command.with_answer("a: {x: 1}\n", "a", "y", "2") == "a: {x: 1}\na:\n  y: 2\n"


def test_students_get_questions_without_answers(tmp_path: Path) -> None:
    data = release.make(ROOT, load_all()).files["exercises/silu.yaml"]
    (tmp_path / "silu.yaml").write_bytes(data)
    theirs = load(tmp_path / "silu.yaml").predictions
    assert theirs is not None
    assert all(each.answer is None for each in theirs.questions.values())
    assert b"accept" not in data


def test_the_page_lists_every_quantity() -> None:
    page = (ROOT / "docs/predictions.md").read_text()
    assert [name for name in QUANTITIES if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("answer: bytes", "answer: bytes / (n - n)", ("bytes", "got a division by zero (n=")),
        ("answer: bytes", "", ("bytes", "expected a formula, got none")),
        ("[memory, compute]", "[compute]", ("bound", "expected 'memory' among the choices")),
        ("answer: floor_us", "answer: copies", ("time", "copies: expected a variant in CUDA C++")),
    ],
)
def test_an_author_learns_of_answers_that_nobody_can_work_out(
    tmp_path: Path, old: str, new: str, expected: tuple[str, str]
) -> None:
    path = tmp_path / "doubled.yaml"
    path.write_text(SPEC.replace(old, new, 1))
    exercise = load(path)
    with Session(ROOT, {"doubled": exercise}, Options(device="cpu"), files={}) as session:
        [(key, reason)] = predictions.unanswerable(session, exercise)
    assert key == expected[0] and expected[1] in reason


def test_predict_names_no_exercise_where_none_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_command, "right_exercises", dict)
    ended = CliRunner().invoke(app, ["predict", "--show", "--submission", str(tmp_path)])
    assert ended.exit_code == 2
    assert ended.output.strip() == "expected an exercise that asks questions, there is none"

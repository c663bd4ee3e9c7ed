"""`grader author check` has a line for each thing that is missing or wrong about an exercise."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from grader.evidence import Failure, PartEvidence, VariantEvidence
from grader.grading.session import unwatched
from grader.mistakes import Mistake
from grader.spec import Course
from grader.spec.task import Task
from grader.staff import new
from grader.staff.author import definitions, texts, trials
from grader.staff.author.check import check
from grader.staff.author.trials import Ran, Trials
from grader.staff.calibration import corpus
from grader.staff.stubs import make_stubs
from grader.status import Status
from tests.support.commandline import call

LAB = Path(__file__).parents[2] / "lab_course"


def begun(folder: Path, *names: str) -> Course:
    """A course with small exercises in Triton, of which the author has written every text."""
    new.course(folder)
    for name in names:
        new.exercise(Course(folder), name, ["triton"])
    for path in (folder / "handout.md", *(folder / "exercises").glob("*.yaml")):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(each for each in lines if "TODO" not in each), encoding="utf-8")
    return Course(folder)


def changed(path: Path, *edits: tuple[str, str]) -> None:
    """Replace texts of a file, each of which is in it once."""
    text = path.read_text(encoding="utf-8")
    for old, new_text in edits:
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new_text)
    path.write_text(text, encoding="utf-8")


def lines_on(course: Course, *names: str) -> list[str]:
    return [each.text for each in check(Course(course.root), names) if each.is_mistake]


NAMES = (
    "bad_spec",
    "no_oracle",
    "odd_shape",
    "loose",
    "tight",
    "wrong_solution",
    "papers",
    "corpora",
)


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> list[str]:
    """The lines on a course with a mistake or two in each of its exercises."""
    course = begun(tmp_path_factory.mktemp("course") / "course", *NAMES)
    root = course.root
    changed(root / "exercises" / "bad_spec.yaml", ("role: output", "role: outptu"))
    changed(
        root / "reference" / "oracles.py",
        ("def no_oracle(x", "def nothing(x"),
        (
            'of x."""\n    return x * x\n\n\ndef odd_shape_torch',
            'of x."""\n    return (x * x)[:1]\n\n\ndef odd_shape_torch',
        ),
    )
    changed(
        root / "exercises" / "loose.yaml",
        ("data: [normal]", "data: [normal]\ntolerance: {floor_ulps: {float32: 1.0e+5}}"),
    )
    changed(
        root / "exercises" / "tight.yaml",
        ("data: [normal]", "data: [normal]\ntolerance: {floor_ulps: 0.0}"),
    )
    doc = '"""The square of each element of x."""'
    head = f"def tight(x: torch.Tensor) -> torch.Tensor:\n    {doc}\n    return "
    changed(
        root / "reference" / "oracles.py",
        (f"{head}x * x", f"{head}torch.exp(torch.log(x.abs()) * 2)"),
    )
    changed(root / "reference" / "wrong_solution.py", ("x * x, mask", "x + x, mask"))
    changed(root / "assignment" / "papers.py", ("pass", "pass  # mine"))
    changed(root / "handout.md", ("## papers", "## paper"))
    (root / "honest" / "papers.yaml").unlink()
    changed(
        root / "wrong" / "corpora.yaml",
        ("new: x.numel() // BLOCK", "new: triton.cdiv(x.numel() + 0, BLOCK)"),
    )
    with (root / "wrong" / "corpora.yaml").open("a", encoding="utf-8") as file:
        file.write(
            "\n- name: no_such_text\n  mistake: some\n  edits: [{old: never there, new: x}]\n"
            "  status: wrong_values\n  classes: [huge]\n"
        )
    changed(root / "honest" / "corpora.yaml", ("new: BLOCK = 64", "new: BLOCK = 65"))
    for folder in (course.reference, course.assignment):
        changed(folder / "corpora.py", ("raise NotImplementedError(", "raise NotImplemented("))
    return lines_on(course)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("bad_spec.yaml:6: ", "expected one of input, output, inout, got 'outptu'"),
        ("oracles.py: ", "expected a function no_oracle, found none"),
        ("oracles.py:", "odd_shape: its functions return outputs of different shapes"),
        ("loose.yaml:", "too loose: a result rounded to float16 would pass"),
        ("tight.yaml:", "too tight: the definition computed in float32 is refused"),
        ("reference/wrong_solution.py: ", "the solution must pass, got wrong values: out[0] is "),
        (
            "assignment/papers.py: ",
            "not what `grader stubs` writes: run `grader stubs papers --force`",
        ),
        ("assignment/corpora.py: ", "let its entry end in `raise NotImplementedError`"),
        ("handout.md: ", "expected a section '## papers'"),
        ("honest/papers.yaml: ", "there is no file: write one"),
        ("wrong/corpora.yaml: grid_rounds_down: ragged, ", "not caught, expected not_written"),
        (
            "wrong/corpora.yaml: no_such_text: classes: ",
            "expected some of aligned, ragged, got huge",
        ),
        ("wrong/corpora.yaml: no_such_text: ", "expected 'never there' once in the file it edits"),
        ("honest/corpora.yaml: small_blocks: ", "an honest submission must pass"),
    ],
)
def test_each_mistake_is_a_line(told, start, words):
    assert [line for line in told if line.startswith(start) and words in line], told


def test_no_other_line_is_told(told):
    # What fails in float16 too, and in each class, is one line. A wrong spec makes no table wrong.
    assert len(told) == 14, told
    assert all("\n" not in line for line in told)


def test_a_new_exercise_is_whole_and_an_unknown_name_is_refused(tmp_path, capsys):
    course = begun(tmp_path / "course", "square")
    ran = call(capsys, "author", "check", "--plain", "--quick", "--course", course.root)
    said = "No mistake found: 1 exercise, 1 variant, a sample of 2 submissions\n"
    assert (ran.code, ran.out) == (0, said), ran
    with pytest.raises(Mistake, match=r"sqare: expected an exercise, one of square\. Did you"):
        list(check(course, ["sqare"]))


def test_a_mistake_of_a_spec_is_none_of_the_handout(tmp_path):
    course = begun(tmp_path / "course", "one", "two")
    changed(course.specs / "two.yaml", ("role: output", "role: outptu"))
    [line] = lines_on(course, "two")
    assert line.startswith("two.yaml:6: arguments.out.role: ")


def test_an_answer_that_cannot_be_worked_out_has_its_line(tmp_path):
    course = begun(tmp_path / "course", "square")
    spec = course.specs / "square.yaml"
    asked = """\
predictions:
  points: 1
  questions:
    half:
      ask: What is the half of {n}?
      draw: {n: [2, 9]}
      answer: n / (n - n)
"""
    spec.write_text(spec.read_text(encoding="utf-8") + asked, encoding="utf-8")
    lines = lines_on(course, "square")
    number = len(spec.read_text(encoding="utf-8").splitlines())
    start = f"square.yaml:{number}: predictions.questions.half.answer: "
    assert [line for line in lines if line.startswith(start) and "division by zero" in line], lines


def test_a_new_exercise_makes_oracles_that_are_not_there_yet(tmp_path):
    course = begun(tmp_path / "course")
    course.oracles.unlink()
    new.exercise(course, "square", ["triton"])
    assert (
        list(definitions.mistakes(course.exercises["square"], course.specs / "square.yaml", []))
        == []
    )


@pytest.mark.parametrize("name", ["torch", "triton", "tl"])
def test_a_new_exercise_hides_no_module_of_its_files(tmp_path, name):
    new.course(tmp_path / "course")
    course = Course(tmp_path / "course")
    with pytest.raises(Mistake, match=f"'{name}' is a module that an exercise's files import"):
        new.exercise(course, name, ["triton"])
    assert not list(course.specs.iterdir())


def test_what_the_author_has_still_to_write_is_told(tmp_path):
    new.course(tmp_path / "course")
    course = Course(tmp_path / "course")
    new.exercise(course, "square", ["triton"])
    [spec, section] = texts.todos(course, course.exercises["square"])
    assert spec == "exercises/square.yaml:2: left to do: what your kernel computes, in a sentence"
    assert section.startswith("handout.md:") and section.endswith("what is hard about it")


def test_a_name_that_the_course_file_has_wrong_is_told_whatever_is_checked(tmp_path):
    course = begun(tmp_path / "course", "square")
    with (course.root / "course.yaml").open("a", encoding="utf-8") as file:
        file.write("order: [sqare]\n")
    [line] = lines_on(course, "square")
    assert "order[0]: expected the name of an exercise, one of square, got 'sqare'" in line


def test_new_exercises_leave_a_handout_that_is_up_to_date(tmp_path):
    course = begun(tmp_path / "course", "square", "cube")
    names = list(course.exercises)
    assert names == ["cube", "square"]
    assert not list(texts.handout_mistakes(course, course.exercises, names, every=True))


def test_an_entry_of_other_parameters_in_the_handout_is_told(tmp_path):
    course = begun(tmp_path / "course", "square")
    assert not list(texts.old_signatures(course, course.exercises["square"]))
    changed(course.handout, ("def square(x, out)", "def square(x, y, out)"))
    [line] = texts.old_signatures(course, course.exercises["square"])
    assert line.startswith("handout.md:")
    assert line.endswith("expected square(x, out), as the spec has it, got def square(x, y, out)")


def test_a_stub_of_a_lab_that_does_not_compile_is_told_at_its_file_and_line(lab):
    changed(lab.reference / "helper.cuh", ("//| return x;", "//| return x"))
    launcher = lab.reference / "launcher.cu"
    launch = "    scale_kernel<<<blocks_for(n), THREADS>>>(x, out, n);\n"
    marked = f"    // BEGIN SOLUTION\n    //| // TODO: launch\n{launch}    // END SOLUTION\n"
    launcher.write_text(launcher.read_text().replace(launch, marked), encoding="utf-8")
    exercise = lab.exercises["scale"]
    lab.assignment.mkdir()
    for name, text in make_stubs(lab.reference, lab.exercises).items():
        (lab.assignment / name).write_text(text, encoding="utf-8")
    with Trials(lab, unwatched) as trial:
        [line] = trial.stub_mistakes([Task(exercise, exercise.variants["cuda"])])
    assert line.startswith("assignment/helper.cuh:6: scale/cuda: the stub does not compile")


def test_a_solution_that_a_large_size_refuses_is_a_question(lab, monkeypatch):
    exercise = lab.exercises["scale"]
    failure = Failure(Status.launch_error, "n=3000000000 dtype=float32 seed=7", "too many")
    found = VariantEvidence("scale", "cuda", "launcher.cu", at_large_sizes=(failure,))
    monkeypatch.setattr(trials, "check", lambda *given: found)
    with Trials(lab, unwatched) as trial:
        assert not list(trial.solution_mistakes([Task(exercise, exercise.variants["cuda"])]))
    [line] = trial.questions
    assert line.startswith("reference/launcher.cu: scale/cuda, at a large size, which costs no")
    told = "kernel launch failed: too many (n=3000000000 dtype=float32 seed=7): is that right?"
    assert told in line


def test_a_failure_of_the_grader_at_a_large_size_is_no_question(lab, monkeypatch):
    exercise = lab.exercises["scale"]
    failure = Failure(Status.grader_error, "", "Traceback")
    found = VariantEvidence("scale", "cuda", "launcher.cu", at_large_sizes=(failure,))
    monkeypatch.setattr(trials, "check", lambda *given: found)
    with Trials(lab, unwatched) as trial:
        [line] = trial.solution_mistakes([Task(exercise, exercise.variants["cuda"])])
    assert "at a large size: the grader failed: Traceback" in line
    assert not trial.questions


def test_a_failure_in_a_further_file_is_no_place_of_the_next_one(lab, monkeypatch):
    exercise = lab.exercises["scale"]
    parts = [
        PartEvidence("float32", "aligned", status, failures=(Failure(status, "", "it", where),))
        for status, where in ((Status.crashed, "kernel.cu:3"), (Status.wrong_values, ""))
    ]
    found = VariantEvidence("scale", "cuda", "launcher.cu", parts=tuple(parts))
    monkeypatch.setattr(trials, "check", lambda *given: found)
    with Trials(lab, unwatched) as trial:
        lines = list(trial.solution_mistakes([Task(exercise, exercise.variants["cuda"])]))
    assert [each.partition(": ")[0] for each in lines] == [
        "reference/kernel.cu:3",
        "reference/launcher.cu",
    ]


@pytest.mark.parametrize("status", ["wrong_values", "data_race"])
def test_a_tolerance_may_be_why_wrong_values_are_not_caught(lab, status):
    entry = corpus.Submission(
        kind="wrong", exercise="scale", variant="cuda", name="sums_in_half", mistake="sums in half",
        edits=({"old": "a", "new": "b"},), status=status, classes=("ragged",),
    )  # fmt: skip
    found = VariantEvidence(
        "scale", "cuda", "launcher.cu", parts=(PartEvidence("float32", "ragged", Status.passed),)
    )
    [line] = trials._unlike(entry, lab.exercises["scale"].variants["cuda"], found)
    assert ("make `tolerance:` smaller" in line) == (status == "wrong_values")


def test_a_header_and_a_file_that_are_not_there_are_named(lab):
    (lab.reference / "blocks.cuh").unlink()
    lines = list(texts.stub_mistakes(lab, lab.exercises["scale"]))
    expected = "reference/blocks.cuh: expected the course's header that the spec names; write it"
    assert expected in lines
    lab.wrong.mkdir()
    entry = (
        "name: a, mistake: b, handed_in: helpr.cuh, whole: c, status: crashed, classes: [ragged]"
    )
    (lab.wrong / "scale_cuda.yaml").write_text(f"[{{{entry}}}]", encoding="utf-8")
    [line] = texts.entries(lab, lab.exercises["scale"], "wrong")[1]
    assert line == (
        "wrong/scale_cuda.yaml: a: handed_in: expected one of launcher.cu, kernel.cu, helper.cuh, "
        "got helpr.cuh, did you mean 'helper.cuh'?"
    )


@pytest.fixture
def lab(tmp_path: Path) -> Course:
    """A copy of the course with an exercise of several CUDA files."""
    shutil.copytree(LAB, tmp_path / "lab")
    return Course(tmp_path / "lab")


def test_what_ran_is_said():
    ran = Ran(exercises=2, variants=3, submissions=11)
    assert str(ran) == "2 exercises, 3 variants, 11 submissions"
    timed = replace(ran, has_thresholds=True)
    assert str(timed).startswith(f"{ran}; not checked: thresholds (")


def test_a_stub_that_passes_is_told(tmp_path):
    course = begun(tmp_path / "course", "square")
    solution = course.reference / "square.py"
    text = solution.read_text(encoding="utf-8")
    unmarked = "".join(
        line
        for line in text.splitlines(keepends=True)
        if "SOLUTION" not in line and "#|" not in line
    )
    solution.write_text(unmarked, encoding="utf-8")
    (course.assignment / "square.py").write_text(unmarked, encoding="utf-8")
    [line] = [each for each in lines_on(course, "square") if "BEGIN" in each]
    assert line.startswith("reference/square.py: expected a region")


def test_the_tolerances_of_the_integer_course_are_proved():
    course = Course(Path(__file__).parents[2] / "integer_course")
    for name, exercise in course.exercises.items():
        questions: list[str] = []
        spec = course.specs / f"{name}.yaml"
        assert not list(definitions.mistakes(exercise, spec, questions)), name
        assert not questions


TOPK = """\
title: Top k
arguments:
  - {name: x, shape: [n, cols], dtype: $dtype}
  - {name: values, shape: [n, k], dtype: $dtype, role: output}
  - {name: index, shape: [n, k], dtype: int64, role: output}
sizes: {ragged: {n: [1, 20], cols: [4, 60], k: [1, 4]}}
data: [normal]
variants:
  triton: {file: topk.py, entry: topk, dtypes: [float32], points: {ragged: 2}}
"""
# The last of equal numbers, where torch takes any.
DEFINED = """\
import torch


def topk(x, k):
    flipped = x.flip(-1).sort(dim=-1, descending=True, stable=True)
    return flipped.values[:, :k], (x.shape[-1] - 1 - flipped.indices)[:, :k]


def topk_torch(x, k):
    first = x.sort(dim=-1, descending=True, stable=True)
    return first.values[:, :k], first.indices[:, :k]
"""
SOUND = """\
    inside = (index >= 0) & (index < x.shape[-1])
    came = x.gather(-1, index.clamp(0, x.shape[-1] - 1))
    twice = (index.unsqueeze(-1) == index.unsqueeze(-2)).sum(dim=-1) > 1
    return {
        "values": values != expected[0].to(values.dtype),
        "index": ~inside | twice | (came != values),
    }
"""


def of_topk(folder: Path, own_check: str, spec: str = TOPK, oracles: str = DEFINED) -> list[str]:
    """The lines on an oracle with an own check of this body; questions end in '?'."""
    course = begun(folder / "course")
    (course.root / "exercises" / "topk.yaml").write_text(spec, encoding="utf-8")
    head = "\n\ndef topk_check(x, values, index, expected):\n"
    text = oracles + (head + own_check if own_check else "")
    course.oracles.parent.mkdir(exist_ok=True)
    course.oracles.write_text(text, encoding="utf-8")
    questions: list[str] = []
    found = definitions.mistakes(course.exercises["topk"], course.specs / "topk.yaml", questions)
    return [*found, *questions]


@pytest.mark.parametrize(
    ("own_check", "words"),
    [
        (SOUND, []),
        (
            "    return None\n",
            [
                "topk_check accepts zeros as values",
                "topk_check accepts zeros as index",
                "topk_check accepts half a result as values",
                "topk_check accepts half a result as index",
                "topk_check accepts the negated result as values",
                "topk_check accepts a result shifted by one as values",
                "topk_check accepts a result shifted by one as index",
            ],
        ),
        (
            '    return {"values": values != expected[0].to(values.dtype)}\n',
            [
                "topk_check accepts zeros as index",
                "topk_check accepts half a result as index",
                "topk_check accepts a result shifted by one as index",
            ],
        ),
        (
            '    return {"index": index != expected[1]}\n',
            ["topk_check refuses torch's own result (index), for topk/triton, "],
        ),
        (
            '    return {"indices": index != expected[1]}\n',
            ["topk_check: got 'indices', which is no output: expected values, index"],
        ),
        (
            '    return {"index": (index != expected[1]).any(dim=-1)}\n',
            ["topk_check: index: got shape (1,), expected (1, 3)"],
        ),
    ],
)
def test_an_own_check_accepts_what_is_right_and_refuses_fakes(tmp_path, own_check, words):
    lines = of_topk(tmp_path, own_check)
    assert len(lines) == len(words), lines
    for line, expected in zip(lines, words, strict=True):
        assert line.startswith("oracles.py:14: ") and expected in line, lines
        assert line.endswith("?") == ("shifted" in line or "negated" in line)


def test_integers_that_differ_ask_for_a_check_and_no_tolerance(tmp_path):
    spec = TOPK.replace("data: [normal]", "data: [normal, constant_rows]")
    [line] = of_topk(tmp_path, "", spec)
    assert "index, int64: torch's own result differs. If several results are right, " in line
    assert "write topk_check in reference/oracles.py (docs/spec.md#oracles)" in line
    assert "ulps" not in line


def test_parameters_that_are_not_the_specs_have_their_line(tmp_path):
    wrong = DEFINED.replace("topk(x, k)", "topk(y, k)").replace("return fl", "x = y\n    return fl")
    [line] = of_topk(tmp_path, "", oracles=wrong)
    expected = "oracles.py:4: topk takes y, k; the spec's inputs are x; it may name n, cols, k too"
    assert line == expected


def test_a_magnitude_that_no_tolerance_uses_has_its_line(tmp_path):
    more = "\n\ndef topk_magnitude(x):\n    return x, x\n"
    [line] = of_topk(tmp_path, "", oracles=DEFINED + more)
    assert "topk_magnitude isn't used: write `tolerance: {magnitude: oracle}`" in line


MATVEC = """\
title: Matrix times vector
arguments:
  - {name: a, shape: [M, N], dtype: $dtype}
  - {name: x, shape: [N], dtype: float32}
  - {name: y, shape: [M], dtype: float32, role: output}
sizes: {ragged: {M: [4, 20], N: [1, 60]}}
tolerance: {magnitude: absolute_inputs}
variants:
  triton: {file: matvec.py, entry: matvec, dtypes: [DTYPE], points: {ragged: 2}}
"""


def of_matvec(folder: Path, dtype: str, oracles: str) -> list[str]:
    """The lines on the oracle and the tolerance of a product of a matrix and a vector."""
    course = begun(folder / "course")
    text = MATVEC.replace("DTYPE", dtype)
    text = text.replace("float32", dtype) if dtype == "float64" else text
    (course.root / "exercises" / "matvec.yaml").write_text(text, encoding="utf-8")
    course.oracles.parent.mkdir(exist_ok=True)
    course.oracles.write_text(oracles, encoding="utf-8")
    return [*definitions.mistakes(course.exercises["matvec"], course.specs / "matvec.yaml", [])]


def test_a_tolerance_of_doubles_need_not_let_float32_pass(tmp_path):
    oracles = "def matvec(a, x):\n    return a @ x\n\n\nmatvec_torch = matvec\n"
    assert of_matvec(tmp_path, "float64", oracles) == []


def test_a_tolerance_that_torchs_own_error_makes_loose_is_told_with_what_to_do(tmp_path):
    oracles = (
        "def matvec(a, x):\n    return a @ x.to(a.dtype)\n\n\n"
        "def matvec_torch(a, x):\n    return a.AS @ x.AS\n"
    )
    [line] = of_matvec(tmp_path, "float16", oracles.replace("AS", "half()"))
    assert line.startswith("matvec.yaml:7: tolerance: y, float32: too loose: a result rounded to")
    assert "let matvec_torch compute as precisely as a kernel should" in line
    assert of_matvec(tmp_path / "again", "float16", oracles.replace("AS", "float()")) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 3.0", "expected a tensor, or a tuple of one for each output, got float"),
        ("a @ x", "expected a tensor, or a tuple of one for each output, got NoneType"),
        (
            "return (a @ x).numpy()",
            "expected a tensor, or a tuple of one for each output, got ndarray",
        ),
        ("a *= x\n    return a.sum(-1)", "it changes its input a: begin with a.clone()"),
        ("return a @ x, x", "of outputs: matvec 2, its magnitude 2, torch's own 1"),
        ("return a @ x[:-1]", "matvec: RuntimeError: size mismatch"),
        ("return a @ x + 1", "does matvec_torch compute the same? If so, set a larger"),
    ],
)
def test_a_definition_that_is_none_has_one_line(tmp_path, body, words):
    oracles = f"def matvec(a, x):\n    {body}\n\n\ndef matvec_torch(a, x):\n    return a @ x\n"
    first, *more = of_matvec(tmp_path, "float32", oracles)
    assert words in first
    assert not more or "too loose" in more[0]


def test_a_mistake_of_the_course_file_is_one_line(tmp_path):
    course = begun(tmp_path / "course", "square")
    changed(course.root / "course.yaml", ("gpu: H100", "gpu: GTX 1080"))
    [line] = lines_on(course)
    assert line.startswith("course.yaml:2: gpu: expected the name of an NVIDIA GPU")

"""Stubs are made from the reference and nothing of the solution stays in them."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader import spec
from grader.mistakes import Mistake
from grader.spec.compiling import Compile
from grader.staff.stubs import make_stub, make_stubs, write_stubs

ROOT = Path(__file__).resolve().parents[3]
EXERCISES = spec.load_all()
FILES = sorted({v.file for exercise in EXERCISES.values() for v in exercise.variants.values()})
WORKED_EXAMPLES = {"gelu.py", "gelu.cu"}  # they ship as they are
TO_WRITE = [name for name in FILES if name not in WORKED_EXAMPLES]

SOLVED = """\
import os

def f(x):
    # BEGIN SOLUTION
    #| # TODO: add 1
    #|
    #|     # twice
    #| raise NotImplementedError
    y = x + 1
    return y + 1
    # END SOLUTION
"""
STUB = """\
import os

def f(x):
    # TODO: add 1

        # twice
    raise NotImplementedError
"""


def _of_file(name):
    """What making stubs asks of a variant of one file."""
    return SimpleNamespace(file=name, files=(name,), compile=Compile())


@pytest.fixture
def folders(tmp_path):
    """A reference folder with f.py, an assignment folder not there yet, and specs naming f.py."""
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "f.py").write_text(SOLVED)
    variant = _of_file("f.py")
    exercises = {"f": SimpleNamespace(variants={"triton": variant, "again": variant})}
    return tmp_path / "reference", tmp_path / "assignment", exercises


def test_the_assignment_is_what_the_reference_makes():
    files = [path for path in (ROOT / "assignment").glob("*") if path.suffix in (".py", ".cu")]
    stubs = make_stubs(ROOT / "reference", EXERCISES)
    assert {path.name: path.read_bytes().decode() for path in files} == stubs


def test_the_worked_examples_ship_solved_and_nothing_else_does():
    same = {
        name
        for name in FILES
        if (ROOT / "reference" / name).read_text() == (ROOT / "assignment" / name).read_text()
    }
    assert same == WORKED_EXAMPLES


@pytest.mark.parametrize("name", TO_WRITE)
def test_no_line_of_the_solution_is_in_the_stub(name):
    text = (ROOT / "reference" / name).read_text(encoding="utf-8")
    mark = "#" if name.endswith(".py") else "//"
    regions = [
        part.split(f"{mark} END SOLUTION")[0] for part in text.split(f"{mark} BEGIN SOLUTION")[1:]
    ]
    lines = [line.strip() for region in regions for line in region.splitlines()]
    solution = {line for line in lines if line and not line.startswith(f"{mark}|")}
    assert solution, "the reference has no solution regions"
    stub = make_stub(text, name)
    given = {line.strip() for line in stub.splitlines()}
    # What stands outside the regions too (a decorator, say) is no secret.
    outside = {line.strip() for line in text.splitlines()} - {*lines}
    repeated = {line for line in solution if text.count(line) > "".join(regions).count(line)}
    assert not (solution - outside - repeated) & given
    assert f"{mark}|" not in stub
    assert "SOLUTION" not in stub


@pytest.mark.parametrize("name", [name for name in TO_WRITE if name.endswith(".py")])
def test_a_stub_has_the_entry_with_its_signature_and_says_what_to_do(name):
    text = (ROOT / "reference" / name).read_text(encoding="utf-8")
    stub = make_stub(text, name)
    entries = {
        variant.entry
        for exercise in EXERCISES.values()
        for variant in exercise.variants.values()
        if variant.file == name and variant.max_points > 0  # the others ship solved
    }
    solved, left = ({f.name: f for f in _functions(source)} for source in (text, stub))
    for entry in entries:
        assert ast.unparse(left[entry].args) == ast.unparse(solved[entry].args)
        assert ast.unparse(left[entry].body[-1]).startswith(f"raise NotImplementedError('{entry}:")
    assert "TODO" in stub


def _functions(source):
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def test_a_region_becomes_its_stub_lines():
    assert make_stub(SOLVED, "f.py") == STUB


def test_cuda_regions_use_slashes():
    text = "void f() {\n  // BEGIN SOLUTION\n  //| // TODO\n  g();\n  // END SOLUTION\n}\n"
    assert make_stub(text, "f.cu") == "void f() {\n  // TODO\n}\n"


def test_a_file_without_regions_ships_solved():
    assert make_stub("x = 1\n", "f.py") == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n# BEGIN SOLUTION\n#| x\ny = 1\n", "f.py:2: BEGIN SOLUTION without END"),
        ("x = 1\n# END SOLUTION\n", "f.py:2: END SOLUTION without BEGIN"),
        (
            "# BEGIN SOLUTION\n#| x\n# BEGIN SOLUTION\n",
            "f.py:3: expected END SOLUTION for the region begun in line 1",
        ),
        ("# BEGIN SOLUTION\n# END SOLUTION\n", "f.py:2: .* line 1 has no stub lines"),
        ("# BEGIN SOLUTION\ny = 1\n# END SOLUTION\n", "f.py:3: .* line 1 has no stub lines"),
        ("# BEGIN SOLUTION\n#| x = 1\n\n# END SOLUTION\n", "f.py:4: .* line 1 has no solution"),
        ("# BEGIN SOLUTION\ny = 1\n#| x = 1\n# END SOLUTION\n", "f.py:3: expected the stub lines"),
        ("#| x = 1\n", "f.py:1: expected stub lines .* inside a region only"),
        ("# BEGIN SOLUTIONS\n#| x\ny = 1\n", "f.py:1: expected '# BEGIN SOLUTION'"),
        ("# begin solution\n", "f.py:1: expected '# BEGIN SOLUTION'"),
        ("x = 1  # BEGIN SOLUTION\n", "f.py:1: .* alone on the line"),
        ("#END SOLUTION\n", "f.py:1: expected '# BEGIN SOLUTION'"),
        ("# BEGIN SOLUTION\n#| x\ny = 1\n  # END SOLUTION\n", "f.py:4: .* indented as"),
        (
            "def f():\n    # BEGIN SOLUTION\n    #| # TODO\n    return 1\n    # END SOLUTION\n",
            "f.py: the stub would not parse: .*statement",
        ),
    ],
)
def test_a_region_that_is_wrong_is_named_by_file_and_line(text, message):
    with pytest.raises(Mistake, match=message) as caught:
        make_stub(text, "f.py")
    assert "\n" not in str(caught.value)


def test_an_unknown_kind_of_file_is_refused():
    with pytest.raises(
        Mistake, match=r"notes\.txt: expected a file ending in \.py, \.cu, \.cuh or \.h"
    ):
        make_stub("", "notes.txt")


def test_writing_twice_changes_nothing(folders):
    reference, assignment, exercises = folders
    assert write_stubs(reference, assignment, exercises) == [assignment / "f.py"]
    assert (assignment / "f.py").read_text() == STUB
    assert write_stubs(reference, assignment, exercises) == []


def test_a_students_work_is_never_overwritten_unasked(folders):
    reference, assignment, exercises = folders
    write_stubs(reference, assignment, exercises)
    (assignment / "f.py").write_text("my own work\n")
    with pytest.raises(Mistake, match=r"f\.py: .*nothing was written"):
        write_stubs(reference, assignment, exercises)
    assert (assignment / "f.py").read_text() == "my own work\n"
    assert write_stubs(reference, assignment, exercises, force=True) == [assignment / "f.py"]
    assert (assignment / "f.py").read_text() == STUB


def test_an_edited_file_beside_the_first_names_its_exercise(folders):
    reference, assignment, exercises = folders
    further = Compile(files=["g.cu"], headers=["h.cuh"])
    lab = SimpleNamespace(file="l.cu", files=("l.cu", "g.cu"), compile=further)
    exercises["lab"] = SimpleNamespace(variants={"cuda": lab})
    for name in ("l.cu", "g.cu", "h.cuh"):
        (reference / name).write_text("int x;\n")
    write_stubs(reference, assignment, exercises)
    for name in ("g.cu", "h.cuh"):
        (assignment / name).write_text("int y;\n")
        with pytest.raises(Mistake, match=rf"{name}: .*: grader stubs lab --force$"):
            write_stubs(reference, assignment, exercises)
        (assignment / name).write_text("int x;\n")


def test_one_edited_file_keeps_the_others_from_being_written(folders):
    reference, assignment, exercises = folders
    (reference / "g.py").write_text("x = 1\n")
    exercises["g"] = SimpleNamespace(variants={"triton": _of_file("g.py")})
    assignment.mkdir()
    (assignment / "f.py").write_text("my own work\n")
    with pytest.raises(Mistake):
        write_stubs(reference, assignment, exercises)
    assert not (assignment / "g.py").exists()


def test_only_files_that_specs_name_are_written(folders):
    reference, assignment, exercises = folders
    (reference / "oracles.py").write_text("x = 1\n")
    write_stubs(reference, assignment, exercises)
    assert [path.name for path in assignment.iterdir()] == ["f.py"]


def test_a_missing_reference_is_named(folders):
    reference, assignment, exercises = folders
    (reference / "f.py").unlink()
    with pytest.raises(Mistake, match=r"reference/f\.py: expected the solution"):
        write_stubs(reference, assignment, exercises)

"""Exports: each is read back by a parser written from the platform's format."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

import pytest

from grader.batch import exports
from grader.batch.course import roster
from grader.batch.course.records import (
    Adjustment,
    AdjustmentKind,
    Attempt,
    Gradebook,
    Member,
    Student,
)
from grader.batch.course.roster import Roster
from grader.batch.exports.cells import identifier, text
from grader.mistakes import Mistake
from grader.spec.course_file import CourseFile, Late
from grader.status import Status
from tests.support.class_records import (
    DUE,
    H100,
    SEED,
    UNTRUSTED,
    attempt,
    book,
    evidence,
    handin,
    member,
)

DAY = timedelta(days=1)
COURSE = CourseFile(title="Kernels 1", due=DUE, late=Late(slip_days=1, penalty_per_day=12.5))
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,HW 0 (77),Kernels 1 (78),Kernels 1 (79),Final Score
    Points Possible,,,,,10,100,50,(read only)
"Lovelace, Ada",30123,u1,ada@x.org,"S1, S2",5,,,50
"=cmd|'/C calc'!A0",30124,-u2,+cb@x.org,S2,,33,,0
"Zuse, Konrad",30125,u3,kz,S2,,,,0
"""
ALL = [getattr(exports, name) for name in exports.__all__]
TABLES = [exports.to_canvas, exports.to_classroom, exports.to_csv, exports.to_gradescope]


def of_canvas(tmp_path: Path, text: str = CANVAS) -> Roster:
    path = tmp_path / "canvas.csv"
    path.write_text(text, encoding="utf-8")
    return roster.load(path)


def a_class(tmp_path: Path, text: str = CANVAS) -> Gradebook:
    """Ada is two days late, her partner's name is a formula, Konrad handed in nothing."""
    ada, partner = member("30123"), member("30124")
    made = attempt(80, "submission_7", ada, partner, late=2 * DAY)
    return book(COURSE, made, roster=of_canvas(tmp_path, text))


def cells(text: str) -> list[list[str]]:
    assert text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def rows(text: str) -> list[dict[str, str]]:
    """A CSV file as programs read it: every row has a cell for each column."""
    header, *rest = cells(text)
    assert len(set(header)) == len(header)
    assert all(len(row) == len(header) for row in rest)
    return [dict(zip(header, row, strict=True)) for row in rest]


# --- Canvas ---------------------------------------------------------------------------------------


class CanvasFile(NamedTuple):
    students: tuple[str, ...]  # the columns about students
    assignment: str
    assignment_id: int | None
    possible: float
    grades: dict[str, str]  # by ID
    rows: list[dict[str, str]]


def read_canvas(text: str) -> CanvasFile:
    """As Canvas imports a gradebook.

    Student and ID come first, then SIS User ID and SIS Login ID, then Section; what follows are
    assignments, found by the number in parentheses at their end. A row whose first cell says Points
    Possible is about columns; every other one is a student, found by ID.
    """
    header, *rest = cells(text)
    if header[:2] == ["LastName", "FirstName"]:
        header, rest = ["Student", *header[2:]], [[" ".join(r[1::-1]), *r[2:]] for r in rest]
    assert header[0] == "Student"
    assert header[1] == "ID"
    end = header.index("Section") + 1
    assert header[2:4] == ["SIS User ID", "SIS Login ID"] or header[2] == "SIS Login ID"
    [assignment] = header[end:]
    assert "Points Possible" in rest[0][0]
    assert not any(rest[0][1:end])
    known = re.search(r"\((\d+)\)$", assignment)
    found = [dict(zip(header, row, strict=True)) for row in rest[1:]]
    assert all(re.fullmatch(r"(\d+(\.\d+)?)?", row[assignment]) for row in found)
    return CanvasFile(
        tuple(header[:end]),
        assignment,
        int(known[1]) if known else None,
        float(rest[0][-1]),
        {row["ID"]: row[assignment] for row in found},
        found,
    )


def test_canvas_gets_its_own_columns_back_and_one_assignment(tmp_path):
    file = read_canvas(exports.to_canvas(a_class(tmp_path), assignment="Kernels 1 (78)"))
    assert file.students == ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
    assert (file.assignment, file.assignment_id, file.possible) == ("Kernels 1 (78)", 78, 100)
    assert file.grades == {"30123": "70", "30124": "70", "30125": ""}
    [ada] = [row for row in file.rows if row["ID"] == "30123"]
    assert (ada["Student"], ada["SIS User ID"], ada["Section"]) == ("Lovelace, Ada", "u1", "S1, S2")


def test_canvas_ids_are_exact_and_a_formula_in_a_name_is_not_run(tmp_path):
    [row] = [
        row
        for row in read_canvas(exports.to_canvas(a_class(tmp_path), assignment="new")).rows
        if row["ID"] == "30124"
    ]
    assert row["Student"] == "'=cmd|'/C calc'!A0"
    assert (row["SIS User ID"], row["SIS Login ID"]) == ("-u2", "+cb@x.org")


@pytest.mark.parametrize(
    ("wanted", "column"),
    [
        ("Kernels 1 (79)", "Kernels 1 (79)"),
        ("78", "Kernels 1 (78)"),
        ("hw 0", "HW 0 (77)"),
        ("Kernels 2", "Kernels 2"),
    ],
)
def test_the_canvas_assignment_is_one_that_is_there_or_a_new_one(tmp_path, wanted, column):
    header = cells(exports.to_canvas(a_class(tmp_path), assignment=wanted))[0]
    assert header[-1] == column
    assert len(header) == 6


@pytest.mark.parametrize("name", ["Final Score", "My Current Points", "Section", "SIS User ID"])
def test_a_column_that_canvas_would_not_take_for_an_assignment_is_refused(tmp_path, name):
    with pytest.raises(Mistake, match=f"expected another name .* {name!r}"):
        exports.to_canvas(a_class(tmp_path), assignment=name)


def test_two_canvas_assignments_of_one_name_have_to_be_told_apart(tmp_path):
    with pytest.raises(Mistake) as raised:
        exports.to_canvas(a_class(tmp_path))
    assert str(raised.value) == (
        "expected one assignment called 'Kernels 1' in Canvas, got 'Kernels 1 (78)', "
        "'Kernels 1 (79)'"
    )
    one = CANVAS.replace("Kernels 1 (79)", "Quiz (79)")
    assert read_canvas(exports.to_canvas(a_class(tmp_path, one))).assignment == "Kernels 1 (78)"


def test_canvas_columns_that_only_some_schools_have_stay_in_their_place(tmp_path):
    text = (
        "LastName,FirstName,ID,SIS User ID,SIS Login ID,Integration ID,Root Account,Section,N,A (7)"
        "\nLovelace,Ada,30123,u1,ada,i1,school.example,S1,my note,\n"
    )
    made = book(COURSE, attempt(100, "h", member("30123")), roster=of_canvas(tmp_path, text))
    header, _, row = cells(exports.to_canvas(made, assignment="A"))
    assert header == [*text.splitlines()[0].split(",")[:8], "A (7)"]
    assert row == ["Lovelace", "Ada", "30123", "u1", "ada", "i1", "school.example", "S1", "100"]


def test_canvas_without_its_gradebook_has_its_columns_all_the_same():
    file = read_canvas(exports.to_canvas(book(COURSE, attempt(100, "h", member("30123")))))
    assert (file.assignment, file.grades) == ("Kernels 1", {"30123": "100"})


def test_another_platforms_id_is_not_passed_off_as_canvas_own():
    student = Student("u1", "u1", "Ada L", "a@x.org", "S1", {"SID": "u1", "Email": "a@x.org"})
    roster = Roster("Gradescope", "roster.csv", (student,))
    made = book(COURSE, attempt(100, "h", member("u1")), roster=roster)
    [row] = read_canvas(exports.to_canvas(made)).rows
    assert (row["ID"], row["SIS User ID"], row["Section"]) == ("", "u1", "S1")


# --- Gradescope -----------------------------------------------------------------------------------


def test_gradescope(tmp_path):
    found = {row["SID"]: row for row in rows(exports.to_gradescope(a_class(tmp_path)))}
    ada, konrad = found["30123"], found["30125"]
    assert (ada["First Name"], ada["Last Name"], ada["Email"]) == ("Ada", "Lovelace", "ada@x.org")
    assert (float(ada["Total Score"]), float(ada["Max Points"]), ada["Status"]) == (
        70,
        100,
        "Graded",
    )
    at = datetime.strptime(ada["Submission Time"], "%Y-%m-%d %H:%M:%S %z")
    assert at == DUE + 2 * DAY
    assert (ada["Lateness (H:M:S)"], ada["Submission ID"]) == ("48:00:00", "submission_7")
    assert (konrad["Total Score"], konrad["Status"], konrad["Submission ID"]) == ("", "Missing", "")


@pytest.mark.parametrize(
    ("name", "columns", "expected"),
    [
        ("Ada Lovelace", {}, ("Ada", "Lovelace")),
        ("Lovelace, Ada", {}, ("Ada", "Lovelace")),
        ("Ada King Lovelace", {"First Name": "Ada", "Last Name": "King Lovelace"},
         ("Ada", "King Lovelace")),
        ("Plato", {}, ("", "Plato")),
    ],
)  # fmt: skip
def test_first_and_last_names(name, columns, expected):
    roster = Roster("Gradescope", "r.csv", (Student("1", "1", name, columns=columns),))
    [row] = rows(exports.to_gradescope(book(COURSE, roster=roster)))
    assert (row["First Name"], row["Last Name"]) == expected


# --- GitHub Classroom -----------------------------------------------------------------------------


def test_github_classroom():
    students = Student("ada@x.org", "Ada-L", "Ada"), Student("cb@x.org", "", "")
    roster = Roster("GitHub Classroom", "roster.csv", students)
    handed_in = attempt(100, "kernels-1-ada-l", member("ada-l"))
    text = exports.to_classroom(book(COURSE, handed_in, roster=roster))
    assert text.splitlines()[0] == (
        "assignment_name,assignment_url,starter_code_url,github_username,roster_identifier,"
        "student_repository_name,student_repository_url,submission_timestamp,points_awarded,"
        "points_available"
    )
    ada, cb = sorted(rows(text), key=lambda row: row["roster_identifier"])
    assert (ada["assignment_name"], ada["github_username"]) == ("Kernels 1", "Ada-L")
    assert ada["student_repository_name"] == "kernels-1-ada-l"
    assert datetime.fromisoformat(ada["submission_timestamp"]) == DUE
    assert (float(ada["points_awarded"]), float(ada["points_available"])) == (100, 100)
    assert (cb["github_username"], cb["points_awarded"], cb["submission_timestamp"]) == (
        "",
        "0",
        "",
    )


def test_what_cannot_be_read_is_no_zero():
    broken = Attempt(handin("h", member("ada"), problem="not a zip file"))
    made = book(COURSE, broken)
    assert rows(exports.to_classroom(made))[0]["points_awarded"] == ""
    assert rows(exports.to_gradescope(made))[0]["Total Score"] == ""
    assert read_canvas(exports.to_canvas(made)).grades == {"ada": ""}
    assert rows(exports.to_csv(made))[0]["state"] == "can't be read"


# --- plain ----------------------------------------------------------------------------------------

ADJUSTED = [
    Adjustment("ada", AdjustmentKind.points, "=a reason", points=-2.5, by="Grace", at=DUE),
    Adjustment("ada", AdjustmentKind.note, "spoke with her", at=DUE + DAY),
]


def adjusted() -> Gradebook:
    made = attempt(80, "h2", member("ada", email="a@x.org"), member("bob"), late=2 * DAY)
    return book(
        COURSE,
        attempt(40, "h1"),
        made,
        adjustments=ADJUSTED,
        made_at=datetime(2026, 12, 9, tzinfo=timezone.utc),
    )


def test_the_plain_csv_says_how_each_score_came_about():
    ada, bob = rows(exports.to_csv(adjusted()))
    numbers = ("score", "max_score", "raw", "gradable", "bonus", "penalty_percent", "points")
    assert [float(ada[name]) for name in numbers] == [67.5, 100, 80, 100, 0, 12.5, -2.5]
    assert [ada[name] for name in ("days_late", "slip_days", "refused", "handins")] == [
        *("2", "1", "no", "2")
    ]
    assert (ada["id"], ada["email"], ada["state"]) == ("ada", "a@x.org", "graded")
    assert (ada["device"], ada["seed"]) == (H100, str(SEED))
    assert ada["adjustments"] == "points -2.5: =a reason; note: spoke with her"
    assert "in a group with Bob" in ada["notes"]
    assert (ada["silu/triton"], ada["silu/triton status"]) == ("80", "target_missed")
    assert (float(bob["score"]), bob["adjustments"]) == (70, "")
    assert (
        datetime.fromisoformat(ada["submitted_at"]) - datetime.fromisoformat(ada["due"]) == 2 * DAY
    )


def test_the_json_has_the_schema_that_others_build_on():
    data = json.loads(exports.to_json(adjusted()))
    assert list(data) == [
        *("schema", "title", "device", "seed", "max_score", "complete", "made_at", "entries"),
        *("unmatched_handins", "unmatched_rows"),
    ]
    assert (data["schema"], data["title"], data["complete"]) == (1, "Kernels 1", True)
    assert data["made_at"] == "2026-12-09T00:00:00+00:00"
    ada = data["entries"][0]
    assert (ada["id"], ada["score"], ada["raw"], ada["penalty"]) == ("ada", 67.5, 80, 0.125)
    assert ada["adjustments"][0] == {
        "kind": "points", "reason": "=a reason", "only": "", "points": -2.5, "by": "Grace",
        "at": "2026-12-01T23:59:00+00:00",
    }  # fmt: skip
    assert ada["variants"][0] == {
        "exercise": "silu", "variant": "triton", "status": "target_missed", "score": 80.0,
        "gradable": 100.0, "max_score": 100.0, "is_bonus": False,
    }  # fmt: skip


def test_the_json_lists_who_is_nobody():
    roster = Roster("plain", "roster.csv", (Student("1", "bob"),), rows={"1": 2})
    data = json.loads(exports.to_json(book(COURSE, attempt(100), roster=roster)))
    assert data["unmatched_handins"] == [
        {
            "id": "h1",
            "members": [{"id": "ada", "name": "Ada", "email": "", "login": ""}],
            "submitted_at": "2026-12-01T23:59:00+00:00",
            "problem": "",
            "notes": ["Ada (ada) is nobody in roster.csv"],
        }
    ]
    assert data["unmatched_rows"] == ["roster.csv: row 2: no hand-in of 1 (1)"]
    assert data["entries"][0]["state"] == "missing"


# --- every export ---------------------------------------------------------------------------------


@pytest.mark.parametrize("export", ALL, ids=exports.__all__)
def test_a_gradebook_that_is_not_final_is_refused_and_never_a_zero(export):
    waiting = book(COURSE, attempt(100, "h1", member("ada")), attempt(None, "h2", member("bob")))
    with pytest.raises(Mistake) as raised:
        export(waiting)
    assert str(raised.value) == (
        "1 of 2 students has no final score (bob; the first: not graded yet): "
        "grade or decide those first, or give --allow-incomplete"
    )
    assert export(waiting, allow_incomplete=True)


def test_a_score_that_may_still_change_is_an_empty_cell():
    seen = evidence(Status.grader_error)
    waiting = book(COURSE, attempt(seen=seen))
    options = {"allow_incomplete": True}
    assert read_canvas(exports.to_canvas(waiting, **options)).grades == {"ada": ""}
    [row] = rows(exports.to_gradescope(waiting, **options))
    assert (row["Total Score"], row["Status"]) == ("", "Ungraded")
    assert rows(exports.to_classroom(waiting, **options))[0]["points_awarded"] == ""
    [row] = rows(exports.to_csv(waiting, **options))
    assert (row["score"], row["state"]) == ("", "no final score yet")
    assert "the grader failed on silu/triton" in row["notes"]
    data = json.loads(exports.to_json(waiting, **options))
    assert (data["complete"], data["entries"][0]["score"]) == (False, None)


@pytest.mark.parametrize("export", TABLES)
def test_no_untrusted_text_becomes_a_formula_or_leaves_its_cell(export):
    people = (
        Member(UNTRUSTED, UNTRUSTED, UNTRUSTED, UNTRUSTED),
        Member("-1+1", "@SUM(A1)", "+x@y.org"),
    )
    made = attempt(100, UNTRUSTED, *people, notes=(UNTRUSTED,))
    untrusted = book(
        COURSE.model_copy(update={"title": UNTRUSTED}),
        made,
        adjustments=[Adjustment(UNTRUSTED, AdjustmentKind.points, UNTRUSTED, points=1)],
    )
    for row in cells(export(untrusted)):
        for cell in row:
            assert "\n" not in cell
            assert "\x1b" not in cell
            if cell.lstrip().startswith(("=", "+", "-", "@")):
                assert re.fullmatch(r"[\w.@+-]+", cell), cell


def test_untrusted_text_leaves_the_json_whole():
    made = attempt(100, UNTRUSTED, Member(UNTRUSTED, UNTRUSTED, "\ud800"), notes=(UNTRUSTED,))
    text = exports.to_json(book(COURSE, made))
    assert text.isascii()
    assert json.loads(text)["entries"][0]["id"] == UNTRUSTED


@pytest.mark.parametrize("cell", ["a;=1", 'a; "=1', "a;+1", "b;@A1", "c;b;＝1"])
def test_what_a_spreadsheet_with_semicolons_between_cells_would_run_is_quoted(cell):
    for written in (text(cell), identifier(cell)):
        assert written.replace("'", "") == cell
        assert not re.search(r';[\s"]*[=+\-@＝]', written)


@pytest.mark.parametrize("cell", ["=1", " =1", "+1", "-1", "@A1", "\t=1", "\n=1", "＝1", "-2+3"])
def test_text_that_a_spreadsheet_would_run_is_quoted(cell):
    assert text(cell) == "'" + cell.strip()


@pytest.mark.parametrize("id", ["-1", "+x@y.org", "@ada", "007", "a b", "UID: 9", "é", ""])
def test_an_id_that_nothing_can_be_run_of_is_exact(id):
    assert identifier(id) == id


@pytest.mark.parametrize("id", ["=A1", "=1+1", " =1", "+1(", "-A1|x", "@SUM(1)", "a\nb"])
def test_an_id_that_a_spreadsheet_could_run_is_quoted_as_text(id):
    assert identifier(id) == text(id) != id


def test_scores_have_no_more_than_four_digits_and_none_that_are_not_needed():
    course = CourseFile(due=DUE, late=Late(penalty_per_day=33.3333))
    file = read_canvas(exports.to_canvas(book(course, attempt(100, "h", member("1"), late=DAY))))
    assert file.grades == {"1": "66.6667"}

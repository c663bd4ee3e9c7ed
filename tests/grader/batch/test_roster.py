"""The roster: four kinds of CSV files, odd ones too, and whom a hand-in belongs to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.batch.classes import CourseClass
from grader.batch.course import roster as rosters
from grader.batch.course.matching import Matcher
from grader.batch.course.records import Member
from grader.batch.course.roster import Roster
from grader.batch.store.store import Store
from grader.spec import SpecError

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,HW 0 (77),Kernels 1 (78),Final Score
,,,,,Manual Posting,,
    Points Possible,,,,,10,100,(read only)
"Lovelace, Ada",30123,u1,ada@example.org,S1,5,,50
"Babbage, Charles",30124,u2,cb,S2,,,0
"Student, Test",30199,,0a1b2c,S1,,,0
"""
GRADESCOPE = """\
First Name,Last Name,SID,Email,Role,Section
Ada,Lovelace,u1,ada@example.org,Student,S1
Charles,Babbage,,cb@example.org,Student,S2
Grace,Hopper,u9,gh@example.org,Instructor,
"""
CLASSROOM = """\
"identifier","github_username","github_id","name"
"ada@example.org","Ada-L","1","Ada Lovelace"
"cb","","",""
"""
PLAIN = "id,platform_id,name,email,section\n007,ada,Ada Lovelace,ada@example.org,S1\n8,cb,,,\n"


def read(tmp_path: Path, text: str | bytes) -> Roster:
    path = tmp_path / "roster.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return rosters.load(path)


def refused(tmp_path: Path, text: str | bytes) -> str:
    """The one line that answers a roster with one mistake."""
    with pytest.raises(SpecError) as raised:
        read(tmp_path, text)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def keys(roster: Roster) -> list[tuple[str, str, str, str, str]]:
    return [(s.id, s.platform_id, s.name, s.email, s.section) for s in roster.students]


def test_canvas(tmp_path):
    roster = read(tmp_path, CANVAS)
    assert roster.kind == "Canvas"
    assert keys(roster) == [
        ("30123", "30123", "Lovelace, Ada", "ada@example.org", "S1"),
        ("30124", "30124", "Babbage, Charles", "", "S2"),
    ]
    assert roster.rows == {"30123": 4, "30124": 5}
    assert roster.students[0].columns["HW 0 (77)"] == "5"
    assert roster.notes == ("roster.csv: left out, as no students: row 6 (Canvas's test student)",)


def test_canvas_with_names_in_two_columns(tmp_path):
    text = "LastName,FirstName,ID,SIS Login ID,Section\nLovelace,Ada,30123,ada,S1\n"
    assert keys(read(tmp_path, text)) == [("30123", "30123", "Ada Lovelace", "", "S1")]


def test_gradescope(tmp_path):
    roster = read(tmp_path, GRADESCOPE)
    assert roster.kind == "Gradescope"
    assert keys(roster) == [
        ("u1", "u1", "Ada Lovelace", "ada@example.org", "S1"),
        ("cb@example.org", "", "Charles Babbage", "cb@example.org", "S2"),
    ]
    assert roster.unlinked == {
        "cb@example.org": "roster.csv: row 3: Charles Babbage has nothing in the column 'SID'"
    }
    assert roster.notes == ("roster.csv: left out, as no students: row 4 (instructor)",)


def test_github_classroom(tmp_path):
    roster = read(tmp_path, CLASSROOM)
    assert roster.kind == "GitHub Classroom"
    assert keys(roster) == [
        ("ada@example.org", "Ada-L", "Ada Lovelace", "ada@example.org", ""),
        ("cb", "", "", "", ""),
    ]
    assert roster.unlinked == {
        "cb": "roster.csv: row 3: cb has nothing in the column 'github_username'"
    }


def test_plain_with_ids_that_keep_their_zeros(tmp_path):
    roster = read(tmp_path, PLAIN)
    assert roster.kind == "plain"
    assert keys(roster) == [
        ("007", "ada", "Ada Lovelace", "ada@example.org", "S1"),
        ("8", "cb", "", "", ""),
    ]
    assert keys(read(tmp_path, "ID\nada\n")) == [("ada", "ada", "", "", "")]


@pytest.mark.parametrize(
    "data",
    [
        CANVAS.encode("utf-8-sig"),
        CANVAS.encode("utf-16"),
        CANVAS.replace("\n", "\r\n").encode(),
        CANVAS.encode() + b"\n\n,,,,,,,\n",
        re.sub(r",(?! )", ";", CANVAS).encode(),
        CANVAS.replace("Student,ID", "STUDENT, Id ").encode(),
    ],
    ids=["bom", "utf-16", "crlf", "empty-rows", "semicolons", "case"],
)  # fmt: skip
def test_what_spreadsheets_do_to_a_file_changes_nothing(tmp_path, data):
    roster = read(tmp_path, data)
    assert [(s.id, s.name, s.section) for s in roster.students] == [
        ("30123", "Lovelace, Ada", "S1"),
        ("30124", "Babbage, Charles", "S2"),
    ]


def test_tabs_separate_too(tmp_path):
    assert keys(read(tmp_path, "id\tname\n1\tAda, L\n")) == [("1", "1", "Ada, L", "", "")]


def test_what_is_not_utf8_is_read_as_latin1_and_said_so(tmp_path):
    roster = read(tmp_path, "id,name\n1,Zoë Müller\n".encode("latin-1"))
    assert roster.students[0].name == "Zoë Müller"
    assert roster.notes == (
        "roster.csv: not UTF-8, so read as Latin-1: are names with accents right?",
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "roster.csv: expected a header and a row for each student, got no text"),
        ("id,name\n", "roster.csv: expected a row for each student, found none"),
        ("a,b\n1,2\n", "roster.csv: row 1: expected the columns of one of Canvas (student, id, "
         "section); GitHub Classroom grades (roster_identifier, github_username, "
         "submission_timestamp); GitHub Classroom (identifier, github_username); Gradescope (sid, "
         "email); plain (id); got a, b"),
        ("Student,ID,SIS Login ID\nAda,1,a\n", "roster.csv: row 1: expected the column 'section' "
         "of a Canvas roster; got Student, ID, SIS Login ID"),
        ("identifier,name\n1,a\n", "expected the column 'github_username' of a GitHub Classroom"),
        ("sid,name\n1,a\n", "expected the column 'email' or 'email address' of a Gradescope"),
        ("id,name\n1,a\n,b\n", "roster.csv: row 3: expected an id in the column 'id', got an empty "
         "cell"),
        ("id,name\n1,a\n2,b\n1,c\n", "roster.csv: row 4: expected each id once, got '1' again: it "
         "is in row 2 too"),
        ("id,name\nAda,a\nada,b\n", "row 3: expected each id once, got 'ada' again"),
        ("id,platform_id\n1,a\n2,A\n", "row 3: expected each platform id once, got 'A' again"),
        ("id,name\n1,a,b\n", "roster.csv: row 2: expected 2 cells as in row 1, got 3"),
        ("id,name,name\n1,a,b\n", "roster.csv: row 1: expected each column once, got 'name' twice"),
        ('id,name\n1,"a\n', "roster.csv: line 2: can't be read as CSV"),
        (b"id\0,name\n", "roster.csv: expected a CSV file, got a file with zero bytes in it: save"),
        (b"PK\x03\x04\x00\x00", "got a spreadsheet: save it as CSV in UTF-8"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_row(tmp_path, text, line):
    assert line in refused(tmp_path, text)


def test_every_mistake_is_told_up_to_ten(tmp_path):
    with pytest.raises(SpecError) as raised:
        read(tmp_path, "id,name\n1,a\n" + ",b\n" * 20)
    lines = str(raised.value).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "and 10 more"


def test_a_roster_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SpecError, match=r"roster\.csv: can't be read: No such file"):
        rosters.load(tmp_path / "roster.csv")
    with pytest.raises(SpecError, match="can't be read: Is a directory"):
        rosters.load(tmp_path)


def test_an_untrusted_cell_reaches_no_terminal(tmp_path):
    line = refused(tmp_path, "id\n\x1b[2Ja\n\x1b[2Ja\n")
    assert "\x1b" not in line


# --- matching -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "member",
    [
        Member("30123"),
        Member("U1"),  # a student number, as Gradescope's SID is one
        Member("x", login="ADA@example.org"),
        Member("x", email="Ada@Example.org"),
        Member("ada@example.org"),
    ],
    ids=["platform-id", "sis-user-id", "login", "email", "email-as-id"],
)
def test_a_member_is_found_by_ids_login_and_email(tmp_path, member):
    found = Matcher(read(tmp_path, CANVAS)).find(member)
    assert (found.student.id, found.reason) == ("30123", "")


def test_a_github_login_is_found_whatever_its_case(tmp_path):
    found = Matcher(read(tmp_path, CLASSROOM)).find(Member("ada-l"))
    assert found.student.id == "ada@example.org"


def test_a_login_chosen_like_another_students_identifier_is_nobody(tmp_path):
    roster = "identifier,github_username,name\nada.l,ada-on-github,Ada\ncharles,,Charles\n"
    matcher = Matcher(read(tmp_path, roster))
    assert matcher.find(Member("ada.l", login="ada.l")).student is None
    assert matcher.find(Member("ada-on-github", login="ada-on-github")).student.id == "ada.l"
    assert matcher.find(Member("charles", login="charles")).student.id == "charles"


def test_nobody_is_found_by_name_alone_but_a_name_is_a_hint(tmp_path):
    found = Matcher(read(tmp_path, CANVAS)).find(Member("x", name="ada lovelace"))
    assert found.student is None
    assert found.reason == (
        "ada lovelace (x) is nobody in roster.csv; by the name it could be "
        "Lovelace, Ada (30123), roster.csv: row 4"
    )
    other = Matcher(read(tmp_path, CANVAS)).find(Member("x", name="Zoe"))
    assert other.reason == "Zoe (x) is nobody in roster.csv"


def test_a_member_whose_ids_name_two_rows_is_nobody(tmp_path):
    found = Matcher(read(tmp_path, CANVAS)).find(Member("30124", email="ada@example.org"))
    assert found.student is None
    assert found.reason == (
        "30124, ada@example.org fits both roster.csv: row 5 and roster.csv: row 4"
    )


def test_an_email_that_two_rows_have_matches_neither(tmp_path):
    roster = read(tmp_path, "id,email\n1,a@x.org\n2,A@x.org\n")
    assert Matcher(roster).find(Member("q", email="a@x.org")).student is None
    assert "rows 2, 3 have one email, a@x.org: nobody is matched by it" in roster.notes[0]


def test_a_class_tells_what_a_reader_of_its_roster_should_know(tmp_path):
    (tmp_path / "roster.csv").write_text("id,email\n1,a@x.org\n2,A@x.org\n")
    with Store(tmp_path / "results", create=True) as store:
        opened = CourseClass.open(store, {}, roster=tmp_path / "roster.csv")
        again = CourseClass.open(store, {})  # with the roster that it remembers
    assert "rows 2, 3 have one email" in opened.notes[0] and again.notes == opened.notes


def test_an_empty_id_matches_nobody(tmp_path):
    assert Matcher(read(tmp_path, CLASSROOM)).find(Member("")).student is None

"""The code frame: lines, marks, notes, and text that a student may have made to mislead."""

from grader.evidence import SourceLine
from grader.report.code_frame import MOST_COLUMNS, frame


def test_a_line_has_its_number_and_a_mark_under_the_place():
    line = SourceLine(7, "    out[i] = in[i];", "thread (1,0,0) writes", start=4, length=6)
    assert frame([line]).plain.splitlines() == [
        "7 | out[i] = in[i];",
        "  | ^^^^^^ thread (1,0,0) writes",
    ]


def test_two_lines_of_a_race_keep_their_indentation_and_align_their_numbers():
    lines = [
        SourceLine(9, "  a[i] = 1;", "one writes"),
        SourceLine(10, "    b = a[j];", "one reads"),
    ]
    assert frame(lines).plain.splitlines() == [
        " 9 | a[i] = 1;",
        "   | ^^^^^^^^^ one writes",
        "10 |   b = a[j];",
        "   |   ^^^^^^^^^ one reads",
    ]


def test_a_long_note_has_a_row_of_its_own_and_a_long_line_is_cut():
    [code, mark, note] = frame([SourceLine(1, "x" * 200, "who did what")]).plain.splitlines()
    assert len(code) == len("1 | ") + MOST_COLUMNS
    assert code.endswith(" …")
    assert len(mark) <= len("1 | ") + MOST_COLUMNS
    assert note == "  | who did what"


def test_text_of_a_student_is_cleaned():
    line = SourceLine(1, "x = 1 \x1b[31m\u202e[bold]y[/bold]\n\n7 | forged", "note\nforged")
    shown = frame([line]).plain
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown.splitlines()) == 2
    assert "[bold]y[/bold]" in shown


def test_no_lines_are_no_frame():
    assert frame([]).plain == ""


def test_a_mark_beyond_a_terminals_width_is_shown_with_what_stands_around_it():
    text = f"    store({'x' * 80}, mask=inside)"
    line = SourceLine(5, text, start=text.index("inside"), length=6)
    code, mark = frame([line]).plain.splitlines()
    assert code.startswith("5 | … x")
    assert code[mark.index("^") : mark.rindex("^") + 1] == "inside"
    assert mark.rindex("^") < 70


def test_in_a_narrow_window_the_mark_and_who_did_what_are_inside():
    text = f"    output[{'y' * 40} + out_col] = tile"
    line = SourceLine(5, text, "thread (0,0,0) writes", text.index("tile"), length=4)
    rows = frame([line], width=50).plain.splitlines()
    assert rows[0].startswith("5 | … y") and rows[1].endswith("^^^^") and len(rows[1]) <= 50
    assert rows[2] == "  | thread (0,0,0) writes"

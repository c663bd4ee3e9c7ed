"""Similar submissions: copies are found under other names; stubs and honest work are no pair."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from typer.testing import CliRunner

from grader.batch import similarity
from grader.batch.classes import CourseClass
from grader.batch.course.records import Handin, Member
from grader.batch.store.store import Store
from grader.cli import app
from grader.mistakes import Mistake
from grader.spec import load_all
from grader.spec.exercise import HOME, REFERENCE
from grader.staff.stubs import make_stubs

EXERCISES = load_all()
STUBS = make_stubs(REFERENCE, EXERCISES)
RMSNORM = (REFERENCE / "rmsnorm.py").read_text(encoding="utf-8")
CUDA = (REFERENCE / "rmsnorm.cu").read_text(encoding="utf-8")
TWO_PASSES = (
    HOME / "tests" / "submissions" / "honest" / "styles" / "rmsnorm_two_passes.py"
).read_text(encoding="utf-8")

needs_copydetect = pytest.mark.skipif(
    importlib.util.find_spec("copydetect") is None,
    reason="needs copydetect: pip install 'warpgrade[similarity]'",
)


def handin(name: str, files: dict[str, str], *members: str) -> Handin:
    people = tuple(Member(each, each.title()) for each in members or (name,))
    return Handin(f"hand-in of {name}", people, files={n: t.encode() for n, t in files.items()})


def renamed(text: str) -> str:
    """A copy with other names, comments and spacing."""
    text = re.sub(r"(#|//)(?! ?(BEGIN|END)).*", r"\1 my own work", text)
    for index, word in enumerate(("rstd", "offs", "mask", "row", "acc", "total", "n_cols", "cols")):
        text = re.sub(rf"\b{word}\b", f"renamed_{index}", text)
    return text.replace("\n\n", "\n\n\n")


@needs_copydetect
@pytest.mark.parametrize(("file", "text"), [("rmsnorm.py", RMSNORM), ("rmsnorm.cu", CUDA)])
def test_a_copy_under_other_names_is_found(file, text):
    copied = renamed(text)
    assert copied != text
    [pair] = similarity.pairs([handin("ada", {file: text}), handin("bob", {file: copied})], STUBS)
    assert pair.file == file
    assert pair.share > 0.95
    assert {pair.left.members[0].id, pair.right.members[0].id} == {"ada", "bob"}
    [start, end] = pair.left_spans[0]
    assert 0 <= start < end <= len(text)


@needs_copydetect
def test_a_copy_with_much_added_is_found():
    helpers = (f"\n\ndef helper_{n}(x):\n    return x * {n} + {n}\n" for n in range(40))
    more = RMSNORM + "".join(helpers)
    [pair] = similarity.pairs(
        [handin("ada", {"rmsnorm.py": RMSNORM}), handin("bob", {"rmsnorm.py": more})], STUBS
    )
    assert pair.of_left > 0.9
    assert pair.of_right < 0.7


@needs_copydetect
def test_a_copy_behind_a_long_comment_is_found():
    behind = "# my own work\n" * 20_000 + RMSNORM
    [pair] = similarity.pairs(
        [handin("ada", {"rmsnorm.py": RMSNORM}), handin("bob", {"rmsnorm.py": behind})], STUBS
    )
    assert pair.of_left > 0.9


@needs_copydetect
def test_a_copy_behind_a_megabyte_of_blanks_is_found():
    """The lexer of C++ would take more than quadratic time for them."""
    for blanks in ("a" + " " * 1_000_000 + "(\n", "\n \t" * 300_000):
        hidden = blanks + CUDA
        [pair] = similarity.pairs(
            [handin("ada", {"rmsnorm.cu": CUDA}), handin("bob", {"rmsnorm.cu": hidden})], STUBS
        )
        assert pair.share > 0.95


@needs_copydetect
def test_independent_work_is_no_pair():
    honest = {
        path.stem: handin(path.stem, {"rmsnorm.py": path.read_text(encoding="utf-8")})
        for path in (HOME / "tests" / "submissions" / "honest" / "styles").glob("rmsnorm_*.py")
    }
    every = [handin("reference", {"rmsnorm.py": RMSNORM}), *honest.values()]
    assert len(every) >= 4
    assert similarity.pairs(every, STUBS) == ()
    assert similarity.pairs(every, STUBS, threshold=0.1)


@needs_copydetect
def test_stubs_are_no_pair():
    every = [handin(name, STUBS) for name in ("ada", "bob", "cyd")]
    assert similarity.pairs(every, STUBS, threshold=0.01) == ()


@needs_copydetect
def test_what_stands_in_the_stub_counts_for_nothing():
    short = STUBS["rmsnorm.py"] + "\n\ndef mine(x):\n    return x\n"
    other = STUBS["rmsnorm.py"] + "\n\nclass Another:\n    x = [1, 2]\n"
    every = [handin("ada", {"rmsnorm.py": short}), handin("bob", {"rmsnorm.py": other})]
    assert similarity.pairs(every, STUBS, threshold=0.01) == ()


@needs_copydetect
def test_a_group_and_a_resubmission_are_no_pair():
    files = {"rmsnorm.py": RMSNORM}
    group = [handin("one", files, "ada", "bob"), handin("again", files, "bob")]
    assert similarity.pairs(group, STUBS) == ()
    assert len(similarity.pairs([*group, handin("cyd", files)], STUBS)) == 2
    again = handin("cyd once more", files, "cyd")
    assert len(similarity.pairs([*group, handin("cyd", files), again], STUBS)) == 2


@needs_copydetect
@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe\x00", b"x" * 300_000, b"\xef\xbb\xbfdef f(:\n" * 50, b"'" * 5000]
)
def test_any_bytes_are_compared(data):
    every = [Handin(name, files={"rmsnorm.py": data}) for name in ("a", "b")]
    assert len(similarity.pairs(every, STUBS)) <= 1


@needs_copydetect
def test_nothing_is_written_and_no_browser_opened(tmp_path):
    script = (
        "import webbrowser, sys; webbrowser.open = lambda *a: sys.exit('browser')\n"
        "from pathlib import Path\n"
        "from grader.batch import similarity\n"
        "from grader.batch.course.records import Handin\n"
        f"text = Path({str(REFERENCE / 'rmsnorm.py')!r}).read_bytes()\n"
        "found = similarity.pairs([Handin(n, files={'rmsnorm.py': text}) for n in 'ab'],"
        " {'rmsnorm.py': ''})\nassert len(found) == 1\nprint(similarity.to_text(found))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-B", "-c", script],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONPATH": str(REFERENCE.parent)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Alike is not copied." in ran.stdout
    assert list(tmp_path.iterdir()) == []


@needs_copydetect
def test_reports_say_what_they_do_not_prove_and_escape_names():
    name = "<script>alert(1)</script>\u202e"
    every = [
        handin("ada", {"rmsnorm.py": RMSNORM}, name),
        handin("bob", {"rmsnorm.py": RMSNORM + "\n# <img src=x>\n"}, "bob\x1b[2J"),
    ]
    found = similarity.pairs(every, STUBS)
    page, text = similarity.to_html(found), similarity.to_text(found)
    for told in (page, text):
        assert "Alike is not copied." in told
        assert "\u202e" not in told
        assert "\x1b" not in told
    assert "<script" not in page.lower()
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page
    assert "<mark>" in page


@needs_copydetect
def test_the_command_compares_what_a_class_handed_in(tmp_path):
    group = handin("group", {"rmsnorm.py": renamed(RMSNORM)}, "bob", "cyd")
    every = [handin("ada", {"rmsnorm.py": RMSNORM}), group, Handin("torn", problem="damaged")]
    with Store(tmp_path / "results", create=True) as store:
        store.handins.keep(every, "here", store.begin_run("batch", "1", {}))
    page = tmp_path / "similar.html"
    words = ["similarity", str(tmp_path / "results"), "--html", str(page)]
    ran = CliRunner().invoke(app.app, words)
    assert ran.exit_code == 0, ran.output
    [line] = [each for each in ran.output.splitlines() if "rmsnorm.py" in each]
    assert "Ada" in line
    assert "Bob, Cyd" in line
    assert "1 pair with 75% or more" in ran.output
    assert "Alike is not copied." in ran.output
    assert "<mark>" in page.read_text(encoding="utf-8")


@needs_copydetect
def test_of_each_student_the_hand_in_that_counts_is_compared(tmp_path):
    def at(hour: int, name: str, text: str) -> Handin:
        made = handin(name, {"rmsnorm.py": text}, name)
        when = datetime(2026, 3, 2, hour, tzinfo=timezone.utc)
        return replace(made, id=f"{name} {hour}", submitted_at=when)

    ada = [at(10, "ada", RMSNORM)]
    bob = [at(11, "bob", renamed(RMSNORM)), at(12, "bob", TWO_PASSES)]  # thought better of it
    cyd = [at(12, "cyd", TWO_PASSES), at(13, "cyd", renamed(RMSNORM))]
    unlisted = [at(12, "eve", TWO_PASSES), at(14, "eve", renamed(RMSNORM))]
    roster = tmp_path / "roster.csv"
    roster.write_text("id\nada\nbob\ncyd\n")
    with Store(tmp_path / "results", create=True) as store:
        every = [*ada, *bob, *cyd, *unlisted]
        store.handins.keep(every, "here", store.begin_run("batch", "1", {}))
        CourseClass.open(store, EXERCISES, roster=roster)
    ran = CliRunner().invoke(app.app, ["similarity", str(tmp_path / "results")])
    assert ran.exit_code == 0, ran.output
    found = [line for line in ran.output.splitlines() if "rmsnorm.py" in line]
    assert len(found) == 3, ran.output
    assert not any("Bob" in line for line in found)


@needs_copydetect
def test_a_class_of_copies_is_a_page_that_opens(monkeypatch):
    monkeypatch.setattr(similarity, "MOST_SHOWN", 2)
    every = [handin(name, {"rmsnorm.py": RMSNORM}) for name in ("ada", "bob", "cyd", "dan")]
    found = similarity.pairs(every, STUBS, located=2)
    assert len(found) == 6
    assert [bool(each.left_spans) for each in found] == [True] * 2 + [False] * 4
    page = similarity.to_html(found)
    assert page.count("<details>") == 2
    assert "And 4 less alike" in page
    assert "6 pairs with 75%" in page


@needs_copydetect
def test_a_text_that_takes_exponential_time_to_read_is_named_and_the_others_compared():
    bomb = "int head() " + "//\\\n" * 60 + '"\n' + CUDA
    names = ("ada", "bob", "<b>eve</b>\u202e")
    every = [handin(name, {"rmsnorm.cu": CUDA if name != names[2] else bomb}) for name in names]
    found, missing = similarity.pairs(every, STUBS), similarity.unread(every, STUBS)
    assert [{each.left.id, each.right.id} for each in found] == [{each.id for each in every[:2]}]
    [line] = map(str, missing)
    assert line.startswith("rmsnorm.cu of ")
    assert "isn't compared: reading it takes longer than" in line
    assert line in similarity.to_text(found, missing=missing)
    page = similarity.to_html(found, missing=missing)
    assert "isn&#39;t compared" in page
    assert "<b>" not in page.lower()
    assert "\u202e" not in page + line


def test_a_folder_without_results_is_one_line(tmp_path):
    ran = CliRunner().invoke(app.app, ["similarity", str(tmp_path)])
    assert isinstance(ran.exception, Mistake)  # which main() tells in a line


def test_without_the_library_there_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "copydetect", None)
    similarity._copydetect.cache_clear()
    with pytest.raises(Mistake, match=r"pip install 'warpgrade\[similarity\]'"):
        similarity.pairs([], STUBS)
    similarity._copydetect.cache_clear()

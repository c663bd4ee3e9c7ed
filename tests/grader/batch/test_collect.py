"""Collecting reads a class in any layout, drops nothing in silence, and trusts no submission."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from grader.batch.collect import LAYOUTS, Collection, collect, files, git_time
from grader.batch.collect.canvas_zip import CanvasName, parse
from grader.batch.collect.choosing import Taken, in_utf8, take
from grader.batch.collect.classroom_clones import assignment_prefix
from grader.batch.collect.file_names import Quality, Wanted, identifier
from grader.batch.collect.files import Item, Listing
from grader.batch.collect.git_time import _applied, commit_time
from grader.batch.course.records import Handin
from grader.grading.submitted import MAX_FILE_BYTES, Unreadable, read_file
from grader.mistakes import Mistake
from grader.spec import Exercise, load_all
from tests.support.synthetic_class import tarred, zipped

EXERCISES: Mapping[str, Exercise] = {
    name: exercise for name, exercise in load_all().items() if name in ("silu", "rmsnorm")
}
FILES = ("rmsnorm.py", "rmsnorm.cu", "silu.py", "silu.cu")
WANTED = Wanted(FILES)
A, B, C = b"a = 1\n", b"b = 2\n", b"c = 3\n"


def write(folder: Path, tree: Mapping[str, bytes]) -> Path:
    for path, data in tree.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def of(collection: Collection) -> dict[str, Handin]:
    return {handin.id: handin for handin in collection.handins}


def taken(tree: Mapping[str, bytes], wanted: Wanted = WANTED) -> Taken:
    """What comes of a hand-in with these files."""

    def of_bytes(data: bytes) -> Callable[[int], bytes]:
        return lambda limit: data[:limit]

    items = [Item(path, of_bytes(data)) for path, data in tree.items()]
    return take(Listing(tuple(sorted(items, key=lambda item: item.path))), wanted)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "quality", "copy"),
    [
        ("rmsnorm.py", Quality.exact, 0),
        ("RMSNorm.py", Quality.spelling, 0),
        ("rmsnorm.PY", Quality.spelling, 0),
        (" rmsnorm.py ", Quality.spelling, 0),
        ("ｒｍｓｎｏｒｍ.py", Quality.spelling, 0),
        ("rms_norm.py", Quality.copy, 0),
        ("RMS-Norm.py", Quality.copy, 0),
        ("rmsnorm .py", Quality.copy, 0),
        ("rmsnorm (1).py", Quality.copy, 1),
        ("rmsnorm(12).py", Quality.copy, 12),
        ("rmsnorm-2.py", Quality.copy, 2),
        ("rmsnorm_2.py", Quality.copy, 2),
        ("rmsnorm 3.py", Quality.copy, 3),
        ("rmsnorm copy.py", Quality.copy, 0),
        ("rmsnorm copy 2.py", Quality.copy, 2),
        ("rmsnorm - Copy.py", Quality.copy, 0),
        ("rmsnorm - Copy (2).py", Quality.copy, 2),
        ("Copy of rmsnorm.py", Quality.copy, 0),
        ("rmsnorm.py.txt", Quality.as_text, 0),
        ("RMSNorm (1).py.txt", Quality.as_text, 1),
    ],
)  # fmt: skip
def test_names_that_stand_for_a_file(name, quality, copy):
    found = WANTED.match(name)
    assert found is not None
    assert (found.file, found.quality, found.copy) == ("rmsnorm.py", quality, copy)


@pytest.mark.parametrize(
    "name",
    ["rmsnorm", "norm.py", "rmsnorm.pyc", "my_rmsnorm.py", "rmsnorm_final.py", "rmsnorm.cuh",
     "conftest.py", "", ".py", "rmsnorm.py~", "rmsnorm-v2.py", "silu_rmsnorm.py"],
)  # fmt: skip
def test_names_that_stand_for_none(name):
    assert WANTED.match(name) is None


@given(
    st.sampled_from(FILES),
    st.sampled_from(["{0}.{1}", "{0} ({2}).{1}", "{0}-{2}.{1}", "Copy of {0}.{1}", "{0}.{1}.txt"]),
    st.integers(0, 999),
    st.booleans(),
)
def test_every_file_is_found_under_every_mark_of_a_copy(file, form, number, is_upper):
    stem, _, suffix = file.partition(".")
    name = form.format(stem, suffix, number)
    found = WANTED.match(name.upper() if is_upper else name)
    assert found is not None
    assert found.file == file


@given(st.text(max_size=40))
def test_any_name_stands_for_one_file_at_most_and_an_exact_one_for_itself(name):
    found = WANTED.match(name)
    assert (found is not None and found.quality is Quality.exact) == (name in FILES)
    assert WANTED.resembled(name) in ("", *FILES)


@given(st.lists(st.text(min_size=1, max_size=200), unique=True, max_size=20))
def test_ids_are_clean_text_and_different_names_have_different_ones(names):
    ids = [identifier(name) for name in names]
    assert len(set(ids)) == len(names)
    for each in ids:
        each.encode("utf-8")
        assert each.isprintable() or "\N{REPLACEMENT CHARACTER}" in each or not each.isascii()
        assert len(each) <= 140
        assert "\n" not in each


def test_a_name_that_files_systems_can_have_stays_as_it_is():
    for name in ("ada", "Łukasz Åström 李", "submission_123", "a.tar.gz", "O'Brien, Zoë"):
        assert identifier(name) == name


# --- which file is taken -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "winner"),
    [
        ({"RMSNorm.py": A, "rmsnorm.py": B}, "rmsnorm.py"),
        ({"rmsnorm (1).py": A, "rmsnorm.PY": B}, "rmsnorm.PY"),
        ({"rmsnorm-1.py": A, "rmsnorm-2.py": B}, "rmsnorm-2.py"),
        ({"rmsnorm (9).py": A, "rmsnorm (10).py": B}, "rmsnorm (10).py"),
        ({"rmsnorm.py.txt": A, "rmsnorm (1).py": B}, "rmsnorm (1).py"),
        ({"a/rmsnorm.py": A, "b/rmsnorm.py": B, "b/silu.py": C}, "b/rmsnorm.py"),
        ({"a/rmsnorm.py": A, "assignment/rmsnorm.py": B}, "assignment/rmsnorm.py"),
        ({"old/x/rmsnorm.py": A, "new/rmsnorm.py": B}, "new/rmsnorm.py"),
        ({"a/rmsnorm.py": B, "c/rmsnorm.py": A}, "a/rmsnorm.py"),
        ({"rmsnorm (1).py": B, "silu.py": C, "old/rmsnorm.py": A}, "rmsnorm (1).py"),
        ({"z.zip": zipped({"rmsnorm.py": A, "silu.py": C}), "rmsnorm.py": B}, "rmsnorm.py"),
        ({"z.zip": zipped({"rmsnorm.py": A}), "silu.py": C, "x/rms_norm.py": B}, "x/rms_norm.py"),
    ],
)  # fmt: skip
def test_of_several_candidates_one_is_taken_by_rule_and_the_others_are_named(tree, winner):
    found = taken(tree)
    assert found.files["rmsnorm.py"] == B
    [note] = [note for note in found.notes if note.startswith("rmsnorm.py: ")]
    assert note.startswith(f"rmsnorm.py: {winner} is taken, left ")
    assert taken(dict(reversed(tree.items()))) == found


@pytest.mark.parametrize("folder", ["assignment", "anything", "a/b/c/d/e"])
def test_folders_around_a_hand_in_dont_matter_and_are_no_note(folder):
    found = taken({f"{folder}/{name}": A for name in FILES})
    assert found.files == dict.fromkeys(FILES, A)
    assert found.notes == []


def test_files_that_are_spread_over_folders_are_all_found():
    found = taken({"py/rmsnorm.py": A, "py/silu.py": B, "cuda/silu.cu": C})
    assert found.files == {"rmsnorm.py": A, "silu.py": B, "silu.cu": C}
    assert found.notes == ["silu.cu: cuda/silu.cu is taken"]


def test_nothing_but_the_files_that_exercises_name_is_taken_and_the_rest_is_noted():
    tree = {
        "silu.py": A, "conftest.py": b"1", "sitecustomize.py": b"2", "torch.py": b"3",
        "grader/scoring/score.py": b"4", "silu.yaml": b"5", "notes.txt": b"6", "x.pth": b"7",
    }  # fmt: skip
    found = taken(tree)
    assert found.files == {"silu.py": A}
    [note] = found.notes
    assert note.startswith("ignored, for no exercise names them: ")
    assert all(Path(path).name in note for path in tree if path != "silu.py")


def test_a_courses_header_beside_the_files_is_no_note():
    tree = {"silu.cu": A, "sizes.cuh": b"1"}
    assert taken(tree, Wanted(FILES, ["sizes.cuh"])).notes == []
    assert taken(tree).notes == ["ignored, for no exercise names them: sizes.cuh"]


def test_many_ignored_files_are_named_by_their_folder_and_what_meddles_comes_first():
    tree = {f"data/{index}.bin": b"" for index in range(500)}
    [note] = taken({**tree, "silu.py": A, "z/conftest.py": b""}).notes
    assert note == "ignored, for no exercise names them: z/conftest.py, data/ (500 files)"


def test_a_file_that_was_meant_for_one_that_is_missing_is_pointed_out():
    notes = taken({"my_silu_final.py": A, "rmsnorm.ipynb": b"{}"}).notes
    assert "ignored: my_silu_final.py; was it meant to be silu.py?" in notes
    assert "ignored: rmsnorm.ipynb; was it meant to be rmsnorm.py?" in notes
    assert "it has no file that an exercise names" in notes
    assert taken({"silu.py": A, "silu_old_v1.py": B}).notes == [
        "ignored, for no exercise names them: silu_old_v1.py"
    ]


def test_an_empty_hand_in_is_no_problem_but_noted(tmp_path):
    (tmp_path / "c" / "ada").mkdir(parents=True)
    [handin] = collect(tmp_path / "c", EXERCISES).handins
    assert (handin.problem, handin.files, handin.notes) == ("", {}, ("nothing is in it",))


def test_litter_is_dropped_without_a_word(tmp_path):
    litter = ("__MACOSX/._silu.py", ".DS_Store", "a/Thumbs.db", "._silu.py", "__pycache__/silu.py")
    tree = {**dict.fromkeys(litter, B), "silu.py": A}
    source = write(tmp_path, {f"c/ada/{path}": data for path, data in tree.items()})
    write(source, {"c/.DS_Store": B, "c/bob.zip": zipped(tree), "c/__MACOSX/x": B})
    found = collect(source / "c", EXERCISES)
    assert found.notes == ()
    assert [(each.files, each.notes) for each in found.handins] == [({"silu.py": A}, ())] * 2


# --- what is in a file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected", "note"),
    [
        (A, A, ""),
        (b"a = 1\r\nb = 2\r\n", b"a = 1\r\nb = 2\r\n", ""),
        (b"\xef\xbb\xbf" + A, A, "byte order mark"),
        ("é = 1\r\n".encode("utf-16"), "é = 1\r\n".encode(), "UTF-16"),
        (b"\xfe\xff" + "é = 1\n".encode("utf-16-be"), "é = 1\n".encode(), "UTF-16"),
        ("é = 1\n".encode("utf-32"), "é = 1\n".encode(), "UTF-32"),
        (b"\xff\xfe\x00", b"\xff\xfe\x00", "can't be decoded"),
        (b"\xff\xfe\x00\xd8a\x00", b"\xff\xfe\x00\xd8a\x00", "can't be decoded"),
        (b"caf\xe9 = 1\n", b"caf\xe9 = 1\n", "isn't in UTF-8 (byte 3)"),
        (b"", b"", ""),
    ],
)  # fmt: skip
def test_a_file_is_given_in_utf8_and_what_was_done_is_noted(data, expected, note):
    assert in_utf8(data)[0] == expected
    assert note in in_utf8(data)[1]
    assert bool(note) == bool(in_utf8(data)[1])
    assert taken({"silu.py": data}).files == {"silu.py": expected}


def test_a_file_that_grading_would_not_read_is_missing_and_noted():
    limit = taken({"silu.py": b"#" * MAX_FILE_BYTES, "rmsnorm.py": b"#" * (MAX_FILE_BYTES + 1)})
    assert list(limit.files) == ["silu.py"]
    assert limit.notes == ["rmsnorm.py is larger than 1 MiB"]
    alone = taken({"rmsnorm.py": b"#" * (MAX_FILE_BYTES + 1)})
    assert alone.problem == "rmsnorm.py is larger than 1 MiB"


# --- folders and archives ------------------------------------------------------------------------


def test_folders_and_archives_side_by_side_are_all_hand_ins(tmp_path):
    source = write(
        tmp_path / "class",
        {
            "ada/silu.py": A, "bob.zip": zipped({"silu.py": B}),
            "cyd.tar.gz": tarred({"silu.py": C}), "dan/work.zip": zipped({"silu.py": A}),
            "eve.7z": b"7z\xbc\xaf\x27\x1c", "fay.zip": b"no", "roster.csv": b"id", "silu.py": A,
        },
    )  # fmt: skip
    found = collect(source, EXERCISES)
    for layout in ("folders", "archives"):
        forced = collect(source, EXERCISES, layout=layout)
        assert (forced.layout, forced.handins, forced.notes) == (layout, found.handins, found.notes)
    handins = of(found)
    assert {name: handin.files for name, handin in handins.items() if not handin.problem} == {
        "ada": {"silu.py": A}, "bob.zip": {"silu.py": B}, "cyd.tar.gz": {"silu.py": C},
        "dan": {"silu.py": A},
    }  # fmt: skip
    members = [handin.members[0].id for handin in found.handins]
    assert members == ["ada", "bob", "cyd", "dan", "eve", "fay"]
    assert handins["eve.7z"].problem == "eve.7z is a 7z archive: expected zip or tar.gz"
    assert "fay.zip is no zip archive" in handins["fay.zip"].problem
    assert [note.split(": ")[1] for note in found.notes] == ["roster.csv", "silu.py"]


def test_a_folder_for_results_in_the_source_is_left_out(tmp_path):
    source = write(tmp_path, {"ada/silu.py": A, "results/x/silu.py": B})
    assert list(of(collect(source, EXERCISES, leave_out=[tmp_path / "results"]))) == ["ada"]


def test_a_folder_around_the_class_is_unwrapped(tmp_path):
    write(tmp_path, {"c/submissions/ada/silu.py": A, "c/submissions/bob/silu.py": B})
    write(tmp_path, {"one/ada/py/silu.py": A, "one/ada/cuda/silu.cu": B})
    assert sorted(of(collect(tmp_path / "c", EXERCISES))) == ["ada", "bob"]
    [handin] = collect(tmp_path / "one", EXERCISES).handins
    assert (handin.id, sorted(handin.files)) == ("ada", ["silu.cu", "silu.py"])


@pytest.mark.parametrize(
    ("tree", "layout"),
    [
        ({"silu.py": A}, "single"),
        ({"assignment/silu.py": A}, "single"),
        ({"assignment/silu.py": A, "Makefile": A, "tests/silu.py": B}, "single"),
        ({"silu.py": A, "rmsnorm.py": A, "old/silu.py": B}, "single"),
        ({"ada/silu.py": A}, "folders"),
        ({"ada/silu.py": A, "bob/silu.py": A, "silu.py": B}, "folders"),
        ({"ada/x.txt": A, "bob.txt": B}, "folders"),
        ({"ada.zip": b""}, "archives"),
        ({"ada.zip": b"", "bob.tgz": b"", "cyd/silu.py": A}, "archives"),
        ({"ada/.git/HEAD": b"", "bob/.git/HEAD": b""}, "classroom"),
        ({"doejane_12_34_silu.py": A}, "canvas"),
        ({"submission_metadata.yml": b"{}"}, "gradescope"),
        ({"assignment_1_export/submission_metadata.yml": b"{}"}, "gradescope"),
    ],
)  # fmt: skip
def test_layouts_are_recognised_by_what_is_there(tmp_path, tree, layout):
    assert collect(write(tmp_path / "source", tree), EXERCISES).layout == layout


@pytest.mark.parametrize("clones", [False, True], ids=["folders", "clones"])
def test_metadata_in_a_students_folder_decides_about_nobody_else(tmp_path, clones):
    tree = {"ada/silu.py": A, "eve/silu.py": B, "eve/submission_1/silu.py": C}
    tree |= {f"{name}/.git/HEAD": b"" for name in ("ada", "eve") if clones}
    tree["eve/submission_metadata.yml"] = b"submission_1: {':submitters': [{':sid': ada}]}\n"
    collected = collect(write(tmp_path / "class", tree), EXERCISES)
    assert collected.layout == ("classroom" if clones else "folders")
    assert {id: dict(each.files) for id, each in of(collected).items()} == {
        "ada": {"silu.py": A},
        "eve": {"silu.py": B},
    }


@pytest.mark.parametrize(
    ("tree", "layout"),
    [
        ({"submission_metadata.yml": b"s: {':submitters': [{':sid': ada}]}", "s/silu.py": B},
         "gradescope"),
        ({"ada_30123_1_silu.py": B}, "canvas"),
        ({"hw-ada/.git/HEAD": b"", "hw-ada/silu.py": B}, "classroom"),
        ({"ada/silu.py": B, "bob/silu.py": C}, "folders"),
    ],
)  # fmt: skip
def test_a_class_in_the_only_folder_is_told_since_a_student_may_have_made_it(
    tmp_path, tree, layout
):
    write(tmp_path / "class", {f"eve/{path}": data for path, data in tree.items()})
    collected = collect(tmp_path / "class", EXERCISES)
    assert collected.layout == layout and "eve" not in of(collected)
    assert collected.notes[0].startswith("eve/ is all there is")
    forced = collect(tmp_path / "class", EXERCISES, layout="folders")
    assert list(of(forced)) == ["eve"] and not forced.notes


def test_the_only_archive_may_be_a_class_so_it_is_told(tmp_path):
    """A folder of downloads often holds the platform's zip alone."""
    write(tmp_path, {"in/hw1.zip": zipped({"ada/silu.py": A, "bob/silu.py": B})})
    [note] = collect(tmp_path / "in", EXERCISES).notes
    assert f"if it is a whole class's, give {tmp_path / 'in' / 'hw1.zip'}" in note
    assert sorted(of(collect(tmp_path / "in" / "hw1.zip", EXERCISES))) == ["ada", "bob"]
    assert not collect(tmp_path / "in", EXERCISES, layout="archives").notes
    write(tmp_path, {"in/bob.zip": zipped({"silu.py": B})})
    assert not collect(tmp_path / "in", EXERCISES).notes


def test_one_submission_is_a_class_of_one(tmp_path):
    write(tmp_path, {"ada/assignment/silu.py": A, "bob.zip": zipped({"x/silu.py": B})})
    (tmp_path / "cyd.tgz").write_bytes(tarred({"silu.py": C}))
    for name, who, data in (("ada", "ada", A), ("bob.zip", "bob", B), ("cyd.tgz", "cyd", C)):
        found = collect(tmp_path / name, EXERCISES)
        [handin] = found.handins
        assert (found.layout, handin.id, handin.members[0].id) == ("single", name, who)
        assert handin.files == {"silu.py": data}


def test_a_zip_of_a_class_is_read_as_one(tmp_path):
    tree = {"c/ada/silu.py": A, "c/bob/silu.py": B, "c/../silu.py": C}
    (tmp_path / "class.zip").write_bytes(zipped(tree))
    found = collect(tmp_path / "class.zip", EXERCISES)
    assert (found.layout, sorted(of(found))) == ("folders", ["ada", "bob"])
    assert any("leads outside" in note for note in found.notes)


def test_ids_of_parts_with_one_name_differ(tmp_path):
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        archive.writestr("ada.zip", zipped({"silu.py": A}))
        archive.writestr("ada.zip/silu.py", B)
    found = collect(tmp_path / "class.zip", EXERCISES, layout="folders")
    assert {name: handin.files["silu.py"] for name, handin in of(found).items()} == {
        "ada.zip": A, "ada.zip~2": B,
    }  # fmt: skip


def test_the_same_source_gives_the_same_and_a_new_hand_in_changes_no_other(tmp_path):
    names = ("ada", "Zoë", "b\x1bob", "b\nob", "b\x07ob")
    source = write(tmp_path, {f"{name}/silu.py": A for name in names})
    first = collect(source, EXERCISES)
    assert len(of(first)) == 5
    assert collect(source, EXERCISES) == first
    write(source, {"b\x01ob/silu.py": B, "aaa.zip": b""})
    assert of(first).items() <= of(collect(source, EXERCISES)).items()


def test_names_that_are_not_in_utf8_become_text(tmp_path):
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xe9")  # noqa: PTH102 (bytes)
    [handin] = collect(tmp_path, EXERCISES).handins
    (handin.id + handin.members[0].id + "".join(handin.notes)).encode("utf-8")


# --- untrusted folders ---------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path) -> Path:
    return write(tmp_path / "secret", {"silu.py": b"secret\n"})


def test_links_are_never_followed(tmp_path, secret):
    source = write(tmp_path / "c", {"ada/rmsnorm.py": A, "bob/x.txt": A})
    (source / "ada" / "silu.py").symlink_to(secret / "silu.py")
    (source / "bob" / "assignment").symlink_to(secret)
    (source / "cyd").symlink_to(secret)
    (source / "dan.zip").symlink_to(secret / "silu.py")
    handins = of(collect(source, EXERCISES))
    assert handins["ada"].files == {"rmsnorm.py": A}
    assert "silu.py is a link" in handins["ada"].notes
    assert handins["bob"].files == {}
    assert "bob/" not in "".join(handins["bob"].files)
    assert handins["cyd"].problem == "cyd is a link"
    assert handins["dan.zip"].problem == "dan.zip is a link"
    with pytest.raises(Unreadable):
        read_file(source / "ada" / "silu.py", 10)


def test_a_folder_that_becomes_a_link_after_it_was_listed_is_not_followed(tmp_path, secret):
    """Whoever hands in a folder on a shared disk may change it while it is read."""
    write(tmp_path / "ada", {"a/silu.py": A})
    [item] = files.listed(tmp_path / "ada").items
    assert item.read(100) == A
    (tmp_path / "ada" / "a").rename(tmp_path / "ada" / "b")
    (tmp_path / "ada" / "a").symlink_to(secret)
    with pytest.raises(Unreadable, match="can't be read: Not a directory"):
        item.read(100)


def test_fifos_and_sockets_are_never_opened(tmp_path):
    source = write(tmp_path / "c", {"ada/rmsnorm.py": A})
    os.mkfifo(source / "ada" / "silu.py")
    os.mkfifo(source / "bob.zip")
    started = time.monotonic()
    handins = of(collect(source, EXERCISES))
    assert handins["ada"].files == {"rmsnorm.py": A}
    assert "silu.py is no regular file" in handins["ada"].notes
    assert handins["bob.zip"].problem == "bob.zip is no regular file"
    with pytest.raises(Unreadable, match="no regular file"):
        read_file(source / "bob.zip", 10)
    assert time.monotonic() - started < 30  # a FIFO that is opened never answers


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Files without permission can't be read; for root, all can."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_may_not_be_read_is_a_line(tmp_path, as_nobody):
    ours = Path("/tmp") / f"collect-{os.getpid()}"  # where nobody may go, too
    try:
        write(ours, {"ada/silu.py": A, "ada/sub/silu.cu": A, "bob/silu.py": B, "cyd/silu.py": C})
        write(ours, {"cyd/rmsnorm.py": A})
        locked = [ours / "ada" / "sub", ours / "bob", ours / "cyd" / "silu.py"]
        for path in locked:
            path.chmod(0)
        handins = of(collect(ours, EXERCISES))
        assert handins["ada"].files == {"silu.py": A}
        assert "sub/ can't be read: Permission denied" in handins["ada"].notes
        assert handins["bob"].problem == "bob can't be read: Permission denied"
        assert handins["cyd"].files == {"rmsnorm.py": A}
        assert "silu.py can't be read: Permission denied" in handins["cyd"].notes
        for path in locked:
            path.chmod(0o700)
    finally:
        shutil.rmtree(ours)


def test_a_folder_of_very_many_files_or_folders_is_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILES", 20)
    many = {f"ada/{index // 15}/{index}.txt": b"" for index in range(30)}
    wide = {f"bob/{index}.txt": b"" for index in range(30)}
    source = write(tmp_path / "c", {**many, **wide, "cyd/silu.py": A})
    handins = of(collect(source, EXERCISES))
    assert handins["ada"].problem == "ada holds more than 20 files"
    assert handins["bob"].problem == "bob holds more than 20 files"
    assert handins["cyd"].files == {"silu.py": A}


def test_folders_are_looked_into_down_to_a_depth_and_not_where_packages_are(tmp_path):
    deep = "/".join("d" * (files.MAX_DEPTH + 1))
    source = write(
        tmp_path / "c",
        {
            f"ada/{deep}/silu.py": A, f"ada/{deep[:-2]}/rmsnorm.py": B,
            "bob/.venv/silu.py": A, "bob/env/lib/site-packages/silu.py": A, "bob/silu.py": B,
            "bob/.git/silu.py": A,
        },
    )  # fmt: skip
    handins = of(collect(source, EXERCISES))
    assert handins["ada"].files == {"rmsnorm.py": B}
    assert any("10 folders deep" in note for note in handins["ada"].notes)
    assert handins["bob"].files == {"silu.py": B}
    assert [note for note in handins["bob"].notes if note.startswith("not looked into")] == [
        "not looked into: .venv/", "not looked into: env/lib/site-packages/",
    ]  # fmt: skip


def test_a_mistake_of_ours_is_one_row_with_its_reason(tmp_path, monkeypatch):
    source = write(tmp_path, {"ada/silu.py": A, "bob/silu.py": B})
    plain = files.read_file
    monkeypatch.setattr(
        files, "read_file", lambda path, *more: 1 // 0 if "ada" in str(path) else plain(path, *more)
    )
    handins = of(collect(source, EXERCISES))
    assert "the grader failed to read it: ZeroDivisionError" in handins["ada"].problem
    assert handins["bob"].files == {"silu.py": B}


def test_notes_and_problems_are_one_clean_line(tmp_path):
    evil = "\x1b[31msilu\n=cmd()\u202e.txt"
    source = write(tmp_path, {f"ada/{evil}": A, f"{evil}.zip": b"no"})
    for handin in collect(source, EXERCISES).handins:
        for text in (handin.id, handin.problem, *handin.notes):
            assert not {"\x1b", "\n", "\u202e"} & set(text)


# --- Gradescope ----------------------------------------------------------------------------------

METADATA = """\
---
submission_101:
  :submitters:
  - :name: Ada Lovelace
    :sid: '0012'
    :email: ada@example.org
  :created_at: 2026-03-01 22:15:00.123456789 -08:00
  :score: 3.5
  :history: []
submission_102: !ruby/hash:ActiveSupport::HashWithIndifferentAccess
  :submitters:
  - :name: Bob B
    :sid: 0013
  - :name: "Cyd: the \\"third\\""
    :sid:
    :email: cyd@example.org
  :created_at: 2026-03-02 07:00:00 Z
submission_103:
  :submitters:
  - :name: Dan
    :sid: null
  :created_at: yesterday
submission_104:
  :submitters: []
"""


@pytest.fixture
def export(tmp_path) -> Path:
    tree = {
        "submission_metadata.yml": METADATA.encode(), "submission_101/silu.py": A,
        "submission_102/assignment/silu.py": B, "submission_102/__MACOSX/._silu.py": A,
        "submission_103/silu.py": C, "submission_999/silu.py": A, "__MACOSX/x": A, "odd.txt": A,
    }  # fmt: skip
    return write(tmp_path / "assignment_7_export", tree)


@pytest.mark.parametrize("form", ["folder", "zip", "zip without a folder", "folder around it"])
def test_a_gradescope_export_is_read_in_every_form(tmp_path, export, form):
    source = export
    if form.startswith("zip"):
        tree = {
            str(p.relative_to(export)): p.read_bytes() for p in export.rglob("*") if p.is_file()
        }
        top = "" if "without" in form else "assignment_7_export/"
        source = tmp_path / "e.zip"
        source.write_bytes(zipped({f"{top}{path}": data for path, data in tree.items()}))
    elif form == "folder around it":
        source = tmp_path / "download"
        source.mkdir()
        export.rename(source / "assignment_7_export")
    found = collect(source, EXERCISES)
    assert found.layout == "gradescope"
    handins = of(found)
    ada = handins["submission_101"]
    [member] = ada.members
    assert (member.id, member.name, member.email) == ("0012", "Ada Lovelace", "ada@example.org")
    assert ada.files == {"silu.py": A}
    west = timezone(timedelta(hours=-8))
    assert ada.submitted_at == datetime(2026, 3, 1, 22, 15, 0, 123456, west)
    assert ada.submitted_at.utcoffset() == timedelta(hours=-8)
    group = handins["submission_102"]
    assert [(each.id, each.name) for each in group.members] == [
        ("0013", "Bob B"), ("cyd@example.org", 'Cyd: the "third"'),
    ]  # fmt: skip
    assert group.submitted_at == datetime(2026, 3, 2, 7, tzinfo=timezone.utc)
    assert group.files == {"silu.py": B}
    dan = handins["submission_103"]
    assert (dan.members[0].id, dan.submitted_at) == ("Dan", None)
    assert any(":created_at: expected a time with its offset" in note for note in dan.notes)
    assert "there is no such folder" in handins["submission_104"].problem
    assert handins["submission_999"].members == ()
    assert any("whose it is isn't known" in note for note in handins["submission_999"].notes)
    assert found.notes[-1] == "left out: odd.txt"
    assert len(found.notes) == 1 + (form == "folder around it")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "expected YAML"),
        ("- 1", "expected a mapping of submissions"),
        ("[" * 5000, "expected YAML: expected at most 50 levels"),
        ("a: " + "[" * 100_000, "expected YAML: expected at most 50 levels"),
        ("a: !!bool x", "expected YAML: expected no tags but Ruby's, got tag:yaml.org,2002:bool"),
        ("a: !!int ''", "expected YAML: expected no tags but Ruby's"),
        ("a: !!timestamp x", "expected YAML: expected no tags but Ruby's"),
        ("&a [*a, *a]", "expected a mapping"),
        ("1: {}", None),
    ],
)
def test_metadata_that_isnt_what_gradescope_writes_is_a_line(tmp_path, text, expected):
    source = write(tmp_path / "e", {"submission_metadata.yml": text.encode()})
    if expected is None:
        assert collect(source, EXERCISES).handins[0].problem
        return
    with pytest.raises(Mistake, match=expected) as caught:
        collect(source, EXERCISES)
    assert "submission_metadata.yml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("level", ["[{}]", "{{<<: [{}]}}", '{{":created_at": [{}]}}'])
def test_aliases_in_metadata_stay_small(tmp_path, level):
    lines = ["s0: &s0 {x: 1}"]
    lines += [f"s{i}: &s{i} {level.format(', '.join([f'*s{i - 1}'] * 9))}" for i in range(1, 30)]
    source = write(tmp_path / "e", {"submission_metadata.yml": "\n".join(lines).encode()})
    found = collect(source, EXERCISES)
    assert sum(map(len, found.notes)) < 10_000


def test_a_metadata_file_cannot_make_objects(tmp_path):
    text = b"submission_1: !!python/object/apply:os.system ['touch ran']\n"
    with pytest.raises(Mistake, match="expected YAML"):
        collect(write(tmp_path / "e", {"submission_metadata.yml": text}), EXERCISES)
    assert not Path("ran").exists()


# --- Canvas --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("doejane_12345_6789_rmsnorm.py", ("12345", "doejane", False, 6789, "rmsnorm.py")),
        ("doejane_LATE_12345_6789_rmsnorm-1.py", ("12345", "doejane", True, 6789, "rmsnorm-1.py")),
        ("van_der_berg_1_2_a_3_4_b.py", ("1", "van_der_berg", False, 2, "a_3_4_b.py")),
        ("李zoë_7_8_é.py", ("7", "李zoë", False, 8, "é.py")),
        ("_7_8_x.py", ("7", "", False, 8, "x.py")),
        ("doejane_12345_text.html", ("12345", "doejane", False, 0, "text.html")),
        ("doejane_LATE_12345_link.html", ("12345", "doejane", True, 0, "link.html")),
        ("anon_aB3xZ_6789_silu.py", ("aB3xZ", "", False, 6789, "silu.py")),
        ("LATE_anon_aB3xZ_6789_silu.py", ("aB3xZ", "", True, 6789, "silu.py")),
        ("anon_LATE_12_34_silu.py", ("12", "anon", True, 34, "silu.py")),
        ("silu.py", None),
        ("doejane_12345_silu.py", None),
        ("", None),
    ],
)  # fmt: skip
def test_names_of_canvas_are_understood(name, expected):
    found = parse(name)
    if expected is None:
        assert found is None
        return
    assert (found.user, found.name, found.late, found.attachment, found.display) == expected


@given(
    st.text(st.characters(categories=["Ll", "Lo"]) | st.sampled_from("_"), max_size=20),
    st.booleans(),
    st.integers(1, 10**15),
    st.integers(1, 10**15),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1),
)
def test_every_name_that_canvas_writes_is_read_back(name, late, user, attachment, display):
    assume(name != "anon")
    assume(not name.startswith("anon_"))
    written = f"{name}{'_LATE' if late else ''}_{user}_{attachment}_{display}"
    assert parse(written) == CanvasName(str(user), name, late, attachment, display)


@given(st.text("anoLATE_019x.", max_size=40))
def test_any_name_is_canvas_s_or_not(name):
    found = parse(name)
    assert found is None or (found.user and found.display)


def test_attachments_of_one_person_are_one_hand_in(tmp_path):
    tree = {
        "doejane_LATE_11_101_silu-1.py": A, "doejane_LATE_11_102_rmsnorm.py": B,
        "doejane_LATE_11_103_notes-2.pdf": A, "doejohn_12_104_work-3.zip": zipped({"x/silu.py": C}),
        "doejohn_12_105_silu.cu": B, "essay_13_text.html": A, "odd.txt": A,
        "broken_14_106_all.zip": b"PK\x03\x04",
    }  # fmt: skip
    found = collect(write(tmp_path / "c", tree), EXERCISES)
    handins = of(found)
    assert found.layout == "canvas"
    assert sorted(handins) == ["broken_14", "doejane_11", "doejohn_12", "essay_13"]
    jane = handins["doejane_11"]
    assert jane.files == {"silu.py": A, "rmsnorm.py": B}
    assert (jane.members[0].id, jane.members[0].name, jane.marked_late) == ("11", "doejane", True)
    assert jane.notes == ("ignored, for no exercise names them: doejane_LATE_11_103_notes-2.pdf",)
    john = handins["doejohn_12"]
    assert (john.files, john.marked_late) == ({"silu.py": C, "silu.cu": B}, False)
    assert "handed in as text on the page: no files" in handins["essay_13"].notes
    assert "broken_14_106_all.zip is damaged" in handins["broken_14"].problem
    assert found.notes == ("left out, for its name isn't one of Canvas's: odd.txt",)


def test_of_two_uploads_the_later_one_counts(tmp_path):
    tree = {"a_1_10_silu.py": A, "a_1_12_silu-2.py": B, "a_1_9_silu-1.py": C}
    [handin] = collect(write(tmp_path / "c", tree), EXERCISES).handins
    assert handin.files == {"silu.py": B}
    [note] = handin.notes
    assert note.startswith("silu.py: a_1_12_silu-2.py is taken, left are a_1_10_silu.py, a_1_9_")


def test_an_attachment_that_something_unpacked_is_read_as_well(tmp_path):
    tree = {"a_1_10_work/x/silu.py": A, "b_2_11_silu.py": B}
    handins = of(collect(write(tmp_path / "c", tree), EXERCISES))
    assert (handins["a_1"].files, handins["b_2"].files) == ({"silu.py": A}, {"silu.py": B})


# --- GitHub Classroom ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "folder", "prefix"),
    [
        (["lab-1-ada", "lab-1-bob-x"], "clones", "lab-1-"),
        (["lab-1-ada", "lab-1-ada-x"], "clones", "lab-1-"),
        (["lab-1-uni-ada", "lab-1-uni-bob"], "lab-1-submissions", "lab-1-"),
        (["lab-1-ada"], "lab-1-submissions", "lab-1-"),
        (["lab-1-ada"], "clones", ""),
        (["ada", "bob"], "clones", ""),
    ],
)
def test_the_login_is_what_follows_the_assignment(names, folder, prefix):
    assert assignment_prefix(names, folder) == prefix


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git isn't installed")


def git(folder: Path, *arguments: str, at: str = "1700000000 +0530") -> None:
    who = {f"GIT_{r}_{k}": v for r in ("AUTHOR", "COMMITTER") for k, v in
           (("NAME", "Ada > L"), ("EMAIL", "a@b.c"), ("DATE", at))}  # fmt: skip
    clean = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    environment = {**os.environ, **who, **clean}
    command = ["git", "-c", "gc.auto=0", "-C", str(folder), *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True)


TIME = datetime(2023, 11, 15, 3, 43, 20, tzinfo=timezone(timedelta(hours=5, minutes=30)))


@pytest.fixture
def clone(tmp_path) -> Path:
    folder = write(tmp_path / "lab-submissions" / "lab-ada", {"silu.py": A})
    git(folder, "init", "-q", "-b", "main")
    for number in range(12):
        (folder / "silu.py").write_bytes(b"%d\n" % number * 50)
        git(folder, "add", ".")
        last = number == 11
        date = "1700000000 +0530" if last else f"{1690000000 + number} -0800"
        message = "committer X <x@y> 1 +0000\n" * 20 + str(number)
        git(folder, "commit", "-q", "-m", message, at=date)
    return folder


def test_a_difference_of_the_largest_copy_is_applied():
    """A copy that names no size is one of 64 KiB."""
    base = bytes(range(256)) * 300
    assert _applied(b"\x01\x01\x80\x02!!\x91\x07\x03", base) == base[: 1 << 16] + b"!!" + base[7:10]


@needs_git
@pytest.mark.parametrize("state", ["loose", "packed", "packed references", "detached", "delta"])
def test_the_time_of_a_clone_is_its_commit_s_however_git_stores_it(clone, state):
    if state == "packed":
        git(clone, "repack", "-adq")
    elif state == "delta":
        git(clone, "repack", "-adfq", "--depth=50", "--window=50")
        commit = subprocess.run(
            ["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()  # fmt: skip
        [index] = (clone / ".git" / "objects" / "pack").glob("*.idx")
        told = subprocess.run(
            ["git", "verify-pack", "-v", index], capture_output=True, text=True, check=True
        ).stdout
        commits = [line.split() for line in told.splitlines() if " commit " in line]
        assert any(len(line) > 5 for line in commits), "no commit is stored as a difference"
        for line in commits:  # and all of those are read as well
            git(clone, "checkout", "-q", line[0])
            assert commit_time(clone) is not None
        git(clone, "checkout", "-q", commit)
    elif state == "packed references":
        git(clone, "pack-refs", "--all")
    elif state == "detached":
        git(clone, "checkout", "-q", "--detach")
    assert commit_time(clone) == TIME
    assert commit_time(clone).utcoffset() == TIME.utcoffset()


@needs_git
def test_clones_are_hand_ins_of_their_logins_and_nothing_of_theirs_runs(clone, tmp_path):
    other = write(clone.parent / "lab-bob-x", {"silu.py": B})
    ran = tmp_path / "ran"
    evil = f"touch {ran}"
    with (clone / ".git" / "config").open("a") as file:
        file.write(f"[core]\n fsmonitor = {evil}\n hooksPath = .\n pager = {evil}\n")
        file.write(f"[diff]\n external = {evil}\n[alias]\n log = !{evil}\n")
    found = collect(clone.parent, EXERCISES)
    assert found.layout == "classroom"
    ada, bob = (of(found)[name] for name in ("lab-ada", "lab-bob-x"))
    assert (ada.members[0].id, ada.members[0].login, ada.submitted_at) == ("ada", "ada", TIME)
    assert (bob.members[0].id, bob.submitted_at, bob.files) == ("bob-x", None, {"silu.py": B})
    assert bob.notes == ("no clone (it has no .git): its time isn't known",)
    assert other.exists()
    assert not ran.exists()


@needs_git
@pytest.mark.parametrize(
    "what", ["HEAD", "objects", "refs", "refs/heads/main", ".", "packed-refs", "objects/pack"]
)
def test_a_link_in_a_repository_is_not_followed(clone, tmp_path, what):
    git(clone, "repack", "-adq")
    if what == "packed-refs":
        git(clone, "pack-refs", "--all")
    place = clone / ".git" / what
    elsewhere = tmp_path / "elsewhere"
    place.rename(elsewhere)
    (clone / ".git" if what == "." else place).symlink_to(elsewhere)
    assert commit_time(clone) is None


@pytest.mark.parametrize(
    "tree",
    [
        {}, {"HEAD": b""}, {"HEAD": b"ref: refs/heads/../../../../etc/passwd"},
        {"HEAD": b"ref: HEAD"}, {"HEAD": b"ref: refs/a", "refs/a": b"ref: refs/a"},
        {"HEAD": b"a" * 40}, {"HEAD": b"a" * 40, f"objects/aa/{'a' * 38}": b"x\x9c"},
        {"HEAD": b"a" * 40, "objects/pack/p.idx": b"\xfftOc\0\0\0\2" + b"\xff" * 1024},
        {"HEAD": b"a" * 40, "objects/pack/p.idx": b""},
        {"HEAD": b"x" * 100_000},
    ],
)  # fmt: skip
def test_a_repository_that_is_damaged_has_no_time(tmp_path, tree):
    write(tmp_path / ".git", tree)
    assert commit_time(tmp_path) is None


def test_indexes_that_are_looked_into_for_a_base_are_bounded_in_all(tmp_path, monkeypatch):
    """A commit that is a difference from itself, behind 999 indexes that don't have it."""
    sha = b"\xaa" * 20
    difference = b"\x70" + sha + zlib.compress(b"\1\1\x90\1")
    fanout = struct.pack(">256I", *[0] * 0xAA, *[1] * (256 - 0xAA))
    index = b"\xfftOc\0\0\0\2" + fanout + sha + bytes(4) + struct.pack(">I", 12)
    tree = {f"objects/pack/a{number:03}.idx": index[:8] + bytes(1024) for number in range(999)}
    tree |= {"HEAD": b"aa" * 20, "objects/pack/b.idx": index}
    tree["objects/pack/b.pack"] = b"PACK" + bytes(8) + difference
    write(tmp_path / ".git", tree)
    opened = []
    offset = git_time._offset
    monkeypatch.setattr(git_time, "_offset", lambda *given: opened.append(1) or offset(*given))
    assert commit_time(tmp_path) is None
    assert 1000 < len(opened) <= 6000


@pytest.mark.parametrize(("copies", "begins"), [(100, "1970"), (400_000, "None")])
def test_the_differences_of_a_pack_are_bounded_in_all(tmp_path, copies, begins):
    text = b"committer x <x> 1 +0000\n" + b"y" * 100
    pack = b"PACK" + bytes(8) + b"\x9c\x07" + zlib.compress(text)  # a commit of 124 bytes
    difference = zlib.compress(b"\x7c\x7c\x90\x7c" + b"\x90\x01" * copies)
    last = 12
    for _ in range(6):
        place, back = len(pack), len(pack) - last
        distance = bytes([0x80 | ((back >> 7) - 1), back & 0x7F]) if back > 127 else bytes([back])
        pack, last = pack + b"\x60" + distance + difference, place
    sha, fanout = b"\xaa" * 20, [0] * 0xAA + [1] * (256 - 0xAA)
    index = b"\xfftOc\0\0\0\2" + struct.pack(">256I", *fanout) + sha + bytes(4)
    tree = {"HEAD": b"aa" * 20, "objects/pack/p.pack": pack}
    tree["objects/pack/p.idx"] = index + struct.pack(">I", last)
    write(tmp_path / ".git", tree)
    assert str(commit_time(tmp_path)).startswith(begins)


@needs_git
def test_a_repository_damaged_anywhere_has_a_time_or_none(clone):
    git(clone, "repack", "-adfq", "--depth=50", "--window=50")
    for path in (clone / ".git" / "objects" / "pack").iterdir():
        whole = path.read_bytes()
        path.chmod(0o600)
        for at in range(0, len(whole), max(1, len(whole) // 150)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
            commit_time(clone)
        path.write_bytes(whole)
    assert commit_time(clone) == TIME


def test_a_fifo_in_a_repository_is_not_waited_for(tmp_path):
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert commit_time(tmp_path) is None


# --- merging -------------------------------------------------------------------------------------


def resubmitted(tmp_path: Path) -> Path:
    times = {"submission_1": "10", "submission_3": "11", "submission_2": "12"}
    metadata = "".join(
        f"{name}:\n  :submitters: [{{':name': Ada, ':sid': '7'}}]\n"
        f"  :created_at: 2026-03-01 {hour}:00:00 Z\n"
        for name, hour in times.items()
    )
    tree = {
        "submission_metadata.yml": metadata.encode(), "submission_1/silu.py": A,
        "submission_1/rmsnorm.py": A, "submission_3/silu.py": B, "submission_2/silu.cu": C,
    }  # fmt: skip
    return write(tmp_path / "e", tree)


def test_hand_ins_of_one_person_stand_alone_and_say_what_is_missing(tmp_path):
    handins = of(collect(resubmitted(tmp_path), EXERCISES))
    assert handins["submission_1"].files == {"silu.py": A, "rmsnorm.py": A}
    assert handins["submission_3"].files == {"silu.py": B}
    assert handins["submission_2"].files == {"silu.cu": C}
    assert handins["submission_1"].notes == ()
    assert handins["submission_3"].notes == ("submission_1 had, and this one lacks: rmsnorm.py",)
    assert handins["submission_2"].notes == (
        "submission_1 had, and this one lacks: rmsnorm.py",
        "submission_3 had, and this one lacks: silu.py",
    )


def test_merging_fills_in_the_last_version_of_what_is_missing_and_says_so(tmp_path):
    handins = of(collect(resubmitted(tmp_path), EXERCISES, merge=True))
    assert handins["submission_1"].files == {"silu.py": A, "rmsnorm.py": A}
    assert handins["submission_3"].files == {"silu.py": B, "rmsnorm.py": A}
    assert handins["submission_2"].files == {"silu.py": B, "rmsnorm.py": A, "silu.cu": C}
    assert handins["submission_2"].notes == (
        "merged from submission_1: rmsnorm.py",
        "merged from submission_3: silu.py",
    )


def test_hand_ins_whose_order_isnt_known_are_never_merged(tmp_path):
    source = write(tmp_path, {"ada/silu.py": A, "ada.zip": zipped({"rmsnorm.py": B})})
    handins = of(collect(source, EXERCISES, merge=True))
    assert handins["ada"].files == {"silu.py": A}
    assert handins["ada"].notes == ("also handed in: ada.zip; which came first isn't known",)


# --- sources that aren't any ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nothing", "expected a folder of submissions, or an archive; found nothing"),
        ("empty", "expected submissions, found nothing"),
        ("notes.txt", r"expected a folder of submissions, or an archive \(zip or tar.gz\)"),
        ("papers", r"or an archive per student, .*; found 2 other files \(a.pdf, b.pdf\)"),
    ],
)
def test_a_source_without_submissions_is_a_line(tmp_path, name, expected):
    write(tmp_path, {"notes.txt": b"", "papers/a.pdf": b"", "papers/b.pdf": b""})
    (tmp_path / "empty").mkdir()
    with pytest.raises(Mistake, match=expected) as caught:
        collect(tmp_path / name, EXERCISES)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"folders", "archives", "single"}))
def test_a_forced_layout_that_doesnt_fit_says_what_was_expected_and_found(tmp_path, layout):
    source = write(tmp_path / "c", {"ada/silu.py": A, "bob.zip": b"", "x.txt": b""})
    with pytest.raises(Mistake) as caught:
        collect(source, EXERCISES, layout=layout)
    told = str(caught.value)
    assert f"layout {layout}: expected " in told
    assert "found 1 folder and 1 archive and 1 other file (ada, bob.zip, x.txt)" in told


def test_folders_and_archives_can_only_be_forced_where_there_are_some(tmp_path):
    write(tmp_path, {"f/ada/silu.py": A, "a/ada.zip": b""})
    for name, layout in (("a", "folders"), ("f", "archives")):
        with pytest.raises(Mistake, match=f"layout {layout}: expected {layout} in it"):
            collect(tmp_path / name, EXERCISES, layout=layout)
    with pytest.raises(Mistake, match="layout: expected folders, archives"):
        collect(tmp_path / "f", EXERCISES, layout="moodle")


def test_a_forced_layout_is_used(tmp_path):
    source = write(tmp_path / "c", {"lab_1_2_silu.py": A, "ada/silu.py": B, "bob/silu.py": C})
    assert len(collect(source, EXERCISES, layout="single").handins) == 1
    assert sorted(of(collect(source, EXERCISES, layout="folders"))) == ["ada", "bob"]


def test_a_broken_zip_as_the_source_is_a_row_with_its_reason(tmp_path):
    (tmp_path / "ada.zip").write_bytes(zipped({"silu.py": A})[:50])
    [handin] = collect(tmp_path / "ada.zip", EXERCISES).handins
    assert handin.problem.startswith("ada.zip is damaged")


def test_equal_files_are_kept_in_memory_once(tmp_path):
    source = write(tmp_path, {f"{name}/silu.py": A * 100 for name in ("ada", "bob", "cyd")})
    handins = collect(source, EXERCISES).handins
    assert len({id(handin.files["silu.py"]) for handin in handins}) == 1

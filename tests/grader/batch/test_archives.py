"""Archives are read in memory and within limits, whatever they claim; each refusal is a line."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.batch.collect import archives
from grader.batch.collect.archives import MAX_RATIO, Refused, is_archive, open_archive
from grader.batch.collect.choosing import Taken, take
from grader.batch.collect.file_names import Wanted
from grader.batch.collect.files import MAX_DEPTH, MAX_FILES, Item, Listing
from grader.grading.submitted import MAX_FILE_BYTES, Unreadable
from tests.support.raw_zip import ENCRYPTED, UTF8, Raw, raw_zip
from tests.support.synthetic_class import tarred, zipped

WANTED = Wanted(["silu.py", "silu.cu", "gemm.py"])
KERNEL = b"def silu(x, out): ...\n"
MIB = 1 << 20


def item(data: bytes, name: str = "ada.zip") -> Item:
    return Item(name, lambda limit: data[:limit])


def opened(data: bytes, name: str = "ada.zip") -> Listing:
    return open_archive(item(data, name))


def taken(data: bytes, name: str = "ada.zip") -> Taken:
    """What comes of a hand-in that is this archive; where it can't be listed, why."""
    try:
        return take(opened(data, name), WANTED)
    except Unreadable as error:
        return Taken(problem=str(error))


def refusal(data: bytes, name: str = "ada.zip") -> str:
    with pytest.raises(Unreadable) as caught:
        opened(data, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def tar_of(*members: tarfile.TarInfo | tuple[str, bytes], form=tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=form) as archive:
        for member in members:
            if isinstance(member, tuple):
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
            else:
                archive.addfile(member)
    return made.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def peak_of(action: Callable[[], object]) -> int:
    """The most bytes of memory that Python held while it ran."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [zipped, tarred], ids=["zip", "tar.gz"])
@pytest.mark.parametrize("folder", ["", "assignment/", "a/b c/d/"])
def test_the_files_of_an_archive_come_out_as_they_went_in(pack, folder):
    name = "ada.zip" if pack is zipped else "ada.tgz"
    tree = {f"{folder}silu.py": KERNEL, f"{folder}silu.cu": b"\x00\xff", f"{folder}.DS_Store": b"x"}
    assert taken(pack(tree), name).files == {"silu.py": KERNEL, "silu.cu": b"\x00\xff"}
    assert not taken(pack(tree), name).problem


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (zipped({"silu.py": KERNEL}), "ada.tar.gz"),
        (tarred({"silu.py": KERNEL}), "ada.zip"),
        (zlib.decompress(tarred({"silu.py": KERNEL}), 31), "ada.tgz"),
        (zlib.decompress(tarred({"silu.py": KERNEL}), 31), "ada.tar"),
    ],
)
def test_what_an_archive_is_decides_not_what_its_name_says(data, name):
    assert taken(data, name).files == {"silu.py": KERNEL}


def test_a_gzip_file_of_several_streams_is_read_to_its_end():
    plain = zlib.decompress(tarred({"silu.py": KERNEL, "gemm.py": b"1"}), 31)
    halves = [gzip.compress(half, mtime=0) for half in (plain[:700], plain[700:])]
    assert set(taken(b"".join(halves), "ada.tgz").files) == {"silu.py", "gemm.py"}


def test_paths_with_backslashes_are_paths():
    assert taken(raw_zip([Raw(b"work\\silu.py", KERNEL)])).files == {"silu.py": KERNEL}
    assert "leads outside" in refusal(raw_zip([Raw(b"..\\..\\silu.py", KERNEL)]))


def test_only_members_that_are_wanted_are_unpacked(monkeypatch):
    unpacked = []
    plain = archives._unzipped
    monkeypatch.setattr(
        archives,
        "_unzipped",
        lambda a, info, *more: unpacked.append(info.filename) or plain(a, info, *more),
    )
    tree = {"silu.py": KERNEL, "data.bin": bytes(MIB), "x/silu.cu": b"1", "conftest.py": b"2"}
    taken(zipped(tree))
    assert sorted(unpacked) == ["silu.py", "x/silu.cu"]


# --- what isn't an archive, or isn't whole -------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        (b"", "a.zip", "is empty (0 bytes)"),
        (b"sorry\n", "a.zip", "is no zip archive: it doesn't begin like one"),
        (b"sorry\n", "a.tar.gz", "is no tar.gz archive: it doesn't begin like one"),
        (b"Rar!\x1a\x07\x01\x00", "a.zip", "is a RAR archive: expected zip or tar.gz"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", "a.7z", "is a 7z archive: expected zip or tar.gz"),
        (b"\xfd7zXZ\x00", "a.tar.xz", "is a xz archive: expected zip or tar.gz"),
        (gzip.compress(b"x", mtime=0), "silu.py.gz", "is a compressed file: expected zip"),
        (gzip.compress(b"no tar" * 200, mtime=0), "a.tgz", "is damaged: "),
        (tarred({"silu.py": KERNEL})[:-20], "a.tgz", "is damaged: it is cut off"),
        (zipped({"silu.py": KERNEL * 9})[:-30], "a.zip", "is damaged: it has no end as a zip has"),
        (zipped({"silu.py": KERNEL})[40:], "a.zip", "is no zip archive"),
    ],
)  # fmt: skip
def test_what_is_no_whole_archive_is_refused_with_what_it_is(data, name, why):
    assert is_archive(name)
    assert refusal(data, name).startswith(why)


def test_a_tar_cut_off_in_the_middle_is_refused():
    plain = zlib.decompress(tarred({"gemm.py": b"1", "silu.py": KERNEL * 100}), 31)
    assert "damaged" in refusal(plain[:1700], "a.tar")


def test_a_tar_with_something_else_between_its_members_is_refused_not_cut_short():
    whole = zlib.decompress(tarred({"gemm.py": b"1"}), 31)
    more = zlib.decompress(tarred({"silu.py": KERNEL}), 31)
    assert "what follows its first 1 files" in refusal(whole[:1024] + b"?" * 512 + more, "a.tar")
    assert "what follows its first 1 files" in refusal(whole + more, "a.tar")


def test_a_gzip_file_with_a_wrong_checksum_is_refused():
    data = bytearray(tarred({"silu.py": KERNEL}))
    data[-6] ^= 1
    assert "damaged" in refusal(bytes(data), "a.tgz")


def test_a_member_with_a_wrong_checksum_is_missing_and_the_others_are_not():
    found = taken(raw_zip([Raw(b"silu.py", KERNEL, crc=1), Raw(b"gemm.py", b"1")]))
    assert found.files == {"gemm.py": b"1"}
    assert found.problem == ""
    assert any("silu.py is damaged: bad CRC-32" in note for note in found.notes)


def test_where_every_file_is_damaged_that_is_the_problem():
    found = taken(raw_zip([Raw(b"silu.py", KERNEL, crc=1), Raw(b"gemm.py", b"1", crc=3)]))
    assert found.files == {}
    assert found.problem.startswith("silu.py is damaged: bad CRC-32")
    assert found.problem.endswith("(and 1 more like it)")


# --- members that must not get in ----------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["../silu.py", "a/../../silu.py", "/etc/silu.py", "C:/silu.py", "a/..", "//host/share/silu.py"],
)
def test_a_path_that_leads_outside_refuses_the_archive_and_is_named(path):
    for data, name in (
        (raw_zip([Raw(b"gemm.py", b"1"), Raw(path.encode(), KERNEL)]), "a.zip"),
        (tar_of(("gemm.py", b"1"), (path, KERNEL)), "a.tgz"),
    ):
        why = refusal(data, name)
        assert "leads outside" in why
        assert path.strip("/").split("/")[-1] in why


def test_a_zero_byte_in_a_name_doesnt_hide_the_rest_of_it():
    assert "zero byte" in refusal(raw_zip([Raw(b"silu.py\0.txt", KERNEL)]))


SPECIAL = (
    *(tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE),
    tarfile.GNUTYPE_SPARSE,
)


@pytest.mark.parametrize("kind", SPECIAL)
def test_links_and_devices_in_a_tar_are_never_files(kind):
    found = taken(tar_of(("gemm.py", b"1"), special("silu.py", kind, "gemm.py")), "a.tgz")
    assert found.files == {"gemm.py": b"1"}
    assert any(note.startswith("silu.py is ") for note in found.notes)


@pytest.mark.parametrize(
    ("mode", "what"), [(0o120777, "link"), (0o010644, "regular"), (0o020644, "regular")]
)
def test_links_and_devices_in_a_zip_are_never_files(mode, what):
    found = taken(raw_zip([Raw(b"silu.py", b"/etc/passwd", mode=mode)]))
    assert found.files == {}
    assert what in found.problem


def test_a_link_that_no_exercise_asks_for_harms_nobody():
    data = tar_of(
        ("silu.py", KERNEL), special("venv/bin/python", tarfile.SYMTYPE, "/usr/bin/python3")
    )
    found = taken(data, "a.tgz")
    assert found.files == {"silu.py": KERNEL}
    assert found.problem == ""


def test_a_password_refuses_a_zip():
    assert refusal(raw_zip([Raw(b"silu.py", KERNEL, flags=ENCRYPTED)])) == (
        "is encrypted: it asks for a password"
    )


def test_a_method_that_could_unpack_without_bounds_is_not_read():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("silu.py", KERNEL)
    assert taken(made.getvalue()).problem == (
        "silu.py is compressed by a method that isn't read (bzip2)"
    )


def test_of_two_members_with_one_name_the_last_counts_and_it_is_said():
    for data, name in (
        (raw_zip([Raw(b"silu.py", b"old"), Raw(b"silu.py", KERNEL)]), "a.zip"),
        (tar_of(("silu.py", b"old"), ("silu.py", KERNEL)), "a.tgz"),
    ):
        found = taken(data, name)
        assert found.files == {"silu.py": KERNEL}
        assert "it has silu.py twice: the last one counts" in found.notes


def test_names_that_are_not_in_utf8_hide_nothing():
    found = taken(raw_zip([Raw(b"\xe9t\xe9/silu.py", KERNEL)]))
    assert found.files == {"silu.py": KERNEL}
    assert "is damaged" in refusal(raw_zip([Raw(b"\xff/silu.py", KERNEL, flags=UTF8)]))
    member = tarfile.TarInfo("\udce9/silu.py")
    member.size = 0
    assert taken(tar_of(member, form=tarfile.GNU_FORMAT), "a.tgz").files == {"silu.py": b""}


def test_an_archive_in_an_archive_is_named_and_stays_closed():
    inner = zipped({"silu.py": KERNEL})
    found = taken(zipped({"work.zip": inner}))
    assert found.files == {}
    assert found.problem == "work.zip is an archive in an archive, which isn't opened"
    in_folder = take(
        Listing((item(zipped({"gemm.py": b"1", "in.zip": inner}), "work.zip"),)), WANTED
    )
    assert in_folder.files == {"gemm.py": b"1"}
    assert "work.zip/in.zip is an archive in an archive, which isn't opened" in in_folder.notes


def test_what_lies_too_deep_is_named():
    deep = "/".join("d" * (MAX_DEPTH + 1))
    found = taken(zipped({f"{deep}/silu.py": KERNEL, "gemm.py": b"1"}))
    assert found.files == {"gemm.py": b"1"}
    assert any("folders deep" in note for note in found.notes)


# --- what it claims, and what is measured --------------------------------------------------------


def test_a_member_larger_than_it_claims_is_not_taken():
    honest = Raw(b"gemm.py", b"1")
    liar = Raw(b"silu.py", bytes(MIB), size=30)
    found = taken(raw_zip([honest, liar]))
    assert found.files == {"gemm.py": b"1"}
    assert any("silu.py is damaged" in note for note in found.notes)


def test_a_member_smaller_than_it_claims_is_not_taken():
    found = taken(raw_zip([Raw(b"silu.py", KERNEL, size=5000)]))
    assert found.files == {}
    assert found.problem == f"silu.py is damaged: it claims 5000 bytes and holds {len(KERNEL)}"


def zip64(size: int, packed_size: int, offset: int) -> bytes:
    sizes = b"".join(number.to_bytes(8, "little") for number in (size, packed_size, offset))
    return b"\x01\x00\x18\x00" + sizes


@pytest.mark.parametrize(
    "claims", [(1 << 62, 1 << 62, 0), (20, 1 << 62, 0), (20, 20, 1 << 62), (1 << 63, 5, 0)]
)
def test_a_zip64_member_that_claims_the_earth_is_a_line(claims):
    none = 0xFFFFFFFF
    liar = Raw(b"silu.py", KERNEL, extra=zip64(*claims), size=none, packed_size=none)
    data = raw_zip([liar, Raw(b"silu.cu", b"", extra=zip64(*claims), offset=none)])
    found: list[Taken] = []
    assert peak_of(lambda: found.append(taken(data))) < 4 * MIB
    assert found[0].files == {}
    assert found[0].problem


@pytest.mark.parametrize("size", [1 << 16, (1 << 31) - 1, (1 << 32) - 2])
def test_a_zip_that_claims_a_long_list_of_files_is_refused_without_reading_it(size):
    data = raw_zip([Raw(b"silu.py", KERNEL)], directory_size=size)
    assert peak_of(lambda: refusal(data)) < 4 * MIB


def test_a_list_of_files_that_is_too_large_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(
        archives, "Limits", lambda: archives.OF_A_CLASS.__class__(directory_bytes=5000)
    )
    data = raw_zip([Raw(b"%050d" % index) for index in range(100)])
    with pytest.raises(Unreadable, match="list of files larger than"):
        opened(data)


def test_an_archive_of_too_many_files_is_refused():
    many = [Raw(b"%d" % index, method=0) for index in range(MAX_FILES + 1)]
    assert refusal(raw_zip(many)) == f"holds more than {MAX_FILES} files"
    folders = [special(f"{index}", tarfile.DIRTYPE) for index in range(MAX_FILES + 1)]
    assert refusal(tar_of(*folders), "a.tgz") == f"holds more than {MAX_FILES} files"


def test_a_file_that_is_too_large_is_read_no_further_than_the_limit():
    data = raw_zip([Raw(b"silu.py", bytes(64 * MIB)), Raw(b"gemm.py", b"1" * MAX_FILE_BYTES)])
    found: list[Taken] = []
    assert peak_of(lambda: found.append(taken(data))) < 8 * MIB
    assert len(found[0].files["gemm.py"]) == MAX_FILE_BYTES
    assert "silu.py is larger than 1 MiB" in found[0].notes


def test_members_that_share_one_anothers_bytes_are_not_taken():
    again = [Raw(name, bytes(MIB), offset=0) for name in (b"silu.cu", b"gemm.py")]
    found = taken(raw_zip([Raw(b"silu.py", KERNEL), *again]))
    assert not {"silu.cu", "gemm.py"} & found.files.keys()
    assert sum("is damaged" in note for note in found.notes) >= 2


def test_a_zip_bomb_of_wanted_files_is_refused_by_what_came_out():
    data = zipped({name: bytes(MIB) for name in WANTED.files})
    assert len(data) * MAX_RATIO < 3 * MIB
    with pytest.raises(Refused, match=f"more than {MAX_RATIO} times its own size"):
        for each in opened(data).items:
            each.read(MIB + 1)
    assert taken(data).problem == f"unpacks to more than {MAX_RATIO} times its own size"
    assert taken(data).files == {}


def test_a_gzip_bomb_is_left_where_the_ratio_shows_it():
    bomb = gzip.compress(bytes(64 * MIB), 9, mtime=0)
    why: list[str] = []
    assert peak_of(lambda: why.append(refusal(bomb, "a.tgz"))) < MAX_RATIO * len(bomb) + 8 * MIB
    assert why == [f"unpacks to more than {MAX_RATIO} times its own size"]


def test_a_tar_that_unpacks_to_too_much_is_left_there(monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", MIB)
    data = tar_of(("data.bin", bytes(range(256)) * 8192), ("silu.py", KERNEL))
    assert refusal(data, "a.tgz") == "unpacks to more than 1 MiB"


def test_a_tar_header_that_claims_a_long_name_is_refused():
    member = tarfile.TarInfo("n" * 60_000 + "/silu.py")
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        assert refusal(tar_of(member, form=form), "a.tgz") == "has a header larger than 16 KiB"


def test_the_attributes_of_a_tar_s_members_are_not_kept():
    """Each has a header of 12 KB; as attributes in Python that is ten times as much."""

    def member(number: int) -> tarfile.TarInfo:
        info = tarfile.TarInfo(f"{number}.txt")
        info.pax_headers = {f"K{key:05}": "" for key in range(900)}
        return info

    data = tar_of(*(member(number) for number in range(100)))
    assert peak_of(lambda: opened(data, "a.tgz")) < 6 * MIB


def test_a_number_without_end_in_a_tar_header_is_refused():
    member = tarfile.TarInfo("a.txt")
    member.pax_headers = {"comment": "9" * 12_000}
    expected = "has a header with a number of a hundred digits"
    assert refusal(tar_of(member), "a.tgz") == expected


def test_the_attributes_of_a_whole_tar_are_not_met_by_every_later_member(monkeypatch):
    """Each global header adds attributes; all of them at each member would take minutes."""
    met, apply = [], tarfile.TarInfo._apply_pax_info

    def noted(member, attributes, *words):
        met.append(len(attributes))
        return apply(member, attributes, *words)

    monkeypatch.setattr(tarfile.TarInfo, "_apply_pax_info", noted)
    made = io.BytesIO()
    for number in range(30):
        attributes = {f"K{number:05}{key:05}": "" for key in range(70)}
        made.write(tarfile.TarInfo.create_pax_global_header(attributes))
        made.write(tarfile.TarInfo(f"{number}.txt").tobuf(tarfile.USTAR_FORMAT))
    opened(made.getvalue() + bytes(1024), "a.tar")
    assert max(met) == 70


def test_a_gzip_file_of_many_empty_streams_is_read_in_one_pass(monkeypatch):
    """Each stream once had a copy of all that comes behind it: hours for a large file."""
    given = []

    class Noted(io.BytesIO):
        def read(self, size=-1, /):
            given.append(piece := super().read(size))
            return piece

    monkeypatch.setattr(archives.io, "BytesIO", Noted)
    data = gzip.compress(b"", mtime=0) * 50_000
    assert "damaged" in refusal(data, "a.tgz")
    assert sum(map(len, given)) == len(data) and max(map(len, given)) < len(data) // 4


@pytest.mark.parametrize("name", [".{}/x.txt", "{}.zip", "a/" * MAX_DEPTH + "b/{}"])
def test_an_archive_with_a_reason_for_many_notes_has_few(name: str):
    found = taken(zipped({"silu.py": KERNEL} | {name.format(i): b"" for i in range(3000)}))
    assert found.files == {"silu.py": KERNEL}
    assert len(found.notes) < 30
    assert any(re.fullmatch(r"and 29\d\d more like these", note) for note in found.notes)


def test_an_archive_that_is_too_large_is_not_opened(monkeypatch):
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", MIB)
    assert refusal(zipped({"silu.py": KERNEL}) + bytes(MIB)) == "is larger than 1 MiB"


# --- anything at all -----------------------------------------------------------------------------

ZIP = zipped({"silu.py": KERNEL * 3, "a/gemm.py": b"x = 1\n", "b.txt": b"?"})
TAR = zlib.decompress(tarred({"silu.py": KERNEL * 3, "a/gemm.py": b"x = 1\n"}), 31)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([(ZIP, "a.zip"), (TAR, "a.tar")]),
    st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(0, 60),
)
def test_damage_anywhere_is_read_or_refused_in_a_line(archive, changes, cut):
    data = bytearray(archive[0])
    for place, value in changes:
        data[place % len(data)] = value
    found = taken(bytes(data[: len(data) - cut]), archive[1])
    assert "\n" not in found.problem
    assert set(found.files) <= set(WANTED.files)


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=600), st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b\x08"])
)
def test_any_bytes_are_read_or_refused_in_a_line(data, magic):
    assert "\n" not in taken(magic + data, "a.zip").problem

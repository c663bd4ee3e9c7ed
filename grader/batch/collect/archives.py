"""Zip and tar archives as listings, in memory and within limits that are measured.

Nothing is unpacked to the disk, and of a zip only the files that are asked for are read. Limits
count the bytes that come out, since an archive may lie about its sizes. An archive is refused for a
member whose path leads outside and for a password; links and devices are listed and never read.
"""

from __future__ import annotations

import gzip
import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import BinaryIO

from grader.batch.collect.files import MAX_FILES, Item, Listing, is_litter, skipped_folder
from grader.grading.submitted import Unreadable

MAX_ARCHIVE_BYTES = 64 << 20  # as handed in
MAX_UNPACKED_BYTES = 128 << 20  # what may come out of one archive
MAX_RATIO = 200  # of what came out to the archive's own size, once more than RATIO_FROM came out
RATIO_FROM = 2 << 20
MAX_DIRECTORY_BYTES = 4 << 20  # the list of members at a zip's end
MAX_HEADER_BYTES = 16 << 10  # a long name or the extra attributes of a tar's member

_ENDLESS_NUMBER = re.compile(rb"\d{100}")

SUFFIXES = (".zip", ".tar.gz", ".tgz", ".tar")
OTHER_SUFFIXES = (".7z", ".rar", ".gz", ".bz2", ".xz", ".zst", ".tbz2", ".tbz", ".txz")
_MAGIC = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b", "gzip"),
    (b"Rar!", "RAR"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_METHOD_NAMES: dict[int, str] = zipfile.compressor_names  # type: ignore[attr-defined]  # not in typeshed


class Refused(Unreadable):
    """The whole archive is refused because of one of its files."""


@dataclass(frozen=True)
class Limits:
    """What an archive may hold; a class's own zip may hold more than a student's."""

    members: int = MAX_FILES
    directory_bytes: int = MAX_DIRECTORY_BYTES
    is_a_class: bool = False  # one student's doing must not refuse all the others'


OF_A_CLASS = Limits(members=1_000_000, directory_bytes=256 << 20, is_a_class=True)


def is_archive(name: str) -> bool:
    """Whether a name is that of an archive, of a kind that is read or of another."""
    return name.lower().endswith((*SUFFIXES, *OTHER_SUFFIXES))


def without_suffix(name: str) -> str:
    """`ada.tar.gz` as `ada`."""
    for suffix in sorted((*SUFFIXES, *OTHER_SUFFIXES, ".tar.bz2", ".tar.xz"), key=len)[::-1]:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


def open_archive(item: Item) -> Listing:
    """The files of an archive. Raises Unreadable, with the reason, where it can't be read."""
    data = item.read(MAX_ARCHIVE_BYTES + 1)
    if len(data) > MAX_ARCHIVE_BYTES:
        raise Unreadable(f"is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    kind = kind_of(data, item.name)
    if not data:
        raise Unreadable("is empty (0 bytes)")
    if kind == "zip":
        return zip_listing(io.BytesIO(data), len(data))
    if kind == "gzip" and not item.name.lower().endswith((".tgz", ".tar.gz", ".zip", ".tar")):
        raise Unreadable("is a compressed file: expected zip or tar.gz")
    if kind in ("gzip", "tar"):
        return _tar_listing(_gunzipped(data) if kind == "gzip" else data)
    if kind:
        raise Unreadable(f"is a {kind} archive: expected zip or tar.gz")
    expected = "zip" if item.name.lower().endswith(".zip") else "tar.gz"
    raise Unreadable(f"is no {expected} archive: it doesn't begin like one")


def kind_of(head: bytes, name: str = "") -> str:
    """The kind of a file by its first bytes, whatever its name claims; "" where it isn't known."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[257:262] == b"ustar" or (name.lower().endswith(".tar") and head):
        return "tar"
    return ""


# --- zip -----------------------------------------------------------------------------------------


def zip_listing(file: BinaryIO, size: int, limits: Limits | None = None) -> Listing:
    """The members of a zip of `size` bytes, read from `file` only when they are asked for.

    In a class's own zip a path that leads outside is left out and noted, and files are bounded one
    by one alone. Raises Unreadable.
    """
    limits = limits or Limits()
    bounded = _Bounded(file, limits.directory_bytes)
    try:
        archive = zipfile.ZipFile(bounded)
    except Unreadable:
        raise
    except Exception as error:  # zipfile meets untrusted bytes with errors of every kind
        raise Unreadable(_damaged(error)) from None
    bounded.limit = None
    members = [info for info in archive.infolist() if not info.filename.endswith("/")]
    if len(archive.infolist()) > limits.members:
        raise Unreadable(f"holds more than {limits.members} files")
    budget = None if limits.is_a_class else _Budget(size)
    items: dict[str, Item] = {}
    notes: list[str] = []
    for info in members:
        path = info.orig_filename.replace("\\", "/")
        if outside := _leads_outside(path):
            if not limits.is_a_class:
                raise Unreadable(outside)
            notes.append(f"left out: a member that {outside.removeprefix('has a member that ')}")
        elif info.flag_bits & 0x1 and not limits.is_a_class:
            raise Unreadable("is encrypted: it asks for a password")
        else:
            _add(items, _zip_item(archive, info, path, budget), notes)
    listing = _listing(items.values(), notes, in_archive=not limits.is_a_class)
    names = [info.filename for info in archive.infolist()]
    paths = [name.strip("/") for name in names if name.endswith("/")]
    fine = {p for p in paths if not (_leads_outside(p) or is_litter(p) or skipped_folder(f"{p}/"))}
    return replace(listing, folders=tuple(sorted(fine)))


def _zip_item(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, budget: _Budget | None
) -> Item:
    mode = info.external_attr >> 16 if info.create_system == 3 else 0
    file_type = stat.S_IFMT(mode)
    if file_type not in (0, stat.S_IFREG):
        is_link = file_type == stat.S_IFLNK
        return Item(path, refused="is a link" if is_link else "is no regular file")
    if info.flag_bits & 0x1:
        return Item(path, refused="is encrypted")
    if info.compress_type not in _METHODS:
        name = _METHOD_NAMES.get(info.compress_type, info.compress_type)
        return Item(path, refused=f"is compressed by a method that isn't read ({name})")
    return Item(path, lambda limit: _unzipped(archive, info, limit, budget))


def _unzipped(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int, budget: _Budget | None
) -> bytes:
    pieces: list[bytes] = []
    count = 0
    try:
        with archive.open(info) as member:
            while count < limit and (piece := member.read(min(1 << 16, limit - count))):
                pieces.append(piece)
                count += len(piece)
                if budget is not None:
                    budget.spend(len(piece))
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(_damaged(error)) from None
    if count < min(limit, info.file_size):
        raise Unreadable(f"is damaged: it claims {info.file_size} bytes and holds {count}")
    return b"".join(pieces)


class _Bounded:
    """A file whose reads are bounded by `limit`: a zip's list of members claims its own size."""

    def __init__(self, file: BinaryIO, limit: int | None) -> None:
        self._file = file
        self.limit = limit
        self.seek, self.tell, self.close = file.seek, file.tell, file.close
        self.seekable, self.readable = (lambda: True), (lambda: True)

    def read(self, size: int = -1) -> bytes:
        if self.limit is not None and not 0 <= size <= self.limit:
            where = self._file.tell()
            left = self._file.seek(0, io.SEEK_END) - where
            self._file.seek(where)
            if size > left >= 0:  # it lies; as much as there is would be read
                raise Unreadable("is damaged: its list of files is cut off")
            if size > self.limit or left > self.limit:
                raise Unreadable(f"has a list of files larger than {self.limit >> 20} MiB")
        return self._file.read(size)


class _Budget:
    """Counts the bytes that came out of an archive. Raises Refused beyond the limits."""

    def __init__(self, packed: int) -> None:
        self._packed, self._unpacked = packed, 0

    def spend(self, count: int) -> None:
        self._unpacked += count
        if self._unpacked > MAX_UNPACKED_BYTES:
            raise Refused(f"unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")
        if self._unpacked > max(RATIO_FROM, MAX_RATIO * self._packed):
            raise Refused(f"unpacks to more than {MAX_RATIO} times its own size")


# --- tar -----------------------------------------------------------------------------------------


def _gunzipped(data: bytes) -> bytes:
    """What a gzip file holds, all of its streams. Raises Unreadable."""
    budget = _Budget(len(data))
    pieces: list[bytes] = []
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while piece := file.read(1 << 20):
                pieces.append(piece)
                budget.spend(len(piece))
    except EOFError:
        raise Unreadable("is damaged: it is cut off") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise Unreadable(_damaged(error)) from None
    return b"".join(pieces)


class _Tar(io.BytesIO):
    """An unpacked tar whose reads are bounded by `limit`: headers claim their sizes."""

    limit = MAX_HEADER_BYTES

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= self.limit:
            raise Unreadable(f"has a header larger than {self.limit >> 10} KiB")
        data = super().read(size)
        if _ENDLESS_NUMBER.search(data):  # Python before 3.11.10 takes the square of its length
            raise Unreadable("has a header with a number of a hundred digits")
        return data


def _tar_listing(data: bytes) -> Listing:
    """The members of an unpacked tar."""
    items: dict[str, Item] = {}
    notes: list[str] = []
    if len(data) >= tarfile.BLOCKSIZE and not data.strip(b"\0"):
        return _listing((), notes, in_archive=True)  # Python 3.10 looks before its first byte
    file = _Tar(data)
    count = 0
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # or all are kept, with their attributes
                archive.pax_headers = {}  # or every later member is held against all of them
                count += 1
                if count > MAX_FILES:
                    raise Unreadable(f"holds more than {MAX_FILES} files")
                if outside := _leads_outside(member.name):
                    raise Unreadable(outside)
                if not member.isdir():
                    _add(items, _tar_item(data, member), notes)
            end = archive.offset
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(_damaged(error)) from None
    if data[end:].strip(b"\0"):
        raise Unreadable(f"is damaged: what follows its first {count} files can't be read")
    return _listing(items.values(), notes, in_archive=True)


def _tar_item(data: bytes, member: tarfile.TarInfo) -> Item:
    if member.issym() or member.islnk():
        return Item(member.name, refused="is a link")
    if not member.isreg() or member.issparse():
        return Item(member.name, refused="is no regular file")
    start, size = member.offset_data, member.size
    if size < 0 or start + size > len(data):
        raise Unreadable("is damaged: it is cut off")
    return Item(member.name, lambda limit: data[start : start + min(size, limit)])


# --- both ----------------------------------------------------------------------------------------


def _leads_outside(path: str) -> str:
    """Why an archive with a member of this path is refused, or ""."""
    parts = path.split("/")
    if not path:
        return "has a member without a name"
    if "\0" in path:
        return f"has a member with a zero byte in its name: {path}"
    if path.startswith(("/", "\\")) or (len(path) > 1 and path[1] == ":" and path[0].isalpha()):
        return f"has a member that leads outside, by an absolute path: {path}"
    if ".." in parts or ".." in path.split("\\"):
        return f"has a member that leads outside, by ..: {path}"
    return ""


def _add(items: dict[str, Item], item: Item, notes: list[str]) -> None:
    """Keep `item`; of several of one path the last, as unpacking would."""
    if item.path in items and not is_litter(item.path):
        notes.append(f"it has {item.path} twice: the last one counts")
    items[item.path] = item


def _listing(items: Iterable[Item], notes: list[str], *, in_archive: bool) -> Listing:
    kept = []
    skipped: dict[str, None] = {}
    for item in items:
        path = "/".join(part for part in item.path.split("/") if part not in ("", "."))
        if is_litter(path):
            continue
        if folder := skipped_folder(path):
            skipped[folder] = None
            continue
        kept.append(Item(path, item.read, item.refused))
    notes += [f"not looked into: {folder}/" for folder in sorted(skipped)]
    return Listing(tuple(sorted(kept, key=lambda item: item.path)), tuple(notes), in_archive)


def _damaged(error: Exception) -> str:
    if "not a zip file" in str(error):
        return "is damaged: it has no end as a zip has (was it cut off?)"
    reason = str(error).strip().rstrip(".") or type(error).__name__
    return f"is damaged: {reason[:1].lower()}{reason[1:]}"
